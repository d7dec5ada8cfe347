"""`python -m tests.soak --minutes 30 --out DIR`: a real service under a mixed load, and whether anything of it grows.

It measures and says what it found; the status is 1 if something grows, fails or differs.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.soak.plots import draw
from tests.soak.report import Judged, Report, counted, judge_all, machine, publish
from tests.soak.run import EMPTY, Options, Outcome, Soak
from tests.soak.series import Series, Unit
from tests.soak.site import KEEP_RESULTS
from tests.soak.verdict import Rule, judge_pair

_SHORT_MINUTES = 20
_LONG_MINUTES = 30
"""From here on a series that is too short to be judged has not passed."""
_OPEN_TOLERANCE, _OPEN_FLOOR = 0.25, 0.2
"""Opening a copy of the state may take so much longer in the end, as a share and in seconds."""
_IDLE_TOLERANCE = 0.5
"""A state directory may be so much larger after a time without input, as a share."""
_RESTART_TOLERANCE, _RESTART_FLOOR = 0.25, 3.0
"""A restart may take so much longer in the end, as a share and in seconds: most of it is the start of Java."""


def main() -> int:
    """Run a soak and say what it found."""
    given = _arguments()
    options = options_of(given)
    folder = Path(tempfile.mkdtemp(prefix="weft-soak-"))
    soak = Soak(folder, options)
    given.out.mkdir(parents=True, exist_ok=True)
    try:
        outcome = soak.run()
    finally:
        soak.save_logs(given.out / "logs")
        if given.keep:
            print(f"everything is in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    report = _report(given, outcome)
    picture = given.out / "soak-service.png"
    outcome.samples.write_csv(given.out / "soak-service.csv")
    draw(report, outcome.samples, picture)
    text = report.to_markdown(picture.name)
    (given.out / "soak-service.md").write_text(text, encoding="utf-8")
    if given.publish is not None:
        publish(given.publish, report, picture)
    print(text)
    return 0 if report.passed else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--out", type=Path, default=Path("soak-out"), help="for the table, the picture and the samples")
    parser.add_argument("--publish", type=Path, metavar="PAGE", help="also put them into this page")
    parser.add_argument("--creates", type=float, default=3.0, help="queries created and dropped per second")
    parser.add_argument("--rows", type=int, default=50, help="rows per second of each of the four streams")
    parser.add_argument("--tolerance", type=float, default=5.0, help="growth in percent of the mean per hour")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="leave the folder of the service")
    return parser.parse_args()


def options_of(given: argparse.Namespace) -> Options:
    """What was asked for."""
    return Options(given.minutes, given.creates, given.rows, seed=given.seed)


def _report(given: argparse.Namespace, outcome: Outcome) -> Report:
    rule = Rule(per=3600, tolerance=given.tolerance / 100)
    report = Report(
        key="service",
        title=f"A service for {given.minutes:g} minutes",
        command=f"make soak MINUTES={given.minutes:g}",
        rule=rule,
        unit="hour",
        facts={**outcome.facts, "keep_results": KEEP_RESULTS, **machine()},
        judged=judge_all(outcome.samples, rule),
        compared=[str(each) for each in outcome.compared],
        differing=sum(not each.agrees for each in outcome.compared),
        notes=[*outcome.notes],
    )
    early, late = _early_and_late(outcome.starts)
    restart = judge_pair(early, late, tolerance=_RESTART_TOLERANCE, floor=_RESTART_FLOOR)
    report.judged.append(Judged(Series("restart.seconds", "restart, until ready (early, late)", Unit.SECONDS), restart))
    opened = judge_pair(*_early_and_late(outcome.opens), tolerance=_OPEN_TOLERANCE, floor=_OPEN_FLOOR)
    report.judged.append(Judged(Series("reopen", "opening a copy of the state (early, late)", Unit.SECONDS), opened))
    for name, unit in (("files", Unit.FILES), ("bytes", Unit.BYTES)):
        before, after = outcome.idle.get(name, ([], []))
        verdict = judge_pair(before, after, tolerance=_IDLE_TOLERANCE, floor=unit.floor)
        report.judged.append(Judged(Series(f"idle.{name}", f"state: {name}, before and after no input", unit), verdict))
    report.is_long = given.minutes >= _LONG_MINUTES
    report.incidents = counted(outcome.incidents.found)
    if given.minutes < _SHORT_MINUTES:
        report.notes.append("A short run: Java and caches are still warming up, and growth is extrapolated to an hour.")
    report.notes.append(
        f"A full garbage collection of Java is forced every {options_of(given).heap_every:.0f} seconds (every minute "
        "in a run of 30 minutes), to see what its heap needs: without that its memory may be larger, and batches may "
        "take another time; tests/soak/measures.py."
    )
    return report


def _early_and_late(found: Mapping[str, list[float]]) -> tuple[list[float], list[float]]:
    """Durations at the first and the last restarts; the start with an empty state directory is none."""
    restarts = [seconds for when, seconds in found.items() if when != EMPTY]
    return (restarts[0], restarts[-1]) if len(restarts) > 1 else ([], [])


if __name__ == "__main__":
    sys.exit(main())
