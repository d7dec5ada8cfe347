"""What is shipped to tasks: a `Program` for each plan (`execution/compile.py`) and a `BatchTask` for each batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import uuid4

from weft.execution.selection.idle_streams import Passed
from weft.kernels.aggregate.close_windows import SlidingQuery
from weft.kernels.aggregate.factored import PairPlan
from weft.kernels.aggregate.rows_to_cells import Accumulator, Family
from weft.kernels.aggregate.sessions import SessionQuery
from weft.kernels.join.window_table import WindowTable
from weft.kernels.selection.index import PredicateIndex
from weft.plan.expression import Expression, Opaque
from weft.plan.key import StoreId
from weft.plan.probe_tree import NO_PROBES, Input, ProbeForest
from weft.plan.shared import SharedAggregate, SharedJoin, SharedSessionJoin, SliceStore, Store
from weft.plan.slots import Slots
from weft.plan.stream import Stream
from weft.plan.window import Sliding
from weft.storage.bucket import Bucket


@dataclass(frozen=True, slots=True)
class SliceTag:
    """How rows become cells of a store of slices; `users` says which slots compute which key or argument."""

    store: SliceStore
    accumulators: tuple[Accumulator, ...]
    families: tuple[Family, ...]
    users: Mapping[Expression, Slots]


@dataclass(frozen=True, slots=True)
class CombinedTag:
    """How combinations of some inputs become cells of a store of slices: one for each window that holds all members.

    `shapes` are the windows of its queries, with the slots that have each.
    """

    slices: SliceTag
    inputs: tuple[Input, ...]
    shapes: tuple[tuple[Sliding, Slots], ...]


@dataclass(frozen=True, slots=True)
class RoleTag:
    """How rows of a stream in one role get their query-sets, and the stores they go to."""

    index: PredicateIndex
    stores: tuple[Store, ...]
    slices: tuple[SliceTag, ...]


@dataclass(frozen=True, slots=True)
class StreamTag:
    """What the tag stage does with one stream."""

    stream: Stream
    columns: tuple[str, ...]
    roles: tuple[RoleTag, ...]
    opaque: tuple[Opaque, ...]
    guards: Mapping[str, tuple[tuple[int, str], ...]]
    """For each opaque key, by its text: the slots that need it, and on which rows each does."""
    passed: tuple[Passed, ...] = ()
    """For which queries over other streams, too, its rows can come too late."""


@dataclass(frozen=True, slots=True)
class JoinProbe:
    """A shared join with the window test of all its queries."""

    join: SharedJoin
    windows: WindowTable


@dataclass(frozen=True, slots=True)
class AggregateClose:
    """A shared aggregate with the windows of its queries, and how each query pairs two sides.

    If it is `combined`, its cells are of whole windows, and probe trees still make some in later stages of a batch.
    """

    aggregate: SharedAggregate
    sliding: tuple[SlidingQuery, ...]
    sessions: tuple[SessionQuery, ...]
    pairs: Mapping[int, PairPlan]
    combined: bool = False


@dataclass(frozen=True, slots=True)
class SessionGather:
    """A query of a session join: its sessions, what combinations have to satisfy once so many of their members are
    chosen, and what becomes of them: rows under the name of the join, or cells of `slices` under the name `source`."""

    sessions: SessionQuery
    inputs: tuple[Input, ...]
    conditions: tuple[tuple[int, Expression], ...]
    slices: SliceTag | None
    source: str

    @property
    def slot(self) -> int:
        """Position in every query-set."""
        return self.sessions.slot


@dataclass(frozen=True, slots=True)
class SessionClose:
    """Session joins of the same stores, query by query."""

    join: SharedSessionJoin
    streams: tuple[str, ...]
    queries: tuple[SessionGather, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """The compiled form of a shared plan: the same for every batch until the plan changes."""

    words: int
    live: Slots
    streams: Mapping[str, StreamTag]
    stores: Mapping[StoreId, Store]
    joins: tuple[JoinProbe, ...]
    slices: Mapping[StoreId, SliceTag]
    aggregates: tuple[AggregateClose, ...]
    session_joins: tuple[SessionClose, ...]
    probes: ProbeForest = NO_PROBES
    windows: Mapping[tuple[Input, Input], WindowTable] = field(default_factory=dict)
    """For a known and a probed input, the windows of all queries that join them by probe trees."""
    probed_stores: Mapping[Input, StoreId] = field(default_factory=dict)
    results: Mapping[int, tuple[str, tuple[Input, ...]]] = field(default_factory=dict)
    """For each slot that probe trees serve, how its combinations are called and what their inputs are."""
    combined: Mapping[str, tuple[CombinedTag, ...]] = field(default_factory=dict)
    """For the name of combinations, the stores of slices that they go to."""

    @property
    def closes_windows(self) -> bool:
        """Whether some query waits for windows to end."""
        return bool(self.aggregates or self.session_joins)

    def window_streams(self) -> frozenset[tuple[str, ...]]:
        """The sets of streams whose common watermark ends windows, or decides what comes too late for a join."""
        windows = (each.aggregate.streams for each in self.aggregates)
        passed = (rule.names for tag in self.streams.values() for rule in tag.passed)
        return frozenset((*windows, *(each.streams for each in self.session_joins), *passed))


@dataclass(frozen=True, slots=True)
class BatchInputs:
    """What a batch reads: files by stream (name below the stream's directory, bytes), and micro-batches of DataFrames
    by their number. Streams in `failing` cannot be read now: windows wait for them as if they had rows."""

    files: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()
    offsets: Mapping[str, int] = field(default_factory=dict)
    failing: frozenset[str] = frozenset()

    def names(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Names of the files, by stream."""
        return tuple((stream, tuple(name for name, _ in files)) for stream, files in self.files)


NO_INPUTS = BatchInputs()


@dataclass(frozen=True, slots=True)
class BatchTask:
    """One batch: where it writes, what is late, which buckets there are and what they still mean."""

    data: str
    batch: int
    attempt: str
    partitions: int
    watermarks: Mapping[str, int]
    buckets: tuple[Bucket, ...]
    masks: Mapping[int, Slots]
    merges: tuple[tuple[str, ...], ...]
    quarantine: str
    closed: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    """Up to where the windows over some streams are ended already."""
    idle: frozenset[str] = frozenset()
    """Streams without rows for so long that windows do not wait for them."""
    rebuild: frozenset[StoreId] = frozenset()
    """Stores of intermediate results that are to be made anew from what is stored."""
    inputs: BatchInputs = NO_INPUTS
    ahead: Mapping[str, int] = field(default_factory=dict)
    """The latest event time that is taken, by stream, fixed when the batch began; no limit where there is none."""

    def new_file(self, kind: str, *, suffix: str = ".arrow") -> str:
        """A path below the data folder that no other task, attempt or call has."""
        return f"{self.batch:012d}/{kind}-{self.attempt}-{uuid4().hex[:12]}{suffix}"
