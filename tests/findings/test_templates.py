"""Error templates: the same error of different runs has one id, different errors have different ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ethogram.findings.templates import template_of


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("Error: total price is 1305, but paid 290.5", "Error: total price is <n>, but paid <n>"),
        ("Error: flight HAT136 not available on date 2024-05-20", "Error: flight <id> not available on date <time>"),
        ("order #W2230795 of ann_lee_3381 not found", "order <id> of <id> not found"),
        ("no such file: /home/ann/a.py, line 3", "no such file: <path>, line <n>"),
        ("GET https://a.example/x?y=1 gave 503", "GET <url> gave <n>"),
        ("mail to ann@example.org bounced", "mail to <mail> bounced"),
        ("unknown column 'prize'\n  in table", "unknown column <value> in table"),
        ("run 3f2504e0-4f89-11d3-9a0c-0305e82c3301 is gone", "run <id> is gone"),
        ("object at 0x7f9c2d1e is closed", "object at <id> is closed"),
        ("[REDACTED:email:01234567] is unknown", "<redacted> is unknown"),
        ("", "no words"),
    ],
)
def test_what_differs_between_runs_is_masked(error: str, words: str) -> None:
    assert template_of(error).words == words


def test_of_a_traceback_the_exception_counts() -> None:
    frames = 'Traceback (most recent call last):\n  File "/a/b.py", line {}, in f\n    g()\n{}\n'
    first = template_of(frames.format(3, "KeyError: 'x'"))
    assert first.words == "KeyError: <value>"
    assert first == template_of(frames.format(99, "KeyError: 'other'"))
    assert first.id != template_of(frames.format(3, "TypeError: 'x'")).id


@given(st.integers(0, 10**12), st.integers(0, 10**12))
def test_the_id_does_not_depend_on_numbers(one: int, other: int) -> None:
    assert template_of(f"Error: only {one} left") == template_of(f"Error: only {other} left")


@given(st.text(max_size=2000))
def test_any_text_has_a_template_that_is_stable(error: str) -> None:
    template = template_of(error)
    assert template.words
    assert len(template.id) == 8
    assert template_of(error) == template
