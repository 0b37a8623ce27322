"""What a stored text tells by its words: that it is an error, that redaction took something out."""

from __future__ import annotations

import pytest

from ethogram.traces import begins_as_error, is_all_marked, is_marked


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("Error: no", True),
        ("\n Error in line 3", True),
        ("Exception: no", True),
        ("Traceback (most recent call last):\n", True),
        ("ValueError: no such day", True),
        ("TimeoutException: 5 s", True),
        ("openai.BadRequestError: code 400", True),
        ("No error", False),
        ("Errors: 0", False),
        ("ErrorLog: empty", False),
        ("ValueError is raised for other days", False),
        ("Exceptions to the rule", False),
        ("noerror: 1", False),
        ("A ValueError: no", False),
        ("x" * 100_000, False),
        ("", False),
    ],
)
def test_a_text_is_an_error_by_its_first_words(text: str, error: bool) -> None:
    assert begins_as_error(text) is error


@pytest.mark.parametrize(
    ("digits", "marked"), [("0" * 8, True), ("0" * 32, True), ("0" * 7, False), ("0" * 16, False), ("0" * 33, False)]
)
def test_a_mark_has_8_or_32_digits(digits: str, marked: bool) -> None:
    assert is_marked(f"mail [REDACTED:email:{digits}]") is marked


def test_a_whole_field_is_one_mark() -> None:
    assert is_all_marked(f"[REDACTED:field:{'0' * 8}]")
    assert is_all_marked(f"[REDACTED:hash:{'0' * 32}]")
    assert not is_all_marked(f"[REDACTED:hash:{'0' * 8}]")
    assert not is_all_marked(f"[REDACTED:email:{'0' * 8}]")
    assert not is_all_marked(f"it is [REDACTED:field:{'0' * 8}]")
