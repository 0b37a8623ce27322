"""Judging a stored run through a real server on loopback: caps, cache, resume, secrets, families, pairs, real model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ethogram.errors import BadInput, BadUsage, NotFound
from ethogram.findings.rubric import RUBRIC_LABEL
from ethogram.prices import Metering
from ethogram.prices.settings import price_list
from ethogram.questions.judging.buying.calls import Endpoint, environment_for
from ethogram.questions.judging.buying.pairs import judge_pairs
from ethogram.questions.judging.buying.runs import judge_run
from ethogram.questions.judging.buying.session import JudgeOptions
from ethogram.questions.judging.buying.specs import model_at
from ethogram.questions.judging.calls import judge_calls
from ethogram.questions.judging.rubric_files import read_rubric
from ethogram.questions.logs.imports import import_logs
from ethogram.reading.layers import layers_of
from ethogram.store import Home
from ethogram.store.stop import pull
from ethogram.wire.gateway.call import ModelReply, ModelRequest
from ethogram.worlds.local_model import MODEL, available, endpoint
from ethogram.worlds.model_server import ModelServer, ReplyError, serve_model, text_reply, tool_reply

KEY = "sk-proj-" + "9hTq2LmZ7vXc4RbN1wYk8sDf5gJp3aEu6oKi0tQxWzBnMrVy"
ASKED = re.compile(r"^(\w+): .*\n  asked about step ([\d, ]+)$", re.MULTILINE)
PRICED = Metering(prices=price_list(None, ("*=1/1",)).own)


def attempt(task: int, trial: int, *, good: bool = True, model: str | None = None) -> dict[str, Any]:
    """One run as tau-bench writes it: it looks, changes something, and reads it back only where it is good."""
    talk: list[dict[str, Any]] = [{"role": "user", "content": f"Cancel order {task}."}]

    def call(name: str, arguments: str, result: str) -> None:
        number = f"c{len(talk)}"
        made = {"id": number, "type": "function", "function": {"name": name, "arguments": arguments}}
        talk.append({"role": "assistant", "content": None, "tool_calls": [made]})
        talk.append({"role": "tool", "tool_call_id": number, "name": name, "content": result})

    call("get_order", '{"order": 1}', f"order 1 of {task}, key {KEY}")
    call("cancel_order", '{"order": 1}', "cancelled")
    if good:
        call("get_order", '{"order": 1}', "order 1 cancelled")
    talk.append({"role": "assistant", "content": "I have cancelled your order."})
    return {"task_id": task, "trial": trial, "reward": float(good), "info": {}, "traj": talk}


@pytest.fixture
def night(home: Home, tmp_path: Path) -> str:
    runs = [attempt(task, trial, good=(task + trial) % 2 == 0) for task in range(4) for trial in range(2)]
    (tmp_path / "night.json").write_text(json.dumps(runs))
    import_logs(tmp_path / "night.json", home=home, run="night")
    return "night"


def verdicts(request: ModelRequest, no: str = "state_reverified") -> ModelReply:
    """A model that says no to one item; it reads the request as a provider would."""
    text = next(m.text for m in request.messages if m.role == "user")
    if "SECOND RUN" in text:
        return text_reply('{"why": "first", "better": "first"}')
    said = [
        {"item": item, "step": int(step), "why": "so", "quote": "", "answer": "no" if item == no else "yes"}
        for item, steps in ASKED.findall(text)
        for step in steps.split(",")
    ]
    if request.tools:
        return tool_reply((request.tools[0]["name"], {"verdicts": said}))
    return text_reply(json.dumps({"verdicts": said}))


@pytest.fixture
def serve() -> Iterator[Callable[..., ModelServer]]:
    open_servers = []

    def start(reply: Any = verdicts) -> ModelServer:
        context = serve_model(reply)
        open_servers.append(context)
        return context.__enter__()

    yield start
    for context in open_servers:
        context.__exit__(None, None, None)


def options(server: ModelServer, **more: Any) -> JudgeOptions:
    return JudgeOptions(judge=f"model:judge-1@{server.address}/v1", metering=PRICED, **more)


def test_verdicts_of_a_csv_that_fit_nothing_are_counted(night: str, home: Home, tmp_path: Path) -> None:
    first, *_ = (e.head.trace_id.removeprefix("b2:") for e in home.resolve(night).entries)
    rows = [f"{first},termination,no,", f"{first[:12]},termination,no,99", "zzz,termination,no,0"]
    (tmp_path / "said.csv").write_text("\n".join(["trace,item,value,step", *rows]))
    found = judge_run(night, JudgeOptions(judge=f"fixed:{tmp_path / 'said.csv'}"), home=home)
    assert found.notes[-1] == (
        f"verdicts that fit nothing: 2 of 3, e.g. termination is not asked about step 99 of {first[:12]}"
    )
    (tmp_path / "fits.csv").write_text("\n".join(["trace,item,value,step", rows[0]]))
    fits = judge_run(night, JudgeOptions(judge=f"fixed:{tmp_path / 'fits.csv'}"), home=home)
    assert not [note for note in fits.notes if "fit nothing" in note]


def test_the_rule_judge_says_which_runs_read_back_what_they_changed(home: Home, night: str) -> None:
    found = judge_run(night, home=home)
    assert (found.judge, found.judged, found.kept, found.left) == ("rule", 8, 0, 0)
    by_name = {item.item: item for item in found.items}
    change = by_name["state_reverified"]
    assert (change.yes.value, change.runs_no, change.steps_no, change.yes.n) == (0.5, 4, 4, 8)
    assert change.yes.low is not None
    assert 0 < change.yes.low < 0.5
    first = change.examples[0]
    assert first.place.endswith(":4")
    assert first.why == "no later call reads the state"
    assert {s.score: s.runs for s in found.scores} == {0.8: 4, 1.0: 4}
    assert found.score.value == pytest.approx(0.9)


def test_what_was_judged_is_kept_until_rubric_judge_or_guards_change(home: Home, night: str) -> None:
    judge_run(night, home=home)
    assert judge_run(night, home=home).kept == 8
    assert judge_run(night, JudgeOptions(again=True), home=home).judged == 8
    assert judge_run(night, JudgeOptions(guards="outcome"), home=home).judged == 8
    assert judge_run(night, JudgeOptions(judge="fixed:no", limit=3), home=home).judged == 3
    labels = [label for label in home.run(night).labels() if label.name == RUBRIC_LABEL and label.source == "judge"]
    assert len({(label.by, label.version) for label in labels}) == 3
    assert {label.by for label in labels} == {"rule", "fixed:no"}
    assert judge_run(night, home=home).kept == 8


def test_layer_two_is_the_score_by_the_rubric(home: Home, night: str) -> None:
    assert layers_of(night, home=home).layers["L2"].value is None
    judge_run(night, home=home)
    found = layers_of(night, home=home)
    assert found.layers["L2"].value == 1.0  # every run has more than half of its items
    assert found.layers["L3"].value == 0.5
    judge_run(night, JudgeOptions(judge="fixed:no"), home=home)
    assert layers_of(night, home=home).layers["L2"].value == 0.0


@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_a_model_judges_and_its_replies_are_kept(home: Home, night: str, serve: Any, api: str) -> None:
    server = serve()
    address = f"{server.address}/v1" if api == "openai" else f"{server.address}/v1/messages"
    chosen = JudgeOptions(judge=f"model:judge-1@{address}", metering=PRICED, max_usd=1.0, temperature=0.25, seed=5)
    found = judge_run(night, chosen, home=home)
    assert (found.judge, found.judged, found.use.calls) == ("model:judge-1", 8, 8)
    assert found.use.cost_usd is not None
    assert 0 < found.use.cost_usd < 0.1
    assert {i.item: i.yes.value for i in found.items}["state_reverified"] == 0.0
    assert found.coverage is not None
    assert found.coverage.seen == found.coverage.steps
    body = json.loads(server.calls[0].body)
    assert body["temperature"] == 0.25
    if api == "openai":
        assert body["seed"] == 5
        assert body["response_format"]["json_schema"]["strict"] is True
    else:
        assert body["tool_choice"] == {"type": "tool", "name": "verdicts"}
    again = judge_run(night, JudgeOptions(**{**_fields(chosen), "again": True}), home=home)
    assert (again.use.calls, again.use.cached, again.judged) == (0, 8, 8)
    kept = judge_calls(night, home=home).calls
    assert len({call.about for call in kept}) == len(kept) == 8, "a reply from the cache is no call"
    assert {(c.model, c.by, c.temperature, c.seed) for c in kept} == {("judge-1", "model:judge-1", 0.25, 5)}
    assert sum(call.cost_usd or 0 for call in kept) == pytest.approx(found.use.cost_usd)


def _fields(options: JudgeOptions) -> dict[str, Any]:
    return {name: getattr(options, name) for name in options.__struct_fields__}


def test_secrets_reach_neither_the_model_nor_the_disk(home: Home, night: str, serve: Any, tmp_path: Path) -> None:
    def talkative(request: ModelRequest) -> ModelReply:
        reply = verdicts(request)
        return text_reply(reply.message.text.replace('"so"', f'"because {KEY}"'))

    server = serve(talkative)
    judge_run(night, options(server), home=home, environment={"ETHOGRAM_JUDGE_API_KEY": "judge-key-1234567890"})
    assert all(KEY.encode() not in call.body for call in server.calls)
    assert server.calls[0].headers["authorization"] == "Bearer judge-key-1234567890"
    kept = [p.read_bytes() for p in tmp_path.rglob("*") if p.is_file() and p.name != "night.json"]
    assert any(b"verdicts" in data for data in kept)
    assert not [data for data in kept if KEY.encode() in data or b"judge-key" in data]


def test_keys_go_only_where_they_belong() -> None:
    given = {"OPENAI_API_KEY": "theirs"}
    assert environment_for(Endpoint("openai-chat"), given)["OPENAI_API_KEY"] == "theirs"
    assert environment_for(Endpoint("openai-chat", "http://127.0.0.1:1/v1"), given)["OPENAI_API_KEY"] == "not-needed"
    with pytest.raises(BadUsage, match="needs a key: set ETHOGRAM_JUDGE_API_KEY"):
        environment_for(Endpoint("openai-chat", "https://elsewhere.example/v1"), given)
    own = {**given, "ETHOGRAM_JUDGE_API_KEY": "ours"}
    assert environment_for(Endpoint("openai-chat", "https://elsewhere.example/v1"), own)["OPENAI_API_KEY"] == "ours"


@pytest.mark.parametrize(
    ("text", "protocol", "address"),
    [
        ("gpt-4.1", "openai-chat", None),
        ("claude-x", "anthropic-messages", None),
        ("claude-x@http://127.0.0.1:9/v1", "openai-chat", "http://127.0.0.1:9/v1"),
        ("m@https://api.anthropic.com", "anthropic-messages", "https://api.anthropic.com"),
        ("m@http://h/v1/chat/completions", "openai-chat", "http://h/v1"),
    ],
)
def test_where_a_model_is(text: str, protocol: str, address: str | None) -> None:
    assert model_at(text)[1] == (protocol, address)


def test_a_cap_stops_stores_what_was_judged_and_the_same_command_goes_on(home: Home, night: str, serve: Any) -> None:
    server = serve()
    found = judge_run(night, options(server, max_calls=3, workers=1), home=home)
    assert (found.judged, found.left) == (3, 5)
    assert found.stopped == "--max-calls 3 is reached; repeat the command with a higher cap to continue"
    found = judge_run(night, options(server, max_calls=20), home=home)
    assert (found.judged, found.kept, found.stopped) == (5, 3, None)
    tiny = judge_run(night, options(server, max_usd=1e-6, again=True, guards="none"), home=home)
    assert (tiny.judged, tiny.use.calls) == (0, 0)
    assert tiny.stopped is not None
    assert tiny.stopped.startswith("--max-usd 1e-06 is reached")


def test_a_cap_that_cannot_be_kept_is_refused_before_any_call(home: Home, night: str, serve: Any) -> None:
    server = serve()
    unpriced = JudgeOptions(judge=f"model:judge-1@{server.address}/v1", max_usd=1.0)
    with pytest.raises(BadUsage, match=r"has no price .* max_calls"):
        judge_run(night, unpriced, home=home)
    assert not server.calls
    found = judge_run(night, JudgeOptions(**{**_fields(unpriced), "max_calls": 9}), home=home)
    assert (found.judged, found.use.cost_usd) == (8, None)


def test_a_model_that_does_not_answer_leaves_traces_for_later(home: Home, night: str, serve: Any) -> None:
    def broken(request: ModelRequest) -> ModelReply:
        raise ReplyError(400, "too long", kind="invalid_request_error")

    found = judge_run(night, options(serve(broken)), home=home)
    assert (found.judged, found.left, len(found.skipped)) == (0, 8, 8)
    assert "HTTP 400: " in found.skipped[0].why
    assert found.stopped is not None
    assert not [x for x in home.run(night).labels() if x.name == RUBRIC_LABEL]


def test_the_kill_switch_stops_judging(home: Home, night: str, serve: Any) -> None:
    pull(home.files, None, "too dear")
    server = serve()
    found = judge_run(night, options(server), home=home)
    assert (found.judged, found.stopped) == (0, "the kill switch was pulled: too dear")
    assert not server.calls


def test_a_sealed_run_keeps_no_replies(home: Home, tmp_path: Path, serve: Any) -> None:
    home.keys.new()
    (tmp_path / "sealed.json").write_text(json.dumps([attempt(0, 0)]))
    import_logs(tmp_path / "sealed.json", home=home, run="sealed")
    judged = judge_run("sealed", options(serve()), home=home)
    assert not list((tmp_path).rglob("judge-*.json"))
    assert judged.items[0].yes.value == 1.0


def test_a_judge_of_the_agents_own_family_is_refused_or_warned_of(home: Home, tmp_path: Path, serve: Any) -> None:
    line = {
        "model": "gpt-4o",
        "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}],
    }
    (tmp_path / "chat.jsonl").write_text(json.dumps(line) + "\n")
    import_logs(tmp_path / "chat.jsonl", home=home, run="chat")
    server = serve()
    chosen = f"model:gpt-4.1@{server.address}/v1"
    with pytest.raises(BadUsage, match=r"'gpt-4.1' and the agent's model 'gpt-4o' are of one family.*guards outcome,"):
        judge_run("chat", JudgeOptions(judge=chosen), home=home)
    assert not server.calls
    found = judge_run("chat", JudgeOptions(judge=chosen, guards="outcome,narration,windows"), home=home)
    assert any("are of one family" in note for note in found.notes)


def test_pairs_are_compared_in_both_orders_and_a_judge_that_takes_the_first_is_caught(
    home: Home, tmp_path: Path, serve: Any
) -> None:
    for name, good in (("old", False), ("new", True)):
        runs = [attempt(task, 0, good=good) for task in range(9)]
        (tmp_path / f"{name}.json").write_text(json.dumps(runs))
        import_logs(tmp_path / f"{name}.json", home=home, run=name)
    rule = judge_pairs("new", "old", home=home)
    assert (rule.pairs, rule.wins, rule.order.found) == (9, 9, "none")
    assert rule.preferred.value == 1.0
    biased = judge_pairs("new", "old", options(serve()), home=home)
    assert (biased.wins, biased.order_dependent, biased.order.found) == (0, 9, "bias")
    assert biased.order.effect.value == 0.5
    assert biased.preferred.value == 0.5
    (tmp_path / "far.json").write_text(json.dumps([attempt(77, 0)]))
    import_logs(tmp_path / "far.json", home=home, run="far")
    with pytest.raises(BadUsage, match="share no task"):
        judge_pairs("new", "far", home=home)


def test_a_judge_that_sees_the_outcome_is_caught_by_measuring(home: Home, night: str, serve: Any) -> None:
    def leaking(request: ModelRequest) -> ModelReply:
        text = next(m.text for m in request.messages if m.role == "user")
        return verdicts(request, "tool_choice" if "OUTCOME" in text and "failure" in text else "none")

    found = judge_run(night, options(serve(leaking), measure=8, repeat=2), home=home)
    biases = {b.bias: b for b in found.biases}
    assert biases["outcome"].changed == 8  # two calls in each of the four runs that failed
    assert biases["outcome"].effect.value is not None
    assert biases["outcome"].effect.value > 0
    assert biases["repeat"].effect.value == 1.0
    assert set(biases) == {"outcome", "narration", "windows", "length", "repeat"}


def test_panels_count_where_members_disagree(home: Home, night: str) -> None:
    found = judge_run(night, JudgeOptions(judge="panel:rule,fixed:yes,fixed:no"), home=home)
    assert found.disagreement is not None
    assert found.disagreement.value == 1.0
    assert judge_run(night, JudgeOptions(judge="panel:fixed:no,fixed:no"), home=home).disagreement.value == 0.0  # type: ignore[union-attr]


def test_rubrics_of_ones_own_and_what_is_none(home: Home, night: str, tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("items:\n  - termination\n  - {name: kind, question: 'Is it kind?', applies_to: replies}\n")
    found = judge_run(night, JudgeOptions(rubric=own), home=home)
    assert [(i.item, i.yes.value is None) for i in found.items] == [("termination", False), ("kind", True)]
    assert found.items[1].yes.missing == {"not judged": 8}
    assert read_rubric(own).name == "own"
    for text, words in {"items: [": "own.yaml is not YAML", "items: 3": "own.yaml: a rubric needs a list"}.items():
        own.write_text(text)
        with pytest.raises(BadInput, match=words) as error:
            read_rubric(own)
        assert "\n" not in str(error.value)
    with pytest.raises(NotFound, match=r"no rubric at 'none.yaml'"):
        read_rubric("none.yaml")


@pytest.mark.parametrize(
    ("judge", "words"),
    [
        ("oracle", "there is no judge 'oracle'; judges are: rule"),
        ("panel:rule", "a panel needs at least two judges"),
        ("model:m@ftp://x", "'ftp://x' is not an address"),
        ("model:m@http://u:p@h/v1", "holds a name or a password"),
        ("fixed:none.csv", "no CSV file at 'none.csv'"),
    ],
)
def test_judges_that_make_no_sense(home: Home, night: str, judge: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        judge_run(night, JudgeOptions(judge=judge), home=home)


def test_known_verdicts_come_from_a_csv(home: Home, night: str, tmp_path: Path) -> None:
    trace = home.run(night).entries[0].head.trace_id.removeprefix("b2:")[:12]
    (tmp_path / "v.csv").write_text(
        f"trace,item,value,step\n{trace},tool_choice,no,2\n{trace},rubric/termination,yes,\n"
    )
    found = judge_run(night, JudgeOptions(judge=f"fixed:{tmp_path / 'v.csv'}"), home=home)
    assert (found.judge, found.items[0].runs_no, found.items[4].yes.value) == ("fixed:v", 1, 1.0)


@pytest.mark.skipif(available() is not None, reason=f"the local model cannot run: {available()}")
def test_the_real_local_model_judges_badly_but_to_the_end(home: Home, tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("items: [{name: kind, question: 'Is it kind?', applies_to: end}]\n")
    line = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
    (tmp_path / "chat.jsonl").write_text(json.dumps(line) + "\n")
    import_logs(tmp_path / "chat.jsonl", home=home, run="chat")
    chosen = JudgeOptions(
        judge=f"model:{MODEL}@{endpoint()}", rubric=tmp_path / "one.yaml", max_calls=1, workers=1, retries=0
    )
    found = judge_run("chat", chosen, home=home)
    assert (found.judged, found.skipped, found.use.calls) == (1, [], 1)
    (item,) = found.items
    assert item.yes.n + sum(item.yes.missing.values()) == 1
    label = next(x for x in home.run("chat").labels() if x.span_id is not None)
    assert (label.name, label.by) == ("rubric/kind", f"model:{MODEL}")
