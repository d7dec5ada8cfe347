"""The options of `weft-bench run`, checked: what is wrong is named, with what is allowed."""

from __future__ import annotations

import argparse
import math
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from weft_bench.experiments import EXPERIMENTS, Experiment, Impossible, Options, workload_of

_QUERIES = (1, 5, 20, 100)
_LARGEST_HEAP = 8
_GIGABYTE = 1 << 30
_FEED_ROOM = 8 * _GIGABYTE
"""Half a minute of a hundred bytes in each of three million rows per second."""
_CHECK_SECONDS = 6.0
"""Of an attempt: a system that has not passed anything after a few times that is given up, and Spark begins slowly."""
_CHECK_ATTEMPTS = 3
_CHECK_WAVES = 3.0
_CHECK_QUERIES = (1, 3)


@dataclass(frozen=True, slots=True)
class Settings:
    """A run as asked for on the command line."""

    experiment: Experiment
    systems: tuple[str, ...]
    queries: tuple[int, ...]
    rounds: int
    options: Options
    json: Path
    report: Path
    feed: Path | None
    """Where the generator's files go; None: where everything else does."""
    resume: bool
    check: bool
    command: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """What the figures depend on, for the record."""
        return {
            "command": ["weft-bench", "run", *self.command],
            "systems": list(self.systems),
            "queries": list(self.queries),
            "rounds": self.rounds,
            "feed": None if self.feed is None else str(self.feed),
            **self.options.to_json(),
        }


def parse(arguments: Sequence[str], *, description: str, systems: Iterable[str]) -> Settings:
    """The settings that arguments ask for; wrong ones end the program with status 2 and say which and why."""
    parser = _parser(description, tuple(systems))
    asked = parser.parse_args(arguments)
    experiment, options = EXPERIMENTS[asked.experiment], _options(asked)
    try:
        workload_of(experiment, options)
    except Impossible as error:
        parser.error(f"argument --parameter: {error}")
    record = asked.json or Path("bench-out") / f"{experiment.name}.json"
    report = asked.report or record.with_suffix("")
    if record.is_dir() or report.is_file() or report == record:
        parser.error(f"argument --json, --report: a file and another folder are needed, not {record} and {report}")
    return Settings(
        experiment=experiment,
        systems=asked.systems,
        queries=asked.queries or (_CHECK_QUERIES if asked.quick_check else _QUERIES),
        rounds=asked.rounds,
        options=options,
        json=record,
        report=report,
        feed=asked.feed,
        resume=asked.resume,
        check=asked.quick_check,
        command=tuple(arguments),
    )


def _parser(description: str, systems: tuple[str, ...]) -> argparse.ArgumentParser:
    own = Options()
    parser = argparse.ArgumentParser(prog="weft-bench run", description=description)
    add = parser.add_argument
    add("experiment", choices=tuple(EXPERIMENTS), metavar="EXPERIMENT", help=f"one of {', '.join(EXPERIMENTS)}")
    add("--systems", type=_names(systems), default="weft,spark,flink", help=f"any of {', '.join(systems)}")
    add("--queries", type=_counts, help="numbers of queries (default 1,5,20,100)")
    add("--json", type=Path, help="where the record goes (default bench-out/EXPERIMENT.json)")
    add("--report", type=Path, help="folder of the report (default: named as the record, without its ending)")
    add("--rounds", type=_count, default=1, help="repeat everything and take medians (default 1)")
    add("--resume", action="store_true", help="go on with the record that is there")
    add("--quick-check", action="store_true", help="tiny sizes: does everything run? 1 if something failed")
    add("--seconds", type=_positive, help=f"of an attempt of the search (default {own.seconds:g})")
    add("--latency-bound", type=_positive, default=math.inf, help="seconds, p99: more is not sustained (default none)")
    add("--queue", type=_positive, default=own.queue, metavar="SECONDS", help="of rows that may wait (default 20)")
    add("--width", type=_share, default=own.width, help=f"of the search's answer (default {own.width:g})")
    add("--attempts", type=_count, help=f"of the search at most (default {own.attempts})")
    add("--warm-up", type=_positive, default=own.warm_up, help="seconds at a low rate before anything is measured")
    add("--base-rate", type=_positive, default=own.base_rate, help="rows per second while queries are created")
    add("--rate", type=_positive, default=own.rate, help="rows per second while queries come in waves (sc2)")
    add("--interval", type=_positive, default=own.interval, help="seconds from file to file")
    add("--batch-interval", type=_not_negative, default=own.batch_interval, help="seconds between micro-batches")
    add("--creates-per-second", type=_positive, default=own.creates_per_second, help="until all queries are live")
    add("--every", type=_positive, default=own.every, help="seconds from wave to wave (sc2)")
    add("--life", type=_positive, default=own.life, help="seconds that the queries of a wave live (sc2)")
    add("--parameter", type=parameter, action="append", default=[], metavar="KEY=VALUE", help="of the workload")
    add("--similarity", type=_share, help="of the queries (ajoin): the same as --parameter similarity=…")
    add("--limit-minutes", type=_positive, default=own.limit_minutes, help="for one cell")
    add("--feed", type=Path, default=_memory_folder(), metavar="FOLDER", help="for generated files (default: memory)")
    add("--cores", type=_count, default=os.cpu_count() or 1, help="that a system may use (default: all)")
    add("--heap", type=_count, default=_largest_heap(), metavar="GIGABYTES", help="of a system's JVM")
    return parser


def _options(asked: argparse.Namespace) -> Options:
    own, check = Options(), asked.quick_check
    similarity = {} if asked.similarity is None else {"similarity": asked.similarity}
    return Options(
        parameters=dict(asked.parameter) | similarity,
        seconds=asked.seconds or (_CHECK_SECONDS if check else own.seconds),
        warm_up=min(asked.warm_up, _CHECK_WAVES) if check else asked.warm_up,
        base_rate=asked.base_rate,
        rate=asked.rate,
        creates_per_second=asked.creates_per_second,
        every=min(asked.every, _CHECK_WAVES) if check else asked.every,
        life=min(asked.life, _CHECK_WAVES) if check else asked.life,
        period=_CHECK_WAVES if check else own.period,
        latency_bound=asked.latency_bound,
        queue=asked.queue,
        width=1.0 if check else asked.width,
        attempts=asked.attempts or (_CHECK_ATTEMPTS if check else own.attempts),
        interval=asked.interval,
        batch_interval=asked.batch_interval,
        cores=asked.cores,
        heap_gigabytes=asked.heap,
        limit_minutes=asked.limit_minutes,
    )


def _memory_folder() -> Path | None:
    """Where Linux keeps files in memory, if there is room: generated files shall not wait for a system's on disk."""
    folder = Path("/dev/shm")
    room = folder.is_dir() and shutil.disk_usage(folder).free >= _FEED_ROOM
    return folder if room else None


def _largest_heap() -> int:
    """Half of the memory there is, within reason: the same for all systems."""
    return int(min(_LARGEST_HEAP, max(1, psutil.virtual_memory().total // _GIGABYTE // 2)))


def _names(known: tuple[str, ...]) -> Callable[[str], tuple[str, ...]]:
    def names(text: str) -> tuple[str, ...]:
        found = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
        unknown = [name for name in found if name not in known]
        if unknown or not found:
            what = f"no such system: {', '.join(unknown)}" if unknown else "no system is named"
            raise argparse.ArgumentTypeError(f"{what}; there are {', '.join(known)}")
        return found

    return names


def _counts(text: str) -> tuple[int, ...]:
    return tuple(sorted({_count(part.strip()) for part in text.split(",")}))


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no count; give a whole number from 1")
    return int(text)


def _positive(text: str) -> float:
    value = _number(text)
    if value is None or value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; give a number above 0")
    return value


def _not_negative(text: str) -> float:
    value = _number(text)
    if value is None or value < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; give a number from 0")
    return value


def _share(text: str) -> float:
    value = _number(text)
    if value is None or not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; give a number from 0 to 1")
    return value


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def parameter(text: str) -> tuple[str, Any]:
    """A parameter of a workload: its name, and a number, a truth value or text."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier() or not value:
        raise argparse.ArgumentTypeError(f"{text!r} is no parameter; give KEY=VALUE, such as keys=1000")
    return name, _value(value)


def _value(text: str) -> Any:
    """A number, a truth value, or the text itself."""
    if text in ("true", "false"):
        return text == "true"
    number = _number(text)
    if number is None:
        return text
    return int(number) if number.is_integer() and "." not in text else number
