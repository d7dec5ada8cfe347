"""The key that all relations of a join have in common."""

from __future__ import annotations

from weft.plan.expression import Call, Column, Expression, to_sql
from weft.plan.query import KeyPair
from weft.plan.types import BIGINT, DOUBLE, INT, DataType
from weft.sql.names.connection import common_key


def pair(left: str, right: str, *, at: tuple[int, int] = (0, 1), type_: DataType = BIGINT) -> KeyPair:
    """Two columns that are equal, each of the type the key has."""
    return KeyPair(Column(left, type_), Column(right, type_), type_, *at)


def texts(key: tuple[Expression, ...]) -> list[str]:
    return [to_sql(part) for part in key]


def test_equal_through_others() -> None:
    found = common_key([pair("x", "y"), pair("y", "z", at=(1, 2))], 3)
    assert found is not None
    assert [texts(key) for key in found.keys] == [["`x`"], ["`y`"], ["`z`"]]
    assert found.types == (BIGINT,)


def test_parts_are_in_an_order_that_does_not_depend_on_how_they_are_written() -> None:
    keys = [pair("b", "b"), pair("a", "a")]
    assert common_key(keys, 2) == common_key(keys[::-1], 2)


def test_each_of_several_values_of_a_relation_has_to_be_equal() -> None:
    """x = y, z = y and z = v make all four equal, so no part may leave one of them out."""
    found = common_key([pair("x", "y"), pair("z", "y"), pair("z", "v")], 2)
    assert found is not None
    assert list(zip(*map(texts, found.keys), strict=True)) == [("`x`", "`v`"), ("`z`", "`v`"), ("`x`", "`y`")]


def test_integers_of_different_size_meet_in_the_larger() -> None:
    found = common_key([pair("x", "y", type_=INT), pair("y", "z", at=(1, 2))], 3)
    assert found is None  # two columns called y of different types are two values
    first = KeyPair(Column("x", INT), Column("y", INT), INT)
    from_int = KeyPair(Call("cast", (Column("y", INT),), BIGINT), Column("z", BIGINT), BIGINT, 1, 2)
    found = common_key([first, from_int], 3)
    assert found is not None
    assert found.types == (BIGINT,)
    assert [texts(key) for key in found.keys] == [["CAST(`x` AS bigint)"], ["CAST(`y` AS bigint)"], ["`z`"]]


def test_no_key_in_common() -> None:
    assert common_key([], 2) is None
    assert common_key([pair("x", "y"), pair("y", "z", at=(1, 2)), pair("u", "v", at=(0, 2))], 3) is None
    mixed = [pair("x", "y", type_=DOUBLE), pair("x", "z", at=(0, 2), type_=DOUBLE)]
    assert common_key(mixed, 3) is not None
