"""A text that is cut says so, and is as long as was asked for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ethogram.display.shorten import shortened


@given(st.text(max_size=40), st.integers(1, 30))
def test_it_is_never_longer_and_says_that_something_is_gone(text: str, most: int) -> None:
    short = shortened(text, most)
    assert len(short) <= most
    assert short == text if len(text) <= most else short == text[: most - 1] + "…"
