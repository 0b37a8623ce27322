"""Layer L0: what an answer says."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ethogram.checks import CHECKS, CheckScore, Evidence
from ethogram.checks.text import numbers, text_verdict
from ethogram.store import Policy, Redactor
from ethogram.traces import EpisodeId, Head, Origin, Trace, TraceId

REDACTOR = Redactor(b"a key for tests", Policy())


def score(kind: str, answer: str | None, of_task: Any = None, /, **settings: Any) -> float | None:
    return CHECKS[kind](Evidence(answer=answer, expected=of_task), settings).score


def redacted(kind: str, answer: str, of_task: Any = None, /, **settings: Any) -> float | None:
    """The same check on the answer as it was stored."""

    def hide(text: str) -> str:
        return REDACTOR.redact(text, "answer").text

    return CHECKS[kind](Evidence(answer=hide(answer), expected=of_task, redact=hide), settings).score


@pytest.mark.parametrize(
    ("answer", "settings", "wanted"),
    [
        ("It is Paris.", {"expected": "paris"}, 1),
        ("It is Paris.", {"expected": "paris", "ignore_case": False}, 0),
        ("It is Paris.", {"expected": ["Paris", "is"]}, 1),
        ("It is Paris.", {"expected": ["Paris", "Rome"]}, 0),
        ("It is Paris.", {"any": ["Paris", "Rome"]}, 1),
        ("It is Paris.", {"any": ["Oslo", "Rome"]}, 0),
        ("It is Paris.", {"all": ["Paris"], "none": ["Rome"]}, 1),
        ("Paris or Rome", {"expected": "Paris", "none": ["Rome"]}, 0),
        ("Parisian", {"expected": "Paris"}, 1),
        ("Parisian", {"expected": "Paris", "words": True}, 0),
        ("C++ (2)", {"expected": "C++", "words": True}, 1),
        ("the answer is 42", {"expected": 42}, 1),
        ("the answer is 42", {"expected": 42.0}, 1),
        ("cafe\u0301", {"expected": "caf\u00e9"}, 1),
    ],
)
def test_contains(answer: str, settings: dict[str, Any], wanted: float) -> None:
    assert score("contains", answer, **settings) == wanted


def test_a_check_takes_what_the_task_expects_unless_it_says_otherwise() -> None:
    assert score("contains", "a b", "a") == 1
    assert score("contains", "a b", "c", expected="a") == 1
    assert score("contains", "a b", "c", any=["a"]) == 1
    assert score("contains", "a b") is None


@pytest.mark.parametrize(
    "kind", ["contains", "equals", "numeric", "json", "classifies", "one_of", "regex", "json_schema"]
)
def test_a_silent_agent_failed_but_a_log_without_an_answer_tells_nothing(kind: str) -> None:
    settings: dict[str, Any] = {
        "regex": {"pattern": "x"},
        "classifies": {"labels": ["a", "b"]},
        "json_schema": {"schema": {}},
    }.get(kind, {})
    head = Head(trace_id=TraceId("t"), episode=EpisodeId("e"), task="t", origin=Origin("otlp"))
    imported = Trace(head, (), {})
    assert CHECKS[kind](Evidence(answer=None, expected="x"), settings).score == 0
    assert CHECKS[kind](Evidence(answer=None, expected="x", trace=imported), settings).score is None


@pytest.mark.parametrize(
    ("answer", "settings", "wanted"),
    [
        ("order A-17", {"pattern": r"A-\d+"}, 1),
        ("order a-17", {"pattern": r"A-\d+"}, 0),
        ("order a-17", {"pattern": r"A-\d+", "ignore_case": True}, 1),
        ("order A-17", {"pattern": r"A-\d+", "full": True}, 0),
        (" A-17\n", {"pattern": r"A-\d+", "full": True}, 1),
        ("a\nb", {"pattern": "^b$"}, 0),
        ("a\nb", {"pattern": "^b$", "multiline": True}, 1),
        ("a\nb", {"pattern": "a.b"}, 0),
        ("a\nb", {"pattern": "a.b", "dotall": True}, 1),
        ("sorry", {"pattern": "sorry", "absent": True}, 0),
        ("done", {"pattern": "sorry", "absent": True}, 1),
    ],
)
def test_regex(answer: str, settings: dict[str, Any], wanted: float) -> None:
    assert score("regex", answer, **settings) == wanted


@pytest.mark.parametrize(
    ("answer", "settings", "wanted"),
    [
        ("  PARIS \n", {"expected": "Paris"}, 1),
        ("Paris.", {"expected": "Paris"}, 0),
        ("Paris.", {"expected": "Paris", "ignore_punctuation": True}, 1),
        ("It's  Paris", {"expected": "its paris", "ignore_punctuation": True}, 0),
        ("New   York", {"expected": "new york"}, 1),
        ("New   York", {"expected": "new york", "ignore_space": False}, 0),
        ("paris", {"expected": "Paris", "ignore_case": False}, 0),
        ("42", {"expected": 42}, 1),
        ("42.0", {"expected": 42}, 1),
        ("true", {"expected": True}, 1),
        ('{"a": 1}', {"expected": {"a": 1.0}}, 1),
        ("stra\u00dfe", {"expected": "STRASSE"}, 1),
    ],
)
def test_equals(answer: str, settings: dict[str, Any], wanted: float) -> None:
    assert score("equals", answer, **settings) == wanted


def test_one_of() -> None:
    assert score("one_of", "Yes", ["yes", "yeah"]) == 1
    assert score("one_of", "Yes!", ["yes"], ignore_punctuation=True) == 1
    assert score("one_of", "no", ["yes", "yeah"]) == 0
    assert score("one_of", "no", "no") is None


@pytest.mark.parametrize(
    ("answer", "which", "wanted"),
    [
        ("positive", "only", 1),
        ("Clearly POSITIVE.", "only", 1),
        ("negative", "only", 0),
        ("positive, not negative", "only", 0),
        ("positive, not negative", "first", 1),
        ("not negative but positive", "last", 1),
        ("very positive", "only", 0),  # another label, which holds this one
        ("positively", "only", 0),
        ("no idea", "only", 0),
    ],
)
def test_classifies(answer: str, which: str, wanted: float) -> None:
    labels = ["positive", "negative", "very positive"]
    assert score("classifies", answer, "Positive", labels=labels, which=which) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("The sum of 3 and 4 is 7.", ["3", "4", "7"]),
        ("-$1,234.50 and \u22125", ["-1234.50", "-5"]),
        ("v1.2.3 at 10.0.0.1, x2, H2O", []),
        ("3-5", ["3", "5"]),
        ("5 - 3 = 2", ["5", "3", "2"]),
        ("1e-3, .5, 5.", ["0.001", "0.5", "5"]),
        ("**42**, \\boxed{-3}, (7)", ["42", "-3", "7"]),
        ("1,2,3", ["1", "2", "3"]),
        ("1,234,567.5 or 1_000_000 or 12\u202f345", ["1234567.5", "1000000", "12345"]),
        ("12 345", ["12", "345"]),
        ("no number", []),
    ],
)
def test_numbers_in_running_text(text: str, wanted: list[str]) -> None:
    assert [n.value for n in numbers(text)] == [Decimal(w) for w in wanted]


DECIMALS = st.decimals(min_value=-(10**12), max_value=10**12, allow_nan=False, places=4)


@given(DECIMALS, st.sampled_from(["{}", "It is {}.", "= {} EUR", "${}", "({})", "**{}**", "a: {}; b"]))
def test_a_printed_number_is_read_back(number: Decimal, frame: str) -> None:
    for spelled in (
        f"{number:f}",
        f"{number:,f}",
        f"{number:,f}".replace(",", "_"),
        f"{number:,f}".replace(",", "\u00a0"),
    ):
        found = [n.value for n in numbers(frame.format(spelled))]
        assert found == [number] or (number.is_signed() and found == [abs(number)] and frame.startswith("$"))


@given(DECIMALS)
def test_with_a_decimal_comma_too(number: Decimal) -> None:
    german = f"{number:,f}".translate(str.maketrans(",.", ".,"))
    assert [n.value for n in numbers(f"Es sind {german} EUR", ",")] == [number]


@given(st.text(max_size=200))
def test_any_text_can_be_searched_for_numbers(text: str) -> None:
    assert all(n.value.is_finite() for n in numbers(text))
    assert score("numeric", text, 1) in (0.0, 1.0)


@pytest.mark.parametrize(
    ("answer", "expected", "settings", "wanted"),
    [
        ("3 and 4 make 7", 7, {}, 1),
        ("3 and 4 make 7", 3, {}, 0),
        ("3 and 4 make 7", 3, {"which": "first"}, 1),
        ("3 and 4 make 7", 4, {"which": "any"}, 1),
        ("3 and 4 make 7", 7, {"which": "only"}, 0),
        ("7, so 7.", 7, {"which": "only"}, 1),
        ("about 1.1", 1.0, {"tolerance": 0.1}, 1),
        ("about 1.11", 1.0, {"tolerance": 0.1}, 0),
        ("about 110", 100, {"relative": 0.1}, 1),
        ("about -110", -100, {"relative": 0.1}, 1),
        ("about 111", 100, {"relative": 0.1}, 0),
        ("12%", 12, {}, 1),
        ("12%", 0.12, {}, 1),
        ("12%", 12, {"percent": "fraction"}, 0),
        ("12%", 0.12, {"percent": "number"}, 0),
        ("0.12", "12%", {}, 1),
        ("12 percent", "12%", {}, 1),
        ("3,14", 3.14, {"decimal": ","}, 1),
        ("1,000,000", 1e6, {}, 1),
        ("no number", 1, {}, 0),
        ("1", "one", {}, None),
        ("1", True, {}, None),
    ],
)
def test_numeric(answer: str, expected: Any, settings: dict[str, Any], wanted: float | None) -> None:
    assert score("numeric", answer, expected, **settings) == wanted


def test_expected_texts_are_redacted_like_the_answer_was() -> None:
    assert redacted("contains", "Write to joe@example.org!", "joe@example.org") == 1
    assert redacted("contains", "Write to joe@example.org!", "ann@example.org") == 0
    assert redacted("equals", "joe@example.org", "joe@example.org") == 1
    assert redacted("one_of", "joe@example.org", ["ann@example.org", "joe@example.org"]) == 1
    assert redacted("contains", "nothing hidden", "hidden") == 1


def test_what_redaction_may_have_hidden_cannot_be_told() -> None:
    secret = "joe@example.org"
    assert redacted("regex", f"mail {secret}", pattern=r"\w+@example") is None
    assert redacted("regex", f"mail {secret}", pattern="^mail") == 1
    assert redacted("regex", f"mail {secret}", pattern="xyz", absent=True) is None
    assert redacted("numeric", f"{secret} has 42", 42) == 1
    assert redacted("numeric", f"42 for {secret}", 42) is None  # the last number may be in the mark
    assert redacted("numeric", f"{secret} has 42", 42, which="first") is None
    assert redacted("numeric", f"{secret} has 42", 42, which="only") is None
    assert redacted("numeric", f"{secret} has 41", 42, which="any") is None
    assert redacted("numeric", "has 41", 42) == 0
    dropped = Evidence(answer="[REDACTED:field:01234567]", expected="x")
    assert CHECKS["contains"](dropped, {}).score is None


def test_digits_of_a_mark_are_no_numbers() -> None:
    stored = REDACTOR.redact("mail joe@example.org: 7", "answer").text
    assert any(c.isdigit() for c in stored[:-1])
    evidence = Evidence(answer=stored, expected=7, redact=lambda t: REDACTOR.redact(t, "answer").text)
    assert CHECKS["numeric"](evidence, {"which": "any"}).score == 1


def test_demands_on_a_text_that_is_no_answer() -> None:
    evidence = Evidence(answer="the answer", expected="the expectation")

    def demand(text: str, rule: Any) -> CheckScore:
        return text_verdict(text, rule, evidence)

    assert demand("a\r\nb\n", "a\nb").score == 1
    assert demand("a b", "a  b").score == 0
    assert demand("total 42", {"contains": "total", "numeric": 42}).score == 1
    assert demand("total 41", {"contains": "total", "numeric": {"expected": 42, "tolerance": 0.5}}).score == 0
    assert demand('["apple"]', {"json": ["apple"]}).score == 1
    assert demand('["pear"]', {"json": ["apple"]}).score == 0
