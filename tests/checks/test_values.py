"""Equality by meaning, and pairing lists as well as they can be paired."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ethogram.checks.matching import in_order, matching
from ethogram.checks.values import ABSENT, Loose, at_path, close, decimal, difference, same

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_everything_means_the_same_as_itself(value: Any) -> None:
    assert same(value, value)


@given(JSON, JSON)
def test_meaning_the_same_goes_both_ways(one: Any, other: Any) -> None:
    assert same(one, other) == same(other, one)


@given(st.integers(-(10**12), 10**12))
def test_a_number_is_the_same_in_every_spelling(number: int) -> None:
    assert same(number, float(number))
    assert same(number, str(number))
    assert same(number, f"{number}.0")
    assert not same(number, number + 1)
    assert not same(number, str(number + 1))


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e15, max_value=1e15))
def test_a_float_is_the_same_as_its_print(number: float) -> None:
    assert same(number, repr(number))


@pytest.mark.parametrize(
    ("expected", "actual", "fits"),
    [
        (1, 1.0, True),
        ("1", 1, True),
        (1, "1", True),
        (True, "true", True),
        (True, 1, False),
        (False, 0, False),
        ("01234", 1234, False),  # a postcode, not a number
        ("+49", 49, False),
        ("1.10", "1.1", False),  # two versions, not two numbers
        ("a", " a ", True),
        ("a", "A", False),
        ("caf\u00e9", "cafe\u0301", True),
        (None, 0, False),
        (None, "", False),
        ([1, 2], [2, 1], False),
        ([1], [1, 1], False),
        ({"a": 1}, {"a": "1.0"}, True),
        ({"a": 1}, {"a": 1, "b": None}, True),  # an argument that says nothing is not there
        ({"a": None}, {}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": {"b": [1, {"c": 2}]}}, {"a": {"b": [1, {"c": "2"}]}}, True),
        ({}, [], False),
        (10**400, "1e400", True),
    ],
)
def test_meaning(expected: Any, actual: Any, fits: bool) -> None:
    assert same(expected, actual) is fits


MOMENTS = st.datetimes(min_value=datetime(1900, 1, 1), max_value=datetime(2199, 1, 1))


@given(MOMENTS, st.integers(-12 * 60, 12 * 60))
def test_a_moment_is_the_same_in_every_spelling(moment: datetime, shift: int) -> None:
    zone = timezone(timedelta(minutes=shift))
    assert same(moment.isoformat(), moment.isoformat(" "))
    aware = moment.replace(tzinfo=zone)
    assert same(aware.isoformat(), aware.astimezone(timezone.utc).isoformat().replace("+00:00", "Z"))  # noqa: UP017
    assert not same(moment.isoformat(), (moment + timedelta(seconds=1)).isoformat())


@pytest.mark.parametrize(
    ("expected", "actual", "fits"),
    [
        ("2024-01-05", "20240105", True),
        ("2024-01-05", "2024-01-05T00:00:00", True),
        ("2024-01-05", "2024-01-05T00:00:00Z", True),
        ("2024-01-05", "2024-W01-5", True),
        ("2024-01-05", "2024-01-05T10:00", False),
        ("2024-01-05T10:00", "2024-01-05T10:00Z", False),  # a wall clock and an instant are different claims
        ("2024-01-05T10:00Z", "2024-01-05T12:00+02:00", True),
        ("20240105", "20240106", False),
        ("2024-01-05", "2024-05-01", False),
        ("2024-99-99", "20249999", False),
    ],
)
def test_dates(expected: str, actual: str, fits: bool) -> None:
    assert same(expected, actual) is fits
    assert same(actual, expected) is fits


@given(st.lists(st.integers(0, 5), max_size=6), st.randoms())
def test_an_unordered_list_is_the_same_in_any_order(items: list[int], rng: Any) -> None:
    other = list(items)
    rng.shuffle(other)
    assert same(items, other, Loose(unordered=True))
    assert same(items, [*other, *other], Loose(sets=True))
    assert not same(items, [*other, 9], Loose(unordered=True))
    assert not same(items, [*other, 9], Loose(sets=True))


@pytest.mark.parametrize(
    ("expected", "actual", "fits"),
    [
        ({"$any": True}, "whatever", True),
        ({"$any": True}, ABSENT, False),
        ({"$regex": "^a+$"}, "aaa", True),
        ({"$regex": "^a+$"}, "aab", False),
        ({"$one_of": [1, "x"]}, "1", True),
        ({"$one_of": [1, "x"]}, 2, False),
        ({"$number": 3.14, "tolerance": 0.01}, "3.15", True),
        ({"$number": 3.14, "tolerance": 0.01}, 3.1501, False),
        ({"$number": 200, "relative": 0.1}, 220, True),
        ({"$unordered": [1, 2]}, [2, 1], True),
        ({"$set": [1, 2]}, [2, 1, 1], True),
        ({"$text": "Paris"}, "PARIS", True),
        ({"$absent": True}, ABSENT, True),
        ({"$absent": True}, 1, False),
        ({"a": [{"$any": True}, 2]}, {"a": [{"deep": 1}, 2]}, True),
    ],
)
def test_matchers(expected: Any, actual: Any, fits: bool) -> None:
    assert same(expected, actual) is fits


def test_the_first_difference_is_named_with_its_place() -> None:
    assert difference({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}) == "a.b[1]: 3 is not 2"
    assert difference({"a": 1}, {}) == "a: nothing is not 1"
    assert difference({"a": 1}, {"a": 1, "z": 0}) == "'z' was not expected"
    assert difference([1, 2], [1]) == "1 items where 2 were expected"


def test_the_limit_itself_is_near_enough() -> None:
    assert close(decimal(1.0), decimal(1.1), tolerance=0.1)
    assert not close(decimal(1.0), decimal("1.1000000000000001"), tolerance=0.1)
    assert close(decimal(0), decimal("1e-9"), tolerance=1e-9)
    assert not close(decimal(1), decimal("NaN"), tolerance=10)
    assert not close(decimal(1), decimal("1e999999999999"), relative=0.5)


@pytest.mark.parametrize(
    ("path", "value"), [("a.b[0].c", 1), ("a.b[-1].c", 2), ("a.b.0.c", 1), ("a.x", ABSENT), ("a.b[7]", ABSENT)]
)
def test_paths(path: str, value: Any) -> None:
    assert at_path({"a": {"b": [{"c": 1}, {"c": 2}]}}, path) == value or at_path({"a": {}}, path) is value


GRAPHS = st.integers(0, 5).flatmap(
    lambda n: st.integers(0, 5).flatmap(
        lambda m: st.tuples(
            st.just(n), st.just(m), st.sets(st.tuples(st.integers(0, max(0, n - 1)), st.integers(0, max(0, m - 1))))
        )
    )
)


@given(GRAPHS)
def test_a_matching_is_as_large_as_it_can_be(graph: tuple[int, int, set[tuple[int, int]]]) -> None:
    n, m, edges = graph
    pairs = matching(n, m, lambda i, j: (i, j) in edges)
    assert all((i, j) in edges for i, j in pairs.items())
    assert len(set(pairs.values())) == len(pairs)
    padded = [*range(m), *[-1] * n]
    best = max((sum((i, j) in edges for i, j in enumerate(order)) for order in set(permutations(padded, n))), default=0)
    assert len(pairs) == best


@given(st.lists(st.integers(0, 3), max_size=7), st.lists(st.integers(0, 3), max_size=7))
def test_pairs_in_order_are_a_longest_common_subsequence(one: list[int], other: list[int]) -> None:
    pairs = in_order(len(one), len(other), lambda i, j: one[i] == other[j])
    assert list(pairs.values()) == sorted(pairs.values())
    assert all(one[i] == other[j] for i, j in pairs.items())
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            table[i + 1][j + 1] = table[i][j] + 1 if a == b else max(table[i][j + 1], table[i + 1][j])
    assert len(pairs) == table[-1][-1]
