"""One trace, one number: every metric of the catalogue is the same in every place that names it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from ethogram.findings.events import event_findings
from ethogram.findings.finding import Facts
from ethogram.findings.step_words import TraceWords
from ethogram.measures.metrics import METRICS
from ethogram.questions.compare.question import compare
from ethogram.questions.cost.question import cost as cost_of
from ethogram.questions.field.files import FieldOptions, measure_traces
from ethogram.questions.field.question import field
from ethogram.questions.gate.planning import plan
from ethogram.questions.golden.health import RanTasks, counted_runs
from ethogram.questions.home.overview import run_overview
from ethogram.questions.home.queries import sql
from ethogram.questions.home.runs import EpisodeRow, show
from ethogram.questions.incident.opening import open_incident
from ethogram.questions.logs.imports import import_logs
from ethogram.questions.reliability.question import stats
from ethogram.questions.why.decisions import step_words
from ethogram.questions.why.question import why
from ethogram.questions.why.side_by_side import BesideReader
from ethogram.reading.attempt_prices import attempt_price, run_price
from ethogram.reading.metric_means import metric_means
from ethogram.reading.outcomes import clean_condition, load_outcomes
from ethogram.store import Home, Redactor
from ethogram.traces import UNMETERED, Head, Param, Scored, Span, SpanId, Trace, episode_id, trace_id
from ethogram.viewer.library import Library
from ethogram.viewer.models.outline import TraceQuery
from ethogram.viewer.models.trace import TraceView, trace_view
from ethogram.viewer.report.paper_trace import PaperLimits, paper_traces

# a tool runs a sub-agent, and a tool of that fails: the two spans above it end in an error as well
SPANS = (
    ("run", None, "agent", "error"),
    ("ask", "run", "tool", "error"),
    ("think", "ask", "model", "ok"),
    ("look", "ask", "tool", "error"),
)


def spans_of(trace: Any, thoughts: int) -> list[Span]:
    """The spans, with some thoughts more, so that traces differ."""
    more = [(f"think-{i}", "run", "model", "ok") for i in range(thoughts)]
    return [
        Span(
            trace_id=trace,
            span_id=SpanId(name),
            parent_id=None if above is None else SpanId(above),
            seq=seq,
            kind=kind,  # type: ignore[arg-type]
            name=name,
            status=status,  # type: ignore[arg-type]
        )
        for seq, (name, above, kind, status) in enumerate((*SPANS, *more))
    ]


def store(home: Home, plain: Redactor, run: str, traces: Iterable[tuple[Head, list[Span]]], **details: Any) -> None:
    """A run of these traces."""
    with home.create(run, "import", **details).writer(plain) as writer:
        for head, spans in traces:
            sink = writer.trace(head.trace_id)
            for span in spans:
                sink.span(span)
            sink.finish(head, ())


@pytest.fixture
def runs(home: Home, plain: Redactor) -> Home:
    for name in ("base", "new"):
        heads = [
            Head(
                trace_id=trace_id("test", f"{name}-{i}"),
                episode=episode_id(name, str(i)),
                task=f"t{i % 2}",
                outcome=Scored(float(i > 1), "test"),
            )
            for i in range(4)
        ]
        store(home, plain, name, [(head, spans_of(head.trace_id, i)) for i, head in enumerate(heads)])
    return home


@pytest.mark.parametrize("name", ["errors", "tool_calls"])
def test_one_number(runs: Home, name: str) -> None:
    told = {
        "compare": compare("base", "new", home=runs, metric=name).base.value,
        "field": field("base", home=runs, dimensions=[name, "steps"]).dimensions[name].mean,
        "report": next(m.mean.value for m in metric_means("base", home=runs).metrics if m.name == name),
        "show": getattr(show("base", home=runs).totals, name) / 4,
        "sql": sql(f"select avg({name}) as mean from episodes where run = 'base'", home=runs).rows()[0]["mean"],
        "trace": getattr(Trace(Head(**HEAD), tuple(spans_of(HEAD["trace_id"], 0)), {}).totals, name),
    }
    assert told == dict.fromkeys(told, 1.0)


HEAD: dict[str, Any] = {"trace_id": trace_id("test", "x"), "episode": episode_id("x", "x"), "task": "t"}


def test_steps_that_err_compound(runs: Home) -> None:
    """What `stats` says of errors per step rests on the same count: 4 errors in 4 × 2 steps and 6 thoughts."""
    found = stats("base", [1], home=runs).compounding
    assert found is not None
    assert found.per_step == pytest.approx(1 - 4 / 14)


class Awkward(NamedTuple):
    """A trace: what its spans are, what its head says, and what every place must say of it beside the defaults."""

    spans: list[dict[str, Any]]
    known: dict[str, float | None]
    meta: dict[str, Param] = {}
    times: tuple[int | None, int | None] = (1_000_000_000, 3_000_000_000)


def call(**more: Any) -> dict[str, Any]:
    """A model call of 1000 tokens in and 100 out: $0.003 by our own price."""
    return {"kind": "model", "model": "m", "status": "ok", "input_tokens": 1000, "output_tokens": 100, **more}


BARE = call(input_tokens=None, output_tokens=None)
TOOL = {"kind": "tool", "name": "look", "tool": "look", "status": "ok"}
FAILED = {**TOOL, "status": "error"}
AWKWARD = {
    "recorded": Awkward([call(cost_usd=0.25), call(model="x", cost_usd=0.25)], {"cost": 0.5, "tokens": 2200}),
    "priced": Awkward([call(), TOOL, call()], {"cost": 0.006, "tokens": 2200}),
    "both": Awkward([call(), call(cost_usd=0.25)], {"cost": 0.253, "tokens": 2200}),
    "partly priced": Awkward([call(), call(model="x")], {"cost": None, "tokens": 2200}),
    "partly recorded": Awkward([call(model="x", cost_usd=0.25), call(model="x")], {"cost": None, "tokens": 2200}),
    "recorded as 0": Awkward([call(model="x", cost_usd=0.0)], {"cost": None, "tokens": 1100}),
    "no usage": Awkward([BARE, TOOL], {"cost": None, "tokens": None}),
    "no call": Awkward([TOOL, TOOL], {"cost": None, "tokens": None}),
    "a failed call": Awkward([{**BARE, "status": "error"}, call()], {"cost": 0.003, "tokens": 1100, "errors": 1}),
    "cached": Awkward([call(cache_read_tokens=7, reasoning_tokens=50)], {"cost": 0.003007, "tokens": 1107}),
    "stated seconds": Awkward([call()], {"seconds": 13}, {"seconds": 13}, (None, None)),
    "no seconds": Awkward([call()], {"seconds": None}, {"seconds": "long"}, (None, None)),
    "ends before it starts": Awkward([call()], {"seconds": None}, {}, (3, 1)),
    "unmetered": Awkward([call(), TOOL], {"cost": None, "tokens": None}, {UNMETERED: "tokens,unseen,usd"}),
    "unpriced when it ran": Awkward([call(), TOOL], {"cost": 0.003, "tokens": 1100}, {UNMETERED: "usd"}),
    "wrapped": Awkward(
        [
            {"kind": "agent", "status": "error"},
            {"kind": "other", "status": "error", "parent_id": "s0"},
            {**FAILED, "parent_id": "s1"},
            call(parent_id="s0"),
        ],
        {"errors": 1, "tool_calls": 1, "steps": 2},
    ),
    "a call around a call": Awkward([call(), call(parent_id="s0")], {"cost": 0.003, "tokens": 1100, "steps": 1}),
    "cut off": Awkward([call(stop_reason=s) for s in ("length", "maxTokens", "stop")], {"cost": 0.009, "tokens": 3300}),
}
PLACES = ("compare", "field", "show", "sql", "viewer", "report")
"""Those that have every metric; others have some."""


def trace_of(name: str) -> tuple[Head, list[Span]]:
    """A trace of the table; it failed."""
    spans, _, meta, (start, end) = AWKWARD[name]
    key = trace_id("awkward", name)
    made = [
        Span(**{"name": "step", "trace_id": key, "span_id": SpanId(f"s{i}"), "seq": i, **fields})
        for i, fields in enumerate(spans)
    ]
    head = Head(
        trace_id=key,
        episode=episode_id("awkward", name),
        task=name,
        outcome=Scored(0.25, "test"),
        meta=meta,
        start_ns=start,
        end_ns=end,
    )
    return head, made


def expected(name: str) -> dict[str, float | None]:
    """What is true of a trace."""
    spans, known, *_ = AWKWARD[name]
    plain: dict[str, float | None] = {"success": 0, "score": 0.25, "cost": 0.003, "tokens": 1100, "seconds": 2}
    plain |= {"steps": len(spans), "tool_calls": sum(s["kind"] == "tool" for s in spans), "errors": 0}
    return plain | known


HELD = ("success", "score", "cost", "tokens", "seconds", "steps", "tool_calls", "errors")
"""Metrics that every place shows; others follow from the same columns."""


@pytest.fixture
def awkward(home: Home, plain: Redactor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """All of them in one run, and a price for one of their models."""
    (tmp_path / "prices.json").write_text(json.dumps({"m": {"fresh": 2, "output": 10, "cached": 1}}))
    monkeypatch.setenv("ETHOGRAM_PRICES", str(tmp_path / "prices.json"))
    store(home, plain, "odd", map(trace_of, AWKWARD))
    return home


Reading = dict[str, dict[str, float | None]]


def known(value: float | None) -> float | None:
    """None where a column has NaN; else rounded, for sums have no fixed order."""
    return None if value is None or math.isnan(value) else round(float(value), 9)


def by_compare(home: Home) -> Reading:
    found = load_outcomes("odd", home=home, metrics=list(METRICS))
    columns = {"success": found.success.astype(float), "score": found.value, **found.figures}
    return {found.tasks[t]: {n: known(c[i]) for n, c in columns.items()} for i, t in enumerate(found.task.tolist())}


def by_field(home: Home) -> Reading:
    run = home.run("odd")
    found = measure_traces([run], [run.entries], FieldOptions()).standard
    assert found is not None
    score = np.array([e.head.outcome.value for e in run.entries])  # type: ignore[union-attr]
    columns = {**found.values, "score": score, "success": (score >= 0.5).astype(float)}
    return {
        e.head.task: {n: known(m.measured(columns)[i]) for n, m in METRICS.items()} for i, e in enumerate(run.entries)
    }


def of_row(row: EpisodeRow) -> dict[str, float | None]:
    assert row.score is not None
    return {
        "success": float(row.score >= 0.5),
        "score": row.score,
        "cost": known(row.cost_usd),
        "steps": row.totals.steps,
        "tokens": row.tokens,
        "seconds": row.seconds,
        "tool_calls": row.totals.tool_calls,
        "errors": row.totals.errors,
    }


def by_show(home: Home) -> Reading:
    return {row.task: of_row(row) for row in show("odd", home=home).traces}


def by_sql(home: Home) -> Reading:
    query = f"SELECT task, {', '.join('m.' + n for n in METRICS)} FROM metrics m JOIN episodes USING (run, trace_id)"
    return {row.pop("task"): {n: known(v) for n, v in row.items()} for row in sql(query, home=home).records}


def of_view(view: TraceView) -> dict[str, float | None]:
    passed = float(view.state == "passed")
    return {
        **of_row(view.attempt),
        "success": passed,
        "tokens": view.tokens,
        "steps": view.steps,
        "errors": view.errors,
    }


def by_viewer(home: Home) -> Reading:
    library = Library(home)
    traces = [e.head.trace_id for e in home.run("odd").entries]
    views = [trace_view(library, TraceQuery(run="odd", trace=trace)) for trace in traces]
    return {view.attempt.task: of_view(view) for view in views}


def by_report(home: Home) -> Reading:
    run = home.run("odd")
    groups = paper_traces(BesideReader(run, why(run, home=home)), None, PaperLimits())
    return {one.head.attempt.task: of_view(one.head) for group in groups for one in group}


READINGS: dict[str, Callable[[Home], Reading]] = {
    "compare": by_compare,
    "field": by_field,
    "show": by_show,
    "sql": by_sql,
    "viewer": by_viewer,
    "report": by_report,
}


@pytest.mark.parametrize("place", PLACES)
def test_every_place_gives_every_metric(awkward: Home, place: str) -> None:
    found = {task: {name: row[name] for name in HELD} for task, row in READINGS[place](awkward).items()}
    assert found == {name: expected(name) for name in AWKWARD}


def test_places_that_compute_agree_on_every_metric(awkward: Home) -> None:
    """Also on those of the catalogue that are not calculated here."""
    assert by_compare(awkward) == by_field(awkward) == by_sql(awkward)


def test_places_that_give_some(awkward: Home) -> None:
    run = awkward.run("odd")
    for row in cost_of(run).by_episode:
        assert known(row.cost_usd) == expected(row.task)["cost"], row.task
    for tallied in counted_runs(AWKWARD, [RanTasks(run, frozenset(AWKWARD))]):
        told = {"cost": known(tallied.usd[0]), "seconds": known(tallied.seconds[0])}
        assert told == {n: expected(tallied.task)[n] for n in told}, tallied.task
    for name in ("priced", "partly priced", "stated seconds", "unmetered"):
        cost = open_incident(trace_id("awkward", name), why="it failed", home=awkward).incident.facts.cost
        told = {"cost": known(cost.usd), "tokens": cost.tokens, "seconds": cost.seconds}
        assert told == {n: expected(name)[n] for n in told}, name
    columns = ("score", "steps", "tool_calls", "errors")
    for row in sql(f"SELECT task, {', '.join(columns)} FROM episodes", home=awkward).records:
        assert row == {"task": row["task"], **{n: expected(row["task"])[n] for n in columns}}


def test_means_are_of_what_is_known(awkward: Home, plain: Redactor) -> None:
    store(awkward, plain, "again", map(trace_of, AWKWARD))

    def mean(name: str) -> float:
        values = [v for task in AWKWARD if (v := expected(task)[name]) is not None]
        return pytest.approx(sum(values) / len(values))  # type: ignore[no-any-return]

    for row in (m for m in metric_means("odd", home=awkward).metrics if m.name in HELD):
        assert row.mean.value == mean(row.name), row.name
        assert compare("odd", "again", home=awkward, metric=row.name).base.value == mean(row.name)
    assert run_price(awkward.run("odd")) == mean("cost")
    assert cost_of("odd", home=awkward).per_run.value == mean("cost")


def attempt_of(task: str, number: int, usd: float | None, *, condition: str = "", seconds: int = 2) -> Any:
    """A trace with one model call of this cost; of unknown cost where it is None."""
    key = trace_id("price", f"{task} {number} {condition}")
    fields = call(model="x", cost_usd=usd)
    span = Span(name="step", trace_id=key, span_id=SpanId("s0"), seq=0, **fields)
    head = Head(
        trace_id=key,
        episode=episode_id("price", f"{task} {number} {condition}"),
        task=task,
        attempt=number,
        condition=condition,
        outcome=Scored(1.0, "test"),
        start_ns=1_000_000_000,
        end_ns=(1 + seconds) * 1_000_000_000,
    )
    return head, [span]


CHEAP = [attempt_of("a", i, 0.01, seconds=1) for i in range(3)]
DEAR = attempt_of("b", 0, 0.1, seconds=10)


@pytest.mark.parametrize("unknown", [[], [attempt_of("b", 1, None), attempt_of("c", 0, None)]])
def test_every_price_of_an_attempt_weighs_tasks_equally(home: Home, plain: Redactor, unknown: list[Any]) -> None:
    """3 attempts at $0.01 of one task and 1 at $0.10 of the other: $0.055, not $0.0325."""
    store(home, plain, "uneven", [*CHEAP, DEAR, *unknown])
    run = home.run("uneven")
    told = {
        "attempt_price": attempt_price(load_outcomes(run, metrics=["cost"])),
        "run_price": run_price(run),
        "run_price twice": run_price(run, run),
        "cost": cost_of(run).per_run.value,
        "metric": next(m.mean.value for m in metric_means(run).metrics if m.name == "cost"),
        "plan": plan(run, drop=0.3).price,
    }
    assert told == dict.fromkeys(told, pytest.approx(0.055))


def test_a_price_is_of_undisturbed_attempts(home: Home, plain: Redactor) -> None:
    store(home, plain, "hurt", [*CHEAP, DEAR, *(attempt_of("a", i, 9.0, condition="noise") for i in range(3))])
    assert run_price(home.run("hurt")) == pytest.approx(0.055)
    assert cost_of("hurt", home=home, condition="").per_run.value == pytest.approx(0.055)


def test_the_list_of_runs_has_the_metrics(home: Home, plain: Redactor) -> None:
    """3 attempts of 1 second at one task and 1 of 10 at the other: 5.5 seconds, not 3.25; disturbed ones are apart."""
    store(home, plain, "uneven", [*CHEAP, DEAR])
    info = {"experiment": {}}
    hurt = [attempt_of("a", i, 9.0, condition="noise", seconds=99) for i in range(3)]
    store(home, plain, "hurt", [*CHEAP, DEAR, *hurt], plan=info)
    for name in ("uneven", "hurt"):
        run = home.run(name)
        means = {m.name: m.mean for m in metric_means(run, condition=clean_condition(run)).metrics}
        told = run_overview(run)
        assert told.seconds == means["seconds"].value == 5.5
        assert told.pass_rate is not None
        assert told.pass_rate.n == means["seconds"].n == 2
    tokens = load_outcomes("uneven", home=home, metrics=["tokens"]).figures["tokens"]
    assert run_overview(home.run("uneven")).tokens == tokens.sum() == 4400
    store(home, plain, "two", [*CHEAP, *hurt])
    assert run_overview(home.run("two")).seconds is None


def test_an_unknown_price_is_none(home: Home, plain: Redactor) -> None:
    store(home, plain, "dark", [attempt_of("a", 0, None)])
    assert run_price(home.run("dark")) is None
    assert attempt_price(load_outcomes("dark", home=home, metrics=["cost"])) is None
    assert attempt_price(load_outcomes("dark", home=home)) is None


def test_a_field_has_the_cost_of_every_call(home: Home, plain: Redactor, awkward: Home) -> None:
    names = ("priced", "cached", "cut off")
    store(home, plain, "known", map(trace_of, names))
    found = field("known", home=home, dimensions=["cost_usd", "steps"])
    assert found.dimensions["cost_usd"].mean == pytest.approx(sum(expected(n)["cost"] or 0 for n in names) / 3)
    assert found.left_out == {}


def test_an_outcome_of_a_table_costs_the_same_everywhere(home: Home, tmp_path: Path) -> None:
    table = tmp_path / "results.csv"
    table.write_text("task,score,cost,seconds,input_tokens\na,1,0.5,13,100\nb,0,,,100\nc,0,0,2,100\n")
    import_logs(table, home=home, run="table")
    costs, seconds = {"a": 0.5, "b": None, "c": None}, {"a": 13.0, "b": None, "c": 2.0}
    rows = show("table", home=home).traces
    assert {r.task: r.cost_usd for r in rows} == {r.task: r.cost_usd for r in cost_of("table", home=home).by_episode}
    assert {r.task: r.cost_usd for r in rows} == costs
    assert {r.task: r.seconds for r in rows} == seconds
    told = sql("SELECT task, cost, seconds FROM metrics JOIN episodes USING (run, trace_id)", home=home).records
    assert {r["task"]: r["cost"] for r in told} == costs
    assert {r["task"]: r["seconds"] for r in told} == seconds
    found = load_outcomes("table", home=home, metrics=["cost", "seconds"])
    assert dict(zip(found.tasks, map(known, found.figures["cost"]), strict=True)) == costs
    assert dict(zip(found.tasks, map(known, found.figures["seconds"]), strict=True)) == seconds


STOPS = ("length", "Length", "max_tokens", "maxTokens", "MAX_TOKENS", "max-tokens", "MAX_OUTPUT_TOKENS", "token_limit")
STOPS += ("model_length", "context_length")


@pytest.mark.parametrize("reason", [*STOPS, "stop", "tool_calls", "content_filter", None])
def test_a_length_stop_is_one_in_every_spelling(home: Home, plain: Redactor, reason: str | None) -> None:
    key = trace_id("stop", str(reason))
    head = Head(trace_id=key, episode=episode_id("stop", "x"), task="t", outcome=Scored(0.0, "test"))
    fields: dict[str, Any] = {"trace_id": key, "kind": "model", "name": "m", "status": "ok"}
    spans = [
        Span(span_id=SpanId("a"), seq=0, stop_reason="stop", **fields),
        Span(span_id=SpanId("b"), seq=1, stop_reason=reason, **fields),
    ]
    store(home, plain, "stops", [(head, spans)])
    run = home.run("stops")
    found = measure_traces([run], [run.entries], FieldOptions()).standard
    assert found is not None
    events = {f.name for f in event_findings(TraceWords(run.trace(run.entries[0])), Facts())}
    is_cut = reason in STOPS
    assert (found.values["length_stops"][0], "length_stop" in events) == (float(is_cut), is_cut)
    assert step_words(spans[1]) == (f"answers ({reason})" if is_cut or reason == "content_filter" else "answers")
