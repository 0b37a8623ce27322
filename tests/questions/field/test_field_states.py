"""States and horizons under both rules, steps back, programs and families."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ethogram.errors import BadUsage, NotFound
from ethogram.measures.dimension import Dimension
from ethogram.questions.field.chain import walk
from ethogram.questions.field.field import Field
from ethogram.questions.field.horizon import NotMonotone, order_of, terminal_of

LABELS = "abcd"


def field_of(
    *paths: str, order: str = "", outcomes: list[float] | None = None, intents: list[str] | None = None
) -> Field:
    points = np.array([[len(p), i] for i, p in enumerate(paths)], dtype=float)
    scores = [1.0] * len(paths) if outcomes is None else outcomes
    return Field.from_arrays(
        points, scores, ["length", "number"], states=list(paths), intents=intents, state_order=list(order)
    )


def rows(field: Field) -> list[int]:
    return [int(i) for i in field.points[:, 1]]


def test_a_jump_is_reached_but_not_visited() -> None:
    field = field_of("aabbc", "aac", "ab")
    assert field.states == ["a", "b", "c"]
    assert rows(field.horizon("b")) == [0, 2]
    assert rows(field.horizon("b", rule="reached")) == [0, 1, 2]
    assert rows(field.horizon("c")) == rows(field.horizon("c", rule="reached")) == [0, 1]


def test_a_list_of_states_is_any_of_them() -> None:
    field = field_of("ab", "ac", "ad", order="abcd")
    assert rows(field.horizon(["b", "c"])) == [0, 1]
    assert rows(field.horizon(["c", "d"], rule="reached")) == [1, 2]


def test_horizon_at_a_step() -> None:
    field = field_of("aab", "a", "ab")
    assert [field.horizon_at(t).K for t in range(4)] == [3, 2, 1, 0]


def test_order_is_by_first_appearance_within_before_across() -> None:
    paths = [tuple((s, 1) for s in p) for p in ("ac", "abc")]
    assert order_of(paths, ()) == ["a", "b", "c"]
    assert order_of(paths, ("c", "a")) == ["c", "a", "b"]
    assert order_of([(("b", 1),), (("a", 1),)], ()) == ["b", "a"]


def test_the_terminal_label_is_found_or_declared() -> None:
    field = field_of("aaz", "abz", "abcz")
    assert field.terminal == "z"
    assert rows(field.horizon("c", rule="reached")) == [2]
    assert rows(field.horizon("z", rule="reached")) == [0, 1, 2]
    assert field.success_region().terminal == "z"
    assert field.subset([0]).terminal == "z"
    declared = field_of("aaz", "abz")
    declared.terminal_state = ""
    assert declared.terminal is None
    assert rows(declared.horizon("b", rule="reached")) == [0, 1]
    lasting = [(("a", 1), ("z", 2)), (("a", 1), ("z", 1))]
    assert terminal_of(lasting) is None


def test_a_misspelt_state_is_an_error_and_an_empty_horizon_is_not() -> None:
    field = field_of("ab", "ab", "a", outcomes=[1, 1, 0])
    with pytest.raises(NotFound, match="no state named 'bb'"):
        field.horizon("bb")
    with pytest.raises(BadUsage, match="'visited' or 'reached'"):
        field.horizon("b", rule="seen")  # type: ignore[arg-type]
    empty = field.failure_region().horizon("b")
    assert empty.K == 0
    assert field.failure_region().states == ["a"]


def test_a_state_function_that_goes_backwards_warns_once() -> None:
    field = field_of("aba", "ab", "abcb", order="abc")
    assert [(b.trajectory, b.left, b.entered) for b in field.backwards()] == [(0, "b", "a"), (2, "c", "b")]
    with pytest.warns(NotMonotone, match=r"backwards in 2 of 3 trajectories .* from 'b' to 'a'"):
        horizon = field.horizon("b", rule="reached")
    assert rows(horizon) == [0, 1, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        field.horizon("b")
        horizon.horizon("c")


@given(
    st.lists(
        st.text(alphabet=LABELS, min_size=1, max_size=6).map(lambda s: "".join(sorted(s))), min_size=1, max_size=12
    )
)
def test_reached_nests(paths: list[str]) -> None:
    field = field_of(*paths, order=LABELS)
    field.terminal_state = ""
    chain = [set(rows(field.horizon(s, rule="reached"))) for s in LABELS]
    assert all(later <= earlier for earlier, later in itertools.pairwise(chain))
    assert all(set(rows(field.horizon(s))) <= set(rows(field.horizon(s, rule="reached"))) for s in LABELS)


def test_visited_does_not_nest() -> None:
    field = field_of("ac", "abc", "ab")
    assert not set(rows(field.horizon("c"))) <= set(rows(field.horizon("b")))


def test_walk_gives_drift_as_a_difference_of_widths() -> None:
    rng = np.random.default_rng(3)
    points = rng.normal(size=(12, 2))
    paths = ["ab" if i % 3 else "a" for i in range(12)]
    field = Field.from_arrays(points, [float(i % 2) for i in range(12)], ["x", "y"], states=paths)
    whole, later = walk(field)
    good = field.success_region().metrics().width()
    assert whole.drift == pytest.approx(field.metrics().width() - good)
    assert (whole.state, whole.K, whole.successes, whole.rule) == ("a", 12, 6, "visited")
    assert later.K == 8
    assert later.estimates["drift"].low is None
    assert "an interval needs 5" in str(later.estimates["drift"].why)


def test_drift_without_successes_is_absent() -> None:
    field = field_of("ab", "ab", "ab", outcomes=[0, 0, 1])
    reading = walk(field)[1]
    assert reading.drift is None
    assert reading.estimates["drift"].value is None


def test_drift_is_refused_below_five_and_claimed_from_ten() -> None:
    rng = np.random.default_rng(5)

    def drift(successes: int) -> object:
        points = rng.lognormal(size=(successes + 10, 3))
        y = [1.0] * successes + [0.0] * 10
        return Field.from_arrays(points, y, ["x", "y", "z"]).metrics().estimate("drift")

    few, some, many = drift(4), drift(7), drift(12)
    assert (few.low, few.n) == (None, 4)  # type: ignore[attr-defined]
    assert few.value is not None  # type: ignore[attr-defined]
    assert some.low is not None  # type: ignore[attr-defined]
    assert "not a claim" in some.why  # type: ignore[attr-defined]
    assert many.low is not None  # type: ignore[attr-defined]
    assert many.why is None  # type: ignore[attr-defined]


def test_the_note_on_drift_counts_the_successes_that_the_column_counts() -> None:
    """75 successes, but only 6 of a task that also failed: the note must not read as if there were 6."""
    rng = np.random.default_rng(6)
    task = [0] * 16 + [1] * 69
    y = [1.0] * 6 + [0.0] * 10 + [1.0] * 69
    field = Field.from_arrays(rng.lognormal(size=(85, 3)), y, ["x", "y", "z"], tasks=task)
    found = field.metrics().estimate("drift")
    assert (found.n, found.of) == (6, "successes")
    assert found.why is not None
    assert found.why.startswith("only 6 of 75 successes are in tasks that also have failures")


def test_programs_regimes_and_families() -> None:
    field = field_of("a", "a", "a", intents=["eexxe", "ex", "xe"])
    assert field.intents == ["e", "x"]
    assert field.programs == [("e", "x", "e"), ("e", "x"), ("x", "e")]
    assert rows(field.regime("e")) == [0, 1, 2]
    assert rows(field.regime(("x", "e"))) == [0, 2]
    assert rows(field.program_family(("e", "x"))) == [0, 1]
    assert rows(field.program_family("x").regime("e")) == [2]
    assert field.regime(("x", "e")).metrics().width() > 0


def test_width_splits_within_and_between_families() -> None:
    rng = np.random.default_rng(1)
    points = rng.normal(size=(30, 3)) + np.repeat([[0.0], [4.0], [9.0]], 10, axis=0)
    field = Field.from_arrays(points, None, ["x", "y", "z"], intents=["e"] * 10 + ["ex"] * 10 + ["xe"] * 10)
    split = field.width_split()
    assert split.width == pytest.approx(field.metrics().width())
    assert split.families == {("e",): 10, ("e", "x"): 10, ("x", "e"): 10}
    by_hand = sum(field.subset(np.arange(10 * i, 10 * i + 10)).metrics().width() for i in range(3)) / 3
    assert split.within == pytest.approx(by_hand)
    assert split.share is not None
    assert split.share > 0.8
    shallow = field.width_split(depth=1)
    assert shallow.families == {("e",): 20, ("x",): 10}
    assert shallow.between < split.between


def test_without_a_state_function_everything_is_one_state() -> None:
    field = Field.from_arrays([[1.0], [2.0]], [0, 1], ["x"])
    assert field.states == ["_"]
    assert field.horizon("_").K == 2
    assert field.programs == [("_",)]


def test_a_state_function_needs_a_length() -> None:
    class OfDicts(Field):
        def dimensions(self) -> list[Dimension]:
            return [Dimension("n")]

        def measure(self, trajectory: dict[str, list[str]]) -> list[float]:
            return [len(trajectory["messages"])]

        def state(self, trajectory: dict[str, list[str]], t: int) -> str:
            return "go"

    with pytest.raises(BadUsage, match="add trajectory_length"):
        OfDicts().add({"messages": ["a"]}, 1.0)

    class WithLength(OfDicts):
        def trajectory_length(self, trajectory: dict[str, list[str]]) -> int:
            return len(trajectory["messages"])

    field = WithLength()
    field.add({"messages": ["a", "b"]}, 1.0)
    assert field.state_sequences == [["go", "go"]]
