"""Every option that takes a number, of every verb, with numbers that make no sense: a sentence or an answer, never a
traceback, and never NaN or money below 0 in what is printed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from ethogram.cli.main import VERBS, verb_command

VALUES = ("-3", "0", "nan", "inf", "1e20")
HUGE = "99999999999999999999"
SERVES = {"gateway", "mcp", "serve", "view"}
"""Verbs that serve until they are stopped: a number that they accept is not tried, for the call would not end."""

NEEDS_GATEWAY = {"fork"}
"""Verbs that need a trace of the gateway; what they say of their own options is in their own tests."""

BASE: dict[str, list[str]] = {
    "run": ["coins.py", "--agent", "act.py:good", "--task", "t00", "--seed", "1"],
    "score": ["one", "--check", "equals=yes"],
    "gate": ["one", "two"],
    "compare": ["one", "two"],
    "divergence": ["one", "--draws", "99"],
    "field": ["one", "--draws", "99"],
    "fork": ["TRACE", "--at", "0", "--set", "answer=no", "--agent", "act.py:bad", "-k", "2"],
    "replay": ["TRACE"],
    "diff": ["TRACE", "TRACE"],
    "trace": ["TRACE"],
    "sql": ["SELECT task, score FROM episodes"],
    "perturb": ["--agent", "act.py:good", "--suite", "coins.py", "--operators", "prompt_reorder", "--dry-run"],
    "explore run": ["--synthetic", "--max-episodes", "300", "--strategy", "uniform"],
    "explore race": ["--synthetic", "--strategy", "uniform", "--seeds", "1", "--max-episodes", "300"],
    "golden check": ["suite"],
    "why": ["two"],
    "plan": [],
    "retain": ["--dry-run"],
    "drill": [],
    "runs": [],
}
"""What a call needs besides the option; by default the run `one`."""

SKIP = {
    ("explore run", "--zone", "0"): "an exploration of its own: 0 is a zone",
}
"""What is not tried, and why."""


def numbers(command: Any, path: str) -> Iterator[tuple[str, str, bool]]:
    """Sub-command, option, and whether it takes whole numbers only."""
    for name, sub in getattr(command, "commands", {}).items():
        yield from numbers(sub, f"{path} {name}")
    for parameter in command.params:
        kind = parameter.type.name.split()[0]
        if kind in ("int", "float") and parameter.opts[0].startswith("-"):
            yield path, parameter.opts[0], kind == "int"


NUMBERS = [found for verb in VERBS for found in numbers(verb_command(verb), verb.name)]


def test_options_with_numbers_were_found():
    assert len(NUMBERS) > 120
    assert ("gate", "--session-sd", False) in NUMBERS
    assert ("sql", "--limit", True) in NUMBERS


@pytest.fixture
def runs(ran, call) -> str:
    """Two small runs; gives a trace of the first."""
    ran("one", "good", 2)
    ran("two", "bad", 2)
    assert call("judge", "one").code == 0
    assert call("init").code == 0
    assert call("golden", "freeze", "suite", "--by", "ada").code == 0
    return json.loads(call("show", "one", "--json").out)["traces"][0]["trace_id"]


def money(found: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a document under a key about dollars."""
    if isinstance(found, dict):
        for name, value in found.items():
            yield from money(value, name if not key or re.search("usd|price", name) else key)
    elif isinstance(found, list):
        for value in found:
            yield from money(value, key)
    elif re.search("usd|price", key):
        yield key, found


def check(said: Any, line: list[str]) -> None:
    shown = " ".join(line)
    assert said.code in (0, 1, 2, 64), (shown, said)
    assert "Traceback" not in said.err, (shown, said.err)
    if said.code == 64:
        assert len(said.err.strip().splitlines()) == 1, (shown, said.err)
    if said.out.startswith("{"):
        document = json.loads(said.out, parse_constant=lambda word: pytest.fail(f"{word} in JSON of {shown}"))
        below = [(k, v) for k, v in money(document) if v in ("inf", "-inf") or (isinstance(v, float | int) and v < 0)]
        assert not below, (shown, below)
    else:
        assert not re.search(r"\bnan\b|-\$|\$-|\$nan|\$inf", said.out), (shown, said.out)


@pytest.mark.parametrize("path", sorted({path for path, _, _ in NUMBERS}))
def test_a_number_that_makes_no_sense(runs, call, path):
    base = [runs if word == "TRACE" else word for word in BASE.get(path, ["one"])]
    if path not in SERVES | NEEDS_GATEWAY:
        assert call(*path.split(), *base).code != 64, "the call itself must be one"
    tried = 0
    for name, option, whole in NUMBERS:
        if name != path:
            continue
        for value in (*VALUES, HUGE) if whole else VALUES:
            if (path, option, value) in SKIP or (path in SERVES and value not in ("nan", "inf")):
                continue
            line = [*path.split(), *base, option, value]
            said = call(*line, "--json")
            check(said, line)
            if value in ("nan", "inf", HUGE) or (whole and value == "1e20"):
                assert said.code == 64, (line, said)
            if said.code != 64:
                check(call(*line), line)
            tried += 1
    assert tried
