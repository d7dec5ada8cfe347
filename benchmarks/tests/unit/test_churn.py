from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from weft_bench.churn import Report, draw, parse, to_json, to_text
from weft_bench.data import Load
from weft_bench.deployment import Spread
from weft_bench.waves import Commit, Latency


def report(*, largest: float = 2.0, failed: tuple[str, ...] = ()) -> Report:
    return Report(
        rate=1000,
        seconds=3.0,
        created=4,
        dropped=2,
        failed=failed,
        most_queries=7,
        rows_per_second=1990.0,
        latency=Latency(1.0, 1.0, 1.5, largest, 5.0),
        deployment=Spread(0.5, 0.9, 1.0),
        files_waiting=1,
        commits=tuple(Commit(at, at - 0.8, 2000, 5) for at in (0.5, 1.5, 2.5)),
        deployments=((0.1, 0.5), (0.2, 1.0)),
    )


def test_bars() -> None:
    assert list(report().bars.values()) == [True, True]
    assert list(report(largest=5.5).bars.values()) == [False, True]
    assert list(report(failed=("q1",)).bars.values()) == [True, False]
    assert "no batch above 5 s" in next(iter(report().bars))


def test_text_and_json_say_the_same() -> None:
    text, value = to_text(report()), json.loads(json.dumps(to_json(report())))
    assert "1,990 rows/s" in text
    assert "4 queries created, 2 dropped, at most 7 live" in text
    assert (value["rows_per_second"], value["latency"]["last"], len(value["commits"])) == (1990.0, 1.5, 3)
    assert all(value["bars"].values())


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    for found in (report(), replace(report(), commits=(), deployments=())):
        draw(found, tmp_path / "churn.png")
        assert (tmp_path / "churn.png").read_bytes().startswith(b"\x89PNG")
        (tmp_path / "churn.png").unlink()


def test_default_settings_are_those_of_the_requirement() -> None:
    settings = parse([])
    assert (settings.seconds, settings.interval, settings.load) == (180.0, 1.0, Load(50_000))
    asked = parse(["--seconds", "30", "--rate", "1000", "--most", "7", "--bound", "3", "--out", "x"])
    assert (asked.seconds, asked.load.rate, asked.most, asked.bound, asked.out) == (30.0, 1000, 7, 3.0, Path("x"))
    assert parse(["--quick-check"]).seconds < 20
