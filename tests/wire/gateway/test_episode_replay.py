"""A recorded episode that answers again: tools with their values and errors, and the user."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ethogram.capture.intake import Intake, SourceReport
from ethogram.store import Home, open_home
from ethogram.store.redact import policy_from
from ethogram.traces import Message, Origin, Text, Trace
from ethogram.wire.clock import SystemClock
from ethogram.wire.gateway.episode_replay import EpisodeReplay, RecordedToolError, ReplayDeviation
from ethogram.wire.recorder import Recorder


class OutOfTea(Exception):
    """An error that only the recording process knows."""


def stock(item: str) -> dict[str, Any]:
    if item == "none":
        raise KeyError(item)
    if item == "tea":
        raise OutOfTea("try ale")
    return {"item": item, "left": 3}


async def wait(seconds: int) -> str:
    return f"waited {seconds}"


def never(**arguments: Any) -> Any:
    raise AssertionError("a tool was called in earnest")


async def never_later(**arguments: Any) -> Any:
    raise AssertionError("a tool was called in earnest")


def live(**arguments: Any) -> str:
    return "live"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(str(tmp_path / "home"))


@pytest.fixture
def trace(home: Home) -> Trace:
    run = home.create("recorded", "run")
    with run.writer(home.redactor(policy_from("default"))) as writer:
        intake = Intake(lambda t: writer.trace(t, None), Origin("run"), SourceReport(source="live"))
        with intake.trace("one") as builder:
            record = Recorder(builder, clock=SystemClock())
            with record.model(input=[Message("user", (Text("go"),))], model="m") as call:
                call.done("I look.")
            assert record.tool("stock", stock, item="ale") == {"item": "ale", "left": 3}
            for item in ("none", "tea"):
                with pytest.raises((KeyError, OutOfTea)):
                    record.tool("stock", stock, item=item)
            assert asyncio.run(record.tool("wait", wait, seconds=2)) == "waited 2"
            record.tool("mail", lambda to: f"sent to {to}", to="joe@example.org")
            with record.span("user", "user") as span:
                span.output = (Message("user", (Text("Thank you."),)),)
    return next(iter(home.resolve("recorded").traces()))


Replays = Callable[..., EpisodeReplay]


@pytest.fixture
def replays(home: Home, trace: Trace) -> Replays:
    return lambda mode="strict": EpisodeReplay(trace, home.redactor(policy_from("default")), mode)


def test_tools_give_their_values_and_errors_without_being_called(replays: Replays) -> None:
    replay = replays()
    tool = replay.stand_in("stock", never)
    assert tool(item="ale") == {"item": "ale", "left": 3}, "a value, not its JSON"
    with pytest.raises(KeyError, match="none"):
        tool(item="none")
    with pytest.raises(RecordedToolError, match=r"^try ale$") as caught:
        tool(item="tea")
    assert type(caught.value).__name__ == "OutOfTea", "agents tell models the name and the words"
    assert asyncio.run(replay.stand_in("wait", never_later)(seconds=2)) == "waited 2"
    assert replay.tools_served == 4
    assert replay.deviation is None


def test_a_call_that_was_not_recorded_deviates_at_its_step(replays: Replays) -> None:
    replay = replays()
    with pytest.raises(ReplayDeviation, match="not in the record"):
        replay.stand_in("stock", never)(item="coffee")
    assert replay.deviation is not None
    assert replay.deviation.step == 1
    assert '"item": "coffee"' in replay.deviation.diff


def test_a_lenient_replay_calls_the_tool_itself_from_there_on(replays: Replays) -> None:
    replay = replays("lenient")
    tool = replay.stand_in("stock", live)
    assert tool(item="coffee") == "live"
    assert tool(item="ale") == "live"
    assert replay.deviation is not None


def test_an_answer_that_redaction_changed_is_not_served(replays: Replays) -> None:
    replay = replays()
    with pytest.raises(ReplayDeviation, match="redacted"):
        replay.stand_in("mail", never)(to="joe@example.org")


def test_the_user_answers_from_the_record_then_deviates(replays: Replays) -> None:
    strict = replays()
    ask = strict.reply(lambda episode, text: "live")
    assert ask(None, "Here you are.") == "Thank you."
    with pytest.raises(ReplayDeviation, match="once more"):
        ask(None, "More?")
    lenient = replays("lenient")
    ask = lenient.reply(lambda episode, text: "live")
    assert [ask(None, "a"), ask(None, "b"), ask(None, "c")] == ["Thank you.", "live", "live"]


def test_calls_of_the_agent_s_own_recorder_are_not_waited_for(replays: Replays) -> None:
    assert replays().playback.unserved == (0,)
    assert replays().playback.first_divergence is None
