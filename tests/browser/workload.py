"""Queries that show something: some share everything, some little."""

from __future__ import annotations

JOIN = (
    "SELECT p.user_id, p.price, a.length FROM purchases [RANGE 5 SECONDS] p "
    "JOIN ads [RANGE 5 SECONDS] a ON p.user_id = a.user_id WHERE p.price > {price}"
)
DEAR = "SELECT ts, user_id, price FROM purchases WHERE price > 50"
ALIKE = {f"near_{price}": JOIN.format(price=price) for price in (20, 40, 60, 80)}
"""Joins with the same operators."""
VARIED = {
    **ALIKE,
    "dear": DEAR,
    "long_ads": "SELECT user_id, length FROM ads WHERE length > 20",
    "spent": "SELECT user_id, window_start, SUM(price) AS spent, COUNT(*) AS n FROM purchases [TUMBLE 2 SECONDS] "
    "GROUP BY user_id",
    "shown": "SELECT user_id, window_start, COUNT(*) AS n, MAX(length) AS longest "
    "FROM ads [RANGE 4 SECONDS SLIDE 2 SECONDS] WHERE length > 5 GROUP BY user_id",
}
