"""The filter language of lists: what matches, what is unknown, and what a filter that cannot be read says."""

from __future__ import annotations

from typing import Any

import pytest

from ethogram.errors import BadUsage
from ethogram.questions.home.filters import FieldKind, parse_filter

FIELDS: dict[str, FieldKind] = {"pass": "number", "cost": "number", "tag": "text", "words": "words"}
ROW: dict[str, Any] = {"pass": 0.4, "cost": None, "tag": ("nightly", "gpt 5")}


def passes(text: str, names: tuple[str, ...] = ("Night run", "agent-a")) -> bool:
    return parse_filter(text, FIELDS).matches(ROW.__getitem__, names)


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("", True),
        ("night", True),
        ("day", False),
        ("-day", True),
        ('"night run"', True),
        ('"run night"', False),
        ("pass<0.5", True),
        ("pass<40%", False),
        ("pass<=40%", True),
        ("pass=0.4 night", True),
        ("pass>0.5", False),
        ("-pass>0.5", True),
        ("tag:night", True),
        ("tag=night", False),
        ("tag=nightly", True),
        ("tag!=nightly", False),
        ('tag:"gpt 5"', True),
        ("-tag:nightly", False),
        ("words:refund", True),
    ],
)
def test_terms_are_joined_by_and(text: str, held: bool) -> None:
    assert passes(text) is held


def test_what_is_unknown_passes_no_comparison() -> None:
    assert not passes("cost>1")
    assert not passes("cost<=1")
    assert not passes("-cost>1")


def test_words_inside_traces_are_asked_for_apart() -> None:
    asked = parse_filter('words:"a refund" -words:x pass<1', FIELDS).words
    assert [(term.text, term.without) for term in asked] == [("a refund", False), ("x", True)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("night pas<0.5", "knows no field 'pas', at character 7; it knows: pass, cost, tag, words"),
        ("pass<half", "'half' is not a number, at character 1; write for example pass<0.5"),
        ("pass<", "says nothing after pass<, at character 1"),
        ("tag>x", "tag is a text and has no order"),
        ('"open', "quotation mark that is never closed, at character 1"),
    ],
)
def test_a_filter_that_cannot_be_read_names_the_term_and_its_place(text: str, said: str) -> None:
    with pytest.raises(BadUsage) as refused:
        parse_filter(text, FIELDS)
    assert said in str(refused.value)
