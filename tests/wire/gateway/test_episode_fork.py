"""The world of a fork: tools and users run again, must give what was recorded, and are left alone after the step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ethogram.capture.draft import Draft
from ethogram.capture.intake import Intake, SourceReport
from ethogram.errors import BadUsage
from ethogram.store import open_home
from ethogram.store.redact import Redactor, policy_from
from ethogram.traces import Message, Missing, Origin, Text, Trace
from ethogram.wire.gateway.call import Forward, ModelRequest, Serve
from ethogram.wire.gateway.episode_fork import EpisodeFork
from ethogram.wire.gateway.episode_replay import ReplayDeviation

ASKED = (Message("user", (Text("Count the tea."),)),)
FIRST = Message("assistant", (Text("I look."),))
SECOND = (*ASKED, FIRST, Message("user", (Text("12, and no lamp."),)))
INNER = (Message("user", (Text("Read the label."),)),)


def spoke(messages: tuple[Message, ...], answer: Message, **fields: Any) -> Draft:
    attributes = {"wire": "openai-chat"}
    return Draft(
        kind="model",
        name="chat",
        input=messages,
        output=(answer,),
        model="m",
        attributes=attributes,
        status="ok",
        **fields,
    )


def used(name: str, arguments: str, result: str | None = None, **fields: Any) -> Draft:
    return Draft(kind="tool", name=name, tool=name, arguments=arguments, result=result, **fields)


class Stored:
    """A trace: model, a tool that counts, one that fails, one that asks a model, the user, and the model again."""

    def __init__(self, folder: Path) -> None:
        home = open_home(str(folder))
        self.redactor: Redactor = home.redactor(policy_from("default"))
        run = home.create("recorded", "run")
        with run.writer(self.redactor) as writer:
            intake = Intake(lambda t: writer.trace(t, None), Origin("run"), SourceReport(source="live"))
            with intake.trace("one") as builder:
                for draft in (
                    spoke(ASKED, FIRST),
                    used("count", '{"item":"tea"}', '{"b":2,"a":1}', attributes={"returned": "json"}, status="ok"),
                    used("count", '{"item":"lamp"}', error="LookupError: no lamp", status="error"),
                    used("label", "{}", "jasmine", span_id="label", status="ok"),
                    spoke(INNER, Message("assistant", (Text("jasmine"),)), parent_id="label"),
                    used("mail", "{}", "sent to joe.bloggs@example.org", status="ok"),
                    Draft(kind="user", name="user", lane="user", output=(Message("user", (Text("Go on."),)),)),
                    spoke(SECOND, Message("assistant", (Text("12"),))),
                    used("count", '{"item":"late"}', "0", status="ok"),
                ):
                    builder.add(draft)
        self.trace: Trace = next(iter(run.traces()))

    @property
    def step(self) -> int:
        return max(i for i, s in enumerate(self.trace.steps) if s.kind == "model")

    def fork(self, **how: Any) -> EpisodeFork:
        return EpisodeFork(self.trace, self.redactor, self.step, None, seed=7, **how)


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    return Stored(tmp_path / "home")


class Notes:
    """What a fork needs of the trace that it ends."""

    def __init__(self) -> None:
        self.meta: dict[str, Any] = {}


def ended(fork: EpisodeFork) -> Missing | None:
    return fork.close(Notes())  # type: ignore[arg-type]


def asks(fork: EpisodeFork, messages: tuple[Message, ...]) -> object:
    return fork.policy.decide(ModelRequest(protocol="openai-chat", model="m", messages=messages))


def counting(calls: list[str]) -> Callable[..., Any]:
    def count(item: str) -> Any:
        calls.append(item)
        if item == "lamp":
            raise LookupError("no lamp")
        return {"a": 1, "b": 2}

    return count


def test_tools_run_again_and_must_give_what_they_gave(stored: Stored) -> None:
    fork, calls = stored.fork(), []
    count = fork.stand_in("count", counting(calls))
    assert count(item="tea") == {"a": 1, "b": 2}, "the order of names does not count"
    with pytest.raises(LookupError, match="no lamp"):
        count(item="lamp")
    assert calls == ["tea", "lamp"]
    assert not fork.over


@pytest.mark.parametrize(
    ("tool", "arguments", "gives", "said"),
    [
        ("count", {"item": "tea"}, lambda item: {"a": 1, "b": 3}, '-{"b":2,"a":1}\n+{"a":1,"b":3}'),
        ("count", {"item": "lamp"}, lambda item: 4, "-LookupError: no lamp\n+4"),
        ("mail", {}, lambda: "sent to ann@example.org", "-sent to "),
        ("count", {"item": "milk"}, lambda item: 4, "recorded with other arguments"),
        ("count", {"item": "late"}, lambda item: "0", "recorded with other arguments"),
        ("weigh", {}, lambda: 4, "the trace has no call of weigh"),
    ],
)
def test_a_difference_ends_it_and_is_shown(
    stored: Stored, tool: str, arguments: dict[str, str], gives: Callable[..., Any], said: str
) -> None:
    fork = stored.fork()
    with pytest.raises(ReplayDeviation) as raised:
        fork.stand_in(tool, gives)(**arguments)
    assert said in str(raised.value)
    assert fork.over
    outcome = ended(fork)
    assert isinstance(outcome, Missing)
    assert outcome.reason == "deviation"
    assert said in outcome.detail
    assert type(asks(fork, ASKED)).__name__ == "Refuse", "the agent gets no further"


def test_another_error_than_the_recorded_one_is_a_difference(stored: Stored) -> None:
    fork = stored.fork()

    def broken(item: str) -> int:
        raise ConnectionError("no network")

    with pytest.raises(ReplayDeviation, match=r"tool count .* \(step 1\) .*\n(.*\n)*\+ConnectionError: no network"):
        fork.stand_in("count", broken)(item="tea")


def test_results_are_compared_as_they_were_stored(stored: Stored) -> None:
    assert "example.org" not in stored.trace.text(next(s for s in stored.trace.spans if s.tool == "mail").result or "")  # type: ignore[arg-type]
    mail = stored.fork().stand_in("mail", lambda: "sent to joe.bloggs@example.org")
    assert mail() == "sent to joe.bloggs@example.org"


def test_async_tools(stored: Stored) -> None:
    async def count(item: str) -> Any:
        return {"a": 1, "b": 2}

    async def other(item: str) -> Any:
        return 3

    assert asyncio.run(stored.fork().stand_in("count", count)(item="tea")) == {"a": 1, "b": 2}
    with pytest.raises(ReplayDeviation):
        asyncio.run(stored.fork().stand_in("count", other)(item="tea"))
    fork = stored.fork(read_only=frozenset({"count"}))
    assert asyncio.run(fork.stand_in("count", other)(item="tea")) == {"a": 1, "b": 2}


def test_tools_that_only_look_are_not_called(stored: Stored) -> None:
    calls: list[str] = []
    fork = stored.fork(read_only=frozenset({"count", "mail"}))
    count = fork.stand_in("count", counting(calls))
    assert count(item="tea") == {"b": 2, "a": 1}
    with pytest.raises(LookupError, match="no lamp"):
        count(item="lamp")
    assert calls == []
    mail = fork.stand_in("mail", lambda: calls.append("mail") or "sent to joe.bloggs@example.org")
    assert mail() == "sent to joe.bloggs@example.org"
    assert calls == ["mail"], "what was redacted cannot be given again, so it is called"


def test_the_step_is_reached_with_and_without_the_calls_of_tools(stored: Stored) -> None:
    for inner in (True, False):
        fork = stored.fork()
        assert isinstance(asks(fork, ASKED), Serve)
        if inner:
            assert isinstance(asks(fork, INNER), Serve), "a model call of a tool is answered from the trace"
        assert isinstance(asks(fork, SECOND), Forward)
        assert fork.policy.live


def test_from_the_step_on_everything_is_live_and_drawn_anew(stored: Stored) -> None:
    seeds: list[int] = []

    class Episode:
        def reseed(self, seed: int) -> None:
            seeds.append(seed)

    fork = stored.fork()
    fork.begin(Episode())
    asks(fork, ASKED)
    assert seeds == []
    asks(fork, SECOND)
    assert seeds == [7]
    assert fork.stand_in("weigh", lambda: 4)() == 4
    user = fork.reply(lambda episode, text: "anything")
    assert user is not None
    assert user(None, "hello") == "anything"
    asks(fork, SECOND)
    assert seeds == [7], "once"
    notes = Notes()
    assert fork.close(notes) is None  # type: ignore[arg-type]
    assert notes.meta == {"forked_from": stored.trace.head.trace_id, "forked_at": stored.step}


def test_the_simulated_user_must_say_what_it_said(stored: Stored) -> None:
    async def later(episode: Any, text: str) -> str:
        return "Go on."

    fork = stored.fork()
    user = fork.reply(lambda episode, text: "Go on.")
    assert user is not None
    assert user(None, "And now?") == "Go on."
    with pytest.raises(ReplayDeviation, match="the agent asked the user something that is not recorded before step"):
        user(None, "And now?")
    patient = stored.fork().reply(later)
    assert patient is not None
    assert asyncio.run(patient(None, "And now?")) == "Go on."
    other = stored.fork().reply(lambda episode, text: "Stop.")
    assert other is not None
    with pytest.raises(
        ReplayDeviation, match=r"the simulated user \(step 5\) gave a different reply(.*\n)*-Go on\.\n\+Stop\."
    ):
        other(None, "And now?")
    assert stored.fork().reply(None) is None


def test_an_agent_that_ends_too_early_has_no_outcome(stored: Stored) -> None:
    fork = stored.fork()
    asks(fork, ASKED)
    outcome = ended(fork)
    assert isinstance(outcome, Missing)
    assert outcome.detail == f"the agent ended without the model call of step {stored.step}"


def test_calls_of_tools_are_no_place_to_fork(stored: Stored) -> None:
    inner = next(i for i, s in enumerate(stored.trace.steps) if s.kind == "model" and s.parent_id is not None)
    with pytest.raises(BadUsage, match=f"step {inner} is a model call of a tool .* such as step {stored.step}"):
        EpisodeFork(stored.trace, stored.redactor, inner, None, seed=7)
