"""Counterfactual forks through real clients, a real server and the tools of a suite in a fresh workspace."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from ethogram.capture.draft import Draft
from ethogram.capture.intake import Intake, SourceReport
from ethogram.errors import BadInput, BadUsage, NotFound
from ethogram.harness.suites import run
from ethogram.prices import Metering
from ethogram.prices.settings import price_list
from ethogram.questions.fork.buying.episodes import ForkPoint
from ethogram.questions.fork.buying.fork import ForkInterrupted, ForkOptions, fork_trace, fork_traces
from ethogram.questions.fork.stored_forks import stored_forks
from ethogram.questions.home.kill_switch import kill
from ethogram.questions.reliability.question import stats
from ethogram.questions.why.question import why
from ethogram.store import Home
from ethogram.store.redact import policy_from
from ethogram.traces import Origin, Trace
from ethogram.wire.gateway.fork import parse_change

TEA = 'answer={"content": "Fine.", "tool_calls": [{"name": "order", "arguments": {"item": "tea"}}]}'
"""What the model should have called in step 2."""
SILENT = 'answer={"tool_calls": [{"name": "order", "arguments": {"item": "milk"}}]}'
"""The wrong order of step 2, without the words that stand beside it in failed traces."""
FEW = ForkOptions(k=2, every=2)
PRICED = Metering(prices=price_list(None, ("*=1/1",)).own)


@pytest.fixture
def world(fork_world: Any, home: Home) -> Any:
    fork_world.serve(fork_world.Shopper(1))
    fork_world.record(home)
    return fork_world


def continuations(home: Home, run: str) -> dict[tuple[str, int], Trace]:
    found = home.run(run)
    return {(e.head.condition, e.head.attempt): found.trace(e) for e in found.entries}


def result_of(trace: Trace, step: int) -> str:
    span = trace.steps[step]
    assert span.result is not None
    return trace.text(span.result)


def test_a_planted_cause_is_found_and_a_correlate_is_not(world: Any, home: Home) -> None:
    (trace, *_) = world.traces(home, "Oh.")
    cause = fork_trace(trace, 2, TEA, ForkOptions(k=24), home=home)
    assert (cause.verdict, cause.settled, cause.step) == ("raises", True, 2)
    assert cause.pairs < 24, "it stops early"
    assert cause.effect.low is not None
    assert cause.effect.low > 0
    assert cause.effect.n == cause.pairs == cause.looks[-1].pairs
    correlate = fork_trace(trace, 2, SILENT, ForkOptions(k=16), home=home)
    assert (correlate.verdict, correlate.settled) == ("undecided", False)
    assert (correlate.effect.low or 0.0) < 0 < (correlate.effect.high or 0.0)
    stored = stored_forks(home, {cause.trace})
    assert [(f.run, f.at, f.effect, f.verdict) for f in stored] == [
        (told.run, 2, told.effect, told.verdict) for told in (cause, correlate)
    ], "what is read of a stored fork is what it said"


def test_prompts_models_and_results_can_be_changed(world: Any, home: Home) -> None:
    (good, *_) = world.traces(home, "Fine.")
    world.serve(world.Shopper(2, right=1.0, wrong=0.0, slips=1.0))
    options = ForkOptions(k=8, every=8)
    prompt = fork_trace(good, 2, "prompt=Order carefully.", options, home=home)
    assert (prompt.verdict, prompt.unchanged.value, prompt.changed and prompt.changed.value) == ("raises", 0.0, 1.0)
    assert fork_trace(good, 2, "model=m-2", options, home=home).verdict == "raises"
    sold_out = fork_trace(good, 3, "result=sold out", options, home=home)
    assert (sold_out.verdict, sold_out.at, sold_out.step) == ("lowers", 3, 4)
    assert (sold_out.unchanged.value, sold_out.change) == (1.0, "result = sold out")


def test_the_world_is_rebuilt_and_kept_apart_from_samples(world: Any, home: Home) -> None:
    (trace, *_) = world.traces(home, "Oh.")
    found = fork_trace(trace, 2, TEA, FEW, name="what-if", home=home)
    source = next(t for t in home.run("night").traces() if t.head.trace_id == trace)
    kept = continuations(home, "what-if")
    assert set(kept) == {("unchanged", 0), ("unchanged", 1), ("changed", 0), ("changed", 1)}
    for (arm, _), one in kept.items():
        assert result_of(one, 1) == result_of(source, 1), "the shelf was drawn with the recorded seed"
        assert one.message(one.steps[2].output[0]).text == ("Fine." if arm == "changed" else "Oh.")
        assert result_of(one, 3) == "1 ordered", "each has a workspace of its own"
        assert (one.head.meta["forked_from"], one.head.meta["forked_at"]) == (trace, 2)
    assert home.run("what-if").info.kind == "fork"
    assert found.source == "night"
    with pytest.raises(BadUsage, match="not independent attempts"):
        stats("what-if", home=home)


def test_pairs_share_a_seed_from_the_step_on(fork_world: Any, home: Home) -> None:
    fork_world.serve(fork_world.Shopper(1, last="stock"))
    fork_world.record(home, k=1)
    (entry,) = home.run("night").entries
    source = home.run("night").trace(entry)
    before = len(fork_world.server.calls)
    fork_trace(entry.head.trace_id, 2, TEA, FEW, name="what-if", home=home)
    kept = continuations(home, "what-if")
    shelf = {key: result_of(trace, 5) for key, trace in kept.items()}
    assert shelf["unchanged", 0] == shelf["changed", 0] != shelf["unchanged", 1] == shelf["changed", 1]
    assert result_of(source, 5) not in shelf.values()
    seeds = [msgspec.json.decode(call.body)["seed"] for call in list(fork_world.server.calls)[before:]]
    assert len(set(seeds)) == 2, "one for each pair, though the agent sends its own"


def test_without_a_change_the_success_from_there_is_measured(world: Any, home: Home) -> None:
    world.serve(world.Shopper(2, right=1.0))
    (trace, *_) = world.traces(home, "Fine.")
    found = fork_trace(trace, 4, None, ForkOptions(k=5), home=home)
    assert (found.verdict, found.change, found.looks, found.settled) == (None, None, [], True)
    assert (found.unchanged.value, found.unchanged.n, found.changed) == (1.0, 5, None)
    assert found.unchanged.low == pytest.approx(0.4782, abs=1e-4)  # 0.025 ** (1 / 5)
    assert found.effect.why == "nothing was changed, so there is no effect"


@pytest.fixture
def gauged(fork_world: Any, home: Home) -> Any:
    """A trace that reads a gauge, and a gauge that has changed since."""
    fork_world.serve(fork_world.Shopper(1, first="gauge"))
    fork_world.record(home, k=1)
    (fork_world.folder / "shop" / "gauge.txt").write_text("21")
    return fork_world


def test_a_world_that_differs_is_refused_with_the_difference(gauged: Any, home: Home) -> None:
    (entry,) = home.run("night").entries
    before = len(gauged.server.calls)
    with pytest.raises(BadInput) as refused:
        fork_trace(entry.head.trace_id, 2, TEA, FEW, home=home)
    said = str(refused.value)
    assert "when replayed, tool gauge {} (step 1) returned a different result; for tools" in said
    assert "--- recorded\n+++ got\n@@ -1 +1 @@\n-20\n+21" in said
    assert "read_only" in said
    assert list(home.names()) == ["night"], "nothing was measured, so nothing is kept"
    assert len(gauged.server.calls) == before, "and nothing was spent"


def test_tools_that_only_look_answer_from_the_trace(gauged: Any, home: Home) -> None:
    (entry,) = home.run("night").entries
    (gauged.folder / "shop" / "suite.yaml").write_text("read_only: [gauge]\n")
    with pytest.raises(BadUsage, match="has changed since run 'night' was made; restore it, or give the one to use"):
        fork_trace(entry.head.trace_id, 2, TEA, FEW, home=home)
    found = fork_trace(entry.head.trace_id, 2, TEA, FEW, suite="shop", name="what-if", home=home)
    assert "not the one of run 'night'" in found.notes[0]
    assert {result_of(t, 1) for t in continuations(home, "what-if").values()} == {"20"}


def test_an_agent_that_asks_otherwise_is_refused_with_a_diff(world: Any, home: Home) -> None:
    (trace, *_) = world.traces(home, "Oh.")
    code = (world.folder / "agent.py").read_text()
    (world.folder / "slow.py").write_text(code.replace("Be quick.", "Be slow."))
    with pytest.raises(BadInput, match="the request differs from that of step 0") as refused:
        fork_trace(trace, 2, TEA, FEW, agent="slow.py:solve", home=home)
    assert "Be quick." in str(refused.value)
    assert "Be slow." in str(refused.value)
    (world.folder / "idle.py").write_text("def solve(task, episode):\n    return 'yes'\n")
    with pytest.raises(BadInput, match="the agent ended without the model call of step 2"):
        fork_trace(trace, 2, TEA, FEW, agent="idle.py:solve", home=home)


def test_one_that_deviates_later_is_a_missing_outcome_at_its_worst(world: Any, home: Home) -> None:
    """The agent of some attempts begins otherwise: these pairs are counted against both ends."""
    (trace, *_) = world.traces(home, "Oh.")
    begins = "import itertools\ncount = itertools.count()\n" + (world.folder / "agent.py").read_text()
    (world.folder / "moody.py").write_text(
        begins.replace('"Be quick."', '"Be quick." if next(count) < 4 else "Be slow."')
    )
    world.serve(world.Shopper(2, right=1.0, wrong=0.0))
    options = ForkOptions(k=4, every=4, workers=1)
    found = fork_trace(trace, 2, TEA, options, agent="moody.py:solve", home=home)
    assert found.missing == {"deviation": 4}
    assert (found.looks[-1].gained, found.looks[-1].missing) == (2, 2)
    assert "the request differs from that of step 0" in found.deviations[0]


def test_a_cap_stops_it_and_more_money_goes_on(world: Any, home: Home) -> None:
    (trace, *_) = world.traces(home, "Oh.")
    whole = fork_trace(trace, 2, SILENT, ForkOptions(k=4, every=4, metering=PRICED), home=home)
    assert whole.cost_usd is not None
    assert whole.cost_usd > 0
    most = 7.2e-4  # what is set aside for one call
    capped = ForkOptions(k=4, every=4, metering=PRICED, max_usd=whole.cost_usd / 2 + most, workers=1)
    cut = fork_trace(trace, 2, SILENT, capped, name="cut", home=home)
    assert (cut.stopped, cut.settled) == ("cap.experiment", False)
    assert "stopped (cap.experiment)" in cut.why
    assert 0 < cut.pairs < 4, "what is there is looked at, though no look was planned so early"
    assert cut.at_least_usd <= whole.cost_usd
    before = {
        t.head.trace_id for t in continuations(home, "cut").values() if t.head.outcome.__class__.__name__ == "Scored"
    }
    more = msgspec.structs.replace(capped, max_usd=10.0)
    went_on = fork_trace(trace, 2, SILENT, more, name="cut", home=home)
    assert (went_on.stopped, went_on.pairs) == (None, 4)
    after = {t.head.trace_id for t in continuations(home, "cut").values()}
    assert len(after) == 8
    assert before <= after, "what was bought is not bought again"
    with pytest.raises(BadUsage, match="was begun with another trace, step, change"):
        fork_trace(trace, 2, TEA, more, name="cut", home=home)
    with pytest.raises(BadUsage, match="exists and is not a fork"):
        fork_trace(trace, 2, TEA, more, name="night", home=home)


def test_ctrl_c_and_the_kill_switch_hold_between_looks(world: Any, home: Home) -> None:
    (trace, *_) = world.traces(home, "Oh.")
    options = ForkOptions(k=16)  # with fewer, the first look may be the last one

    def interrupted(text: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(ForkInterrupted, match="fork cut was interrupted"):
        fork_trace(trace, 2, SILENT, options, name="cut", home=home, progress=interrupted)
    cut = fork_trace(trace, 2, SILENT, options, name="cut", home=home, progress=lambda text: kill("cut", home=home))
    assert (cut.stopped, cut.pairs) == ("killed", 4)
    assert fork_trace(trace, 2, SILENT, options, name="cut", home=home).stopped is None, "the same command goes on"


def test_a_model_without_a_price_cannot_be_capped(world: Any, home: Home) -> None:
    (trace, *_) = world.traces(home, "Oh.")
    with pytest.raises(BadUsage, match="has no price"):
        fork_trace(trace, 2, TEA, ForkOptions(k=2, max_usd=1.0), home=home)


def test_steps_and_changes_that_make_no_sense(world: Any, home: Home) -> None:
    (trace, *_) = world.traces(home, "Oh.")
    for at, change, said in (
        (9, TEA, "the trace has no step 9"),
        (3, TEA, "step 3 is a tool step, so there is no answer to replace"),
        (2, "result=x", "step 2 is a model step, so there is no tool result"),
        (2, "temperature=1", "cannot be changed"),
        (2, "tea", "changes nothing; write for example"),
    ):
        with pytest.raises(BadUsage, match=said):
            fork_trace(trace, at, change, FEW, home=home)
    for options in (ForkOptions(k=0), ForkOptions(level=1.0), ForkOptions(every=0), ForkOptions(capture="off")):
        with pytest.raises(BadUsage):
            fork_trace(trace, 2, TEA, options, home=home)
    with pytest.raises(NotFound):
        fork_trace("beef", 2, TEA, FEW, home=home)
    assert list(home.names()) == ["night"]


def test_the_blamed_step_of_a_failed_trace_is_taken(world: Any, home: Home) -> None:
    blamed = {t.trace: t.step for t in why("night", home=home).traces}
    failed, step = next((t, s) for t, s in blamed.items() if s is not None)
    found = fork_trace(failed, "auto", None, ForkOptions(k=1), home=home)
    assert (found.at, found.notes) == (step, [f"step {step} is the one that ethogram why names as the cause"])
    passed = next(e.head.trace_id for e in home.run("night").entries if e.head.trace_id not in blamed)
    with pytest.raises(BadUsage, match="succeeded, so no step of it is blamed; give at N"):
        fork_trace(passed, "auto", None, home=home)


def test_a_log_without_a_suite_is_refused(world: Any, home: Home, write_trace: Callable[..., Any]) -> None:
    with home.create("logs", "import").writer(home.redactor(policy_from("default"))) as writer:
        foreign = write_trace(writer, "chat")
    with pytest.raises(BadUsage, match=r"comes from no suite that is known here.*give suite"):
        fork_trace(foreign, 0, "prompt=x", FEW, home=home)


def test_too_few_pairs_to_settle_anything_are_named(world: Any, home: Home) -> None:
    (trace, *_) = world.traces(home, "Oh.")
    world.serve(world.Shopper(2, right=1.0, wrong=0.0))
    found = fork_trace(trace, 2, TEA, FEW, home=home)
    assert (found.verdict, found.looks[-1].gained) == ("undecided", 2)
    assert found.notes == ["even if all 2 pairs agreed, the interval would contain 0; give a larger -k"]
    assert not fork_trace(trace, 2, TEA, ForkOptions(k=7), home=home).notes


def test_a_foreign_log_goes_on_in_a_suite_and_with_an_agent_that_are_named(fork_world: Any, home: Home) -> None:
    fork_world.serve(fork_world.Shopper(1, first="gauge"))
    fork_world.record(home, k=1)
    (source,) = home.run("night").traces()
    with home.create("logs", "import").writer(home.redactor(policy_from("default"))) as writer:
        intake = Intake(lambda t: writer.trace(t, None), Origin("openai-chat"), SourceReport(source="log"))
        with intake.trace("one") as builder:
            builder.task = "order-tea"
            for span in source.steps:
                asked = [source.message(ref) for ref in source.input_refs(span)]
                said = tuple(source.message(ref) for ref in span.output)
                words = [None if ref is None else source.text(ref) for ref in (span.arguments, span.result)]
                fields = {"kind": span.kind, "name": span.name, "model": span.model, "tool": span.tool, "status": "ok"}
                builder.add(Draft(**fields, input=asked, output=said, arguments=words[0], result=words[1]))  # type: ignore[arg-type]
    (foreign,) = home.run("logs").traces()
    with pytest.raises(BadUsage, match="the agent of run 'logs' is not known here; name it with agent"):
        fork_trace(foreign.head.trace_id, 2, TEA, FEW, suite="shop", home=home)
    found = fork_trace(foreign.head.trace_id, 2, TEA, FEW, suite="shop", agent="agent.py:solve", home=home)
    assert (found.source, found.pairs, found.missing) == ("logs", 2, {})


def test_a_command_rebuilds_what_its_own_tools_do(world: Any, home: Home) -> None:
    """Its tools are its own, so it runs them again by itself; what they give stands in the next request."""
    program = world.folder / "program.py"
    program.write_text("""
import json, os, sys
from urllib.request import Request, urlopen

def ask(messages):
    body = json.dumps({"model": "m-1", "messages": messages}).encode()
    sent = Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, {"content-type": "application/json"})
    return json.load(urlopen(sent))["choices"][0]["message"]

messages = [{"role": "system", "content": "Be quick."}, {"role": "user", "content": sys.stdin.read()}]
for _ in range(8):
    reply = ask(messages)
    messages.append(reply)
    for call in reply.get("tool_calls") or ():
        result = open("shop/gauge.txt").read() if call["function"]["name"] == "stock" else "1 ordered"
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    if not reply.get("tool_calls"):
        break
print(reply["content"], end="")
""")
    agent = f"cmd: {sys.executable} {program}"
    (world.folder / "shop" / "tasks.yaml").write_text(
        '- {id: t, prompt: Order., expected: "yes", checks: [{kind: equals}]}'
    )
    program.write_text(program.read_text().replace('"shop/', f'"{world.folder}/shop/'))
    run("shop", agent, k=1, run="commands", home=home, isolation="none")
    (entry,) = home.run("commands").entries
    found = fork_trace(entry.head.trace_id, 2, "model=m-2", FEW, home=home)
    assert (found.pairs, found.missing, found.deviations) == (2, {}, [])
    (world.folder / "shop" / "gauge.txt").write_text("21")
    with pytest.raises(BadInput, match=r"-result: 20\n.*\+result: 21"):
        fork_trace(entry.head.trace_id, 2, "model=m-2", FEW, home=home)


def test_tools_with_effects_are_not_called_again_unasked(world: Any, home: Home) -> None:
    shop, done = world.folder / "shop", world.folder / "done.txt"
    (shop / "tools.py").write_text(f"""
def stock(item: str) -> str:
    return "7 of " + item

def order(item: str) -> str:
    with open({str(done)!r}, "a") as file:
        file.write(item)
    return "ordered"
""")
    (shop / "tasks.yaml").write_text(
        '- {id: t, prompt: Order., tools: [stock, order], expected: "yes", checks: [{kind: equals}]}'
    )
    (shop / "suite.yaml").write_text("read_only: [stock]\n")
    world.record(home, k=1, name="plain")
    (entry,) = home.run("plain").entries
    before = done.read_text()
    with pytest.raises(BadUsage, match=r"would call 'order' again, .* read_only .* live"):
        fork_trace(entry.head.trace_id, 2, "model=m-2", FEW, home=home)
    assert done.read_text() == before
    assert set(home.names()) == {"night", "plain"}
    allowed = msgspec.structs.replace(FEW, live_tools=True)
    assert fork_trace(entry.head.trace_id, 2, "model=m-2", allowed, home=home).pairs == 2
    assert len(done.read_text()) > len(before)


def points(world: Any, home: Home, change: str, run: str = "night") -> list[ForkPoint]:
    """The traces of a run that order wrongly, at the step where they do."""
    made = parse_change(*change.split("=", 1))
    return [ForkPoint(trace=trace, at=2, change=made, source=run) for trace in world.traces(home, "Oh.", run)]


def test_several_traces_are_pooled(fork_world: Any, home: Home) -> None:
    fork_world.serve(fork_world.Shopper(1, slips=1.0))
    fork_world.record(home, k=14)
    options = ForkOptions(k=2, every=4)
    cause = fork_traces(points(fork_world, home, TEA), options, name="cause", home=home)
    assert (cause.verdict, cause.effect.of, cause.refused) == ("raises", "traces", 0)
    assert cause.effect.n in (8, 12), "it stops early, after a look"
    assert sum(t.pairs for t in cause.traces) == cause.looks[-1].pairs == 2 * (cause.effect.n or 0)
    correlate = fork_traces(points(fork_world, home, SILENT), options, home=home)
    assert correlate.verdict == "undecided"
    again = fork_traces(points(fork_world, home, TEA)[::-1], options, name="cause", home=home)
    assert again.effect == cause.effect, "nothing is bought twice, in whatever order they are named"


def test_traces_that_cannot_be_rebuilt_are_left_out_and_named(fork_world: Any, home: Home) -> None:
    fork_world.serve(fork_world.Shopper(1, slips=1.0, first="gauge"))
    fork_world.record(home, k=2)
    (fork_world.folder / "shop" / "gauge.txt").write_text("21")
    with pytest.raises(BadInput, match="gauge"):
        fork_traces(points(fork_world, home, TEA), FEW, home=home)
    fork_world.serve(fork_world.Shopper(1, right=1.0, wrong=0.0, slips=1.0))
    fork_world.record(home, k=9, name="day")
    found = fork_traces(
        [*points(fork_world, home, TEA), *points(fork_world, home, TEA, "day")], ForkOptions(k=1, every=20), home=home
    )
    assert (found.refused, found.effect.n, found.verdict) == (2, 9, "raises")
    assert sorted(t.pairs for t in found.traces) == [0, 0, *[1] * 9]
    assert all("gauge" in (t.refused or "") for t in found.traces if not t.pairs)


def test_traces_that_do_not_belong_together_are_refused(world: Any, home: Home) -> None:
    run("shop", "agent.py:solve", k=1, run="other", home=home)
    one = points(world, home, TEA)[0]
    for several, said in (
        ([], "at least one trace"),
        ([one, one], "is named twice"),
        ([one, ForkPoint(trace=one.trace, at=2)], "every trace needs a change"),
    ):
        with pytest.raises(BadUsage, match=said):
            fork_traces(several, FEW, home=home)
