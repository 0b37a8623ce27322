"""Answers that are data, and checks that a suite brings itself."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from ethogram.checks import CHECKS, Evidence
from ethogram.checks.custom import verdict_of
from ethogram.checks.structured import validator
from ethogram.errors import BadInput, MissingExtra


def score(kind: str, answer: str, root: Path | None = None, **settings: Any) -> float | None:
    return CHECKS[kind](Evidence(answer=answer, root=root), settings).score


@pytest.mark.parametrize(
    ("answer", "settings", "wanted"),
    [
        ('{"a": 1}', {}, 1),
        ("plain words", {}, 0),
        ('{"a": 1', {}, 0),
        ('Here:\n```json\n{"a": 1}\n```\nDone.', {}, 1),
        ('Here:\n```json\n{"a": 1}\n```\nDone.', {"fenced": False}, 0),
        ("```\n1\n```\n```\n2\n```", {}, 0),  # which of the two?
        ('{"a": 1.0, "b": [2]}', {"expected": {"a": 1, "b": ["2"]}}, 1),
        ('{"a": 1, "b": 2}', {"expected": {"a": 1}}, 0),
        ('{"a": 1, "b": 2}', {"expected": {"a": 1}, "extra": True}, 1),
        ("[2, 1]", {"expected": [1, 2]}, 0),
        ("[2, 1]", {"expected": [1, 2], "unordered": True}, 1),
        ('{"a": {"b": [1, 5]}}', {"has": {"a.b[1]": 5}}, 1),
        ('{"a": {"b": [1, 5]}}', {"has": {"a.b[2]": 5}}, 0),
        ('{"a": null}', {"has": {"a": None}}, 1),
        ('{"b": 1}', {"has": {"a": None}}, 0),
        ("[" * 5000, {}, 0),
        ("null", {}, 1),
    ],
)
def test_json(answer: str, settings: dict[str, Any], wanted: float) -> None:
    assert score("json", answer, **settings) == wanted


@pytest.mark.parametrize(
    ("expected", "answer", "settings", "wanted"),
    [
        ({"a": 1}, '{"a": 1}', {}, 1),
        ({"a": 1}, '{"a": 2}', {}, 0),
        ({"a": 1}, '{"a": 1, "b": 2}', {"extra": True}, 1),
        ('{"a": 1}', '{"a": 1}', {}, 1),  # written as a text of JSON
        ('{"a": 1}', '{"a": 2}', {}, 0),
        ("Paris", '"Paris"', {}, 1),
        ("Paris", '{"city": "Paris"}', {}, 0),
        ({"a": 1}, '{"a": 2}', {"expected": {"a": 2}}, 1),  # its own setting goes first
        ({"a": 1}, '{"b": 2}', {"has": {"b": 2}}, 1),  # a check on paths looks at these
        (None, '{"a": 2}', {}, 1),
        ([2, 1], "[1, 2]", {"unordered": True}, 1),
    ],
)
def test_json_compares_with_what_the_task_expects(expected: Any, answer: str, settings: Any, wanted: float) -> None:
    assert CHECKS["json"](Evidence(answer=answer, expected=expected), settings).score == wanted


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("date", "2026-11-16", "2026-13-16"),
        ("date-time", "2026-11-16T10:00:00Z", "2026-11-16 10:00"),
        ("date-time", "2026-11-16T10:00:00.123456789+01:30", "2026-11-16T25:00:00Z"),
        ("date-time", "2016-12-31T23:59:60Z", "2026-11-16T10:00:00+01:60"),
        ("time", "10:00:00Z", "10:00"),
        ("email", "ada@example.org", "ada"),
        ("ipv4", "10.0.0.1", "10.0.0.256"),
        ("ipv6", "::1", ":::1"),
        ("uuid", "8b7f1b1e-6a0f-4c59-9f35-0d7f0a0f5b5e", "8b7f"),
        ("uri", "https://example.org/a?b=c#d", "example.org/a"),
        ("uri", "urn:isbn:0451450523", "https://exa mple.org"),
        ("uri", "http://[::1]:80/", "http://example.org:port/"),
        ("hostname", "a-b.example.org", "-a.example.org"),
        ("duration", "P3DT4H", "P"),
        ("duration", "P2W", "P1DT"),
        ("regex", "a+", "a("),
    ],
)
def test_formats_are_checked(kind: str, good: str, bad: str) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string", "format": kind}}}
    assert score("json_schema", f'{{"x": "{good}"}}', schema=schema) == 1
    assert score("json_schema", f'{{"x": "{bad}"}}', schema=schema) == 0
    assert score("json_schema", '{"x": 3}', schema={"properties": {"x": {"format": kind}}}) == 1  # of texts only


def test_a_format_that_nothing_checks_is_refused() -> None:
    with pytest.raises(BadInput, match="the format 'iri'"):
        score("json_schema", '"x"', schema={"anyOf": [{"format": "iri"}]})
    assert score("json_schema", '"x"', schema={"format": "of-our-own"}) == 1  # a note, by the standard
    assert score("json_schema", '"iri"', schema={"enum": [{"format": "iri"}, "iri"]}) == 1


SCHEMA = {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}


def test_a_schema_allows_or_says_where_not(tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text('{"type": "object", "required": ["city"]}')
    assert score("json_schema", '{"city": "Paris"}', schema=SCHEMA) == 1
    assert score("json_schema", '{"town": "Paris"}', tmp_path, schema="schema.json") == 0
    verdict = CHECKS["json_schema"](Evidence(answer='{"city": 3}'), {"schema": SCHEMA})
    assert verdict.score == 0
    assert verdict.why.startswith("$.city: 3 is not of type")
    assert score("json_schema", "words", schema=SCHEMA) == 0
    with pytest.raises(BadInput, match="not valid"):
        score("json_schema", "{}", schema={"type": "objekt"})
    with pytest.raises(BadInput, match="cannot be read"):
        score("json_schema", "{}", tmp_path, schema="none.json")


def test_a_schema_elsewhere_is_never_fetched() -> None:
    with pytest.raises(Exception, match=r"example\.invalid"):
        score("json_schema", "{}", schema={"$ref": "http://example.invalid/schema.json"})


def test_without_the_extra_it_says_what_to_install() -> None:
    held = sys.modules.get("jsonschema")
    sys.modules["jsonschema"] = None  # type: ignore[assignment]  # what an import of something absent meets
    try:
        with pytest.raises(MissingExtra, match=r"ethogram\[schema\]"):
            validator({})
    finally:
        del sys.modules["jsonschema"]
        if held is not None:
            sys.modules["jsonschema"] = held


CODE = """
from ethogram.checks import CheckScore
from helper import limit

def whole(evidence):
    return evidence.answer == "yes" and evidence.inputs["n"] == limit

def two(answer, expected):
    return 0.5, f"{answer} against {expected}"

def defaulted(evidence, strict=False):
    return CheckScore(1.0, evidence.answer)

def unsure(evidence):
    return None

def wild(evidence):
    return 7

class Named:
    @staticmethod
    def inner(answer, expected):
        return answer == expected

async def later(evidence):
    return True
"""


def test_a_suite_brings_checks_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "checks.py").write_text(CODE)
    (tmp_path / "helper.py").write_text("limit = 3\n")
    evidence = Evidence(answer="yes", expected="no", inputs={"n": 3}, root=tmp_path)

    def ask(name: str) -> Any:
        verdict = CHECKS["custom"](evidence, {"function": f"checks.py:{name}"})
        return verdict.score, verdict.why

    assert ask("whole") == (1.0, "")
    assert ask("two") == (0.5, "yes against no")
    assert ask("defaulted") == (1.0, "yes")
    assert ask("unsure") == (None, "")
    assert ask("Named.inner") == (0.0, "")
    with pytest.raises(ValueError, match="from 0 to 1"):
        ask("wild")
    with pytest.raises(BadInput, match="not a plain function"):
        ask("later")
    with pytest.raises(BadInput, match="did you mean 'whole'"):
        ask("whol")
    (tmp_path / "helper.py").write_text("limit = 4\n")
    assert ask("whole") == (0.0, ""), "what a check imports has changed, so the check has"
    (tmp_path / "checks.py").write_text("def whole(evidence): return True")
    assert ask("whole") == (1.0, ""), "a changed file is another check"
    assert str(tmp_path) not in sys.path
    assert not list(tmp_path.rglob("*.pyc"))


def test_suites_do_not_mix_up_what_lies_beside_them(tmp_path: Path) -> None:
    for number in (1, 2, 1):
        folder = tmp_path / str(number)
        folder.mkdir(exist_ok=True)
        (folder / "beside.py").write_text(f"number = {number}\n")
        (folder / "hypothesis.py").write_text(f"number = {number}\n")
        code = "import beside, hypothesis\ndef f(evidence): return (1, f'{beside.number} {hypothesis.number}')\n"
        (folder / "checks.py").write_text(code)
        found = CHECKS["custom"](Evidence(answer="", root=folder), {"function": "checks.py:f"})
        assert found.why == f"{number} {number}"
    import hypothesis

    assert hasattr(hypothesis, "given"), "somebody else's module of the same name is back in its place"


def test_a_check_may_come_from_a_package() -> None:
    evidence = Evidence(answer="1", expected="1")
    assert CHECKS["custom"](evidence, {"function": "operator:eq"}).score == 1
    with pytest.raises(BadInput, match="cannot import 'no_such_package'"):
        CHECKS["custom"](evidence, {"function": "no_such_package:f"})


@pytest.mark.parametrize("given", [float("nan"), -0.1, 1.5, "1", [1], (2, "why")])
def test_what_is_no_score_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="a score is a number"):
        verdict_of(given, "f")
