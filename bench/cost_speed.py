"""Claim: the full cost report of a run of 1 M spans (every model call priced at its own date, per step, tool, episode
and resolved task) in seconds, and at least 15 times faster than a loop that asks genai-prices for every call."""

from __future__ import annotations

import sys
import tempfile
import time
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import msgspec
from _common import QUICK, cpu, new_home, plain_writer, synthetic_head, synthetic_spans, table, verdict

from ethogram.questions.cost.question import CostReport, cost
from ethogram.store import Home, Run
from ethogram.traces import SpanId

MODELS = (("gpt-4o", "openai"), ("claude-sonnet-4-5", "anthropic"), ("gemini-2.5-pro", "google"), ("gpt-4o-mini", None))
DAY_NS = 86_400_000_000_000


def write(home: Home, spans: int) -> None:
    """Traces of 100 spans: four models, ninety days, a prompt cache, contexts that grow, results of many lengths."""
    with plain_writer(home, "bench") as writer:
        for trace in range(spans // 100):
            sink = writer.trace(synthetic_head(trace).trace_id)
            model, provider = MODELS[trace % len(MODELS)]
            later = (trace % 90) * DAY_NS
            said = result = sink.text("a message that many calls share", "output")
            for i, span in enumerate(synthetic_spans(trace, 100)):
                changed: dict[str, Any] = {"start_ns": span.start_ns + later, "end_ns": span.end_ns + later}
                if span.kind == "model":
                    context = {"continues": SpanId(f"s{i - 2}"), "keep": i} if i else {}
                    changed |= {"model": model, "provider": provider, "input": (result,), "output": (said,), **context}
                else:
                    result = sink.text(f"{trace} {i} " + "word " * ((trace * 7 + i) % 300), "result")
                    changed["result"] = result
                sink.span(msgspec.structs.replace(span, **changed))
            sink.finish(synthetic_head(trace), ())


def one_by_one(run: Run, traces: int) -> float:
    """What a script does: every span of every trace, one question to genai-prices each."""
    from genai_prices import Usage, calc_price

    total = 0.0
    for entry in islice(run.entries, traces):
        for span in run.spans(entry):
            if span.kind == "model":
                fresh, cached, written = (
                    span.input_tokens or 0,
                    span.cache_read_tokens or 0,
                    span.cache_write_tokens or 0,
                )
                usage = Usage(
                    input_tokens=fresh + cached + written,
                    cache_read_tokens=cached,
                    cache_write_tokens=written,
                    output_tokens=span.output_tokens or 0,
                )
                when = datetime.fromtimestamp((span.start_ns or 0) / 1e9, UTC)
                found = calc_price(usage, span.model, provider_id=span.provider, genai_request_timestamp=when)
                total += float(found.total_price)
    return total


def main() -> bool:
    rows, held = [], True
    for spans in (10_000, 100_000) if QUICK else (10_000, 100_000, 1_000_000):
        with tempfile.TemporaryDirectory() as folder:
            home = new_home(Path(folder) / "home")
            write(home, spans)
            cost("bench", home=home)  # imports and the table of genai-prices are loaded
            started = time.perf_counter()
            ours, report = cpu(lambda: cost("bench", home=home), 1 if spans > 100_000 else 3)
            wall = time.perf_counter() - started if spans > 100_000 else None
            assert isinstance(report, CostReport)
            traces = min(spans // 100, 500)  # the loop is asked for 50,000 spans at most, and scaled
            theirs, total = cpu(lambda: one_by_one(home.run("bench"), traces), 1)
            same = sum(e.at_least_usd for e in report.by_episode[:traces])
            held &= abs(same - total) <= 1e-9 * total
            theirs *= spans / (100 * traces)
            rows.append([spans, report.usage.calls, theirs, ours, theirs / ours, wall or "–"])
    names = ["spans", "calls", "one by one CPU s", "ours CPU s", "ratio", "wall s"]
    table("pricing a run (the loop is measured on at most 50,000 spans and scaled)", names, rows)
    held = verdict("both come to the same dollars", held)
    last = rows[-1]
    fast = verdict(f"at least 15 times faster at {last[0]:,} spans ({last[4]:.0f}×)", last[4] >= 15)
    return verdict(f"{last[0]:,} spans in under ten CPU seconds ({last[3]:.1f} s)", last[3] < 10) and held and fast


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
