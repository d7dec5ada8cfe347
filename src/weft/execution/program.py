"""`Program` (one per plan, from `execution/compile.py`) and `BatchTask` (one per batch), which are shipped to tasks."""

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
    """How rows become cells of a slice store; `users` has the slots that compute each key or argument."""

    store: SliceStore
    accumulators: tuple[Accumulator, ...]
    families: tuple[Family, ...]
    users: Mapping[Expression, Slots]


@dataclass(frozen=True, slots=True)
class CombinedTag:
    """How combinations of `inputs` become cells of a slice store: one cell for each window that contains all members.

    `shapes` are the distinct windows of the store's queries, each with its slots.
    """

    slices: SliceTag
    inputs: tuple[Input, ...]
    shapes: tuple[tuple[Sliding, Slots], ...]


@dataclass(frozen=True, slots=True)
class RoleTag:
    """How rows of a stream in one role get their query-sets, and the stores that they go to."""

    index: PredicateIndex
    stores: tuple[Store, ...]
    slices: tuple[SliceTag, ...]


@dataclass(frozen=True, slots=True)
class StreamTag:
    """The work of the tag stage on one stream: the columns to read and what each role does with the rows."""

    stream: Stream
    columns: tuple[str, ...]
    roles: tuple[RoleTag, ...]
    opaque: tuple[Opaque, ...]
    guards: Mapping[str, tuple[tuple[int, str], ...]]
    """For each opaque key, by its SQL: the slots that need the key, each with the SQL condition on its rows."""
    passed: tuple[Passed, ...] = ()
    """Rules for rows that are too late for queries that also read other streams."""


@dataclass(frozen=True, slots=True)
class JoinProbe:
    """A shared join with the window table of all its queries."""

    join: SharedJoin
    windows: WindowTable


@dataclass(frozen=True, slots=True)
class AggregateClose:
    """A shared aggregate with the windows of its queries and, by slot, the way to pair the two sides of a join.

    `combined` marks an aggregate over combinations of probe trees: each of its cells belongs to one window, and later
    stages of a batch still add cells.
    """

    aggregate: SharedAggregate
    sliding: tuple[SlidingQuery, ...]
    sessions: tuple[SessionQuery, ...]
    pairs: Mapping[int, PairPlan]
    combined: bool = False


@dataclass(frozen=True, slots=True)
class SessionGather:
    """A query of a session join: its sessions, the conditions on combinations, and where combinations go.

    A condition (n, expression) is tested as soon as a combination has n members. Without `slices`, combinations are
    results under the id of the join; with `slices`, they become cells under the id `source`.
    """

    sessions: SessionQuery
    inputs: tuple[Input, ...]
    conditions: tuple[tuple[int, Expression], ...]
    slices: SliceTag | None
    source: str

    @property
    def slot(self) -> int:
        """The slot of the query."""
        return self.sessions.slot


@dataclass(frozen=True, slots=True)
class SessionClose:
    """The session joins between the same indexes, with the streams that they read and their queries."""

    join: SharedSessionJoin
    streams: tuple[str, ...]
    queries: tuple[SessionGather, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """The compiled form of a shared plan; batches share it until the plan changes."""

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
    """By (known input, probed input): the windows of all queries whose probe trees join the two."""
    probed_stores: Mapping[Input, StoreId] = field(default_factory=dict)
    results: Mapping[int, tuple[str, tuple[Input, ...]]] = field(default_factory=dict)
    """For each slot that probe trees serve, the id of its combinations in the result log, and their inputs."""
    combined: Mapping[str, tuple[CombinedTag, ...]] = field(default_factory=dict)
    """By the id of combinations: the slice stores that the combinations go to."""

    @property
    def closes_windows(self) -> bool:
        """Whether some query has results only when windows close."""
        return bool(self.aggregates or self.session_joins)

    def window_streams(self) -> frozenset[tuple[str, ...]]:
        """Return the sets of streams whose common watermark closes windows or decides which rows miss a join."""
        windows = (close.aggregate.streams for close in self.aggregates)
        passed = (rule.names for tag in self.streams.values() for rule in tag.passed)
        return frozenset((*windows, *(close.streams for close in self.session_joins), *passed))


@dataclass(frozen=True, slots=True)
class BatchInputs:
    """The inputs of a batch, by stream: files (name below the stream's directory, bytes), and numbers of micro-batches.

    A stream from a DataFrame has a Spark micro-batch in place of files. Streams in `failing` cannot be read now;
    they do not count as idle, so windows wait for them.
    """

    files: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()
    offsets: Mapping[str, int] = field(default_factory=dict)
    failing: frozenset[str] = frozenset()

    def names(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return the names of the files, by stream."""
        return tuple((stream, tuple(name for name, _ in files)) for stream, files in self.files)


NO_INPUTS = BatchInputs()


@dataclass(frozen=True, slots=True)
class BatchTask:
    """One attempt at a batch: where to write, which rows are late, the stored buckets and what their sets mean."""

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
    """By set of streams: the event time up to which windows over these streams were closed before this batch."""
    idle: frozenset[str] = frozenset()
    """Streams that have had no rows for so long that windows do not wait for them."""
    rebuild: frozenset[StoreId] = frozenset()
    """Stored joins that this batch rebuilds from stored rows."""
    inputs: BatchInputs = NO_INPUTS
    ahead: Mapping[str, int] = field(default_factory=dict)
    """The latest event time that is accepted, by stream, fixed when the batch began; other streams have no limit."""

    def new_file(self, kind: str, *, suffix: str = ".arrow") -> str:
        """Return a new path below the data folder, unique among all tasks, attempts and calls."""
        return f"{self.batch:012d}/{kind}-{self.attempt}-{uuid4().hex[:12]}{suffix}"
