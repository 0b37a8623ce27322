"""Divergence of stored runs: the public figures, columns against traces, two runs, and what bad input says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ethogram.capture.draft import Draft
from ethogram.capture.intake import Intake, SourceReport
from ethogram.errors import BadUsage, NotFound
from ethogram.measures.sequence import read_positions
from ethogram.questions.divergence.diff import diff
from ethogram.questions.divergence.question import divergence
from ethogram.questions.divergence.step_sequences import ReadingOptions, load_readings
from ethogram.questions.home.runs import load
from ethogram.questions.logs.imports import import_logs
from ethogram.store import Home, Keyring, Redactor, Run
from ethogram.traces import Message, Missing, Origin, Outcome, Scored, Text, ToolCall, TraceId

DATA = Path(__file__).parents[4] / "shared" / "data"
here = pytest.mark.skipif(not DATA.exists(), reason="../shared/data is not here")
TAU = "tau_bench/gpt-4o-airline.dev_5tasks.json.gz"


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / "expected.json").read_text())
    return found


def by_attempt(run: Run, task: str) -> dict[int, TraceId]:
    return {e.head.attempt: e.head.trace_id for e in run.entries if e.head.task == task}


@here
@pytest.mark.parametrize("case", ["empty", "identical", "single_edit"])
@pytest.mark.parametrize("signature", [None, "traxr", "structural"])
def test_the_figures_of_traxr(home: Home, expected: dict[str, Any], case: str, signature: str | None) -> None:
    import_logs(DATA / "traxr" / f"{case}.json", home=home, run="traxr", redact="none")
    sides = {e.head.condition: e.head.trace_id for e in load("traxr", home=home).entries}
    found = diff(sides["clean"], sides["perturbed"], signature=signature, home=home)
    want = expected["traxr"][f"{case}.json"]
    edits = want["edit_distance"]
    assert found.d_norm == pytest.approx(edits["normalized"])
    assert found.edits is not None
    assert found.control_flow is not None
    assert (found.edits.substitutions, found.edits.insertions, found.edits.deletions) == (
        edits["substitutions"],
        edits["insertions"],
        edits["deletions"],
    )
    assert (found.first.steps, found.second.steps) == (want["baseline_events"], want["perturbed_events"])
    flow = want["control_flow_changes"]
    for name in found.control_flow.__struct_fields__:
        assert getattr(found.control_flow, name) == flow[name], name
    assert found.control_flow_changes == flow["total_changes"]
    assert found.answer_changed == want["answer_changed"]
    first = found.traxr
    assert (first.position if first else None) == want["divergence_normalized_position"]
    assert (first.type if first else None) == want["first_divergence_type"]
    assert found.signature == (signature or "traxr")  # its own logs are read in its own signature by default
    if signature != "structural":  # the log's own numbers of turns are among its events
        assert (first.step if first else None) == want["first_divergence_step"]
        assert (found.first.turns, found.second.turns) == (want["baseline_steps"], want["perturbed_steps"])


def test_a_result_file_of_traxr_is_read_as_traxr_reads_it(home: Home, tmp_path: Path) -> None:
    def events(*operations: str) -> list[dict[str, Any]]:
        payloads = [{"tool_name": "table", "operation": o, "success": True} for o in operations]
        return [
            {"event_type": "tool_invocation", "sequence_index": i, "step_num": i, "agent_name": "a", "payload": p}
            for i, p in enumerate(payloads)
        ]

    runs = {"baseline": ("read", "sum"), "noise_floor_1": ("read", "sum"), "s.csv::column_swap": ("read", "max")}
    pair = {"item_id": "s.csv", "perturbation": "column_swap", "status_perturbed": "ok", "task_success": False}
    written = {
        "fingerprint": {"question": "Which?"},
        "noise_floor_runs": 1,
        "pairs": [pair],
        "answers": dict.fromkeys(runs, "4"),
        "traces": {label: {"run_label": label, "events": events(*done)} for label, done in runs.items()},
    }
    (tmp_path / "results.json").write_text(json.dumps(written))
    import_logs(tmp_path / "results.json", home=home, run="t")
    about: dict[str, Any] = {"condition": "s.csv::column_swap", "against_condition": "clean", "draws": 99}
    found = divergence("t", "t", home=home, **about)
    assert (found.signature, found.mean_of_means, found.noise_floor.max) == ("traxr", 0.5, 0.0)
    assert [p.within_noise_floor for p in found.pairs] == [False]
    structural = divergence("t", "t", signature="structural", home=home, **about)
    assert structural.mean_of_means == 0.0  # the structural signature does not know operations


@here
def test_the_figures_of_tau_bench(home: Home, expected: dict[str, Any]) -> None:
    import_logs(DATA / TAU, home=home, run="tau", redact="none")
    want = expected[TAU]["divergence"]
    found = divergence("tau", reading="messages", home=home)
    assert found.mean_of_means == pytest.approx(want["mean_over_tasks_of_mean"], rel=1e-9)
    assert found.noise_floor.pairs == want["n_pairs"]
    assert found.noise_floor.max == pytest.approx(want["max_over_all_pairs"])
    run = load("tau", home=home)
    for task, figures in want["per_task"].items():
        assert found.tasks[task].pairs == len(figures["pairs"])
        for name in ("mean", "max", "min"):
            assert getattr(found.tasks[task], name) == pytest.approx(figures[name], rel=1e-9)
        traces = by_attempt(run, task)
        for key, pair in figures["pairs"].items():
            a, b = (traces[int(k)] for k in key.split("-"))
            one = diff(a, b, reading="messages", home=home)
            assert one.d_norm == pytest.approx(pair["d_norm"], rel=1e-9)
            assert one.edits.substitutions == pair["substitutions"]
            assert one.edits.insertions == pair["insertions"]
            assert one.edits.deletions == pair["deletions"]
            if pair["distance"]:
                assert one.t_star == pair["common_prefix_len"]
                assert one.traxr is not None
                assert one.traxr.aligned_index == pair["first_div_aligned_index"]
                assert one.traxr.aligned_length == pair["aligned_len"]
                assert one.traxr.first_index == pair["first_div_index_a"]
                assert one.traxr.second_index == pair["first_div_index_b"]
            else:
                assert one.t_star is None
                assert one.traxr is None


def test_columns_read_as_traces_do(home: Home, logs: Any, samples: dict[str, bytes]) -> None:
    """On every format there is, the fast road and the whole traces give the same readings."""
    seen = 0
    for format, sample in samples.items():
        name = format.replace("_", "-")
        import_logs(logs.put(f"{format}.log", sample), home=home, run=name, format=format, redact="none")
        run = load(name, home=home)
        for signature in ("structural", "name", "kind"):
            how = ReadingOptions(signature=signature)
            assert how.columnar
            for episodes in load_readings(run, how).tasks.values():
                for episode in episodes:
                    assert episode.reading == read_positions(run.trace(episode.entry), "steps", how.function()), format
                    seen += len(episode.reading)
    assert seen > 100


Steps = list[tuple[str, str]]


@pytest.fixture
def write(home: Home, plain: Redactor) -> Callable[..., None]:
    """Write a run of episodes: (task, steps, answer, outcome) each."""

    def writer(name: str, episodes: list[dict[str, Any]]) -> None:
        with home.create(name, "import").writer(plain) as out:
            for i, given in enumerate(episodes):
                intake = Intake(lambda t: out.trace(t, None), Origin("test", f"{name}-{i}"), SourceReport(source=name))
                with intake.trace(f"{name}-{i}") as trace:
                    trace.task = given.get("task", "t")
                    trace.attempt = given.get("attempt", i)
                    trace.agent = given.get("agent", "")
                    trace.condition = given.get("condition", "")
                    outcome: Outcome = given.get("outcome", Scored(1.0, "test"))
                    trace.outcome = outcome
                    trace.answer = given.get("answer", "42")
                    lanes = given.get("lanes") or [""] * len(given["steps"])
                    for (kind, what), lane in zip(given["steps"], lanes, strict=True):
                        said = Message("assistant", (Text("hm"), ToolCall(what)))
                        more: dict[str, Any] = {"output": (said,)} if kind == "model" else {"tool": what}
                        if kind == "model" and given.get("tokens"):
                            more |= {"input_tokens": given["tokens"], "output_tokens": 1}
                        trace.add(Draft(kind=kind, name=what, lane=lane, **more))

    return writer


CALM: Steps = [("model", "chat"), ("tool", "look"), ("model", "chat"), ("tool", "act"), ("model", "chat")]
WILD: Steps = [*CALM, *[("tool", "think"), ("model", "chat")] * 3]


def test_a_run_against_its_baseline(home: Home, write: Callable[..., None]) -> None:
    tasks = [f"t{i}" for i in range(6)]
    one = CALM[:-1]
    base = [{"task": t, "attempt": k, "steps": CALM if k % 2 else one, "tokens": 9} for t in tasks for k in range(4)]
    wild = [{"task": t, "attempt": k, "steps": WILD, "answer": "43", "tokens": 9} for t in tasks for k in range(4)]
    write("base", base)
    write("wild", wild)
    found = divergence("wild", "base", draws=999, home=home)
    assert found.verdict == "different"
    assert found.p_value is not None
    assert found.p_value <= 0.01
    assert found.comparison is not None
    assert {s.signature for s in found.comparison.steps[:3]} & {"tool:think"}
    assert len(found.pairs) == 24
    assert {p.manifestation for p in found.pairs} == {"loop_or_extended_execution"}
    assert found.prevalence["loop_or_extended_execution"].value == 1.0
    assert found.groups["behavioral_detours"].value == 1.0
    assert all(p.within_noise_floor is False and p.tail_probability == 1 / 4 for p in found.pairs)
    assert found.within_noise_floor is not None
    assert found.within_noise_floor.value == 0.0
    assert found.prevalence_within_floor["loop_or_extended_execution"].value == 0.0
    assert all(p.answer_changed for p in found.pairs)
    assert all(isinstance(p.token_overhead, float) and p.token_overhead > 1 for p in found.pairs)
    assert found.noise_floor == divergence("base", home=home).noise_floor
    assert found.noise_floor.reruns == 3
    assert not found.warnings
    assert len(found.rows()) == 24
    assert found.to_df().shape[0] == 24


def test_the_same_behaviour_is_within_its_floor(home: Home, write: Callable[..., None]) -> None:
    write("base", [{"attempt": k, "steps": CALM} for k in range(6)])
    write("again", [{"attempt": k, "steps": CALM} for k in range(6)])
    found = divergence("again", "base", draws=99, home=home)
    assert found.verdict == "undecided"
    assert {p.manifestation for p in found.pairs} == {"no_observable_effect"}
    assert all(p.within_noise_floor and p.tail_probability == 1.0 for p in found.pairs)
    assert {p.token_overhead for p in found.pairs} == {"unavailable"}


def test_conditions_of_one_run_are_the_two_sides(home: Home, write: Callable[..., None]) -> None:
    clean = [{"attempt": k, "condition": "clean", "steps": CALM} for k in range(2)]
    write("both", [*clean, *[{"attempt": k, "condition": "dirty", "steps": [], "answer": None} for k in range(2)]])
    found = divergence("both", "both", condition="dirty", against_condition="clean", draws=99, home=home)
    assert {p.manifestation for p in found.pairs} == {"catastrophic_failure"}
    assert [p.baseline_trace for p in found.pairs] != [p.trace for p in found.pairs]
    repeats = divergence("both", home=home)
    assert repeats.tasks["t"].pairs == 1  # none across conditions, and none where no steps were captured
    assert repeats.mean_of_means == 0.0
    mixed = divergence("both", "both", condition="dirty", draws=99, home=home)
    assert any("2 versions" in w for w in mixed.warnings)


def test_steps_can_be_compared_without_the_key(
    home: Home, write: Callable[..., None], keys: Keyring, plain: Redactor
) -> None:
    keys.new()
    write("base", [{"attempt": k, "steps": CALM} for k in range(4)])
    write("cand", [{"attempt": k, "steps": WILD} for k in range(4)])
    open_eyes = divergence("cand", "base", draws=99, home=home)
    assert not any(p.answer_changed or p.answer_sealed for p in open_eyes.pairs)
    blind = Home(home.files, Keyring(Path(keys.path).with_name("none.json"), {}))
    found = divergence("cand", "base", draws=99, home=blind)
    assert all(p.answer_sealed and p.answer_changed is None for p in found.pairs)
    assert found.mean_of_means == open_eyes.mean_of_means
    assert any("sealed" in w for w in found.warnings)
    one, two = found.pairs[0].baseline_trace, found.pairs[0].trace
    assert any("sealed" in w for w in diff(one, two, home=blind).warnings)


def test_the_order_of_lanes_is_no_divergence(home: Home, write: Callable[..., None]) -> None:
    left, right = [("tool", "a"), ("tool", "b")], [("tool", "x"), ("tool", "y")]
    one = {"attempt": 0, "steps": [*left, *right], "lanes": ["l", "l", "r", "r"]}
    two = {"attempt": 1, "steps": [right[0], left[0], right[1], left[1]], "lanes": ["r", "l", "r", "l"]}
    write("lanes", [one, two])
    assert divergence("lanes", home=home).mean_of_means == 0.0
    assert divergence("lanes", lanes=False, home=home).mean_of_means == 1.0
    a, b = (e.head.trace_id for e in load("lanes", home=home).entries)
    found = diff(a, b, home=home)
    assert (found.d_norm, found.lanes, found.t_star) == (0.0, 2, None)


def test_an_unmeasured_floor_warns(home: Home, write: Callable[..., None]) -> None:
    write("base", [{"steps": CALM}])
    write("cand", [{"steps": WILD}])
    found = divergence("cand", "base", draws=99, home=home)
    assert any("was not measured" in w for w in found.warnings)
    assert found.pairs[0].within_noise_floor is None
    assert found.within_noise_floor is None
    assert found.prevalence_within_floor == {}
    assert found.verdict == "undecided"
    pair = load("base", home=home).entries[0], load("cand", home=home).entries[0]
    one = diff(pair[0].head.trace_id, pair[1].head.trace_id, home=home)
    assert any("was not measured" in w for w in one.warnings)


def test_episodes_that_do_not_show_the_agent_are_left_out(home: Home, write: Callable[..., None]) -> None:
    broken = {"attempt": 9, "steps": [], "outcome": Missing("infrastructure.network")}
    nameless = {"attempt": 0, "task": "", "steps": WILD}
    unscored = {"attempt": 2, "steps": CALM, "outcome": Missing("unscored")}
    write("night", [{"attempt": 0, "steps": CALM}, broken, nameless, unscored])
    found = divergence("night", home=home)
    assert found.missing == {"infrastructure.network": 1, "no task named": 1}
    assert any("do not name their task" in w for w in found.warnings)
    assert found.tasks["t"].pairs == 1
    assert found.mean_of_means == 0.0


def test_attempts_that_do_not_match_are_paired_in_order(home: Home, write: Callable[..., None]) -> None:
    write("base", [{"attempt": 0, "steps": CALM}, {"attempt": 1, "steps": WILD}])
    write("cand", [{"attempt": 5, "steps": CALM}, {"attempt": 6, "steps": WILD}, {"attempt": 7, "steps": CALM}])
    found = divergence("cand", "base", draws=99, home=home)
    assert [p.d_norm for p in found.pairs] == [0.0, 0.0, 0.0]
    assert found.tasks["t"].pairs == 6


def test_diff_says_what_is_odd(home: Home, write: Callable[..., None]) -> None:
    cut = {"task": "u", "steps": [], "answer": None, "outcome": Missing("killed")}
    write("odd", [{"task": "t", "steps": CALM}, cut])
    one, two = (e.head.trace_id for e in load("odd", home=home).entries)
    found = diff(one, two, home=home)
    said = " | ".join(found.warnings)
    assert "different tasks ('t' and 'u')" in said
    assert "the second trace has no steps" in said
    assert "cut short (killed)" in said
    assert found.manifestation == "catastrophic_failure"
    assert found.answer_changed is True
    assert "one trace, compared with itself" in diff(one, one, home=home).warnings[0]


def test_diff_takes_traces_in_memory_and_signatures_of_ones_own(home: Home, write: Callable[..., None]) -> None:
    write("base", [{"attempt": k, "steps": CALM} for k in range(4)])
    write("cand", [{"steps": WILD}])
    run, other = load("base", home=home), load("cand", home=home)
    one, two = run.trace(run.entries[0]), other.trace(other.entries[0])
    memory = diff(one, two)
    stored = diff(one.head.trace_id, two.head.trace_id, run="base", against="cand", home=home)
    assert memory.d_norm == stored.d_norm == pytest.approx(6 / 11)
    assert memory.within_noise_floor is None
    assert stored.within_noise_floor is False
    assert stored.noise_floor.reruns == 3
    assert len(memory.rows()) == 11
    coarse = diff(one, two, signature=lambda s: "any")
    assert coarse.edits.insertions == 6
    assert coarse.signature == "<lambda>"


def test_a_signature_from_a_file(
    home: Home, write: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("base", [{"attempt": k, "steps": s} for k, s in enumerate((CALM, WILD))])
    (tmp_path / "mine.py").write_text("def first(span):\n    return span.name[0]\nword = 'x'\n")
    monkeypatch.chdir(tmp_path)
    found = divergence("base", signature="mine.py:first", home=home)
    assert found.signature == "mine.py:first"
    assert found.mean_of_means == pytest.approx(6 / 11)
    with pytest.raises(BadUsage, match="is not a function"):
        divergence("base", signature="mine.py:word", home=home)
    with pytest.raises(NotFound):
        divergence("base", signature="mine.py:second", home=home)


def test_bad_questions(home: Home, write: Callable[..., None]) -> None:
    write("base", [{"steps": CALM}])
    with pytest.raises(NotFound, match="no signature named"):
        divergence("base", signature="words", home=home)
    with pytest.raises(BadUsage, match="no reading"):
        divergence("base", reading="words", home=home)
    with pytest.raises(BadUsage, match="compared with itself"):
        divergence("base", "base", home=home)
    with pytest.raises(BadUsage, match="needs the other run"):
        divergence("base", against_condition="clean", home=home)
    with pytest.raises(BadUsage, match="at least 99"):
        divergence("base", draws=3, home=home)
    with pytest.raises(NotFound):
        divergence("nowhere", home=home)
    with pytest.raises(NotFound):
        diff("ffff", "eeee", home=home)


def test_runs_without_a_common_task(home: Home, write: Callable[..., None]) -> None:
    write("base", [{"task": "a", "steps": CALM}])
    write("cand", [{"task": "b", "steps": CALM}])
    found = divergence("cand", "base", home=home)
    assert found.verdict == "undecided"
    assert found.p_value is None
    assert found.tasks == {}
    assert found.unpaired == ["a", "b"]
    assert found.prevalence["no_observable_effect"].value is None
    assert any("no task in common" in w for w in found.warnings)
