"""How many rows flow through each node of the plan graph, batch by batch and per second."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from weft.storage.journal import Manifest


def rows_through(manifest: Manifest, flows: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    """Count the rows that a batch put into or produced at each node: stored rows, pairs, combinations, window rows."""
    rows = Counter[str]({f"stream:{name}": totals.rows for name, totals in manifest.streams})
    for bucket in (*manifest.buckets, *manifest.selected):
        rows[f"store:{bucket.store}"] += bucket.rows
    for segment in manifest.segments:
        for piece in segment.pieces:
            rows[f"join:{piece.join}"] += piece.pairs
    for result in manifest.windows:
        rows[f"aggregate:{result.source}"] += result.rows
        rows[f"join:{result.source}"] += result.rows
    return {**rows, **{f"join:{probe}": produced for probe, (_, produced) in flows.items()}}


def rates_through(batches: Sequence[tuple[float, Mapping[str, int]]]) -> dict[str, float]:
    """Return the rows per second at each node, from the commit times and the `rows_through` of consecutive batches."""
    if len(batches) < 2:
        return {}
    total: Counter[str] = Counter()
    for _, rows in batches[1:]:
        total.update(rows)
    seconds = max(batches[-1][0] - batches[0][0], 1e-3)
    return {node: count / seconds for node, count in total.items()}
