"""Claims: 10 000 tasks × 20 attempts: `ethogram stats` and `ethogram compare` on stored runs of that size take less than
two seconds of CPU each, start of the program included.

    python bench/reliability_speed.py [--quick]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))
sys.path.insert(0, str(Path(__file__).parent))
from _common import QUICK, command_cpu, cpu, new_home, plain_writer, table, verdict
from grids import grid_outcomes

from ethogram.measures.comparison import compare_outcomes
from ethogram.measures.outcomes import Outcomes
from ethogram.measures.reliability import estimate_reliability
from ethogram.questions.compare.question import compare as compare_runs
from ethogram.questions.reliability.question import stats as run_reliability
from ethogram.reading.outcomes import load_outcomes
from ethogram.store import Home
from ethogram.traces import Head, Missing, Scored, Span, SpanId, episode_id, trace_id

TASKS, ATTEMPTS = (1000 if QUICK else 10_000), 20


def drawn(rng: np.random.Generator, rates: np.ndarray) -> np.ndarray:
    """Attempts by tasks; one in fifty is missing."""
    passed = (rng.random((ATTEMPTS, rates.size)) < rates).astype(float)
    passed[rng.random(passed.shape) < 0.02] = np.nan
    return passed


def outcomes(values: np.ndarray) -> Outcomes:
    names = [f"task-{i:05d}" for i in range(values.shape[1])]
    return grid_outcomes(values, tasks=names, figures={"cost": np.random.default_rng(3).gamma(3, 0.01, values.size)})


def store(home: Home, name: str, values: np.ndarray) -> None:
    """A run with one model span in every episode, written as an import would be."""
    with plain_writer(home, name) as writer:
        for attempt, row in enumerate(values):
            for task, value in enumerate(row):
                key = f"{name}:{task}:{attempt}"
                tid = trace_id("bench", key)
                start = 1_700_000_000_000_000_000 + attempt * 10**9
                span = Span(trace_id=tid, span_id=SpanId("s0"), seq=0, kind="model", name="chat", model="model-a",
                            params={"temperature": 0.7}, start_ns=start, end_ns=start + 10**8, input_tokens=100,
                            output_tokens=20, cost_usd=0.001)  # fmt: skip
                sink = writer.trace(tid)
                sink.span(span)
                told = Missing("infrastructure.timeout") if np.isnan(value) else Scored(float(value), "bench")
                head = Head(trace_id=tid, episode=episode_id("bench", key), task=f"task-{task:05d}", attempt=attempt,
                            outcome=told)  # fmt: skip
                sink.finish(head, ())


def main() -> bool:
    rng = np.random.default_rng(1)
    rates = rng.beta(1.4, 0.6, TASKS)
    arrays = drawn(rng, rates), drawn(rng, rates)
    one, two = (outcomes(x) for x in arrays)
    estimate_reliability(one, [1])  # loads scipy.special once
    ours, _ = cpu(lambda: estimate_reliability(outcomes(arrays[0]), range(1, 21), naive=True))
    both, _ = cpu(lambda: compare_outcomes(one, two))
    paid, _ = cpu(lambda: compare_outcomes(one, two, name="cost"))
    rows = [
        ["reliability(), k = 1 … 20, all tasks", ours, ""],
        ["compare() on success, all tasks", both, ""],
        ["compare() on cost, all tasks", paid, ""],
    ]
    with tempfile.TemporaryDirectory() as folder:
        home = new_home(Path(folder))
        for name, values in zip(("old", "new"), arrays, strict=True):
            store(home, name, values)
        entries, _ = cpu(lambda: new_home(Path(folder)).resolve("old").entries, 2)
        loading, _ = cpu(lambda: load_outcomes(new_home(Path(folder)).resolve("old")), 2)
        lab_one, _ = cpu(lambda: run_reliability(new_home(Path(folder)).resolve("old")), 2)
        lab_two, _ = cpu(lambda: compare_runs("old", "new", home=new_home(Path(folder))), 2)
        ethogram, env = str(Path(sys.executable).parent / "ethogram"), {"ETHOGRAM_HOME": folder}
        stats = command_cpu(ethogram, "stats", "old", env=env)
        compared = command_cpu(ethogram, "compare", "old", "new", env=env)
    rows += [
        ["from a stored run: whole entries", entries, ""],
        ["from a stored run: outcomes with all figures", loading, ""],
        ["from a stored run: reliability", lab_one, ""],
        ["from two stored runs: compare", lab_two, ""],
        ["ethogram stats old", *stats],
        ["ethogram compare old new", *compared],
    ]
    table(f"{TASKS:,} tasks × {ATTEMPTS} attempts", ["what", "CPU s", "wall s"], rows)
    return all(
        [
            verdict(f"reliability under two seconds ({ours:.2f})", ours < 2),
            verdict(f"compare under two seconds ({both:.2f}; cost {paid:.2f})", max(both, paid) < 2),
            verdict(f"`ethogram stats` under two seconds of CPU ({stats[0]:.2f})", stats[0] < 2),
            verdict(f"`ethogram compare` under two seconds of CPU ({compared[0]:.2f})", compared[0] < 2),
        ]
    )


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
