"""One measured case in a process of its own, so that each has a fresh Spark: prints its outcome as a line of JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft_bench.case import Case, Kind, Outcome, System
from weft_bench.fan_out_system import run_fan_out
from weft_bench.spark_system import run_spark
from weft_bench.weft_system import run_weft


def run_case(case: Case, folder: Path, limit: float) -> Outcome:
    """Run a case of the systems that are part of this project."""
    match case.system:
        case System.WEFT:
            return (run_fan_out if case.kind is Kind.FAN_OUT else run_weft)(case, folder, limit)
        case System.SPARK:
            return run_spark(case, folder, limit)
        case System.SPIKE:
            raise ValueError("the spike is a program of its own")


def main(order: Mapping[str, Any]) -> None:
    """Run what `order` says and print the outcome."""
    outcome = run_case(Case.from_json(order["case"]), Path(order["folder"]), order["limit"])
    print(json.dumps({"outcome": outcome.to_json()}), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
    sys.stderr.flush()
    # Queries that were stopped by the time limit would be waited for; the JVM ends with this process.
    os._exit(0)
