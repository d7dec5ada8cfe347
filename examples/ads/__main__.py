"""The command line of the demo, `python -m examples.ads`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from weft import WeftError

_PACKAGES = {"duckdb": "duckdb"} | dict.fromkeys(("fastapi", "uvicorn", "prometheus_client"), "weft-streams[service]")
"""Packages that the demo needs and weft does not, each with the requirement that installs it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; return 0 if the queries agree with DuckDB, else 1; exit with 2 if the arguments are invalid."""
    parser = _parser()
    args = parser.parse_args(arguments)
    for package, requirement in _PACKAGES.items():
        if find_spec(package) is None:
            parser.error(f'the Python package "{package}" is missing: pip install "{requirement}"')
    if not 0 <= args.port <= 65535:
        parser.error("--port: must be from 0 to 65535")
    if args.keep is not None and args.keep.exists() and (not args.keep.is_dir() or any(args.keep.iterdir())):
        parser.error(f'--keep: "{args.keep}" exists and is not an empty directory')
    from examples.ads.run import run_demo  # not at the top: it needs the packages checked above

    try:
        if args.keep is not None:
            args.keep.mkdir(parents=True, exist_ok=True)
            return run_demo(args.keep.absolute(), args)
        with TemporaryDirectory(prefix="weft-demo-", ignore_cleanup_errors=True) as folder:
            return run_demo(Path(folder), args)
    except KeyboardInterrupt:
        print("interrupted")
        return 130
    except (WeftError, OSError) as error:
        print(f"weft demo: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m examples.ads",
        description="The demo generates purchases and ads, lets queries come and go, and checks some with DuckDB.",
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--seconds", type=_positive, default=60, help="how long data flow (default: %(default)s)")
    length.add_argument("--forever", dest="seconds", action="store_const", const=None, help="data flow until Ctrl-C")
    parser.add_argument("--rate", type=_positive, default=10_000, help="rows per second and stream (%(default)s)")
    parser.add_argument("--queries", type=_positive, default=40, help="live queries it grows to (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of data, queries and the choice of what is checked")
    parser.add_argument("--port", type=int, default=8080, help="of the dashboard (%(default)s, or any that is free)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep files, state and logs there")
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value


if __name__ == "__main__":
    sys.exit(main())
