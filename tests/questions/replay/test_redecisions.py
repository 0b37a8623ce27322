"""Time travel: recorded steps decided anew through a real server on loopback, with another prompt or another model."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ethogram.capture.draft import Draft
from ethogram.capture.intake import Intake, SourceReport
from ethogram.errors import BadUsage, NotFound
from ethogram.prices import Metering
from ethogram.prices.settings import price_list
from ethogram.questions.replay.buying.redecisions import RedecideOptions, redecide
from ethogram.store import Home, Keyring, open_home
from ethogram.store.files import LocalFiles
from ethogram.store.redact import policy_from
from ethogram.store.stop import pull
from ethogram.traces import Message, Origin, Text, ToolCall, ToolResult
from ethogram.wire.gateway.call import ModelReply, ModelRequest
from ethogram.worlds.model_server import ModelServer, ReplyError, serve_model, text_reply, tool_reply

TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
PRICED = Metering(prices=price_list(None, ("*=1/1",)).own)


def model(request: ModelRequest) -> ModelReply:
    """Looks in three places and answers; in a hurry it answers after the first. The model `other` looks elsewhere."""
    looked = sum(m.role == "assistant" for m in request.messages)
    hurry = any("hurry" in m.text for m in request.messages if m.role == "system")
    if looked >= 3 or (hurry and looked >= 1):
        return text_reply("done")
    return tool_reply(("look", {"place": f"{'elsewhere' if request.model == 'other' else 'place'} {looked}"}))


def record(home: Home, tasks: list[str], *, wire: str = "openai-chat", prompt: str = "Take your time.") -> None:
    """Traces of seven steps each, as the gateway stores them."""
    run = home.create("night", "run", redaction="default")
    with run.writer(home.redactor(policy_from("default"))) as writer:
        intake = Intake(lambda t: writer.trace(t, None), Origin("run"), SourceReport(source="live"))
        for number, task in enumerate(tasks):
            with intake.trace(f"{task} {number}") as builder:
                builder.task = task
                talk = [Message("system", (Text(prompt),)), Message("user", (Text(f"Find {task}."),))]
                for looked in range(4):
                    call = ToolCall("look", f'{{"place":"place {looked}"}}', f"c{looked}")
                    answer = Message("assistant", (Text("done") if looked == 3 else call,))
                    attributes: dict[str, Any] = {"wire": wire, "tools": TOOLS}
                    if wire == "":
                        attributes = {}
                    builder.add(
                        Draft(
                            kind="model",
                            name="chat",
                            model="m-1",
                            input=tuple(talk),
                            output=(answer,),
                            attributes=attributes,
                            params={"max_tokens": 50, "response_id": "r", "note": "ours"},
                            status="ok",
                        )
                    )
                    if looked < 3:
                        result = ToolResult("nothing", "look", f"c{looked}")
                        builder.add(
                            Draft(kind="tool", name="look", tool="look", arguments=call.arguments, result="nothing")
                        )
                        talk += [answer, Message("tool", (result,))]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(str(tmp_path / "home"))


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with serve_model(model) as running:
        yield running


def only(home: Home) -> str:
    (entry,) = home.resolve("night").entries
    return entry.head.trace_id


def test_another_prompt_departs_where_it_must_and_the_control_does_not(home: Home, server: ModelServer) -> None:
    record(home, ["keys"])
    found = redecide(
        only(home), RedecideOptions(prompt="You are in a hurry."), home=home, environment=server.variables()
    )
    assert found.first_divergence == 2, "the second decision, with a tool step before it"
    (trace,) = found.traces
    assert (trace.first_control, trace.first_moved, trace.length) == (None, 2, 7)
    assert [(s.step, s.changed_departs, s.control_departs, s.moved) for s in trace.steps] == [
        (0, 0, 0, False),
        (2, 1, 0, True),
        (4, 1, 0, True),
        (6, 0, 0, False),
    ]
    assert trace.steps[1].recorded == 'look({"place":"place 1"})'
    assert trace.steps[1].changed_to == "done"
    assert found.change == {"prompt": "You are in a hurry."}
    assert (found.calls, found.missing) == (8, {})
    assert "random" in found.control


def test_what_is_sent_is_what_was_recorded(home: Home, server: ModelServer) -> None:
    record(home, ["keys"])
    redecide(only(home), RedecideOptions(model="other"), home=home, environment=server.variables())
    bodies = [msgspec.json.decode(call.body) for call in server.calls]
    first = [b for b in bodies if len(b["messages"]) == 2]
    assert sorted(b["model"] for b in first) == ["m-1", "other"]
    for body in first:
        assert body["tools"] == TOOLS
        assert body["max_tokens"] == 50
        assert body["messages"][0] == {"role": "system", "content": "Take your time."}
        assert set(body) == {"model", "messages", "tools", "max_tokens"}, "what we noted ourselves is not sent"


@pytest.mark.parametrize("wire", ["openai-chat", "openai-responses", "anthropic-messages"])
def test_another_model_over_every_api(home: Home, server: ModelServer, wire: str) -> None:
    record(home, ["keys"], wire=wire)
    found = redecide(only(home), RedecideOptions(model="other"), home=home, environment=server.variables())
    assert found.first_divergence == 0
    assert found.traces[0].steps[0].changed_to == 'look({"place":"elsewhere 0"})'
    names = redecide(
        only(home), RedecideOptions(model="other", compared="names"), home=home, environment=server.variables()
    )
    assert names.first_divergence is None, "the same tools, with other arguments"


def test_the_distribution_over_many_traces(home: Home, server: ModelServer) -> None:
    record(home, ["keys", "wallet", "phone", "keys"])
    found = redecide("night", RedecideOptions(prompt="hurry"), home=home, environment=server.variables())
    summary = found.summary
    assert found.first_divergence is None
    assert len(found.traces) == 4
    assert (summary.changed.value, summary.control.value) == (1.0, 0.0)
    assert summary.changed.low is not None
    assert summary.changed.low > 0.3
    assert summary.difference.value == pytest.approx(0.5)
    assert (summary.first.pairs, summary.first.never, summary.first.median) == (4, 0, pytest.approx(2 / 7))
    assert [row.changed.value for row in summary.departed_by] == [0.0, 1.0, 1.0, 1.0]
    limited = redecide("night", RedecideOptions(prompt="hurry", limit=2), home=home, environment=server.variables())
    assert len(limited.traces) == 2
    assert len(found.rows()) == 16


def test_a_model_that_is_random_by_itself_is_no_effect(home: Home) -> None:
    record(home, [f"task {i}" for i in range(12)])

    def noisy(request: ModelRequest) -> ModelReply:
        """By chance another place; the chance is that of the request, whatever the order of arrival."""
        drawn = random.Random(f"{request.model} {[m.text for m in request.messages]}")
        return model(request) if drawn.random() < 0.6 else tool_reply(("look", {"place": "under the sofa"}))

    with serve_model(noisy) as server:
        found = redecide("night", RedecideOptions(model="m-2"), home=home, environment=server.variables())
    difference = found.summary.difference
    assert found.summary.control.value is not None
    assert found.summary.control.value > 0.3
    assert difference.low is not None
    assert difference.high is not None
    assert difference.low < 0 < difference.high


def test_several_draws_for_each_step(home: Home, server: ModelServer) -> None:
    record(home, ["keys"])
    found = redecide(only(home), RedecideOptions(prompt="hurry", k=6), home=home, environment=server.variables())
    assert found.calls == 48
    assert [(s.draws, s.changed_departs, s.moved) for s in found.traces[0].steps] == [
        (6, 0, False),
        (6, 6, True),
        (6, 6, True),
        (6, 0, False),
    ]


def test_money_is_counted_and_capped(home: Home, server: ModelServer) -> None:
    record(home, ["keys"])
    trace = only(home)
    environment = server.variables()
    whole = redecide(trace, RedecideOptions(model="m-2", metering=PRICED), home=home, environment=environment)
    assert whole.cost_usd is not None
    assert whole.cost_usd > 0
    kept = redecide(trace, RedecideOptions(model="m-2", metering=PRICED), home=home, environment=environment)
    assert (kept.calls, kept.kept, kept.cost_usd, kept.traces) == (0, whole.calls, 0.0, whole.traces)
    more = redecide(trace, RedecideOptions(model="m-2", k=2, metering=PRICED), home=home, environment=environment)
    assert (more.calls, more.kept) == (whole.calls, whole.calls), "only further draws are bought"
    cap = whole.cost_usd / 2
    for workers in (1, 8):
        options = RedecideOptions(model="m-2", metering=PRICED, max_usd=cap, workers=workers, again=True)
        cut = redecide(trace, options, home=home, environment=environment)
        assert cut.stopped == "cap.experiment"
        assert 0 < cut.calls < whole.calls
        assert cut.at_least_usd <= cap, "what calls on their way may cost is set aside"
        assert cut.missing == {"the cap on dollars was reached": whole.calls - cut.calls}
    least = RedecideOptions(model="m-2", metering=PRICED, max_usd=1e-9, again=True)
    assert redecide(trace, least, home=home, environment=environment).calls == 0
    with pytest.raises(BadUsage, match="has no price"):
        redecide(trace, RedecideOptions(model="m-2", max_usd=1.0, again=True), home=home, environment=environment)


def test_a_sealed_run_keeps_no_reply(tmp_path: Path, keys: Keyring, server: ModelServer) -> None:
    keys.new()
    home = Home(LocalFiles(tmp_path / "sealed"), keys)
    record(home, ["keys"])
    options = RedecideOptions(model="m-2")
    both = [redecide(only(home), options, home=home, environment=server.variables()) for _ in range(2)]
    assert [(found.calls, found.kept) for found in both] == [(8, 0), (8, 0)]
    assert not [name for name in home.files.names("runs/night/derived") if "decision" in name]


def test_the_kill_switch_ends_it(home: Home, server: ModelServer) -> None:
    record(home, ["keys"])
    pull(home.files, None, "enough")
    found = redecide(only(home), RedecideOptions(model="m-2"), home=home, environment=server.variables())
    assert (found.stopped, found.calls) == ("killed", 0)
    assert set(found.missing) == {"the kill switch is on"}


def test_bad_input_is_one_sentence(home: Home, server: ModelServer) -> None:
    record(home, ["keys"])
    trace = only(home)
    with pytest.raises(BadUsage, match="nothing is changed"):
        redecide(trace, RedecideOptions(), home=home)
    with pytest.raises(BadUsage, match="k must be at least 1"):
        redecide(trace, RedecideOptions(model="m", k=0), home=home)
    with pytest.raises(NotFound, match="no run named"):
        redecide("nowhere", RedecideOptions(model="m"), home=home)
    with pytest.raises(BadUsage, match="set OPENAI_API_KEY"):
        redecide(trace, RedecideOptions(model="m"), home=home, environment={})


def test_calls_that_did_not_pass_the_gateway_cannot_be_sent_again(home: Home, server: ModelServer) -> None:
    record(home, ["keys"], wire="")
    with pytest.raises(BadUsage, match="did not pass the gateway"):
        redecide(only(home), RedecideOptions(model="m"), home=home, environment=server.variables())


def test_a_provider_that_fails_leaves_steps_unanswered(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    record(home, ["keys"])
    monkeypatch.setattr("ethogram.wire.gateway.sent_again.BACKOFF_SECONDS", 0.01)

    def down(request: ModelRequest) -> ModelReply:
        if request.model == "m-2":
            raise ReplyError(503, "overloaded", kind="overloaded_error")
        return model(request)

    with serve_model(down) as server:
        found = redecide(only(home), RedecideOptions(model="m-2"), home=home, environment=server.variables())
    assert found.missing == {"HTTP 503: overloaded_error: overloaded": 4}
    assert found.first_divergence is None
    assert found.summary.difference.why == "no step was decided by both"
    assert [s.unanswered for s in found.traces[0].steps] == [1, 1, 1, 1]


def test_redacted_words_are_counted_and_compared_as_they_were_stored(home: Home) -> None:
    record(home, ["keys"], prompt="Write to joe.bloggs@example.org.")
    with serve_model(model) as server:
        found = redecide(only(home), RedecideOptions(prompt="hurry"), home=home, environment=server.variables())
    assert found.redacted == 4
    assert found.traces[0].first_control is None
