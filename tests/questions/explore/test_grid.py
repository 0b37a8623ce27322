"""Grids: order, constraints, neighbours, and every wrong grid refused in one sentence."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ethogram.errors import BadInput, NotFound
from ethogram.questions.explore.grid import Grid, Parameter, grid, grid_from

SMALL = grid({"noise": [0, 1, 2], "style": ["curt", "kind"], "flip": [0.0, 0.1]}, categories=["style"])


def test_points_are_the_product_with_the_last_parameter_fastest():
    expected = list(itertools.product([0, 1, 2], ["curt", "kind"], [0.0, 0.1]))
    assert [tuple(SMALL.settings(i).values()) for i in range(len(SMALL))] == expected
    assert SMALL.levels().tolist() == [list(SMALL.level(i)) for i in range(len(SMALL))]


def test_a_point_is_a_condition():
    condition = SMALL.condition(5)
    assert condition.name == "g0005"
    assert condition.settings == SMALL.settings(5)


def test_words_are_categories_and_numbers_have_an_order():
    assert [p.ordered for p in SMALL.parameters] == [True, False, True]


@given(st.integers(0, 11))
def test_find_is_the_inverse_of_settings(point):
    assert SMALL.find(SMALL.settings(point)) == point


def test_constraints_take_points_out_and_renumber():
    cut = grid({"a": [0, 1, 2], "b": [0, 1, 2]}, constraints=["a + b <= 2", "not (a == 0 and b == 0)"])
    kept = [(a, b) for a in range(3) for b in range(3) if a + b <= 2 and (a, b) != (0, 0)]
    assert [tuple(cut.settings(i).values()) for i in range(len(cut))] == kept
    assert all(cut.find(cut.settings(i)) == i for i in range(len(cut)))
    with pytest.raises(BadInput, match="taken out of the grid by a constraint"):
        cut.find({"a": 2, "b": 2})


def test_a_parameter_that_the_grid_does_not_have_is_not_found():
    with pytest.raises(NotFound, match=r"no parameter of the grid named 'nois'; did you mean 'noise'\?") as caught:
        SMALL.find({"nois": 1, "style": "curt", "flip": 0.0})
    assert caught.value.known == ("noise", "style", "flip")
    with pytest.raises(NotFound, match="the category 'styl' is not a parameter of the grid; it has noise, style"):
        grid({"noise": [0, 1], "style": ["curt", "kind"]}, categories=["styl"])


def test_a_setting_may_be_written_as_tables_write_it():
    flags = grid({"flag": [False, True], "tokens": [500, 4000], "share": [0.0, 1 / 3], "mood": ["yes", "No"]})
    written = {"flag": "yes", "tokens": "4,000", "share": 0.3333, "mood": "no"}
    assert flags.settings(flags.find(written)) == {"flag": True, "tokens": 4000, "share": 1 / 3, "mood": "No"}
    assert flags.find({**written, "flag": True}) == flags.find(written) != flags.find({**written, "flag": "no"})
    with pytest.raises(BadInput, match="flag = 'maybe' is not in the grid; its values are False, True"):
        flags.find({**written, "flag": "maybe"})


def test_neighbours_differ_by_one_step_or_one_category():
    around = {
        tuple(SMALL.settings(p).values())
        for p in SMALL.neighbours(SMALL.find({"noise": 1, "style": "curt", "flip": 0.0}))
    }
    assert around == {(0, "curt", 0.0), (2, "curt", 0.0), (1, "kind", 0.0), (1, "curt", 0.1)}


@pytest.mark.parametrize(
    ("values", "constraints", "words"),
    [
        ({}, [], "no parameters"),
        ({"a": []}, [], "is empty"),
        ({"a": [1, 1]}, [], "the value 1 twice"),
        ({"a": [1, 3, 2]}, [], "neither rising nor falling"),
        ({"a b": [1]}, [], "is not a name"),
        ({"a": list(range(10)), "b": list(range(1000)), "c": list(range(1000))}, [], "10,000,000 points"),
        ({"a": [1, 2]}, ["a >"], "cannot be read"),
        ({"a": [1, 2]}, ["b > 1"], "not a parameter"),
        ({"a": [1, 2]}, ["a > 5"], "allow no point"),
        ({"a": [1, 2]}, ["__import__('os')"], "not a parameter"),
        ({"a": [1, 2]}, ["a.real > 0"], "not allowed"),
        ({"a": [1.0, float("nan")]}, [], "not a finite number"),
    ],
)
def test_wrong_grids_are_refused_in_one_sentence(values, constraints, words):
    with pytest.raises(BadInput, match=words) as told:
        len(grid(values, constraints=constraints))
    assert "\n" not in str(told.value)


def test_the_same_name_twice_is_refused():
    with pytest.raises(BadInput, match="twice"):
        Grid(parameters=(Parameter(name="a", values=(1,)), Parameter(name="a", values=(2,))))


def test_grids_from_a_file():
    content = {
        "parameters": {
            "temperature": [0.0, 0.7],
            "tool": {"values": [3, 1, 2], "ordered": False},
            "hint": [True, False],
        },
        "constraints": ["temperature > 0 or tool == 1"],
    }
    made = grid_from(content, "grid.yaml")
    assert [p.ordered for p in made.parameters] == [True, False, False]
    assert len(made) == 6 + 2
    assert np.all(made.levels() >= 0)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([], "is not a grid"),
        ({"parameters": {"a": 3}}, "not a list"),
        ({"parameters": {"a": [1]}, "more": 1}, "unknown key 'more'"),
        ({"parameters": {"a": [1]}, "constraints": "a > 1"}, "not a list of comparisons"),
    ],
)
def test_files_that_are_no_grids(content, words):
    with pytest.raises(BadInput, match=words):
        grid_from(content, "grid.yaml")


def test_the_digest_tells_grids_apart():
    other = grid({"noise": [0, 1, 2], "style": ["curt", "kind"], "flip": [0.0, 0.2]}, categories=["style"])
    assert SMALL.digest != other.digest
    assert (
        SMALL.digest
        == grid({"noise": [0, 1, 2], "style": ["curt", "kind"], "flip": [0.0, 0.1]}, categories=["style"]).digest
    )
