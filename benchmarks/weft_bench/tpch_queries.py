"""Joins over the streams of TPC-H, full history: those of the benchmark's own queries, and five that overlap.

A query is the join of a TPC-H query with its selections (the validation parameters of the specification), without
aggregation, subqueries and order. Its columns are the keys of the joined rows and what the original computes with.
"""

from __future__ import annotations

from dataclasses import dataclass

_WINDOW = " [UNBOUNDED]"


@dataclass(frozen=True, slots=True)
class Join:
    """A join of streams with full history; `sql` is as weft takes it."""

    name: str
    sql: str

    def plain_sql(self) -> str:
        """The same over whole tables: full history is what every other system means without a window."""
        return self.sql.replace(_WINDOW, "")


Q2 = Join(
    "q2",
    """
    SELECT p.p_partkey, s.s_suppkey, n.n_nationkey, r.r_regionkey, ps.ps_supplycost, s.s_acctbal, s.s_name, n.n_name,
        p.p_mfgr, s.s_address, s.s_phone, s.s_comment
    FROM part [UNBOUNDED] AS p
    JOIN partsupp [UNBOUNDED] AS ps ON p.p_partkey = ps.ps_partkey
    JOIN supplier [UNBOUNDED] AS s ON s.s_suppkey = ps.ps_suppkey
    JOIN nation [UNBOUNDED] AS n ON s.s_nationkey = n.n_nationkey
    JOIN region [UNBOUNDED] AS r ON n.n_regionkey = r.r_regionkey
    WHERE p.p_size = 15 AND p.p_type LIKE '%BRASS' AND r.r_name = 'EUROPE'
    """,
)
"""The outer join part; the subquery that asks for the lowest cost is not a join."""

Q3 = Join(
    "q3",
    """
    SELECT c.c_custkey, o.o_orderkey, l.l_linenumber, o.o_orderdate, o.o_shippriority, l.l_extendedprice, l.l_discount
    FROM customer [UNBOUNDED] AS c
    JOIN orders [UNBOUNDED] AS o ON c.c_custkey = o.o_custkey
    JOIN lineitem [UNBOUNDED] AS l ON l.l_orderkey = o.o_orderkey
    WHERE c.c_mktsegment = 'BUILDING' AND o.o_orderdate < DATE '1995-03-15' AND l.l_shipdate > DATE '1995-03-15'
    """,
)

Q5 = Join(
    "q5",
    """
    SELECT c.c_custkey, o.o_orderkey, l.l_linenumber, s.s_suppkey, r.r_regionkey, n.n_name, l.l_extendedprice,
        l.l_discount
    FROM customer [UNBOUNDED] AS c
    JOIN orders [UNBOUNDED] AS o ON c.c_custkey = o.o_custkey
    JOIN lineitem [UNBOUNDED] AS l ON l.l_orderkey = o.o_orderkey
    JOIN supplier [UNBOUNDED] AS s ON l.l_suppkey = s.s_suppkey AND c.c_nationkey = s.s_nationkey
    JOIN nation [UNBOUNDED] AS n ON s.s_nationkey = n.n_nationkey
    JOIN region [UNBOUNDED] AS r ON n.n_regionkey = r.r_regionkey
    WHERE r.r_name = 'ASIA' AND o.o_orderdate >= DATE '1994-01-01' AND o.o_orderdate < DATE '1995-01-01'
    """,
)
"""A cycle: customer and supplier are of one nation."""

Q7 = Join(
    "q7",
    """
    SELECT s.s_suppkey, o.o_orderkey, l.l_linenumber, c.c_custkey, n1.n_name AS supp_nation, n2.n_name AS cust_nation,
        l.l_shipdate, l.l_extendedprice, l.l_discount
    FROM supplier [UNBOUNDED] AS s
    JOIN lineitem [UNBOUNDED] AS l ON s.s_suppkey = l.l_suppkey
    JOIN orders [UNBOUNDED] AS o ON o.o_orderkey = l.l_orderkey
    JOIN customer [UNBOUNDED] AS c ON c.c_custkey = o.o_custkey
    JOIN nation [UNBOUNDED] AS n1 ON s.s_nationkey = n1.n_nationkey
    JOIN nation [UNBOUNDED] AS n2 ON c.c_nationkey = n2.n_nationkey
    WHERE (n1.n_name = 'FRANCE' AND n2.n_name = 'GERMANY' OR n1.n_name = 'GERMANY' AND n2.n_name = 'FRANCE')
        AND l.l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
    """,
)
"""Two nations of one stream, and a condition over both that is no equality."""

Q8 = Join(
    "q8",
    """
    SELECT p.p_partkey, s.s_suppkey, o.o_orderkey, l.l_linenumber, c.c_custkey, r.r_regionkey, o.o_orderdate,
        l.l_extendedprice, l.l_discount, n2.n_name AS nation
    FROM part [UNBOUNDED] AS p
    JOIN lineitem [UNBOUNDED] AS l ON p.p_partkey = l.l_partkey
    JOIN supplier [UNBOUNDED] AS s ON s.s_suppkey = l.l_suppkey
    JOIN orders [UNBOUNDED] AS o ON l.l_orderkey = o.o_orderkey
    JOIN customer [UNBOUNDED] AS c ON o.o_custkey = c.c_custkey
    JOIN nation [UNBOUNDED] AS n1 ON c.c_nationkey = n1.n_nationkey
    JOIN region [UNBOUNDED] AS r ON n1.n_regionkey = r.r_regionkey
    JOIN nation [UNBOUNDED] AS n2 ON s.s_nationkey = n2.n_nationkey
    WHERE r.r_name = 'AMERICA' AND o.o_orderdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
        AND p.p_type = 'ECONOMY ANODIZED STEEL'
    """,
)
"""Eight relations, nation twice."""

Q9 = Join(
    "q9",
    """
    SELECT p.p_partkey, s.s_suppkey, o.o_orderkey, l.l_linenumber, n.n_name, o.o_orderdate, l.l_extendedprice,
        l.l_discount, ps.ps_supplycost, l.l_quantity
    FROM part [UNBOUNDED] AS p
    JOIN lineitem [UNBOUNDED] AS l ON p.p_partkey = l.l_partkey
    JOIN partsupp [UNBOUNDED] AS ps ON ps.ps_suppkey = l.l_suppkey AND ps.ps_partkey = l.l_partkey
    JOIN supplier [UNBOUNDED] AS s ON s.s_suppkey = l.l_suppkey
    JOIN orders [UNBOUNDED] AS o ON o.o_orderkey = l.l_orderkey
    JOIN nation [UNBOUNDED] AS n ON s.s_nationkey = n.n_nationkey
    WHERE p.p_name LIKE '%green%'
    """,
)
"""A key of two columns: partsupp."""

Q10 = Join(
    "q10",
    """
    SELECT c.c_custkey, o.o_orderkey, l.l_linenumber, n.n_nationkey, c.c_name, l.l_extendedprice, l.l_discount,
        c.c_acctbal, n.n_name, c.c_address, c.c_phone, c.c_comment
    FROM customer [UNBOUNDED] AS c
    JOIN orders [UNBOUNDED] AS o ON c.c_custkey = o.o_custkey
    JOIN lineitem [UNBOUNDED] AS l ON l.l_orderkey = o.o_orderkey
    JOIN nation [UNBOUNDED] AS n ON c.c_nationkey = n.n_nationkey
    WHERE o.o_orderdate >= DATE '1993-10-01' AND o.o_orderdate < DATE '1994-01-01' AND l.l_returnflag = 'R'
    """,
)

TPCH = (Q2, Q3, Q5, Q7, Q8, Q9, Q10)

CLASH = (
    Join(
        "clash1",
        """
        SELECT c.c_custkey, o.o_orderkey, l.l_linenumber, l.l_quantity
        FROM customer [UNBOUNDED] AS c
        JOIN orders [UNBOUNDED] AS o ON c.c_custkey = o.o_custkey
        JOIN lineitem [UNBOUNDED] AS l ON o.o_orderkey = l.l_orderkey
        """,
    ),
    Join(
        "clash2",
        """
        SELECT o.o_orderkey, l.l_linenumber, s.s_suppkey, s.s_acctbal
        FROM orders [UNBOUNDED] AS o
        JOIN lineitem [UNBOUNDED] AS l ON o.o_orderkey = l.l_orderkey
        JOIN supplier [UNBOUNDED] AS s ON l.l_suppkey = s.s_suppkey
        """,
    ),
    Join(
        "clash3",
        """
        SELECT l.l_orderkey, l.l_linenumber, ps.ps_partkey, s.s_suppkey, ps.ps_availqty
        FROM lineitem [UNBOUNDED] AS l
        JOIN partsupp [UNBOUNDED] AS ps ON l.l_partkey = ps.ps_partkey AND l.l_suppkey = ps.ps_suppkey
        JOIN supplier [UNBOUNDED] AS s ON ps.ps_suppkey = s.s_suppkey
        """,
    ),
    Join(
        "clash4",
        """
        SELECT ps.ps_partkey, s.s_suppkey, n.n_nationkey, r.r_regionkey
        FROM partsupp [UNBOUNDED] AS ps
        JOIN supplier [UNBOUNDED] AS s ON ps.ps_suppkey = s.s_suppkey
        JOIN nation [UNBOUNDED] AS n ON s.s_nationkey = n.n_regionkey
        JOIN region [UNBOUNDED] AS r ON n.n_regionkey = r.r_regionkey
        """,
    ),
    Join(
        "clash5",
        """
        SELECT n.n_nationkey, r.r_regionkey, c.c_custkey, o.o_orderkey
        FROM orders [UNBOUNDED] AS o
        JOIN customer [UNBOUNDED] AS c ON o.o_custkey = c.c_custkey
        JOIN nation [UNBOUNDED] AS n ON c.c_custkey = n.n_nationkey
        JOIN region [UNBOUNDED] AS r ON n.n_regionkey = r.r_regionkey
        """,
    ),
)
"""Five queries by the rule of CLASH VII-A: no selections, full history, random chains of joins that partly overlap.

Joins are of keys with foreign keys (1 to 3) and of columns that merely have values in common: one with a large fan-out
(4: every supplier of a nation numbered as a region meets five nations), one that few rows pass (5: only customers with
the lowest keys are numbered as a nation). The figure with the authors' own five is not in the text of the paper that
this is written after. Joins by an order's status are left out: their results grow with the square of the data.
"""

JOINS = (*TPCH, *CLASH)
