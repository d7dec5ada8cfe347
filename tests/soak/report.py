"""A soak as a table in Markdown, and as a section of a page of the documentation."""

from __future__ import annotations

import platform
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from tests.soak.series import Samples, Series, describe, ordered
from tests.soak.verdict import Rule, State, Verdict, judge

_TITLE = "# Soak\n"


@dataclass(frozen=True, slots=True)
class Judged:
    """A series and what is to be said of it."""

    series: Series
    verdict: Verdict


@dataclass(slots=True)
class Report:
    """All that a soak has found."""

    key: str
    """Of the section, and of the files: "service", "batches" or "queries"."""
    title: str
    command: str
    rule: Rule
    unit: str
    """What the rule's unit is called: "hour", "100,000 batches"."""
    facts: dict[str, str] = field(default_factory=dict)
    judged: list[Judged] = field(default_factory=list)
    incidents: list[str] = field(default_factory=list)
    compared: list[str] = field(default_factory=list)
    """Queries whose rows were compared, a line each."""
    differing: int = 0
    notes: list[str] = field(default_factory=list)
    is_long: bool = False
    """Whether the run was long enough to judge everything: then what could not be judged has not passed."""

    @property
    def growing(self) -> list[Judged]:
        """What grows though it must not."""
        return [each for each in self.judged if each.verdict.state is State.GROWS]

    @property
    def passed(self) -> bool:
        """Whether nothing grows, nothing failed, and no rows differ; and in a long run, whether all was judged."""
        short = self.is_long and self.unjudged
        return not self.growing and not self.incidents and not self.differing and not short

    @property
    def unjudged(self) -> list[Judged]:
        """What there are too few measurements of."""
        return [each for each in self.judged if each.verdict.state is State.SHORT]

    def to_markdown(self, picture: str) -> str:
        """The whole section; `picture` is the path of the plot as the page sees it."""
        parts = [f"## {self.title}\n", f"`{self.command}`\n", self._summary(), f"![{self.title}]({picture})\n"]
        parts += [_list("Measured with", [f"{name}: {value}" for name, value in self.facts.items()])]
        parts += [self._table()]
        parts += [_list("Rows compared with DuckDB", self.compared)] if self.compared else []
        parts += [_list("Incidents", self.incidents or ["none"])]
        parts += [_list("Notes", self.notes)] if self.notes else []
        return "\n".join(parts)

    def _summary(self) -> str:
        number = sum(each.verdict.state in (State.FLAT, State.GROWS) for each in self.judged)
        growing = ", ".join(each.series.title for each in self.growing)
        rows = f" Rows of {self.differing} queries differ." if self.differing else ""
        failed = f"Incidents: {len(self.incidents)} kinds." if self.incidents else "No incidents."
        found = (
            f"{len(self.growing)} of {number} series grow: {growing}." if growing else f"All {number} series are flat."
        )
        titles = ", ".join(each.series.title for each in self.unjudged)
        short = f" Too short to be judged: {titles}." if titles else ""
        return f"**{found}** {failed}{rows}{short}\n"

    def _table(self) -> str:
        rule = self.rule
        lines = [
            f"A series grows if the slope after warm-up (the first {rule.warm_up:.0%} of each segment) is more than "
            f"{rule.tolerance:.0%} of its mean per {self.unit}, and what it grew by is more than its noise and its "
            "floor (tests/soak/verdict.py).\n",
            f"| | first | last | mean | growth per {self.unit} | share | noise | |",
            "|---|---:|---:|---:|---:|---:|---:|---|",
            *(self._line(each.series, each.verdict) for each in self.judged),
            "",
        ]
        return "\n".join(lines)

    def _line(self, series: Series, verdict: Verdict) -> str:
        show, state = series.unit.show, verdict.state
        said = f"**{state}**" if state is State.GROWS else str(state)
        said += f": {series.exempt}" if state is State.EXEMPT else ""
        if not verdict.points:
            return f"| {series.title} | | | | | | | {said} |"
        numbers = (show(verdict.first), show(verdict.last), show(verdict.mean), show(verdict.slope))
        return f"| {series.title} | {' | '.join(numbers)} | {verdict.share:+.1%} | {show(verdict.noise)} | {said} |"


def judge_all(samples: Samples, rule: Rule) -> list[Judged]:
    """Every series that was measured; those that may grow are described only."""
    found = []
    for name in ordered(name for name in samples.names if not samples.is_empty(name)):
        series = describe(name)
        verdict = judge(samples.judged_points(name), rule, floor=series.unit.floor)
        found.append(Judged(series, exempt(verdict) if series.exempt else verdict))
    return found


def exempt(verdict: Verdict) -> Verdict:
    """The same figures of something that may grow."""
    return replace(verdict, state=State.EXEMPT)


def machine() -> dict[str, str]:
    """What it was measured on."""
    memory = psutil.virtual_memory().total / (1 << 30)
    python = f"Python {platform.python_version()}"
    load = ", ".join(f"{each:.1f}" for each in psutil.getloadavg())
    return {
        "machine": f"{psutil.cpu_count()} cores, {memory:.0f} GB, {platform.system()}, {python}",
        "load of the machine in the end": f"{load} (1, 5, 15 minutes)",
    }


def publish(page: Path, report: Report, picture: Path) -> None:
    """Put the report's section into a page, in place of what it said before, and its picture beside the page."""
    images = page.parent / "images"
    images.mkdir(parents=True, exist_ok=True)
    target = images / f"soak-{report.key}.png"
    shutil.copyfile(picture, target)
    text = page.read_text(encoding="utf-8") if page.exists() else _TITLE
    begin, end = f"<!-- soak:{report.key} -->", f"<!-- /soak:{report.key} -->"
    section = f"{begin}\n{report.to_markdown(f'images/{target.name}')}{end}\n"
    old = re.compile(re.escape(begin) + ".*?" + re.escape(end) + "\n", re.DOTALL)
    text = old.sub(lambda _: section, text) if old.search(text) else f"{text.rstrip()}\n\n{section}"
    page.write_text(text, encoding="utf-8")


def counted(texts: Mapping[str, Sequence[float]]) -> list[str]:
    """What happened at some times, with how often and when first."""
    return [f"{len(times)} ×, first after {times[0]:.0f} s: {text}" for text, times in texts.items()]


def _list(title: str, lines: Sequence[str]) -> str:
    return f"### {title}\n" + "".join(f"- {line}\n" for line in lines)
