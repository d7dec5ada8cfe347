"""Identity in the shared plan: equal work has an equal id, other work another one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.plan.expression import Call, Column, Literal
from weft.plan.key import Index, content_id, is_exact, key_column, key_text
from weft.plan.shared import SharedJoin, SharedPlan, Store
from weft.plan.slots import Slots
from weft.plan.strategy import join_id, store_id
from weft.plan.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, DataType, Kind

K, J = Column("k", BIGINT), Column("j", BIGINT)
SUM = Call("add", (K, Literal(1, BIGINT)), BIGINT)
NAMES = st.text(st.sampled_from("ab`, "), min_size=1, max_size=4)


def store(slots: int = 1, columns: tuple[str, ...] = ("k",)) -> Store:
    return Store("a", 0, (K,), (Index((K,), True),), columns, Slots(slots))


def test_a_store_is_what_is_stored_not_who_uses_it() -> None:
    assert store().id == store(6, ("k", "x")).id == store_id("a", 0, (K,))
    others = [store_id("b", 0, (K,)), store_id("a", 1, (K,)), store_id("a", 0, (J,)), store_id("a", 0, (K, J))]
    assert len({store().id, *others, store_id("a", 0, ())}) == 6


@given(st.lists(st.lists(NAMES, min_size=1, max_size=3), min_size=2, max_size=2, unique_by=tuple))
def test_no_two_keys_have_one_text(keys: list[list[str]]) -> None:
    first, second = (tuple(Column(name, BIGINT) for name in names) for names in keys)
    assert key_text(first) != key_text(second)
    assert Index(first, False).id != Index(second, False).id


def test_the_order_of_parts_matters() -> None:
    assert content_id("a", "b") != content_id("b", "a")
    assert content_id("ab", "c") != content_id("a", "bc")
    assert len(content_id("a")) == 12


def test_a_join_is_named_by_what_it_joins() -> None:
    left, right = store().id, store_id("b", 0, (K,))
    index = Index((K,), True).id
    join = SharedJoin(left, index, right, index, Slots(1))
    assert join.id == SharedJoin(left, index, right, index, Slots(7)).id == join_id(left, index, right, index)
    assert join.id != join_id(right, index, left, index)


@pytest.mark.parametrize("type_", [BIGINT, INT, DOUBLE, BOOLEAN, DATE, TIMESTAMP])
def test_one_fixed_width_value_is_its_own_hash(type_: DataType) -> None:
    assert is_exact((type_,))
    assert not is_exact((type_, type_))


@pytest.mark.parametrize("type_", [STRING, DataType(Kind.BINARY), DataType(Kind.DECIMAL, 38, 2)])
def test_longer_values_can_collide(type_: DataType) -> None:
    assert not is_exact((type_,))


def test_an_index_keeps_values_only_where_hashes_can_collide() -> None:
    assert Index((K,), True).columns() == ()
    assert Index((K, SUM), False).columns() == ("k", "weft#k:" + key_text((SUM,)))
    assert key_column(K) == "k"


def test_a_plan_finds_its_stores() -> None:
    plan = SharedPlan(1, (), (store(),), ())
    assert plan.store(store().id) == store()
