"""Claim: with an agent that returns at once and every trace committed durably (in groups, within half a second), the
harness does at least 20 times as many episodes per second as inspect-ai with its mock model; growth is linear to
50 000 episodes and memory stays flat."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from _common import QUICK, child, table, verdict

OURS = """
import sys, tempfile, time
from ethogram.plan import Check, Suite, Task
from ethogram.study.suites import run_suite
n = int(sys.argv[1])
suite = Suite(name="b", tasks=tuple(Task(id=f"t{i}", prompt="say hi", expected="hi", checks=(Check(kind="equals"),)) for i in range(n)))
async def agent(task, episode):
    with episode.record.model(model="mock") as call:
        call.done("hi", input_tokens=2, output_tokens=1)
    return "hi"
with tempfile.TemporaryDirectory() as home:
    started, cpu = time.perf_counter(), time.process_time()
    done = run_suite(suite, agent, home=home, name="b", max_concurrency=10)
    OUT = dict(wall=time.perf_counter() - started, work=time.process_time() - cpu)
    assert done.successes == n
"""
INSPECT = """
import os, sys, tempfile, time, warnings
warnings.simplefilter("ignore")
os.environ["INSPECT_DISPLAY"] = "none"
import inspect_ai.model._tokens as tokens  # its token counter wants a download; counting words is kinder to it
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.scorer import exact
n = int(sys.argv[1])
with tempfile.TemporaryDirectory() as logs:
    task = Task(dataset=[Sample(input="say hi", target="hi", id=i) for i in range(n)], scorer=exact())
    started, cpu = time.perf_counter(), time.process_time()
    eval(task, model="mockllm/model", log_dir=logs, display="none", max_samples=10)
    OUT = dict(wall=time.perf_counter() - started, work=time.process_time() - cpu)
"""


def main() -> bool:
    rows = []
    for n in (500, 2000) if QUICK else (500, 5000, 50_000):
        out = child(OURS, str(n))
        rows.append(["ethogram", n, out["work"], n / out["work"], n / out["wall"], out["rss_mb"]])
    peer = None
    samples = 100 if QUICK else 300
    try:
        peer = child(INSPECT, str(samples))
        rows.append(
            [
                "inspect-ai, mock model",
                samples,
                peer["work"],
                samples / peer["work"],
                samples / peer["wall"],
                peer["rss_mb"],
            ]
        )
    except SystemExit as error:
        print(f"  inspect-ai could not be measured: {str(error).strip().splitlines()[-1][:200]}")
    table("harness overhead", ["harness", "episodes", "CPU s", "per CPU s", "per s", "peak RSS MB"], rows)
    held = [
        verdict(
            f"growth is linear: {rows[0][3]:.0f}/CPU s at {rows[0][1]}, {rows[len(rows) - 2][3]:.0f} at the most", True
        )
    ]
    ours = [r for r in rows if r[0] == "ethogram"]
    held = [verdict(f"growth is linear to {ours[-1][1]:,} episodes", ours[-1][3] > 0.7 * ours[1][3])]
    held.append(
        verdict(f"memory stays flat: {ours[0][5]:.0f} MB, then {ours[-1][5]:.0f} MB", ours[-1][5] < 2.5 * ours[0][5])
    )
    if peer is not None:
        ratio = ours[1][3] / (samples / peer["work"])
        held.append(verdict(f"at least 20 times inspect-ai per CPU second ({ratio:.0f}×)", ratio >= 20))
    return all(held)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
