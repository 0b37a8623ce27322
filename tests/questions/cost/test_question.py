"""What a run cost: real stores, figures by hand, the real logs where they are, and runs of a scripted agent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from genai_prices import Usage, calc_price

from ethogram.capture.draft import Draft
from ethogram.capture.intake import Intake, SourceReport
from ethogram.errors import BadUsage, NotFound
from ethogram.harness.agents import ScriptedAgent
from ethogram.harness.suites import run
from ethogram.prices.settings import price_list
from ethogram.questions.cost.question import CostReport, assumed_cost, cost
from ethogram.questions.home.maintenance import retain
from ethogram.questions.home.runs import show
from ethogram.questions.logs.imports import import_logs
from ethogram.reading.episode_costs import kept_costs
from ethogram.store import DERIVED, Home, Keyring, Redactor, verify_run
from ethogram.store.files import LocalFiles
from ethogram.traces import Message, Missing, Origin, Outcome, Scored, Text, ToolResult

START = int(datetime(2026, 1, 15, tzinfo=UTC).timestamp() * 1e9)
SECOND = 1_000_000_000
SUCCESS = Scored(1.0)
DATA = Path(__file__).parents[4] / "shared" / "data"
OWN = {"m": {"fresh": 10, "cached": 1, "cache_write": 12, "output": 100}}
FOLDERS = ("atif", "claude_code", "inspect", "langfuse", "openclaw", "openhands", "swe_agent", "tau_bench", "trail")


def model(tokens: Sequence[int | None], **more: Any) -> dict[str, Any]:
    """A model call with fresh, cached, cache-write and output tokens."""
    names = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")
    return {"kind": "model", "name": "chat", "model": "m", **dict(zip(names, tokens, strict=False)), **more}


def tool(name: str, result: str | None, **more: Any) -> dict[str, Any]:
    return {"kind": "tool", "name": name, "tool": name, "result": result, "status": "ok", **more}


class Book:
    """Writes a run, trace by trace; contexts grow unless a call says `forget`."""

    def __init__(self, home: Home, plain: Redactor, name: str = "book") -> None:
        self.home, self.name = home, name
        self.writer = home.create(name, "import").writer(plain, window=None)
        self.count = 0

    def trace(
        self, *steps: dict[str, Any], task: str = "t", outcome: Outcome = SUCCESS, condition: str = "", **meta: Any
    ) -> None:
        self.count += 1
        key = f"trace {self.count}"
        intake = Intake(lambda t: self.writer.trace(t, None), Origin("test", key, "1"), SourceReport(source=key))
        with intake.trace(key) as trace:
            trace.task, trace.outcome, trace.attempt, trace.meta = task, outcome, self.count, meta
            trace.condition = condition
            talk: dict[str, list[Message]] = {}
            for n, step in enumerate(steps):
                step = {"start_ns": START + n * SECOND, "end_ns": START + n * SECOND + 1, **step}
                lane = talk.setdefault(step.get("lane", ""), [Message("user", (Text("please"),))])
                if step["kind"] == "model":
                    if step.pop("forget", False):
                        lane[:] = [Message("user", (Text(f"a summary at {n}"),))]
                    said = Message("assistant", (Text(f"step {n}"),))
                    if not step.pop("silent", False):
                        step |= {"input": list(lane), "output": (said,)}
                    lane.append(said)
                else:
                    back = Message("tool", (ToolResult(step.get("result") or "", step["name"]),))
                    step["output"] = (back,)
                    lane.append(back)
                trace.add(Draft(**step))

    def cost(self, **more: Any) -> CostReport:
        self.writer.close()
        return cost(self.name, home=self.home, prices=more.pop("prices", OWN), **more)


@pytest.fixture
def book(home: Home, plain: Redactor) -> Book:
    return Book(home, plain)


def test_tokens_times_rates_by_hand(book: Book) -> None:
    book.trace(model([1000, 2000, 3000, 400, 100]), model([10, None, None, 5]))
    report = book.cost()
    one = (1000 * 10 + 2000 * 1 + 3000 * 12 + 400 * 100) / 1e6
    two = (10 * 10 + 5 * 100) / 1e6
    assert report.cost_usd == pytest.approx(one + two)
    assert report.per_run.value == pytest.approx(one + two)
    assert report.per_resolved.value == pytest.approx(one + two)
    use = report.usage
    assert (use.calls, use.fresh, use.cached, use.cache_write, use.output, use.reasoning) == (
        2,
        1010,
        2000,
        3000,
        405,
        100,
    )
    assert report.sources == {"unpriced": 0, "recorded": 0, "priced": 0, "own": 2}
    assert report.by_model[0].rates is not None
    assert report.by_model[0].rates.cached == 1
    dear = cost("book", home=book.home, prices={"m": {"fresh": 10, "output": 100, "reasoning": 1000}})
    assert dear.cost_usd == pytest.approx((1010 * 10 + 2000 * 1 + 3000 * 10 + 305 * 100 + 100 * 1000) / 1e6)


def test_a_recorded_cost_is_used_and_said_unless_repriced(book: Book) -> None:
    book.trace(model([1000, 0, 0, 0], cost_usd=0.5), model([1000, 0, 0, 0]))
    report = book.cost()
    assert report.cost_usd == pytest.approx(0.51)
    assert {m.source: m.cost_usd for m in report.by_model} == {"recorded": 0.5, "own": pytest.approx(0.01)}
    again = cost("book", home=book.home, prices=OWN, reprice=True)
    assert again.cost_usd == pytest.approx(0.02)
    assert again.sources["recorded"] == 0


def test_a_recorded_zero_for_used_tokens_is_not_believed(book: Book) -> None:
    book.trace(model([1000, 0, 0, 7], cost_usd=0.0))
    report = book.cost(prices={"other": {"fresh": 1, "output": 1}})
    assert report.cost_usd is None
    assert report.per_run.value is None
    assert report.unpriced[0].why == "the model is not in the price table"
    assert (report.unpriced[0].model, report.unpriced[0].usage.fresh, report.unpriced[0].usage.output) == ("m", 1000, 7)
    assert any("not believed" in note for note in report.notes)
    free = cost("book", home=book.home, prices={"m": {"fresh": 0, "output": 0}})
    assert (free.cost_usd, free.per_run.value) == (0.0, 0.0)  # a log that says it is free is believed


def test_an_unpriced_call_makes_its_episode_unknown_not_cheap(book: Book) -> None:
    book.trace(model([1000, 0, 0, 0]), task="a")
    book.trace(model([1000, 0, 0, 0]), model([9000, 0, 0, 9], model="unheard-of"), task="b")
    report = book.cost()
    assert (report.cost_usd, report.at_least_usd) == (None, pytest.approx(0.02))
    assert [e.cost_usd for e in report.by_episode] == [pytest.approx(0.01), None]
    assert [e.at_least_usd for e in report.by_episode] == [pytest.approx(0.01)] * 2
    assert report.per_run.missing == {"cost unknown": 1}
    assert report.per_run.value == pytest.approx(0.01)
    assert report.by_step[0].unpriced + report.by_step[1].unpriced == 1
    assert [(u.model, u.usage.fresh) for u in report.unpriced] == [("unheard-of", 9000)]


def test_the_cost_of_a_run_is_that_of_show_whole_or_partial(
    book: Book, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of the cost divides nothing: what it comes to per resolved task is not known either."""
    (tmp_path / "prices.json").write_text(json.dumps(OWN))
    monkeypatch.setenv("ETHOGRAM_PRICES", str(tmp_path / "prices.json"))
    book.trace(model([1000, 0, 0, 0]), condition="whole")
    book.trace(model([1000, 0, 0, 0]), model([9000, 0, 0, 9], model="unheard-of"), condition="partial")
    report, shown = book.cost(), show("book", home=book.home)
    assert (shown.cost_usd, shown.at_least_usd) == (None, pytest.approx(0.02))
    assert (report.cost_usd, report.at_least_usd) == (None, shown.at_least_usd)
    assert report.paid_per_resolved is None
    whole = book.cost(condition="whole")
    assert whole.cost_usd == whole.at_least_usd == whole.paid_per_resolved == pytest.approx(0.01)


def test_calls_without_counts(book: Book) -> None:
    book.trace(model([1000, 0, 0, 0]), model([], status="error"), task="a")
    book.trace(model([1000, 0, 0, 0]), model([]), task="b")
    book.trace(model([]), model([5000, 0, 0, 0]), task="c", usage_is_per_trace=True)
    report = book.cost()
    assert [e.cost_usd for e in report.by_episode] == [pytest.approx(0.01), None, pytest.approx(0.05)]
    assert {u.why for u in report.unpriced} == {
        "the log gives no token counts",
        "the call failed and the log gives no token counts",
    }


def test_totals_come_from_leaf_model_spans_only(book: Book) -> None:
    book.trace(
        model([100, 0, 0, 10], span_id="outer", silent=True),
        model([60, 0, 0, 5], span_id="inner", parent_id="outer", silent=True),
        model([40, 0, 0, 5], span_id="other", parent_id="outer", silent=True),
        model([7, 0, 0, 1], span_id="with a tool", silent=True),
        tool("look", "found", parent_id="with a tool"),
    )
    report = book.cost()
    entry = book.home.run("book").entries[0]
    assert report.usage.calls == entry.totals.model_calls == 3
    assert report.usage.fresh == entry.totals.input_tokens == 107
    assert report.usage.output == entry.totals.output_tokens == 11


def test_steps_are_classed_by_what_went_before(book: Book) -> None:
    call = [100, 0, 0, 1]
    book.trace(
        model(call),
        tool("grep", "found"),
        model(call),
        tool("cat", "no", status="error"),
        model(call),
        model(call),
        {"kind": "user", "name": "user"},
        model(call),
        model(call, lane="sub"),
        tool("grep", "found", lane="sub"),
        model(call, lane="sub"),
    )
    report = book.cost()
    rows = {s.step: s.usage.calls for s in report.by_step}
    assert rows == {
        "first": 2,
        "after-tool": 2,
        "after-error": 1,
        "after-user": 1,
        "after-model": 1,
        "tool": 3,
        "user": 1,
    }
    assert sum(s.share or 0 for s in report.by_step) == pytest.approx(1)
    after = {t.tool: t.after_calls for t in report.by_tool}
    assert after == {"grep": 2, "cat": 1}


def test_a_chatty_tool_is_paid_again_and_again(book: Book) -> None:
    """400 characters are 100 tokens: written once at the cache-write rate, then read twice from the cache."""
    book.trace(
        model([10, 0, 100, 1]),
        tool("dump", "x" * 400),
        model([10, 110, 100, 1]),
        model([10, 220, 5, 1]),
        model([10, 230, 5, 1]),
    )
    report = book.cost()
    dump = report.by_tool[0]
    assert (dump.tool, dump.calls, dump.tokens, dump.largest, dump.read_tokens) == ("dump", 1, 100, 100, 300)
    assert dump.cost_usd == pytest.approx(100 * (12 + 1 + 1) / 1e6)
    assert any("characters / 4" in note for note in report.notes)


def test_a_forgotten_context_is_not_read_again(book: Book) -> None:
    book.trace(
        model([10, 0, 0, 1]),
        tool("dump", "x" * 400),
        model([110, 0, 0, 1]),
        model([20, 0, 0, 1], forget=True),
        model([30, 0, 0, 1]),
        tool("never read", "y" * 40),
    )
    tools = {t.tool: t for t in book.cost().by_tool}
    assert tools["dump"].read_tokens == 100
    assert tools["dump"].cost_usd == pytest.approx(100 * 10 / 1e6)
    assert (tools["never read"].tokens, tools["never read"].read_tokens) == (10, 0)


def test_logs_without_messages_are_followed_by_their_counts(book: Book) -> None:
    steps = [model([10 + 100 * i, 0, 0, 1], silent=True) for i in (0, 1, 2)]
    book.trace(steps[0], tool("dump", "x" * 400), steps[1], steps[2], model([5, 0, 0, 1], silent=True))
    assert book.cost().by_tool[0].read_tokens == 200


def test_the_cache_and_a_broken_prefix(book: Book) -> None:
    """The third call finds nothing of 1500 cached tokens and writes 1200 of them anew."""
    book.trace(
        model([0, 0, 1000, 1]),
        model([0, 1000, 500, 1]),
        model([700, 0, 1200, 1]),
        model([0, 1200, 10, 1]),
    )
    cache = book.cost().cache
    assert cache.hit_rate == pytest.approx(2200 / 5610)
    assert (cache.breaks, cache.idle, cache.lost_tokens) == (1, 0, 1500)
    assert cache.cost_usd == pytest.approx((1200 * 12 + 300 * 10 - 1500 * 1) / 1e6)
    assert (cache.worst[0].step, cache.worst[0].tokens) == (2, 1500)


def test_a_new_context_breaks_nothing_and_a_pause_is_told_apart(book: Book) -> None:
    book.trace(model([0, 0, 1000, 1]), model([0, 0, 1000, 1], forget=True), task="a")
    book.trace(model([0, 0, 1000, 1]), model([0, 0, 1100, 1], start_ns=START + 400 * SECOND, end_ns=None), task="b")
    cache = book.cost().cache
    assert (cache.breaks, cache.idle, cache.lost_tokens) == (1, 1, 1000)


def test_a_log_without_cache_counts_has_no_hit_rate(book: Book) -> None:
    book.trace(model([100, None, None, 1]))
    cache = book.cost().cache
    assert (cache.hit_rate, cache.why) == (None, "the log gives no counts of cached tokens")


def test_calls_are_priced_at_their_own_date(book: Book) -> None:
    """o3 became cheaper in June 2025."""
    days = [int(datetime(2025, month, 1, tzinfo=UTC).timestamp() * 1e9) for month in (6, 7)]
    for day in days:
        book.trace(model([1_000_000, 0, 0, 0], model="o3", provider="openai", start_ns=day, end_ns=day))
    report = book.cost(prices=None)
    assert [e.cost_usd for e in report.by_episode] == [10.0, 2.0]
    later = cost("book", home=book.home, as_of=date(2025, 7, 1))
    assert later.cost_usd == 4.0


def test_undated_calls_are_priced_as_of_the_run(book: Book) -> None:
    book.trace(model([1_000_000, 0, 0, 0], model="o3", start_ns=None, end_ns=None))
    report = book.cost(prices=None)
    assert report.cost_usd == 2.0
    assert any("have no date" in note for note in report.notes)


def test_prices_that_change_within_a_day(book: Book) -> None:
    hours = [int(datetime(2025, 3, 1, h, tzinfo=UTC).timestamp() * 1e9) for h in (10, 20)]
    for hour in hours:
        book.trace(model([1_000_000, 0, 0, 0], model="deepseek-chat", provider="deepseek", start_ns=hour, end_ns=hour))
    found = [e.cost_usd for e in book.cost(prices=None).by_episode]
    theirs = [
        calc_price(
            Usage(input_tokens=1_000_000),
            "deepseek-chat",
            provider_id="deepseek",
            genai_request_timestamp=datetime.fromtimestamp(h / 1e9, UTC),
        ).total_price
        for h in hours
    ]
    assert found == [pytest.approx(float(t)) for t in theirs]
    assert found[0] != found[1]


def test_columns_come_to_what_a_loop_over_calls_comes_to(book: Book) -> None:
    """Four models with tiers and changing prices, two years of dates, tokens of every size."""
    rng = np.random.default_rng(8)
    models = [
        ("o3", "openai"),
        ("gemini-2.5-pro", "google"),
        ("claude-sonnet-4-5", None),
        ("deepseek-chat", "deepseek"),
    ]
    total = 0.0
    for _ in range(40):
        steps = []
        for _ in range(10):
            name, provider = models[rng.integers(4)]
            start = START - int(rng.integers(0, 700 * 86_400)) * SECOND
            fresh, cached, written, output = (int(n) for n in rng.integers(0, 200_000, 4))
            steps.append(
                model([fresh, cached, written, output], model=name, provider=provider, start_ns=start, end_ns=start)
            )
            usage = Usage(
                input_tokens=fresh + cached + written,
                cache_read_tokens=cached,
                cache_write_tokens=written,
                output_tokens=output,
            )
            when = datetime.fromtimestamp(start / 1e9, UTC)
            total += float(calc_price(usage, name, provider_id=provider, genai_request_timestamp=when).total_price)
        book.trace(*steps)
    assert book.cost(prices=None).cost_usd == pytest.approx(total, rel=1e-9)


def test_what_episodes_cost_is_kept_with_the_run(book: Book, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`show` reads a record instead of spans; it fits the prices and the traces, or it is not used."""
    monkeypatch.chdir(tmp_path)
    book.trace(model([1000, None, None, 400]))
    book.trace(model([10, None, None, 5], cost_usd=0.25))
    (tmp_path / "prices.json").write_text(json.dumps(OWN))
    monkeypatch.setenv("ETHOGRAM_PRICES", "prices.json")
    priced = {e.trace_id: (e.calls, e.cost_usd, e.at_least_usd) for e in book.cost().by_episode}
    first = kept_costs(book.home.run("book"))
    assert first == priced
    (record,) = (tmp_path / "home" / "runs" / "book" / DERIVED).glob("costs-*.json")
    shown = show("book", home=book.home)
    assert shown.cost_usd == pytest.approx(sum(cost.at_least_usd for cost in first.values()))
    monkeypatch.delenv("ETHOGRAM_PRICES")
    assert sum(c.cost_usd is None for c in kept_costs(book.home.run("book")).values()) == 1
    assert len(list(record.parent.glob("costs-*.json"))) == 2
    monkeypatch.setenv("ETHOGRAM_PRICES", "prices.json")
    whole = record.read_text()
    for damaged in (whole[:20], whole.replace("0.25", "0.75")):
        record.write_text(damaged)
        assert kept_costs(book.home.run("book")) == first
        assert record.read_text() == whole
    assert verify_run(book.home.run("book")).ok


def test_missing_outcomes_are_paid_for_and_named(book: Book) -> None:
    for n in range(24):
        outcome: Outcome = Missing("infrastructure.timeout") if n % 6 == 0 else Scored(float(n % 3 > 0))
        book.trace(model([1000 * (1 + n % 4), 0, 0, 10]), task=f"t{n}", outcome=outcome)
    report = book.cost()
    assert (report.episodes, report.scored, report.missing) == (24, 20, {"infrastructure.timeout": 4})
    spent = sum(e.cost_usd or 0 for e in report.by_episode if e.missing)
    assert report.missing_usd == {"infrastructure.timeout": pytest.approx(spent)}
    assert report.per_resolved.missing == {"infrastructure.timeout": 4}
    assert report.per_resolved.n == 20
    scored = [e for e in report.by_episode if e.resolved is not None]
    assert report.per_resolved.value == pytest.approx(sum(e.cost_usd or 0 for e in scored) / report.resolved)
    assert report.paid_per_resolved == pytest.approx((report.cost_usd or 0) / report.resolved)
    assert report.per_resolved.low < report.per_resolved.value < report.per_resolved.high
    assert (report.per_run.n, report.per_run.missing) == (24, {})


def test_conditions_are_told_apart(book: Book) -> None:
    book.trace(model([1000, 0, 0, 0]), tool("dump", "x" * 40))
    book.trace(model([3000, 0, 0, 0]), tool("look", "x" * 40), condition="noisy")
    both = book.cost()
    assert both.cost_usd == pytest.approx(0.04)
    assert any("2 conditions are taken together" in note for note in both.notes)
    one = cost("book", home=book.home, prices=OWN, condition="noisy")
    assert (one.cost_usd, one.episodes, [t.tool for t in one.by_tool]) == (pytest.approx(0.03), 1, ["look"])
    assert not any("taken together" in note for note in one.notes)
    with pytest.raises(NotFound, match="did you mean 'noisy'"):
        cost("book", home=book.home, prices=OWN, condition="noise")


def test_nothing_resolved(book: Book) -> None:
    for n in range(5):
        book.trace(model([1000 + n, 0, 0, 10]), task=f"t{n}", outcome=Scored(0.0))
    found = book.cost().per_resolved
    assert (found.value, found.high) == (None, float("inf"))
    assert "nothing was resolved" in (found.why or "")
    assert '"high":"inf"' in cost("book", home=book.home, prices=OWN).to_json()


def test_a_month_and_routing(book: Book) -> None:
    for n in range(30):
        steps = [model([1000, 0, 0, 10]), tool("grep", "x"), model([2000, 0, 0, 10]), model([500, 0, 0, 10])]
        book.trace(*steps[: 3 + n % 2], task=f"t{n}", outcome=Scored(float(n % 5 > 0)))
    prices = {**OWN, "small": {"fresh": 1, "output": 10}}
    options: dict[str, Any] = {"volume": 1000, "routes": ("after-tool:grep=small",), "routed_resolution": (0.8, 0.1)}
    report = book.cost(prices=prices, **options)
    assert report.monthly is not None
    assert report.monthly.cost.value == pytest.approx(1000 * report.per_run.value)
    assert report.monthly.cost.high == pytest.approx(1000 * report.per_run.high)
    assert report.monthly.resolved.value == pytest.approx(800)
    routing = report.routing
    assert routing is not None
    saved = 0.9 * (2000 * 10 + 10 * 100) / 1e6
    assert routing.per_run.value == pytest.approx(report.per_run.value - saved)
    assert routing.moved == routing.routes[0].share == pytest.approx(30 / 75)
    assert [a.pays for a in routing.at] == [True, False]
    even = routing.break_even
    assert routing.per_run.value / even.value == pytest.approx(report.per_resolved.value)
    assert even.low < even.value < even.high
    assert even.method == "mover-log"
    with pytest.raises(NotFound, match="price tiny=FRESH/OUTPUT"):
        cost("book", home=book.home, prices=prices, routes=("first=tiny",))
    with pytest.raises(BadUsage, match="measured"):
        cost("book", home=book.home, prices=prices, resolution=0.5)


def test_everything_routed_is_the_other_price(book: Book) -> None:
    for n in range(3):
        book.trace(model([1000, 10 * n, 5, 10, 3]), model([10, 0, 0, 1]), task=f"t{n}")
    prices = {**OWN, "twin": {"fresh": 2, "output": 3, "cached": 1, "cache_write": 4, "reasoning": 9}}
    report = book.cost(prices=prices, routes=("100%=twin",))
    as_if = cost("book", home=book.home, prices={"m": prices["twin"]})
    assert report.routing is not None
    assert report.routing.per_run.value == pytest.approx(as_if.per_run.value)
    assert report.routing.break_even.value == pytest.approx(as_if.per_run.value / report.per_run.value)


def test_a_given_resolution_where_none_is_measured(book: Book) -> None:
    book.trace(model([1000, 0, 0, 0]), outcome=Missing("unscored"))
    report = book.cost(resolution=0.5)
    assert report.per_resolved.value == pytest.approx(0.02)
    assert "given, not measured" in (report.per_resolved.why or "")
    assert cost("book", home=book.home, prices=OWN).per_resolved.why == "no outcome is scored"


def test_sealed_texts_leave_money_as_it_is(tmp_path: Path, plain: Redactor) -> None:
    keys = Keyring(tmp_path / "keys" / "keys.json", {})
    keys.new()
    book = Book(Home(LocalFiles(tmp_path / "sealed"), keys), plain)
    book.trace(model([1000, 0, 0, 0]), tool("dump", "x" * 400), model([1000, 0, 0, 0]))
    book.writer.close()
    closed = Home(LocalFiles(tmp_path / "sealed"), Keyring(tmp_path / "none" / "keys.json", {}))
    report = cost("book", home=closed, prices=OWN)
    assert report.cost_usd == pytest.approx(0.02)
    assert report.by_tool[0].tokens is None
    assert any("cannot be measured" in note for note in report.notes)
    assert cost("book", home=book.home, prices=OWN).by_tool[0].tokens == 100


def test_forgotten_episodes_keep_their_recorded_cost_or_stop_the_ratio(book: Book) -> None:
    for n in range(4):
        book.trace(model([1000, 0, 0, 0], cost_usd=0.5), task=f"t{n}", outcome=Scored(float(n > 0)))
    before = book.cost()
    assert retain(["book"], keep_all="0s", sample=0.0, apply=True, home=book.home).forgotten == 3
    after = cost("book", home=book.home, prices=OWN)
    assert (after.cost_usd, after.per_resolved.value) == (before.cost_usd, before.per_resolved.value)
    assert after.usage.calls == 1
    anew = cost("book", home=book.home, prices=OWN, reprice=True)
    assert anew.per_run.missing == {"cost unknown": 3}
    assert anew.per_resolved.value is None
    assert "retention deleted 3 traces by their outcome" in (anew.per_resolved.why or "")


def test_a_run_without_model_calls(book: Book) -> None:
    book.trace(tool("dump", "x" * 40))
    report = book.cost()
    assert (report.cost_usd, report.usage.calls, report.per_run.value) == (None, 0, None)
    assert report.by_tool[0].read_tokens == 0


def test_an_empty_run_says_so(home: Home, plain: Redactor) -> None:
    home.create("empty", "import").writer(plain, window=None).close()
    with pytest.raises(NotFound, match="no episode to price"):
        cost("empty", home=home)


def test_prices_come_from_flags_file_environment_and_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ETHOGRAM_PRICES", raising=False)
    when = datetime(2026, 1, 1, tzinfo=UTC)

    def fresh(*args: Any) -> float:
        found = price_list(*args).quote("m", None, when)
        assert not isinstance(found, str)
        return found.rates.fresh

    (tmp_path / "ethogram.toml").write_text("[prices.m]\nfresh = 1\noutput = 1\n")
    assert fresh() == 1
    (tmp_path / "env.json").write_text(json.dumps({"m": {"fresh": 2, "output": 1}}))
    monkeypatch.setenv("ETHOGRAM_PRICES", "env.json")
    assert fresh() == 2
    (tmp_path / "file.yaml").write_text("m: {fresh: 3, output: 1}\n")
    assert fresh("file.yaml") == 3
    assert fresh("file.yaml", ["m=4/1"]) == 4
    (tmp_path / "ethogram.toml").write_text("[prices\n")
    monkeypatch.delenv("ETHOGRAM_PRICES")
    with pytest.raises(BadUsage, match="not valid TOML"):
        price_list()


def test_the_worked_example_from_python() -> None:
    report = assumed_cost(
        "steps=20,input=12000,output=700,cached=0.6",
        prices={"frontier": {"fresh": 3, "output": 15}, "small": {"fresh": 0.15, "output": 0.6}},
        resolution=0.65,
        volume=10_000,
        routes=("14=small",),
        routed_resolution=(0.60, 0.20),
    )
    assert report.per_run.value == pytest.approx(0.5412)
    assert report.per_resolved.value == pytest.approx(0.832615, abs=1e-6)
    assert report.monthly is not None
    assert report.monthly.cost.value == pytest.approx(5412)
    assert report.routing is not None
    assert report.routing.per_run.value == pytest.approx(0.179832)
    assert [a.per_resolved.value for a in report.routing.at] == [pytest.approx(0.29972), pytest.approx(0.89916)]
    assert [a.pays for a in report.routing.at] == [True, False]
    assert report.routing.break_even.value == pytest.approx(0.21599, abs=1e-5)
    assert report.per_resolved.low is None
    assert report.per_resolved.why == "assumed, not measured"


def test_assumptions_with_a_listed_model_and_without_any() -> None:
    listed = assumed_cost(
        "steps=1,input=1000000,output=0", model="gpt-4o", as_of=date(2026, 1, 1), prices={"x": OWN["m"]}
    )
    assert (listed.per_run.value, listed.by_model[0].matched) == (2.5, "openai/gpt-4o")
    assert listed.per_resolved.value is None
    with pytest.raises(NotFound, match="'nobody' cannot be priced"):
        assumed_cost("steps=1,input=1,output=1", model="nobody", prices={"x": OWN["m"]})


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"level": 1.0}, "level"), ({"volume": -1}, "volume"), ({"resolution": 0.0}, "resolution of 0 makes no sense")],
)
def test_options_that_make_no_sense(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(BadUsage, match=words):
        assumed_cost("steps=1,input=1,output=1", prices=OWN, **settings)


def test_a_scripted_agent_on_the_shop(home: Home) -> None:
    shop = str(Path(__file__).parents[3] / "src/ethogram/worlds/shop")
    good = [("tool", "price", {"item": "cheese"}), "9"]
    agent = ScriptedAgent({"price-cheese": [good, ["10"]], "*": [["no idea"]]}, price=0.01)
    result = run(shop, agent, k=10, tasks=("price-cheese", "price-lamp"), home=home, run="shop")
    report = cost("shop", home=home)
    assert report.cost_usd == pytest.approx(result.cost_usd)
    assert report.sources["recorded"] == report.usage.calls
    assert report.resolved == result.successes
    assert report.paid_per_resolved == pytest.approx(result.cost_usd / result.successes)
    assert report.per_resolved.value == pytest.approx(result.cost_usd / result.successes)
    again = cost("shop", home=home, reprice=True, prices={"scripted": {"fresh": 1, "output": 2}})
    assert again.cost_usd == pytest.approx((report.usage.fresh + 2 * report.usage.output) / 1e6)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Home:
    if not DATA.is_dir():
        pytest.skip(f"the real logs are not at {DATA.name}: they are not part of the repository")
    home = Home(LocalFiles(tmp_path_factory.mktemp("real")))
    for folder in FOLDERS:
        import_logs(DATA / folder, home=home, run=folder, redact="none")
    return home


@pytest.mark.parametrize("folder", FOLDERS)
def test_real_logs_sum_to_what_the_ledger_says(real: Home, folder: str) -> None:
    report = cost(folder, home=real)
    entries = real.run(folder).entries
    pairs = [("fresh", "input_tokens"), ("cached", "cache_read_tokens"), ("cache_write", "cache_write_tokens")]
    for ours, theirs in (*pairs, ("output", "output_tokens")):
        told = [n for e in entries if (n := getattr(e.totals, theirs)) is not None]
        assert getattr(report.usage, ours) == (sum(told) if told else None)
    assert report.usage.calls == sum(e.totals.model_calls for e in entries)
    recorded = sum(m.cost_usd for m in report.by_model if m.source == "recorded")
    assert recorded == pytest.approx(sum(e.totals.cost_usd or 0 for e in entries))
    assert report.usage.calls == sum(report.sources.values())
    steps = [s for s in report.by_step if s.kind == "model"]
    assert sum(s.usage.calls for s in steps) == report.usage.calls
    assert sum(s.cost_usd or 0 for s in steps) == pytest.approx(report.at_least_usd)


def test_repriced_real_logs_come_to_what_was_recorded(real: Home) -> None:
    """The provider's own bill of a session with cache writes and reads, from our rates."""
    recorded, priced = (cost("openclaw", home=real, reprice=r) for r in (False, True))
    assert priced.sources["priced"] == 8
    assert priced.cost_usd == pytest.approx(recorded.cost_usd, rel=1e-9)
    assert (recorded.cache.breaks, recorded.cache.lost_tokens, recorded.cache.idle) == (1, 8623, 1)


def test_trail_counts_every_token_once(real: Home) -> None:
    """Its agent spans repeat the tokens of the model spans below them."""
    expected = json.loads((DATA / "expected.json").read_text())["trail"]
    wanted = [v for v in expected.values() if isinstance(v, dict) and "llm_prompt_tokens" in v]
    report = cost("trail", home=real)
    assert report.usage.fresh == sum(v["llm_prompt_tokens"] for v in wanted)
    assert report.usage.output == sum(v["llm_completion_tokens"] for v in wanted)
    assert report.cost_usd == pytest.approx((126487 * 3 + 7050 * 15 + 14422 * 1.1 + 6638 * 4.4) / 1e6)
    assert report.sources == {"unpriced": 1, "recorded": 0, "priced": 24, "own": 0}


def test_recorded_dollars_of_real_logs(real: Home) -> None:
    expected = json.loads((DATA / "expected.json").read_text())
    atif = [v["final_metrics"]["total_cost_usd"] for v in expected["atif"].values() if "final_metrics" in v]
    assert cost("atif", home=real).cost_usd == pytest.approx(sum(atif))
    swe = [v["model_stats"]["instance_cost"] for v in expected["swe_agent"].values() if v.get("model_stats")]
    report = cost("swe_agent", home=real)
    assert report.at_least_usd == pytest.approx(sum(swe))
    assert [e.cost_usd for e in report.by_episode].count(None) == 1  # one demonstration has neither tokens nor cost


def test_logs_without_tokens_are_not_free(real: Home) -> None:
    report = cost("tau_bench", home=real)
    assert (report.cost_usd, report.per_run.value, report.per_resolved.value) == (None, None, None)
    assert report.resolution.value == 0.5
    assert report.unpriced[0].usage.calls == report.usage.calls == 226
    assert np.isfinite(sum(t.read_tokens or 0 for t in report.by_tool))
