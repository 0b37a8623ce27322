"""Edit distance: by hand, against a plain table, the tie rule, and words that are long or strange."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ethogram.statistics import distance as d

QUICK = settings(deadline=None, max_examples=150, derandomize=True)
WORDS = st.lists(st.integers(0, 3), max_size=14)


def word(items: Sequence[int]) -> str:
    return "".join(chr(0x100 + i) for i in items)


def table(a: Sequence[object], b: Sequence[object]) -> list[list[int]]:
    """The table of Wagner and Fischer, cell by cell."""
    rows = [[i + j if not i or not j else 0 for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            same = a[i - 1] == b[j - 1]
            rows[i][j] = min(rows[i - 1][j - 1] + (not same), rows[i - 1][j] + 1, rows[i][j - 1] + 1)
    return rows


def backtracked(a: Sequence[object], b: Sequence[object]) -> list[tuple[str, int | None, int | None]]:
    """Match, then substitution, then insertion, then deletion, from the end."""
    rows, i, j, found = table(a, b), len(a), len(b), []
    while i or j:
        if i and j and a[i - 1] == b[j - 1]:
            i, j = i - 1, j - 1
            found.append(("=", i, j))
        elif i and j and rows[i][j] == rows[i - 1][j - 1] + 1:
            i, j = i - 1, j - 1
            found.append(("~", i, j))
        elif j and rows[i][j] == rows[i][j - 1] + 1:
            j -= 1
            found.append(("+", None, j))
        else:
            i -= 1
            found.append(("-", i, None))
    return found[::-1]


def test_by_hand() -> None:
    assert d.distance("kitten", "sitting") == 3
    assert d.normalised("kitten", "sitting") == pytest.approx(3 / 7)
    assert d.edits("kitten", "sitting") == d.Edits(substitutions=2, insertions=1, deletions=0)
    assert d.common_prefix("abcx", "abdx") == 2
    assert d.normalised("", "") == 0.0
    assert d.normalised("", "abc") == 1.0
    assert d.edits("abc", "").deletions == 3
    assert [s.sign for s in d.align("abc", "axc")] == ["=", "~", "="]
    assert d.align("", "") == []


def test_the_prefix_comes_first() -> None:
    """`ab` grows to `abab`: the first two letters stay where they are, though matching the last two is as short."""
    assert [s.sign for s in d.align("ab", "abab")] == ["=", "=", "+", "+"]
    assert [s.sign for s in d.align("ab", "abab", prefix_first=False)] == ["+", "+", "=", "="]


@given(WORDS, WORDS)
@QUICK
def test_alignments_follow_the_rule(a: list[int], b: list[int]) -> None:
    one, two = word(a), word(b)
    assert [tuple(s) for s in d.align(one, two, prefix_first=False)] == backtracked(a, b)
    kept = d.common_prefix(one, two)
    assert [tuple(s) for s in d.align(one, two)][kept:] == [
        (s, None if i is None else i + kept, None if j is None else j + kept)
        for s, i, j in backtracked(a[kept:], b[kept:])
    ]


@given(WORDS, WORDS)
@QUICK
def test_edits_are_least_and_lead_from_one_to_the_other(a: list[int], b: list[int]) -> None:
    one, two = word(a), word(b)
    least = table(a, b)[-1][-1]
    assert d.distance(one, two) == least
    assert d.edits([f"tool:{i}" for i in a], [f"tool:{i}" for i in b]) == d.edits(one, two)
    for counted in (d.edits(one, two), d.count_edits(d.align(one, two))):
        assert counted.distance == least
        assert counted.insertions - counted.deletions == len(b) - len(a)
    made = []
    for sign, i, j in d.align(one, two):
        assert (i is None) == (sign == "+")
        assert (j is None) == (sign == "-")
        if sign == "=":
            assert i is not None
            made.append(one[i])
        elif j is not None:
            made.append(two[j])
    assert "".join(made) == two


@given(WORDS, WORDS, WORDS)
@QUICK
def test_a_distance_is_a_distance(a: list[int], b: list[int], c: list[int]) -> None:
    one, two, three = word(a), word(b), word(c)
    assert d.distance(one, two) == d.distance(two, one)
    assert d.distance(one, three) <= d.distance(one, two) + d.distance(two, three)
    assert 0 <= d.normalised(one, two) <= 1
    assert (d.normalised(one, two) == 0) == (a == b)
    assert (d.common_prefix(one, two) < max(len(a), len(b))) == (a != b)


@given(st.lists(WORDS, max_size=6))
@QUICK
def test_all_pairs_are_the_pairs(lists: list[list[int]]) -> None:
    words = [word(x) for x in lists]
    every, starts = d.pairwise(words), d.prefixes(words, words)
    assert every.shape == starts.shape == (len(words), len(words))
    for i, one in enumerate(words):
        for j, two in enumerate(words):
            assert every[i, j] == d.normalised(one, two)
            assert starts[i, j] == d.common_prefix(one, two)
    assert d.distances_between(words, words[:1]).shape == (len(words), min(1, len(words)))


@given(WORDS, WORDS)
@QUICK
def test_edited_letters_are_those_of_the_edits(a: list[int], b: list[int]) -> None:
    counted = d.edits(word(a), word(b))
    assert len(d.edited(word(a), word(b))) == 2 * counted.substitutions + counted.insertions + counted.deletions


def test_an_alphabet_gives_every_item_one_letter() -> None:
    letters = d.Alphabet()
    first = letters.word(["tool:a", "tool:b", "tool:a"])
    assert letters.word(["tool:b", "tool:a"]) == first[1] + first[0]
    assert letters.items_by_letter()[first[0]] == "tool:a"
    many = letters.word(range(70_000))
    assert len(set(many)) == 70_000
    assert many.encode()  # surrogates could not be written
    assert d.distance(many, many[1:]) == 1


def test_an_alphabet_has_an_end() -> None:
    letters = d.Alphabet()
    with pytest.raises(ValueError, match="distinct items"):
        letters.word(range(0x110000))


def test_long_words_are_split_and_no_edit_is_lost() -> None:
    rng = np.random.default_rng(3)
    a = "x" + word(rng.integers(0, 30, 20_600).tolist()) + "x"
    b = "y" + a[1:9_000] + a[9_500:-1] + "y"
    assert len(a) * len(b) > d.MOST_CELLS
    found = d.align(a, b)
    assert d.count_edits(found).distance == d.distance(a, b) == 502
    assert [s.first for s in found if s.first is not None] == list(range(len(a)))
    assert [s.second for s in found if s.second is not None] == list(range(len(b)))
