"""A run as Markdown: on what, how, tables of all figures, ratios, goals, failures."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, assert_never

from weft_bench.record import Attempt, Cell, Run, Spread
from weft_bench.reports.ratios import (
    FIGURES,
    OURS,
    SPEED,
    Figure,
    Place,
    Ratio,
    Unit,
    goals,
    of_spread,
    places,
    ratios,
)

NOTHING = "–"
_SPREAD = {
    "average": "avg",
    "least": "min",
    "p50": "p50",
    "p90": "p90",
    "p95": "p95",
    "p99": "p99",
    "most": "max",
}
_READING = """\
Rows per second are input rows of all streams together. *Sustainable* is the highest rate at which event-time latency
does not keep growing (found by search), *slowest* what every query has passed when the queue is never empty, *overall*
the sum over all queries of what each has passed. Latencies are measured at the sink at 90 % of the sustainable rate;
event-time latency counts from the moment a row was due, whether or not the generator or the queue was late.
Figures are medians over rounds. Systems ran in turns on the same machine with the same rows and queries. Every system
delivers the rows of the first query to the driver; those of the others go where they cost it least: Spark's `noop`,
Flink's `blackhole`, weft's result log, of which rows are built when somebody reads them (`weft-delivered` builds the
rows of all queries)."""

_COMPARING = """\
How many times as good as a peer weft is with as many queries; **below one**, the peer is better. Latencies are those
at 90 % of each system's own sustainable rate, so the faster system carries more rows meanwhile. DuckDB and Polars go
over all rows in one pass, without streaming: a limit, not a peer. Throughput is the sustainable one, or the slowest
where none was searched for."""


def to_markdown(run: Run, pictures: Mapping[str, str]) -> str:
    """The report; `pictures` are titles by the name of a file beside it."""
    here = places(run.cells)
    parts = [
        f"# {run.title}",
        f"Experiment `{run.experiment}`, begun {run.at}.",
        *_section("Machine", _listing(run.machine)),
        *_section("Settings", _settings(run.settings)),
        *_section("Goals", _goals(run)),
        *_section("Throughput", _throughput(here)),
        *_section("Ratios", _ratios(run)),
        *_section("Event-time latency", _latencies(here, "event_latency")),
        *_section("Processing-time latency", _latencies(here, "processing_latency")),
        *_section("Deployment", _deployment(here)),
        *_section("Effect of new queries on old ones", _effect(here)),
        *_section("Resources", _resources(here)),
        *_section("Failures", _failures(here)),
        *_section("Notes", _notes(here)),
        *_section("Plots", "\n\n".join(f"![{title}]({name})" for name, title in pictures.items())),
        *_section("Attempts of the search", _attempts(run.cells)),
    ]
    return "\n\n".join(parts) + "\n"


def said(value: float | None, unit: Unit) -> str:
    """A figure for people, with its unit."""
    if value is None:
        return NOTHING
    match unit:
        case Unit.ROWS:
            return in_rows(value)
        case Unit.SECONDS:
            return in_seconds(value)
        case Unit.BYTES:
            return in_bytes(value)
        case Unit.CORES | Unit.QUERIES:
            return f"{value:.3g}" if value < 100 else f"{value:,.0f}"
        case Unit.COUNT:
            return f"{value:,.0f}"
        case _:
            assert_never(unit)


def in_rows(value: float) -> str:
    """Rows per second with three digits, in thousands or millions."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size * 0.9995:
            return f"{_three_digits(value / size)}{letter}"
    return _three_digits(value)


def in_seconds(value: float) -> str:
    """A duration with three digits."""
    return f"{_three_digits(value * 1000)} ms" if abs(value) < 0.9995 else f"{_three_digits(value)} s"


def in_bytes(value: float) -> str:
    """A size with three digits, in powers of 1024."""
    for size, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if value >= size:
            return f"{_three_digits(value / size)} {name}"
    return f"{value:.0f} B"


def _three_digits(value: float) -> str:
    digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:,.{digits}f}"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 2) -> str:
    """A Markdown table, its first `left` columns to the left; empty if it has no rows."""
    lines = [[_cell_text(text) for text in row] for row in rows]
    if not lines:
        return ""
    line = ["---" if number < left else "---:" for number in range(len(heads))]
    return "\n".join(f"| {' | '.join(each)} |" for each in (heads, line, *lines))


def _cell_text(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split()) or NOTHING


def _section(title: str, text: str) -> Iterator[str]:
    if text:
        yield f"## {title}"
        yield text


def _listing(values: Mapping[str, Any]) -> str:
    return "\n".join(f"- {name.replace('_', ' ')}: {_plain(name, value)}" for name, value in values.items())


def _plain(name: str, value: Any) -> str:
    if name == "memory":
        return in_bytes(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {each}" for key, each in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return "as the experiment says" if value is None else str(value)


def _settings(settings: Mapping[str, Any]) -> str:
    said_by_commands = ("command", "earlier", "systems", "queries")
    rest = {name: value for name, value in settings.items() if name not in said_by_commands}
    commands = [command for command in (*settings.get("earlier", ()), settings.get("command")) if command]
    line = "```\n" + "\n".join(map(shlex.join, commands)) + "\n```\n\n" if commands else ""
    return f"{line}{_listing(rest)}\n\n{_READING}"


def _goals(run: Run) -> str:
    return table(
        ["goal", "measured", "verdict"],
        [(goal.what, goal.measured, str(goal.verdict)) for goal in goals(run)],
        left=3,
    )


def _throughput(here: Iterable[Place]) -> str:
    wanted = [FIGURES[name] for name in ("sustainable", "slowest", "overall")]
    rows = [
        [str(place.queries), place.system, *_figures(place, wanted), _state(place)]
        for place in here
    ]  # fmt: skip
    return table(["N", "system", "sustainable, rows/s", "slowest, rows/s", "overall, rows × queries/s", ""], rows)


def _state(place: Place) -> str:
    if place.failure:
        return "failed" if place.figure(SPEED) is None else "ended early"
    return "one pass, not streaming" if place.is_limit else "ran"


def _figures(place: Place, figures: Iterable[Figure]) -> list[str]:
    return [said(place.figure(figure), figure.unit) for figure in figures]


def _ratios(run: Run) -> str:
    found = ratios(run.cells)
    if not found:
        return ""
    figures = dict.fromkeys(ratio.figure for ratio in found)
    tables = [_matrix([ratio for ratio in found if ratio.figure is figure]) for figure in figures]
    return "\n\n".join((_COMPARING, *tables, "### Where a peer is better", _lost(found)))


def _matrix(found: Sequence[Ratio]) -> str:
    """Factors of one figure: a row for each number of queries, a column for each peer."""
    peers = list(dict.fromkeys(ratio.peer for ratio in found))
    numbers = sorted({ratio.queries for ratio in found})
    at = {(ratio.queries, ratio.peer): _factor(ratio) for ratio in found}
    heads = [f"N, {found[0].figure.title}", *(f"{OURS} over {peer}" for peer in peers)]
    return table(
        heads, [[str(number), *(at.get((number, peer), NOTHING) for peer in peers)] for number in numbers], left=1
    )


def _factor(ratio: Ratio) -> str:
    if ratio.factor is None:
        return f"only {ratio.winner} ran"
    text = f"{_three_digits(ratio.factor)} ×"
    return f"**{text}**" if ratio.winner == ratio.peer else text


def _lost(found: Sequence[Ratio]) -> str:
    lost = [ratio for ratio in found if ratio.winner == ratio.peer]
    rows = [
        [
            str(ratio.queries),
            ratio.peer,
            ratio.figure.title,
            said(ratio.theirs, ratio.figure.unit),
            said(ratio.ours, ratio.figure.unit),
            NOTHING if ratio.lead is None else f"{_three_digits(ratio.lead)} ×",
        ]
        for ratio in lost
    ]
    return table(["N", "peer", "figure", "its", f"{OURS}'s", "better by"], rows, left=3) or "Nowhere in this run."


def _latencies(here: Iterable[Place], part: str) -> str:
    return table(["N", "system", *_SPREAD.values()], _spread_rows(here, part))


def _spread_rows(here: Iterable[Place], part: str) -> list[list[str]]:
    rows = [
        [str(place.queries), place.system, *(said(value, Unit.SECONDS) for value in _spread_values(place, part))]
        for place in here
    ]
    return _measured(rows)


def _measured(rows: Iterable[list[str]]) -> list[list[str]]:
    """Rows with anything in them beside number and system."""
    return [row for row in rows if any(text != NOTHING for text in row[2:])]


def _spread_values(place: Place, part: str) -> list[float | None]:
    return [place.median(of_spread(part, value)) for value in _SPREAD]


def _deployment(here: Iterable[Place]) -> str:
    rows = [
        [str(place.queries), place.system]
        + [said(value, Unit.SECONDS) for value in _spread_values(place, "deployment")]
        + _figures(place, (FIGURES[name] for name in ("removal_p99", "query_throughput", "refused")))
        for place in here
        if any(cell.deployment is not None or cell.refused for cell in place.rounds)
    ]
    return table(["N", "system", *_SPREAD.values(), "removal p99", "queries/s", "refused"], rows)


def _effect(here: Iterable[Place]) -> str:
    parts = [(part, value) for part in ("latency_before", "latency_during") for value in ("p50", "p99")]
    rows = [
        [str(place.queries), place.system, *(said(place.median(of_spread(*each)), Unit.SECONDS) for each in parts)]
        for place in here
        if any(cell.latency_during is not None for cell in place.rounds)  # else there was nothing but a warm-up
    ]
    heads = ["N", "system", "before, p50", "before, p99", "while requests come, p50", "while requests come, p99"]
    return table(heads, _measured(rows))


def _resources(here: Iterable[Place]) -> str:
    wanted = [FIGURES[name] for name in ("cores", "peak_memory", "bytes_shuffled", "state_bytes")]
    rows = [[str(place.queries), place.system, *_figures(place, wanted)] for place in here]
    return table(["N", "system", "cores used", "peak memory", "shuffled", "state"], _measured(rows))


def _failures(here: Iterable[Place]) -> str:
    rows = [[str(place.queries), place.system, place.failure] for place in here if place.failure]
    return table(["N", "system", "why"], rows, left=3) or "None: every system ran with every number of queries."


def _notes(here: Iterable[Place]) -> str:
    notes = [(place, note) for place in here for note in dict.fromkeys(cell.note for cell in place.rounds) if note]
    return "\n".join(f"- {place.system}, N = {place.queries}: {' '.join(note.split())}" for place, note in notes)


def _attempts(cells: Iterable[Cell]) -> str:
    turns: dict[tuple[str, int], int] = {}
    rows = list[list[str]]()
    for cell in cells:
        turn = turns[cell.system, cell.queries] = turns.get((cell.system, cell.queries), 0) + 1
        rows += [[str(cell.queries), cell.system, str(turn), *_attempt(each)] for each in cell.attempts]
    heads = [
        "N",
        "system",
        "round",
        "rate, rows/s",
        "passed, rows/s",
        "latency growth, s/s",
        "latency p99",
        "sustained",
    ]
    return table(heads, rows)


def _attempt(attempt: Attempt) -> list[str]:
    verdict = "yes" if attempt.sustained else f"no: {attempt.why}" if attempt.why else "no"
    return [
        in_rows(attempt.rate),
        in_rows(attempt.pulled),
        f"{attempt.growth:+.3f}",
        _p99(attempt.latency),
        verdict,
    ]


def _p99(latency: Spread | None) -> str:
    return NOTHING if latency is None else in_seconds(latency.p99)
