"""A text that is cut says so, and is as long as was asked for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ethogram.display.shorten import shortened, shortened_list


@given(st.text(max_size=40), st.integers(1, 30))
def test_it_is_never_longer_and_says_that_something_is_gone(text: str, most: int) -> None:
    short = shortened(text, most)
    assert len(short) <= most
    assert short == text if len(text) <= most else short == text[: most - 1] + "…"


def test_a_list_says_how_many_are_left_out() -> None:
    words = ["tea", "milk", "rice"]
    assert [shortened_list(words, most) for most in (1, 2, 3, 4)] == [
        "tea and 2 more",
        "tea, milk and 1 more",
        "tea, milk, rice",
        "tea, milk, rice",
    ]
    assert shortened_list([], 2) == ""
