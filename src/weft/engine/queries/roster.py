"""The roster: the queries, their names and slots, and the requests that wait for a boundary.

Before each checkpoint the records of ended queries go to disk (`storage/ended_queries.py`), so that memory and
checkpoints hold only live queries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from weft.engine.queries.requests import TICK, Requests, reads, start_of
from weft.errors import StateCorrupt, WeftError
from weft.plan.changelog import Change, Failure, QueryId, QueryRecord
from weft.plan.slots import NO_SLOTS, Slots, slot_set
from weft.planner.strategy import live_query
from weft.storage.ended_queries import ENDED_FILE, query_number
from weft.storage.journal import record_from_json, record_to_json
from weft.storage.state_errors import RESTORE

_SETTLE_AFTER = 1000
"""If more queries have ended, their records go to disk before the next checkpoint."""


class Roster(Requests):
    """All queries, live and ended. Only `fold` changes it, so replaying the changelog rebuilds it."""

    # ---- folding

    def fold(self, change: Change, newest: Mapping[str, int] | None = None) -> Slots:
        """Apply a change and return the slots whose meaning changed; `newest` has the largest event time seen before
        the change, by stream."""
        changed = NO_SLOTS
        for stream, time_ in change.watermarks:
            changed = Slots(changed | self._resume(stream, {**(newest or {}), stream: time_ - TICK}))
        failed = {failure.query: failure for failure in change.failed}
        for query in change.dropped:
            failure = failed.get(query, Failure(query, change.batch, ""))
            changed = Slots(changed | self.end(query, failure.batch, failure.error))
        for failure in change.failed:
            if failure.query not in change.dropped:
                self.records.end_earlier(failure)
        for record in change.created:
            self._begin(record)
            self._next_id = max(self._next_id, query_number(record.id))
            changed = Slots(changed | 1 << record.slot)
        self.sinks.update(change.sinks)
        return changed

    def _resume(self, stream: str, newest: Mapping[str, int]) -> Slots:
        """Restart the queries that read a stream whose watermark was set back, as if they were created now, and
        return their slots, which lose their meaning; `newest` has the largest event time seen, by stream."""
        slots = []
        for query, live in self.live.items():
            if reads(live.query, stream):
                record, at = live.record, start_of(live.query, newest)
                start = at if record.start is not None and at is not None and record.start > at else record.start
                self.live[query] = replace(live, record=replace(record, start=start, resumed=at))
                slots.append(live.slot)
        return slot_set(slots)

    def _begin(self, record: QueryRecord) -> None:
        """Make a query live. A query that this release refuses is put into `refused` and does not hold up others."""
        self.names[record.name] = record.id
        try:
            self.live[record.id] = live_query(record, self.bound.begin(record))
        except WeftError as error:
            self.refused[record.id] = (record, f"{error.message}. {error.detail}".strip())

    def end(self, query: QueryId, batch: int, error: str) -> Slots:
        """End a query before `batch`; return its slot as a set, which is empty if it was not live."""
        live, refused = self.live.pop(query, None), self.refused.pop(query, None)
        if live is None and refused is None:
            return NO_SLOTS
        record = live.record if live is not None else refused[0] if refused is not None else self.records[query]
        self.bound.end(query)
        self.records.end(record, batch, error)
        if self.names.get(record.name) == query:
            del self.names[record.name]
        return Slots(1 << record.slot)

    # ---- checkpoints

    @property
    def has_many_ended(self) -> bool:
        """Whether so many queries have ended that their records should go to disk before the next checkpoint."""
        return len(self.records.lately) > _SETTLE_AFTER

    def to_json(self) -> dict[str, Any]:
        """Return the value for a checkpoint: the live queries, and the ended ones that are not on disk."""
        records = [*(entry.record for entry in self.live.values()), *self.records.lately.values()]
        return {
            "next_id": self._next_id,
            "records": [record_to_json(record) for record in records],
            "ended": self.ended.last_turn,
            "sinks": sorted(self.sinks),
        }

    def load(self, value: dict[str, Any]) -> None:
        """Load the value that `to_json` returned; raise StateCorrupt if records of ended queries are missing on
        disk."""
        if self.ended.last_turn < value.get("ended", 0):
            raise StateCorrupt(
                f'state file "{ENDED_FILE}" has not all records of ended queries that the checkpoint knows of',
                detail="It is missing, or older than the checkpoint.",
                hint=RESTORE,
            )
        self._next_id = value["next_id"]
        self.sinks = set(map(QueryId, value["sinks"]))
        for record in map(record_from_json, value["records"]):
            if record.ended is None:
                self._begin(record)
            else:
                self.records.lately[record.id] = record
