"""`python -m weft.demo`: the command line."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

from weft.demo.display import Display
from weft.demo.run import Demo, Options
from weft.demo.stop import StopSignal
from weft.demo.summary import summary
from weft.errors import WeftError
from weft.service.embedded import PORT, dashboard

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; 0 if the queries agree, 1 if they do not or it fails, 2 for wrong arguments."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if find_spec("duckdb") is None:
        parser.error('DuckDB is missing, which checks the results at the end: pip install "weft[demo]"')
    if given.keep is not None and given.keep.exists() and (not given.keep.is_dir() or any(given.keep.iterdir())):
        parser.error(f'--keep: "{given.keep}" exists and is not an empty directory')
    duration = None if given.forever else timedelta(seconds=given.seconds)
    options = Options(duration, rate=given.rate, queries=given.queries, seed=given.seed, port=given.port)
    display = Display(Console(highlight=False))
    try:
        with _folder(given.keep) as folder:
            return _demo(folder, options, display)
    except KeyboardInterrupt:
        display.line("interrupted")
        return _INTERRUPTED
    except (WeftError, OSError) as error:
        print(f"weft demo: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m weft.demo",
        description="Generated purchases and ads, queries that come and go, a live view; then a check with DuckDB.",
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--seconds", type=_positive, default=60, help="how long data flow (default: %(default)s)")
    length.add_argument("--forever", action="store_true", help="until Ctrl-C")
    parser.add_argument("--rate", type=_positive, default=10_000, help="rows per second and stream (%(default)s)")
    parser.add_argument("--queries", type=_positive, default=40, help="live queries it grows to (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of data, queries and the choice of what is checked")
    parser.add_argument("--port", type=_port, default=PORT, help="of the dashboard (%(default)s, or any that is free)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep files, state and logs there")
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value


def _port(text: str) -> int:
    value = int(text)
    if not 0 <= value <= 65535:
        raise argparse.ArgumentTypeError("must be from 0 to 65535")
    return value


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """Where everything is; gone afterwards unless it is to be kept."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="weft-demo-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _demo(folder: Path, options: Options, display: Display) -> int:
    logging.basicConfig(filename=folder / "weft.log", format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    with display.stage("starting Spark"):
        demo = Demo(folder, options, display)
    stop = StopSignal()
    try:
        with display.stage("running the first batch (the very first compiles the kernels)"):
            demo.start(stop)
        began = time.monotonic()
        with dashboard(demo.engine, options.port) as address:
            display.address = address
            display.line(f"dashboard: {address}")
            demo.run(stop)
        elapsed = timedelta(seconds=time.monotonic() - began)
        with display.stage("finishing what has arrived"):
            demo.finish(stop)
        figures = demo.figures(elapsed)
        with display.stage("running three queries alone in DuckDB"):
            verdicts = demo.verdicts()
    finally:
        with display.stage("stopping"):
            demo.close()
        stop.restore()
    display.console.print(summary(figures, verdicts, display.width))
    return 0 if all(verdict.agrees for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
