"""Settings are typed, kinds are known, and several verdicts make one outcome."""

from __future__ import annotations

from typing import Any

import pytest

from ethogram.checks import CHECKS, KINDS, CheckResult, CheckScore, combine, definition, label_names, settings_of
from ethogram.checks.checks import register
from ethogram.errors import BadInput
from ethogram.traces import Missing, Scored


def result(name: str, score: float | None, *, required: bool = True, why: str = "") -> CheckResult:
    return CheckResult(name=name, kind="k", definition="d", required=required, verdict=CheckScore(score, why))


def test_the_lowest_required_score_decides() -> None:
    assert combine([result("a", 1.0), result("b", 0.5), result("c", 0.0, required=False)]) == Scored(0.5, "a+b")
    assert combine([result("a", 1.0)]) == Scored(1.0, "a")


def test_one_named_check_decides_alone_even_if_it_is_not_required() -> None:
    results = [result("a", 0.0), result("b", 1.0, required=False)]
    assert combine(results, "b") == Scored(1.0, "b")
    assert combine(results, "c") == Missing("unscored", "the task has no check named 'c'")


def test_nobody_who_can_tell_is_no_outcome() -> None:
    assert combine([]) == Missing("unscored", "the task has no required check")
    assert combine([result("a", 1.0, required=False)]) == Missing("unscored", "the task has no required check")
    assert combine([result("a", 1.0), result("b", None, why="blind")]) == Missing("unscored", "b: blind")


def test_labels_of_a_task_have_different_names() -> None:
    checks = [("contains", ""), ("contains", ""), ("regex", "city"), ("contains", "contains"), ("json", "")]
    assert label_names(checks) == ["contains", "contains-2", "city", "contains-3", "json"]


def test_a_label_says_who_speaks_and_on_what_demands() -> None:
    label = result("a", 0.25, why="because").label()
    assert (label.name, label.value, label.by, label.source, label.why) == ("a", 0.25, "k@d", "verifier", "because")
    assert definition("numeric", {"tolerance": 1}, 2) == definition("numeric", {"tolerance": 1}, 2)
    assert definition("numeric", {"tolerance": 1}, 2) != definition("numeric", {"tolerance": 1}, 3)
    assert definition("numeric", {"expected": 1}, 2) == definition("numeric", {"expected": 1}, 3)
    assert definition("contains", {"any": ["a"]}, 2) == definition("contains", {"any": ["a"]}, 3)
    assert definition("tool_calls", {"calls": ["f"]}, 2) == definition("tool_calls", {"calls": ["f"]}, 3)
    assert definition("custom", {"function": "a:b"}, 2) != definition("custom", {"function": "a:b"}, 3)
    assert definition("regex", {"pattern": "a"}, 2) == definition("regex", {"pattern": "a"}, 3)


@pytest.mark.parametrize(
    ("kind", "settings", "said"),
    [
        ("contians", {}, "did you mean 'contains'"),
        ("numeric", {"tolerence": 1}, "no setting 'tolerence'; did you mean 'tolerance'"),
        ("numeric", {"tolerance": "much"}, "Expected `float`"),
        ("regex", {}, "missing required field `pattern`"),
        ("tests", {"on_timeout": "never"}, "Invalid enum value"),
    ],
)
def test_bad_settings_are_refused_with_the_nearest_good_one(kind: str, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        settings_of(kind, settings)


@pytest.mark.parametrize(
    ("kind", "settings", "expected", "said"),
    [
        ("contains", {}, None, "nothing to compare with"),
        ("contains", {"any": ["x"]}, None, None),
        ("equals", {}, "x", None),
        ("equals", {"expected": ""}, None, "nothing"),
        ("regex", {"pattern": "("}, None, "not a regular expression"),
        ("one_of", {}, "x", "needs a list"),
        ("numeric", {}, "one", "needs a number"),
        ("numeric", {}, "12%", None),
        ("numeric", {"tolerance": -1}, 1, "negative"),
        ("classifies", {"labels": ["a"]}, "a", "two different labels"),
        ("classifies", {"labels": ["a", "b"]}, "c", "not one of its labels"),
        ("custom", {"function": "x"}, None, "write pkg.mod:name"),
        ("tool_calls", {}, 42, "needs a list of expected calls"),
        ("tool_calls", {"calls": [{"nam": "f"}]}, None, "cannot read the expected call"),
        ("files", {}, None, "demands nothing"),
        ("files", {"exists": ["../x"]}, None, "not inside the workspace"),
        ("files", {"content": {"a": {"contans": "x"}}}, None, "did you mean 'contains'"),
        ("files", {"content": {"a": {"regex": "("}}}, None, "not a regular expression"),
        ("sql_row", {"database": "/etc/x.db", "query": "q"}, None, "not inside the workspace"),
        ("http_state", {"url": "ftp://x"}, None, "not an http address"),
        ("http_state", {"url": "http://example.org/"}, None, "not on this machine"),
        ("http_state", {"url": "http://127.0.0.1@example.org/"}, None, "not on this machine"),
        ("http_state", {"url": "http://[::1]:80/"}, None, None),
        ("http_state", {"url": "http://example.org/", "allow_remote": True}, None, None),
        ("command", {"run": []}, None, "no command"),
        ("command", {"run": "x", "exit": None}, None, "demands nothing"),
        ("tests", {}, None, "names no tests"),
        ("tests", {"fail_to_pass": ["/t.py::a"]}, None, "not inside the workspace"),
        ("tests", {"fail_to_pass": ["t.py::a"], "command": "x {files}"}, None, "without {report}"),
        ("tests", {"fail_to_pass": ["t.py::a"], "command": "x {test}"}, None, None),
    ],
)
def test_useless_settings_are_seen(kind: str, settings: dict[str, Any], expected: Any, said: str | None) -> None:
    problem = settings_of(kind, settings).problem(expected)
    assert problem is None if said is None else problem is not None and said in problem


def test_every_pure_kind_has_a_function_and_no_other() -> None:
    assert {k for k, s in KINDS.items() if s.layer != "L3"} == set(CHECKS)
    with pytest.raises(ValueError, match="already"):
        register("contains")(CHECKS["contains"])
