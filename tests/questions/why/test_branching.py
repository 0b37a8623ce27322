"""The tree of attempts: what they share stands once, and every attempt is in exactly one branch at each level."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ethogram.questions.why.decisions import branching


def test_attempts_share_a_stem_until_they_part() -> None:
    stems, left_out = branching([("a", "b", "c"), ("a", "b", "d", "e"), ("a", "b"), ("a", "b", "d", "e")])
    assert left_out == 0
    told = [(s.depth, s.parent, s.at, s.steps, s.rows, s.ended) for s in stems]
    assert told == [
        (0, None, 0, ("a", "b"), (0, 1, 2, 3), (2,)),
        (1, 0, 2, ("d", "e"), (1, 3), (1, 3)),
        (1, 0, 2, ("c",), (0,), (0,)),
    ]


def test_stems_beyond_the_most_are_counted() -> None:
    stems, left_out = branching([(str(i),) for i in range(10)], most=4)
    assert (len(stems), left_out) == (4, 7)
    assert branching([]) == ([], 0)


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=6), min_size=1, max_size=8))
def test_a_path_is_the_sum_of_its_stems(paths: list[list[str]]) -> None:
    stems, _ = branching(paths)
    for row, path in enumerate(paths):
        own = [s for s in stems if row in s.rows]
        assert [step for s in own for step in s.steps] == path
        assert [row in s.ended for s in own] == [False] * (len(own) - 1) + [True]
