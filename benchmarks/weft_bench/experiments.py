"""The experiments of the benchmark as values, and how each becomes the plan of a cell: pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, assert_never

from weft_bench.driver.messages import QueryOrder
from weft_bench.driver.phases import WARM_UP
from weft_bench.driver.plan import CellPlan, Churned, Limits, Phase, Quiet, Saturated, Searched, Steady
from weft_bench.driver.profile import Constant, Profile, Sinusoid
from weft_bench.driver.releases import Factory
from weft_bench.driver.schedule import Waves, all_at_once, one_by_one
from weft_bench.driver.sustained import Rule
from weft_bench.systems.by_hand import share_by_hand
from weft_bench.workloads.model import Dialect, QuerySpec, Workload
from weft_bench.workloads.say import QueryList
from weft_bench.workloads.shapes import CannotSay

CATALOGUE = "weft_bench.workloads.catalogue:workload"
"""Where the generator's process finds a workload."""
_POOL = 4
"""Waves until the same queries come again, so that a system cannot live on having seen them just now."""

SHARED_BY_HAND = "shared"
"""The mode of a system whose queries are over one that somebody wrote for all of them."""
_HOPELESS = 4
"""Times the bound of latency: a queue of so many seconds is full."""
_WARM = 0.25
"""Of the guess: the rate of the warm-up."""


class Mode(StrEnum):
    """How queries come, and what is measured then."""

    GROW = "grow"
    """So many creates per second until all are live; then throughput, search, and latency at 90 % of what it found."""
    CHURN = "churn"
    """One query stays while others come in waves and go, at a fixed rate; then throughput meanwhile."""
    FLUCTUATE = "fluctuate"
    """As GROW, while the rate of the input goes up and down around its mean."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """A workload and what is done with it."""

    name: str
    title: str
    workload: str
    mode: Mode = Mode.GROW
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Of the workload, where they are not its own defaults."""


EXPERIMENTS: Mapping[str, Experiment] = {
    each.name: each
    for each in (
        Experiment("sc1", "SC1: window joins come until all are live, then stay", "sc1"),
        Experiment("sc2", "SC2: window joins come in waves and go again", "sc1", Mode.CHURN),
        Experiment("aggregation", "Windowed aggregates come until all are live, then stay", "aggregation"),
        Experiment("purchases", "Purchases ⋈ ads in sliding windows", "purchases"),
        Experiment("purchases-aggregation", "Purchases per gem pack in sliding windows", "purchases-aggregation"),
        Experiment("astream", "AStream's query templates", "astream"),
        Experiment("ajoin", "AJoin's multiway joins by similarity", "ajoin"),
        Experiment("skew", "Window joins over skewed keys", "skew"),
        Experiment("windows", "Window joins over large windows", "windows"),
        Experiment("fluctuating", "Purchases ⋈ ads, the rate going up and down", "purchases", Mode.FLUCTUATE),
        Experiment("nexmark", "Nexmark's queries all at once, multiplied by parameters", "nexmark"),
        Experiment("tpch", "TPC-H as streams", "tpch"),
        Experiment("rules", "Selections by many rules", "rules"),
    )
}
"""By the name on the command line."""


@dataclass(frozen=True, slots=True)
class Program:
    """A system that is ready to be started."""

    name: str
    dialect: Dialect
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    shares: bool = False
    """Whether it reads once for all queries, so that more of them cost it less than as many times as much."""
    together: bool = False
    """Whether it can share only among queries that are created together: then all are due at once."""


class Impossible(Exception):
    """What was asked for cannot be done: by this system, or at all."""


@dataclass(frozen=True, slots=True)
class Options:
    """What can be chosen for any experiment."""

    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Of the workload, over those of the experiment."""
    seconds: float = 15.0
    """An attempt of the search; other phases are as many times as long as they are by default."""
    warm_up: float = 10.0
    """Seconds at a low rate before anything is measured: first batches compile."""
    base_rate: float = 1000.0
    rate: float = 20_000.0
    """Rows per second while queries come in waves."""
    creates_per_second: float = 100.0
    every: float = 10.0
    """Seconds from wave to wave."""
    life: float = 10.0
    """Seconds that a query of a wave lives."""
    period: float = 10.0
    """Seconds in which a fluctuating rate goes up and down once."""
    swing: float = 0.5
    """How far it goes up and down, as a share of its mean."""
    latency_bound: float = math.inf
    """Seconds that event-time latency may have in the 99th percentile at a rate that counts as sustained."""
    width: float = 0.05
    """How well the sustainable rate is to be known."""
    attempts: int = 14
    queue: float = 20.0
    """Seconds of rows that may wait: more are not sustained."""
    interval: float = 0.25
    """Seconds from file to file."""
    batch_interval: float = 0.0
    """Seconds between micro-batches of systems that have them; 0: as fast as they come."""
    cores: int = 2
    heap_gigabytes: int = 4
    limit_minutes: float = 30.0
    """A cell ends then, with what it has."""

    def to_json(self) -> dict[str, Any]:
        """For the record."""
        bound = None if math.isinf(self.latency_bound) else self.latency_bound
        return asdict(self) | {"parameters": dict(self.parameters), "latency_bound": bound}


def factory(experiment: Experiment, options: Options) -> Factory:
    """Where the experiment's workload comes from, in any process."""
    return Factory(CATALOGUE, {"name": experiment.workload} | dict(experiment.parameters) | dict(options.parameters))


def workload_of(experiment: Experiment, options: Options) -> Workload:
    """The workload; raises Impossible where its parameters are wrong."""
    try:
        return factory(experiment, options).load()
    except (TypeError, ValueError, KeyError) as error:
        raise Impossible(f'workload "{experiment.workload}" cannot be made: {error}') from error


def orders(queries: Sequence[QuerySpec], system: Program, *, observed: int = 1) -> tuple[QueryOrder, ...]:
    """Queries in the words of a system, the first of them observed; raises Impossible where it has no words."""
    missing = [query for query in queries if system.dialect not in query.texts]
    if missing:
        reasons = dict.fromkeys(query.why_not.get(system.dialect, "it has no words for it") for query in missing)
        said = f"{len(missing)} of {len(queries)} queries" if len(missing) > 1 else f'query "{missing[0].name}"'
        raise Impossible(f"{said} cannot be said in {system.dialect}: {'; '.join(reasons)}")
    return tuple(
        QueryOrder(query.name, query.texts[system.dialect], observed=number < observed, newest=query.newest)
        for number, query in enumerate(queries)
    )


def plan_cell(experiment: Experiment, options: Options, *, system: Program, queries: int, folder: Path) -> CellPlan:
    """What a driver has to do for one system with one number of queries; raises Impossible."""
    workload = workload_of(experiment, options)
    observed = int(options.parameters.get("observed", 1))
    churns = experiment.mode is Mode.CHURN
    specs = workload.queries(1 + _POOL * queries if churns else queries)
    said, settings = orders(specs, system, observed=observed), system.settings
    if settings.get("mode") == SHARED_BY_HAND:
        said, settings = _by_hand(workload, said, system, changes=churns)
    staying = said[:1] if churns else said
    return CellPlan(
        system=system.name,
        command=system.command,
        environment=system.environment,
        settings=settings,
        workload=factory(experiment, options),
        opening=all_at_once(staying) if system.together else one_by_one(staying, options.creates_per_second),
        folder=folder,
        guess=(guess := first_guess(system, queries)),
        base=options.base_rate,
        phases=phases(experiment.mode, options, guess=guess),
        waves=Waves(queries, options.every, options.life) if churns else None,
        pool=said[1:] if churns else (),
        queries=queries,
        interval=options.interval,
        batch_interval=options.batch_interval,
        cores=options.cores,
        heap_gigabytes=options.heap_gigabytes,
        profile=profile(experiment.mode, options),
        rule=Rule(bound=options.latency_bound),
        limits=_limits(options),
    )


def _limits(options: Options) -> Limits:
    """A queue is worked off in twice the time that it was filled in, or the system is not going to."""
    queue = min(options.queue, _HOPELESS * options.latency_bound)
    return replace(Limits(), queue=queue, drain=max(Limits().drain, 2 * queue))


def _by_hand(
    workload: Workload, said: tuple[QueryOrder, ...], system: Program, *, changes: bool
) -> tuple[tuple[QueryOrder, ...], Mapping[str, str]]:
    """The queries over one that was shared by hand, and that one among the settings; raises Impossible."""
    if changes or not isinstance(workload.queries, QueryList):
        raise Impossible("what is shared by hand cannot take other queries while it runs")
    try:
        shared = share_by_hand([workload.queries.shape(number) for number in range(len(said))])
    except CannotSay as reason:
        raise Impossible(str(reason)) from reason
    texts = tuple(replace(query, text=text) for query, text in zip(said, shared.queries, strict=True))
    return texts, {**system.settings, "shared_text": shared.text}


def phases(mode: Mode, options: Options, *, guess: float) -> tuple[Phase, ...]:
    """What is measured, in this order; `guess` is of the rate that a system can take at least."""
    longer = options.seconds * 4 / 3
    warm_up = Quiet(options.warm_up, guess * _WARM)
    search = Searched(seconds=options.seconds, width=options.width, attempts=options.attempts)
    match mode:
        case Mode.GROW:
            # A good guess saves attempts, and systems of micro-batches need a while to find their size.
            return warm_up, Saturated(2 * options.seconds), search, Steady(longer)
        case Mode.CHURN:
            rate = options.rate
            quiet, churned = Quiet(longer, rate), Churned(2 * longer, rate)
            return warm_up, quiet, churned, Saturated(2 * longer, churning=True)
        case Mode.FLUCTUATE:
            # Whole periods are left of each phase without its warm-up: a part of one would look like growth.
            periods = [count * options.period / (1 - WARM_UP) for count in (2, 4)]
            return warm_up, Saturated(longer), replace(search, seconds=periods[0]), Steady(periods[1])
        case _:
            assert_never(mode)


def profile(mode: Mode, options: Options) -> Profile:
    """How the rate goes around its mean."""
    return Sinusoid(options.period, options.swing) if mode is Mode.FLUCTUATE else Constant()


def first_guess(system: Program, queries: int) -> float:
    """Rows per second to begin with, on the low side: too few are soon mended, too many take long to work off."""
    return max(1_000_000 / queries**0.2 if system.shares else 200_000 / queries, 500.0)
