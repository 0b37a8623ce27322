"""Patterns obey the clock: a slow one ends in time, says so, and holds up nobody."""

from __future__ import annotations

import re
import threading
import time
from typing import Any

import pytest

from ethogram.checks import CHECKS, Evidence, patterns
from ethogram.checks.patterns import PatternTooSlow, find
from ethogram.errors import BadInput

SLOW = r"(a+)+$"
TRAP = "a" * 40 + "!"


@pytest.mark.parametrize(
    ("pattern", "text", "flags", "whole"),
    [
        (r"\d+", "abc 123 def", 0, False),
        (r"ABC", "xabcx", re.I, False),
        (r"abc", "xabcx", 0, True),
        (r"a.c", "a\nc", re.S, True),
        (r"^b$", "a\nb\nc", re.M, False),
        (r"é+", "caféé \udc80", 0, False),
        (r"", "", 0, True),
    ],
)
def test_it_finds_what_re_finds(pattern: str, text: str, flags: int, whole: bool) -> None:
    match = re.fullmatch(pattern, text, flags) if whole else re.search(pattern, text, flags)
    assert find(pattern, text, flags=flags, whole=whole) == (None if match is None else match.group(0))


def test_a_slow_pattern_ends_in_time_and_other_threads_go_on() -> None:
    ticks = 0
    done = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.wait(0.01):
            ticks += 1

    ticking = threading.Thread(target=tick)
    ticking.start()
    began = time.monotonic()
    with pytest.raises(PatternTooSlow, match=r"within 0\.5 s on a text of 41 characters"):
        find(SLOW, TRAP, seconds=0.5)
    took = time.monotonic() - began
    done.set()
    ticking.join()
    assert 0.4 < took < 10
    assert ticks > 5, "matching in this process would have stopped every thread"
    assert find("a", "a") == "a", "the next match has a process again"


@pytest.mark.parametrize(
    ("kind", "settings", "answer"),
    [
        ("regex", {"pattern": SLOW}, TRAP),
        ("json", {"expected": {"x": {"$regex": SLOW}}}, f'{{"x": "{TRAP}"}}'),
        ("json_schema", {"schema": {"type": "string", "pattern": SLOW}}, f'"{TRAP}"'),
    ],
)
def test_every_check_with_a_pattern_obeys(
    kind: str, settings: dict[str, Any], answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patterns, "SECONDS", 0.3)
    with pytest.raises(PatternTooSlow):
        CHECKS[kind](Evidence(answer=answer), settings)


def test_a_process_that_died_is_replaced_and_a_bad_pattern_is_told() -> None:
    assert find("a", "cat") == "a"
    for helper in list(patterns._idle):
        helper.kill()
        helper.wait()
    assert find("a", "cat") == "a"
    with pytest.raises(BadInput, match="cannot be used"):
        find("(", "x")
