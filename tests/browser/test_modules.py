"""The parts of the dashboard that only compute, asked in the browser that runs them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.browser.page import Page

PARSE = """
const {eventParser} = await import('./static/stream.js');
const events = [];
const parse = eventParser((event) => events.push(event));
for (const piece of arguments_) parse(piece);
return events;
"""


def _call(page: Page, module: str, function: str, *arguments: object) -> Any:
    page.open()
    given = json.dumps(arguments)
    return page.run(f"const m = await import('./static/{module}.js'); return m.{function}(...{given});")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (7, "7"), (0.25, "0.25"), (12.34, "12"), (999.7, "1k"), (1234, "1.23k"), (2_000_000, "2M"), (None, "–")],
)
def test_rates_are_short(page: Page, value: float | None, text: str) -> None:
    assert _call(page, "format", "compact", value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 s"), (0.0123, "12 ms"), (0.5, "500 ms"), (1.234, "1.23 s"), (600, "10 min"), (None, "–")]
)
def test_durations_have_the_unit_that_suits_them(page: Page, value: float | None, text: str) -> None:
    assert _call(page, "format", "duration", value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 %"), (0.004, "under 1 %"), (0.5, "50 %"), (0.999, "over 99 %"), (1, "100 %")]
)
def test_shares_are_whole_percents(page: Page, value: float, text: str) -> None:
    assert _call(page, "format", "percent", value) == text


@pytest.mark.parametrize(("most", "last"), [(0, 1), (7, 8), (95, 100), (1300, 1500)])
def test_axes_end_at_round_numbers(page: Page, most: float, last: float) -> None:
    ticks = _call(page, "plot", "scale", most)
    assert ticks[0] == 0
    assert ticks[-1] == pytest.approx(last)


def test_events_are_read_however_they_are_cut(page: Page) -> None:
    text = ': hello\r\n\r\nevent: rows\r\nid: 4\r\ndata: {"a":\r\ndata: 1}\r\n\r\nevent: end\ndata: 2\n\n'
    page.open()
    for size in (1, 3, len(text)):
        pieces = json.dumps([text[start : start + size] for start in range(0, len(text), size)])
        events = page.run(PARSE.replace("arguments_", pieces))
        assert events == [{"event": "rows", "data": '{"a":\n1}', "id": "4"}, {"event": "end", "data": "2", "id": None}]


def _plan(queries: int) -> dict[str, Any]:
    """Two stores; every tenth query joins them, the others read the first only."""
    names = [f"q{number}" for number in range(queries)]
    joins = names[::10]

    def node(identity: str, kind: str, users: list[str]) -> dict[str, Any]:
        return {"id": identity, "kind": kind, "title": identity, "detail": "", "queries": users, "others": 0}

    operators = [
        node("s", "stream", names),
        node("a", "store", names),
        node("b", "store", joins),
        node("j", "join", joins),
    ]
    edges = [["s", "a"], ["s", "b"], ["a", "j"], ["b", "j"]]
    edges += [["j" if name in joins else "a", f"query:{name}"] for name in names]
    return {
        "nodes": [*operators, *(node(f"query:{name}", "query", [name]) for name in names)],
        "edges": edges,
        "text": "",
    }


def test_hundreds_of_queries_are_as_many_boxes_as_there_are_ways_through_the_plan(page: Page) -> None:
    script = "const m = await import('./static/plan_layout.js'); const {boxes, columns} = m.layOut(PLAN);"
    script += "return [boxes.length, columns.map((each) => each.map(m.label))];"
    page.open()
    number, columns = page.run(script.replace("PLAN", json.dumps(_plan(500))))
    assert number == 6
    assert columns[0] == ["s"]
    assert sorted(columns[-1]) == ["450 queries", "50 queries"]


def test_what_queries_share_is_counted_without_the_streams(page: Page) -> None:
    script = "const m = await import('./static/sharing.js'); const found = m.sharing(PLAN);"
    script += "return ['q0', 'q1'].map((name) => m.sharingText(found.get(name)));"
    page.open()
    texts = page.run(script.replace("PLAN", json.dumps(_plan(20))))
    assert texts == ["shares 3 operators with 19 queries", "shares 1 operator with 19 queries"]
