"""What a cell has found so far, and from there to a record."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from weft_bench.driver.latency import spread
from weft_bench.driver.messages import Figures
from weft_bench.driver.requests import Fate
from weft_bench.driver.schedule import Action
from weft_bench.record import Attempt, Cell, Sample, Spread


@dataclass(slots=True)
class Findings:
    """Filled in by the phases; whatever is there when a cell fails is kept."""

    failure: str = ""
    sustainable: float | None = None
    overall: float | None = None
    slowest: float | None = None
    passes: int = 0
    """Behind `slowest`."""
    attempts: list[Attempt] = field(default_factory=list)
    event_latency: Spread | None = None
    processing_latency: Spread | None = None
    latency_before: Spread | None = None
    latency_during: Spread | None = None
    opening: tuple[Fate, ...] = ()
    churn: list[Fate] = field(default_factory=list)
    measured: tuple[float, float] | None = None
    """Moments (since the cell began) between which the processor time counts."""
    figures: Figures | None = None
    samples: tuple[Sample, ...] = ()
    peak_memory: int = 0
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Something a reader of the figures should know; nothing if it is empty."""
        if text:
            self.notes.append(text)

    def to_cell(self, system: str, queries: int) -> Cell:
        """As it is recorded."""
        fates = [*self.opening, *self.churn]
        # Requests in waves are what such a cell is about; what was there before them only has to be there.
        shown = self.churn or self.opening
        figures = self.figures or Figures()
        return Cell(
            system=system,
            queries=queries,
            failure=self.failure,
            sustainable=self.sustainable,
            overall=self.overall,
            slowest=self.slowest,
            attempts=tuple(self.attempts),
            event_latency=self.event_latency,
            processing_latency=self.processing_latency,
            deployment=latency_of(shown, Action.CREATE),
            removal=latency_of(shown, Action.DROP),
            refused=sum(fate.done is None for fate in fates),
            query_throughput=query_throughput(shown),
            latency_before=self.latency_before,
            latency_during=self.latency_during,
            cores=mean_cores(self.samples, self.measured),
            peak_memory=self.peak_memory,
            bytes_shuffled=figures.bytes_shuffled,
            state_bytes=figures.state_bytes,
            samples=self.samples,
            note="; ".join(filter(None, (*self.notes, why_refused(fates), figures.note))),
        )


def why_refused(fates: Iterable[Fate]) -> str:
    """How many requests did not take effect, and what was said of the first."""
    refused = [fate for fate in fates if fate.done is None]
    said = next((fate.error for fate in refused if fate.error), "")
    return f"{len(refused)} requests did not take effect, such as: {said}" if said else ""


def latency_of(fates: Iterable[Fate], action: Action) -> Spread | None:
    """Seconds from when requests were due to when they took effect."""
    known = [fate.latency for fate in fates if fate.request.action is action and fate.latency is not None]
    return spread(np.array(known, np.float64))


def query_throughput(fates: Iterable[Fate]) -> float | None:
    """Queries that became live per second, from the first create that was due to the last that was done."""
    creates = [fate for fate in fates if fate.request.action is Action.CREATE]
    done = [fate.done for fate in creates if fate.done is not None]
    if not done:
        return None
    seconds = max(done) - min(fate.due for fate in creates)
    return len(done) / seconds if seconds > 0 else None


def mean_cores(samples: Sequence[Sample], between: tuple[float, float] | None) -> float | None:
    """Cores' worth of processor time in the samples between two moments; of all samples if there are none."""
    begin, end = between or (0.0, math.inf)
    cores = [sample.cores for sample in samples if begin <= sample.at <= end]
    return float(np.mean(cores)) if cores else None
