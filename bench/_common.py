"""What the benchmarks share: timing in CPU seconds, peak memory of a child, aligned tables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ethogram.store import Home, Policy, Redactor, RunWriter
from ethogram.store.files import LocalFiles
from ethogram.traces import Head, Missing, Scored, Span, SpanId, episode_id, trace_id

QUICK = "--quick" in sys.argv


def cpu(function: Callable[[], Any], repeats: int = 3) -> tuple[float, Any]:
    """The least CPU seconds of a few calls (this process, all threads), and the last result."""
    best, result = float("inf"), None
    for _ in range(repeats):
        before = time.process_time()
        result = function()
        best = min(best, time.process_time() - before)
    return best, result


def child(code: str, *args: str) -> dict[str, Any]:
    """Run code in a fresh interpreter; gives its JSON line with CPU seconds and peak memory added."""
    script = (
        f"{code}\n"
        "import json as _j, resource as _r, sys as _s\n"
        "_u = _r.getrusage(_r.RUSAGE_SELF)\n"
        "out = globals().get('OUT', {})\n"
        "out.update(cpu_s=_u.ru_utime + _u.ru_stime, rss_mb=_u.ru_maxrss / 1024)\n"
        "print('\\n@@' + _j.dumps(out))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, *args], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    line = next(x for x in reversed(done.stdout.splitlines()) if x.startswith("@@"))
    found: dict[str, Any] = json.loads(line[2:])
    return found


def command_cpu(*args: str, env: dict[str, str] | None = None, repeats: int = 3) -> tuple[float, float]:
    """CPU seconds and wall seconds of a command, the best of a few; compiled modules are kept, as after a first use."""
    import resource

    best = (float("inf"), float("inf"))
    for _ in range(repeats):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        subprocess.run(
            args, check=True, capture_output=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "", **(env or {})}
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        best = min(best, (used, time.perf_counter() - start))
    return best


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print an aligned table."""
    cells = [
        [f"{v:,.3g}" if isinstance(v, float) else f"{v:,}" if isinstance(v, int) else str(v) for v in r] for r in rows
    ]
    widths = [max(len(c), *(len(r[i]) for r in cells)) for i, c in enumerate(columns)]
    print(f"\n{title}")
    print("  " + "  ".join(c.ljust(w) for c, w in zip(columns, widths, strict=True)))
    for row in cells:
        print("  " + "  ".join(c.rjust(w) if c[:1].isdigit() else c.ljust(w) for c, w in zip(row, widths, strict=True)))


def verdict(claim: str, held: bool) -> bool:
    """Print whether a claim held."""
    print(f"  {'holds' if held else 'MISSED'}: {claim}")
    return held


def new_home(folder: Path) -> Home:
    """A home in a folder."""
    return Home(LocalFiles(folder))


def plain_writer(home: Home, name: str) -> RunWriter:
    """A writer without redaction and without a window, for synthetic data."""
    return home.create(name, "import").writer(Redactor(b"bench", Policy(kinds=())), window=None)


def synthetic_spans(trace: int, spans: int) -> Iterator[Span]:
    """A plausible trace: model and tool spans in turn, tokens, times, four tools, some errors."""
    tid = trace_id("bench", str(trace))
    tools = ("search", "read", "write", "run")
    for i in range(spans):
        start = 1_700_000_000_000_000_000 + trace * 10_000_000_000 + i * 50_000_000
        common: dict[str, Any] = {"trace_id": tid, "span_id": SpanId(f"s{i}"), "seq": i, "start_ns": start}
        common["end_ns"] = start + 40_000_000
        if i % 2 == 0:
            yield Span(
                kind="model",
                name="chat",
                model="model-a",
                status="ok",
                stop_reason="tool_calls",
                requested=(tools[(trace + i) % 4],),
                input_tokens=100 + (trace * 7 + i * 13) % 900,
                cache_read_tokens=50 * i,
                output_tokens=20 + (trace + i) % 80,
                **common,
            )
        else:
            tool = tools[(trace + i - 1) % 4]
            yield Span(kind="tool", name=tool, tool=tool, status="error" if (trace + i) % 17 == 0 else "ok", **common)


def synthetic_head(trace: int) -> Head:
    """The head of a synthetic trace."""
    return Head(
        trace_id=trace_id("bench", str(trace)),
        episode=episode_id("bench", str(trace)),
        task=f"task-{trace % 50}",
        attempt=trace // 50,
        outcome=Scored(float(trace % 3 > 0), "bench") if trace % 11 else Missing("infrastructure.timeout"),
    )
