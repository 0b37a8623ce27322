"""The field of a stored run: standard or the user's own, with states, corridors, comparison and ablation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from ethogram.errors import BadInput, BadUsage, Damaged, NotFound, Refused
from ethogram.measures.dimension import Dimension
from ethogram.questions.field.field import Field
from ethogram.questions.field.files import as_messages, load_corridor, milestones_file
from ethogram.questions.field.metrics import FieldMetrics
from ethogram.questions.field.question import field
from ethogram.questions.field.results import FieldResult, StandardTable, standard_table
from ethogram.questions.logs.imports import import_logs
from ethogram.store import Home, Policy, Redactor
from ethogram.store.files import LocalFiles
from ethogram.traces import (
    Head,
    Message,
    Missing,
    Outcome,
    Reasoning,
    Scored,
    Span,
    SpanId,
    Text,
    ToolCall,
    ToolResult,
    Trace,
    episode_id,
    trace_id,
)
from ethogram.traces.message import pack_message

DATA = Path(__file__).parents[4] / "shared" / "data"
TAU = DATA / "tau_bench" / "gpt-4o-airline.dev_5tasks.json.gz"


class Episode(msgspec.Struct):
    """What a made-up agent did: `user`, `model`, or the name of a tool, with `!` where it failed."""

    does: str
    outcome: Outcome = Scored(1.0, "test")
    task: str = "t"
    condition: str = ""
    agent: str = "bot"


def store(home: Home, name: str, episodes: list[Episode], **details: Any) -> None:
    """A run with these episodes."""
    run = home.create(name, "import", **details)
    with run.writer(Redactor(b"test", Policy(kinds=())), window=None) as writer:
        for number, episode in enumerate(episodes):
            own = trace_id(name, str(number))
            sink = writer.trace(own)
            for i, word in enumerate(episode.does.split()):
                kind: Any = word if word in ("user", "model") else "tool"
                fields: dict[str, Any] = {}
                if kind == "tool":
                    word, failed = word.rstrip("!"), word.endswith("!")
                    fields = {"tool": word, "status": "error" if failed else "ok"}
                    fields["arguments"] = sink.text(f'{{"n": {number % 3}}}', "arguments")
                sink.span(Span(trace_id=own, span_id=SpanId(f"s{i}"), seq=i, kind=kind, name=word, **fields))
            head = Head(
                trace_id=own, episode=episode_id(name, str(number)), task=episode.task, attempt=number,
                condition=episode.condition, agent=episode.agent, outcome=episode.outcome,
            )  # fmt: skip
            sink.finish(head, ())


def shop(rng: np.random.Generator, good: bool, *, more: int = 0) -> str:
    """Failures search again and again; successes look once and act."""
    looks = int(rng.integers(1, 3)) + (int(rng.integers(3, 7)) if not good else 0) + more
    writes = ["update_order"] * (1 + int(rng.integers(2))) if good or rng.random() < 0.3 else []
    failed = ["get_order!"] * int(rng.integers(0, 2 if good else 3))
    return " ".join(["user", "model", *["search_orders"] * looks, *failed, *writes, "model"])


def episodes(seed: int, k: int = 12, tasks: int = 3, **more: Any) -> list[Episode]:
    rng = np.random.default_rng(seed)
    return [
        Episode(shop(rng, good := bool(a % 2), **more), Scored(float(good), "test"), f"task-{t}")
        for t in range(tasks)
        for a in range(k)
    ]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(LocalFiles(tmp_path / "home"))


def test_without_a_line_of_code(home):
    store(
        home,
        "shop",
        [*episodes(1), Episode("user", Missing("infrastructure.timeout")), Episode("user model", Missing("unscored"))],
    )
    found = field("shop", home=home, preset="service")
    assert (found.K, found.tasks, found.successes, found.failures) == (36, 3, 18, 18)
    assert found.missing == {"infrastructure.timeout": 1, "unscored": 1}
    assert found.advice == found.chain.advice == "mixed", "read less, write more"
    assert found.dimensions["reads"].adjusted is not None
    assert found.dimensions["reads"].adjusted <= 0.01
    apart = found.dimensions["reads"].estimates["separation"]
    assert apart.high is not None
    assert apart.high < 0, "successes read less"
    assert found.width == pytest.approx(sum(d.variance for d in found.dimensions.values()))
    assert found.left_out["seconds"] == "no trace records it"
    assert found.left_out["handoffs"] == "0 in every trace"
    assert [h.state for h in found.horizons] == ["start", "looked up", "acted"]
    assert found.horizons[0].K == 36
    assert {"width", "convergence", "pass_rate", "drift"} <= set(found.estimates)
    assert [s.name for s in found.chain.steps] == ["width", "convergence", "separation", "skew", "stages"]
    assert len(found.rows()) == found.d == len(found.to_df())


def test_the_report_is_made_once(home, monkeypatch):
    """Its permutation test takes most of the time; the summary in words reads the same report."""
    asked: list[tuple[int, int]] = []
    real = FieldMetrics.separation_test
    monkeypatch.setattr(FieldMetrics, "separation_test", lambda self, *how: asked.append(how) or real(self, *how))
    store(home, "shop", episodes(1))
    found = field("shop", home=home, preset="service", seed=3, draws=199, level=0.9)
    assert asked == [(199, 3)]
    assert (found.chain.seed, found.chain.draws, found.chain.alpha) == (3, found.draws, 0.1)
    flags = {f.dimension: f.adjusted_p for f in found.chain.flags}
    assert flags == {n: d.adjusted for n, d in found.dimensions.items() if d.adjusted is not None and d.adjusted <= 0.1}


def test_a_dimension_that_repeats_another_is_left_out(home):
    rng = np.random.default_rng(3)
    store(home, "run", [Episode("get_a " * int(rng.integers(1, 9)), Scored(float(i % 2))) for i in range(10)])
    found = field("run", home=home)
    assert found.left_out["tool_calls"] == "the same as steps in every trace"
    assert "reads" not in found.dimensions
    asked = field("run", home=home, dimensions=["steps", "reads", "handoffs"])
    assert list(asked.dimensions) == ["steps", "reads", "handoffs"], "what is asked for is given"
    assert "handoffs" in asked.constant


def test_json_is_one_document_that_a_schema_describes(home):
    store(home, "good", [Episode("user model get_a" + " get_a" * i) for i in range(4)])
    found = field("good", home=home)
    assert found.one_class
    data = json.loads(found.to_json(), parse_constant=lambda word: pytest.fail(word))
    assert data["schema_version"] == 1
    assert data["convergence"] == "inf"
    assert data["dimensions"]["steps"]["separation"] is None
    assert data["advice"] == "nothing to fix"
    assert {"K", "d", "width", "convergence", "dimensions", "horizons", "advice", "estimates"} <= data.keys()
    for kind in (FieldResult, StandardTable):
        assert msgspec.json.schema(kind)["$defs"]


def test_milestones_name_the_states(home, tmp_path):
    store(home, "shop", episodes(2))
    file = tmp_path / "stones.yaml"
    file.write_text(
        "milestones:\n"
        "  - {state: searched, when: {tool: search_*}}\n"
        "  - {state: stuck, when: {error: true, count: 2}}\n"
        "  - {state: closed, when: {last: true}}\n"
    )
    found = field("shop", home=home, states=file)
    assert [h.state for h in found.horizons] == ["start", "searched", "stuck", "closed"]
    by = {h.state: h for h in found.horizons}
    assert by["closed"].K == by["start"].K == 36
    assert 0 < by["stuck"].K < 36
    reached = field("shop", home=home, states=file, rule="reached")
    assert [h.K for h in reached.horizons] == sorted((h.K for h in reached.horizons), reverse=True)
    assert all(h.rule == "reached" for h in reached.horizons)
    own = field("shop", home=home, field=Calls, states=file)
    assert [h.K for h in own.horizons] == [h.K for h in found.horizons], "a field of one's own may have them too"


class Calls(Field):
    """Two dimensions of a trace."""

    def dimensions(self) -> list[Dimension]:
        return [Dimension("steps"), Dimension("calls")]

    def measure(self, trajectory: Any) -> list[float]:
        return [len(trajectory.steps), sum(s.kind == "tool" for s in trajectory.steps)]


def test_a_class_agrees_with_the_columns(home):
    store(home, "shop", episodes(4))
    own = field("shop", home=home, field=Calls)
    standard = field("shop", home=home, dimensions=["steps", "tool_calls"])
    assert own.field.endswith("Calls")
    assert own.width == pytest.approx(standard.width, rel=1e-12)
    assert own.dimensions["calls"].separation == standard.dimensions["tool_calls"].separation
    assert own.estimates["spread"] == standard.estimates["spread"]
    assert own.horizons == []


FIELD = """
from ethogram.questions.field.field import Dimension, Field

WRITES = {"book_reservation", "cancel_reservation", "update_reservation_baggages", "update_reservation_flights",
          "update_reservation_passengers", "send_certificate"}
LOOKS = {"get_reservation_details", "search_direct_flight", "search_onestop_flight"}
NAMES = ["n_messages", "n_tool_calls", "n_distinct_tools", "n_user_turns", "n_writes", "n_transfers", "n_tool_errors",
         "total_chars"]
STATES = ["start", "identified", "looked_up", "acted"]


def calls(message):
    return [c["function"]["name"] for c in message.get("tool_calls") or []]


class Airline(Field):
    def dimensions(self):
        return [Dimension(n) for n in NAMES]

    def measure(self, talk):
        asked = [n for m in talk for n in calls(m)]
        return [
            len(talk), len(asked), len(set(asked)), sum(m["role"] == "user" for m in talk),
            sum(n in WRITES for n in asked), asked.count("transfer_to_human_agents"),
            sum(m["role"] == "tool" and m["content"].startswith("Error") for m in talk),
            sum(len(m["content"]) for m in talk if isinstance(m["content"], str)),
        ]

    def state(self, talk, t):
        if t == len(talk) - 1:
            return "closed"
        asked = {n for m in talk[: t + 1] for n in calls(m)}
        rank = max([0, "get_user_details" in asked, 2 * bool(asked & LOOKS), 3 * bool(asked & WRITES)])
        return STATES[rank]
"""
"""Written for raw trajectories of tau-bench: nothing in it knows of traces."""


@pytest.mark.skipif(not TAU.exists(), reason="../shared/data is not here")
@pytest.mark.parametrize("rule", ["visited", "reached"])
def test_every_published_figure_of_tau_bench(home, tmp_path, rule):
    expected = json.loads((DATA / "expected.json").read_text())["tau_bench/gpt-4o-airline.dev_5tasks.json.gz"]
    import_logs([TAU], run="tau", home=home, redact="none")
    (tmp_path / "airline.py").write_text(FIELD)
    found = field("tau", home=home, field=f"{tmp_path / 'airline.py'}:Airline", reading="messages", rule=rule)
    data = json.loads(found.to_json())
    checked = 0
    rows = [(data, expected["field"])]
    rows += [({h["state"]: h for h in data["horizons"]}[s], e) for s, e in expected[f"horizons_{rule}"].items()]
    for got, want in rows:
        figures = {"K": "K", "successes": "n_success", "mean_outcome": "mean_reward", "width": "width"}
        figures |= {"convergence": "convergence"}
        for mine, theirs in figures.items():
            assert got[mine] == pytest.approx(want[theirs], rel=1e-9), (mine, want)
            checked += 1
        for mine, theirs in {
            "mean": "center",
            "variance": "variance",
            "separation": "separation",
            "skew": "skew",
        }.items():
            for name in want["center"]:
                value = None if want[theirs] is None else want[theirs][name]
                assert got["dimensions"][name][mine] == (
                    None if value is None else pytest.approx(value, rel=1e-9, abs=1e-12)
                )
                checked += 1
    assert checked == len(rows) * 37
    assert len(rows) == (6 if rule == "visited" else 5)


def test_messages_are_as_chat_logs_have_them():
    own, texts = trace_id("m"), {}

    def put(body: str) -> Any:
        ref = f"b:{len(texts)}"
        texts[ref] = body
        return ref

    talk = [
        Message("system", (Text("Be kind."),)),
        Message("user", (Text("Hi"), Text("there"))),
        Message("assistant", (Reasoning("hm"), ToolCall("look", '{"a": 1}', "c1"))),
        Message("tool", (ToolResult("one", "look", "c1"), ToolResult("two", "look", "c2", failed=True))),
        Message("assistant", (Text("Done."),), name="bot"),
    ]
    refs = tuple(put(pack_message(m, put)) for m in talk)
    span = Span(trace_id=own, span_id=SpanId("s"), seq=0, kind="model", name="chat", input=refs)
    trace = Trace(Head(trace_id=own, episode=episode_id("m"), task="t"), (span,), texts)  # type: ignore[arg-type]
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"a": 1}'}}
    assert as_messages(trace) == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hi\nthere"},
        {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [call]},
        {"role": "tool", "content": "one", "name": "look", "tool_call_id": "c1"},
        {"role": "tool", "content": "two", "name": "look", "tool_call_id": "c2"},
        {"role": "assistant", "content": "Done.", "name": "bot"},
    ]


def test_a_corridor_is_saved_and_new_runs_are_held_against_it(home, tmp_path):
    store(home, "old", episodes(5, k=60, tasks=1))
    store(home, "alike", episodes(6, k=20, tasks=1))
    wild = [Episode(shop(np.random.default_rng(i), True, more=15), Scored(1.0), "task-0") for i in range(12)]
    store(home, "wild", [*wild, Episode("user model get_order", Scored(0.0), "task-0")])
    file = tmp_path / "corridor.json"
    saved = field("old", home=home, preset="service", save_corridor=file)
    assert saved.saved_corridor == str(file)
    ruler = load_corridor(file)
    assert (ruler.corridor.K, ruler.preset, ruler.reading) == (30, "service", "steps")
    same = field("alike", home=home, corridor=file, traces=[])
    assert same.corridor is not None
    assert same.field == "service", "measured as the corridor was"
    far = field("wild", home=home, corridor=file)
    assert far.corridor is not None
    assert far.corridor.alarm.raised is True
    assert sum(a.inside is False for a in far.corridor.adherence) >= 12
    assert {g.state for g in far.corridor.gaps} == {"start", "looked up", "acted"}
    assert list(far.dimensions) == far.corridor.dimensions
    assert far.corridor.gaps[0].centroid_gap["reads"] > 10


def test_a_corridor_from_several_runs_or_from_chosen_traces(home, tmp_path):
    store(home, "one", episodes(7, k=6))
    store(home, "two", episodes(8, k=6))
    file = tmp_path / "corridor.json"
    both = field("one", join=["two"], home=home, save_corridor=file)
    assert (both.K, both.joined, load_corridor(file).corridor.K) == (36, ["two"], 18)
    ids = [e.head.trace_id for e in home.run("one").entries]
    some = field("one", home=home, traces=[ids[0][:20], *ids[1:8]], save_corridor=file)
    assert (some.K, load_corridor(file).corridor.K) == (8, 4)
    with pytest.raises(BadUsage, match="is in two of these runs"):
        field("one", join=["one"], home=home)
    with pytest.raises(NotFound, match="begins with 'nothing'"):
        field("one", traces=["nothing"], home=home)


def test_a_dimension_that_new_runs_lack_is_not_compared(home, tmp_path):
    store(home, "old", episodes(9, k=20, tasks=1))
    bare = [Episode("user model" + " user model" * (i % 3), Scored(float(i % 2)), "task-0") for i in range(8)]
    store(home, "bare", bare)
    file = tmp_path / "corridor.json"
    field("old", home=home, save_corridor=file)
    found = field("bare", home=home, corridor=file)
    assert found.corridor is not None
    assert found.corridor.not_compared["errors"] == "no step says whether it went well"
    assert "steps" in found.corridor.dimensions
    assert "errors" not in found.corridor.dimensions


def test_a_corridor_of_ones_own_field_is_measured_through_it(home, tmp_path):
    store(home, "old", episodes(15, k=20, tasks=1))
    (tmp_path / "own.py").write_text(OWN)
    file, own = tmp_path / "corridor.json", f"{tmp_path / 'own.py'}:Good"
    field("old", home=home, field=own, save_corridor=file)
    found = field("old", home=home, corridor=file)
    assert found.field == own
    assert found.corridor is not None
    assert found.corridor.dimensions == ["a", "b"]
    with pytest.raises(BadUsage, match="leave out preset"):
        field("old", home=home, corridor=file, preset="service")


def test_two_runs_are_compared_on_dimensions_that_both_have(home):
    store(home, "base", episodes(10))
    store(home, "more", [*episodes(11, more=6), Episode("user model get_a", Scored(1.0), "another")])
    found = field("more", against="base", home=home)
    assert found.against == "base"
    assert found.comparison is not None
    assert found.comparison.only_in_second == ("another",)
    shift = {d.name: d for d in found.comparison.dimensions}["reads"]
    assert shift.difference == pytest.approx(6, abs=1)
    assert shift.adjusted is not None
    assert shift.adjusted <= 0.01
    assert [d.name for d in found.comparison.dimensions] == list(found.dimensions)


def grid(seed: int, k: int = 6) -> list[Episode]:
    rng = np.random.default_rng(seed)
    return [
        Episode(
            shop(rng, good := bool(rng.random() < 0.5), more=8 * noisy),
            Scored(float(good)),
            f"t{t}",
            f"noise={noisy}, hint={hint}",
        )
        for noisy in (0, 1)
        for hint in ("no", "yes")
        for t in range(3)
        for _ in range(k)
    ]


def test_factors_are_ablated(home):
    store(home, "grid", grid(12))
    found = field("grid", home=home, ablate=True)
    assert found.ablation is not None
    assert found.ablation.factors == {"noise": ["0", "1"], "hint": ["no", "yes"]}
    effects = {e.name: e for e in found.ablation.effects}
    reads = effects["noise=1"].dimensions["reads"]
    assert reads.low is not None
    assert reads.low > 0
    assert effects["hint=yes"].adjusted["centre"] > 0.05 >= effects["noise=1"].adjusted["centre"]
    assert found.K == 72
    assert found.tasks == 12, "runs under other settings are no repeats of each other"


def test_settings_come_from_the_plan(home):
    names = {"noise=0, hint=no": "a", "noise=1, hint=no": "b"}
    kept = [msgspec.structs.replace(e, condition=names[e.condition]) for e in grid(13) if e.condition in names]
    plan = {"options": {"conditions": [{"name": "a"}, {"name": "b", "settings": {"noise": 3}}]}}
    store(home, "grid", kept, plan=plan)
    found = field("grid", home=home, ablate=True)
    assert found.ablation is not None
    assert found.ablation.factors == {"noise": ["not set", "3"]}
    with pytest.raises(BadUsage, match="choose one with condition"):
        field("grid", home=home)
    assert field("grid", home=home, condition="b").K == 18


def test_a_suite_may_say_from_where_on_it_is_a_success(home):
    scores = [0.2, 0.6, 0.7, 0.9, 0.95, 0.6]
    store(home, "run", [Episode("get_a " * (i + 1), Scored(s)) for i, s in enumerate(scores)], plan={"success_at": 0.8})
    found = field("run", home=home)
    assert (found.successes, found.failures) == (2, 4)
    assert found.notes == ["scores are read as passed or failed at 0.8, as the suite says"]


def test_several_agents_are_told(home):
    store(home, "run", [Episode("get_a " * (i + 1), Scored(float(i % 2)), agent="ab"[i % 2]) for i in range(8)])
    assert field("run", home=home).notes == ["2 agents are read as one (a, b); --agent chooses"]
    assert field("run", home=home, agent="a").notes == []


def test_too_little_is_refused(home):
    store(home, "empty", [Episode("user", Missing("killed")), Episode("", Scored(1.0))])
    with pytest.raises(
        Refused, match=r"no scored trace to measure \(killed 1, no steps 1\); the ways to score it"
    ) as none:
        field("empty", home=home)
    assert none.value.estimate is not None
    assert none.value.estimate.missing == {"killed": 1, "no steps": 1}
    store(home, "one", [Episode("user model get_a")])
    with pytest.raises(Refused, match="one scored trace") as one:
        field("one", home=home)
    assert (one.value.have, one.value.need, one.value.of) == (1, 2, "scored traces")
    store(home, "lost", [Episode("user model get_a", Scored(0.0))] * 3)
    with pytest.raises(Refused, match="no success"):
        field("lost", home=home, save_corridor="never.json")
    assert not Path("never.json").exists()


OWN = """
from ethogram.questions.field.field import Dimension, Field

class Base(Field):
    def dimensions(self):
        return [Dimension("a"), Dimension("b")]

class Good(Base):
    def measure(self, trace):
        return [len(trace.steps), 1]

class NaN(Base):
    def measure(self, trace):
        return [float("nan"), 1]

class Short(Base):
    def measure(self, trace):
        return [1]

class Crash(Base):
    def measure(self, trace):
        return trace.nothing

class Needy(Base):
    def __init__(self, x):
        self.x = x

class Bare(Field):
    pass

class Backwards(Good):
    state_order = ("early", "late")

    def state(self, trace, t):
        return "early" if t % 2 else "late"

helper = 3
"""


def test_a_file_with_a_field_is_held_to_its_word(home, tmp_path):
    store(home, "run", [Episode("user model get_a" + " get_a" * i, Scored(float(i % 2))) for i in range(4)])
    file = tmp_path / "own.py"
    file.write_text(OWN)
    assert field("run", home=home, field=f"{file}:Good").d == 2
    for name, error, words in (
        ("NaN", BadInput, "gave nan on dimension 'a'"),
        ("Short", BadInput, r"gave the shape \(1,\)"),
        ("Crash", BadInput, "failed on trace .*AttributeError: 'Trace' object has no attribute 'nothing'"),
        ("Needy", BadInput, "cannot be made: TypeError"),
        ("Bare", BadInput, r"needs dimensions\(\)"),
        ("helper", BadUsage, "is int, not a subclass"),
        ("Dimension", BadUsage, "is Dimension, not a subclass"),
        ("Gone", NotFound, "has no function or class 'Gone'; it has: "),
    ):
        with pytest.raises(error, match=words):
            field("run", home=home, field=f"{file}:{name}")
    backwards = field("run", home=home, field=f"{file}:Backwards")
    assert [n for n in backwards.notes if "went backwards in 4 of 4" in n]
    (tmp_path / "broken.py").write_text("1 +")
    with pytest.raises(BadInput, match="cannot be imported: SyntaxError"):
        field("run", home=home, field=f"{tmp_path / 'broken.py'}:X")
    with pytest.raises(NotFound, match="no Python file"):
        field("run", home=home, field=f"{tmp_path / 'absent.py'}:X")
    with pytest.raises(NotFound, match="cannot import 'no_such_package'"):
        field("run", home=home, field="no_such_package:X")


def test_what_makes_no_sense_is_said_before_anything_is_read(home, tmp_path):
    store(home, "run", episodes(14, k=4))
    bad: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"preset": "codng"}, NotFound, "did you mean 'coding'"),
        ({"dimensions": ["stepz"]}, NotFound, "did you mean 'steps'"),
        ({"reading": "messages"}, BadUsage, "is for a field of your own"),
        ({"reading": "words"}, BadUsage, "readings are: steps, messages"),
        ({"field": Calls, "preset": "coding"}, BadUsage, "leave out preset"),
        ({"rule": "seen"}, BadUsage, "rule must be visited or reached"),
        ({"draws": 3}, BadUsage, "draws must be at least 99"),
        ({"level": 1.5}, BadUsage, "level must lie between 0.5 and 1"),
        ({"ablate": True}, BadUsage, "nothing to ablate"),
        ({"ablate": True, "against": "run"}, BadUsage, "cannot be combined with against"),
        ({"states": tmp_path / "none.yaml"}, NotFound, "no milestones at"),
        ({"corridor": tmp_path / "none.json"}, NotFound, "no corridor at"),
        ({"dimensions": ["seconds", "cost_usd"]}, Refused, "none of the dimensions can be measured"),
    ]
    for options, error, words in bad:
        with pytest.raises(error, match=words):
            field("run", home=home, **options)


def test_what_was_superseded_or_damaged_is_not_measured(home):
    store(home, "run", [Episode("get_a " * (i + 1), Scored(float(i % 2))) for i in range(4)])
    run = home.run("run")
    old = run.entries[0].head
    with run.writer(Redactor(b"test", Policy(kinds=())), window=None) as writer:
        new = trace_id("run", "again")
        sink = writer.trace(new, supersedes=old.trace_id)
        for i in range(9):
            sink.span(Span(trace_id=new, span_id=SpanId(f"s{i}"), seq=i, kind="tool", name="get_a", status="ok"))
        sink.finish(msgspec.structs.replace(old, trace_id=new), ())
    found = field(home.run("run"), dimensions=["steps", "tool_calls"])
    assert found.K == 4
    assert found.dimensions["steps"].mean == (9 + 2 + 3 + 4) / 4
    spans = next(f.name for f in run.standing.named("spans-"))
    place = home.files.root / run.path / spans  # type: ignore[attr-defined]
    place.write_bytes(place.read_bytes()[:200])
    with pytest.raises(Damaged, match=f"{spans} of run 'run' cannot be read"):
        field(home.run("run"))


def test_files_that_are_not_what_they_should_be(tmp_path):
    file = tmp_path / "f"
    for text, words in (
        ("a: [", "is not YAML"),
        ("5", "f: milestones are a list"),
        ("- {state: a, when: {tol: x}}", "unknown key 'tol'"),
    ):
        file.write_text(text)
        with pytest.raises(BadInput, match=words):
            milestones_file(file)
    for text, words in (
        ("{", "is not JSON"),
        ("[]", "is not a corridor"),
        ('{"kind": "ethogram corridor"}', "is not a corridor"),
    ):
        file.write_text(text)
        with pytest.raises(BadInput, match=words):
            load_corridor(file)


def test_the_table_of_dimensions():
    whole, coding = standard_table(), standard_table("coding")
    assert len(whole.rows()) > len(coding.rows()) > 20
    assert all("coding" in d.presets for d in coding.dimensions)
    assert "grep" in whole.tool_classes["search"]
    assert list(whole.presets) == ["standard", "coding", "service", "web"]
