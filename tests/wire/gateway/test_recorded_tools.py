"""Calls of tools answered from a trace: by tool and arguments, in order, once each, and never with damaged words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ethogram.capture.intake import Intake, SourceReport
from ethogram.capture.memory import MemorySink
from ethogram.store import open_home
from ethogram.store.redact import DEFAULT
from ethogram.traces import Origin, Trace
from ethogram.wire.clock import FrozenClock
from ethogram.wire.gateway.recorded_tools import RecordedTools
from ethogram.wire.recorder import Recorder

KEY = "sk-ant-api03-" + "Zq8vT1" * 16


def fails() -> None:
    raise ValueError("no such city")


def recorded(act: Callable[[Recorder], None]) -> Trace:
    done: list[Trace] = []
    intake = Intake(lambda t: MemorySink(done), Origin("run", "live"), SourceReport(source="live"))
    with intake.trace("one") as builder:
        act(Recorder(builder, clock=FrozenClock()))
    return done[0]


def weather(record: Recorder) -> None:
    for degrees in (14, 15):
        record.tool("weather", lambda city, unit: {"degrees": degrees}, city="Oslo", unit="C")  # noqa: B023
    record.tool("weather", lambda city, unit: "rain", city="Bergen", unit="C")
    with pytest.raises(ValueError, match="no such city"):
        record.tool("find", fails)


def test_equal_calls_are_answered_in_their_order_and_once_each() -> None:
    tools = RecordedTools(recorded(weather))
    first = tools.answer("weather", {"unit": "C", "city": "Oslo"})
    assert first is not None
    assert (first.number, first.result, first.failed, first.unusable) == (1, '{"degrees":14}', False, "")
    second = tools.answer("weather", {"city": "Oslo", "unit": "C"})
    assert second is not None
    assert second.result == '{"degrees":15}'
    assert tools.answer("weather", {"city": "Oslo", "unit": "C"}) is None
    assert "recorded 2 times with these arguments and is called once more" in tools.difference(
        "weather", {"city": "Oslo", "unit": "C"}
    )
    assert [call.number for call in tools.left] == [3, 4]


def test_a_recorded_failure_is_a_failure_again() -> None:
    call = RecordedTools(recorded(weather)).answer("find", {})
    assert call is not None
    assert (call.failed, call.error, call.result, call.unusable) == (True, "ValueError: no such city", None, "")


def test_what_was_not_recorded_is_shown_beside_the_nearest_call() -> None:
    tools = RecordedTools(recorded(weather))
    assert tools.answer("weather", {"city": "Rome", "unit": "C"}) is None
    said = tools.difference("weather", {"city": "Rome", "unit": "C"})
    assert '- "city": "Oslo"' in said
    assert '+ "city": "Rome"' in said
    assert "recorded call 1" in said
    assert tools.difference("book", {}) == "the trace has no call of book; it has calls of find, weather"
    assert RecordedTools(recorded(lambda record: None)).difference("book", {}) == "the trace has no call of book"


def test_a_redacted_call_is_found_and_a_redacted_answer_is_named(tmp_path: Path) -> None:
    home = open_home(str(tmp_path))
    redactor = home.redactor(DEFAULT)
    run = home.create("live", "run")
    with run.writer(redactor) as writer:
        intake = Intake(writer.trace, Origin("run", "live"), SourceReport(source="live"))
        with intake.trace("one") as builder:
            record = Recorder(builder)
            record.tool("login", lambda key: "welcome", key=KEY)
            record.tool("secret", lambda: f"the key is {KEY}")
    trace = next(iter(home.run("live").traces()))
    tools = RecordedTools(trace, lambda value, field: redactor.redact(value, field).text)
    login = tools.answer("login", {"key": KEY})
    assert login is not None
    assert (login.result, login.unusable) == ("welcome", "")
    assert KEY not in login.arguments
    secret = tools.answer("secret", {})
    assert secret is not None
    assert secret.unusable == "its answer was redacted when it was stored"
    assert KEY not in tools.difference("login", {"key": KEY + "x"})
