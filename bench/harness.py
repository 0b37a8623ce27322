"""Claim: with an agent that returns at once and every trace committed durably (in groups, within half a second), the
harness does at least 20 times as many episodes per CPU second as inspect-ai with its mock model; growth is linear to
50 000 episodes and memory stays flat. Pydantic-evals, which stores nothing, is shown beside it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from _common import QUICK, child, table, verdict

OURS = """
import resource, sys, tempfile, time
from ethogram.plan import Check, Suite, Task
from ethogram.run.suites import run_suite
n, tasks = int(sys.argv[1]), 50
suite = Suite(name="b", tasks=tuple(Task(id=f"t{i}", prompt="say hi", expected="hi", checks=(Check(kind="equals"),)) for i in range(tasks)))
async def agent(task, episode):
    with episode.record.model(model="mock") as call:
        call.done("hi", input_tokens=2, output_tokens=1)
    return "hi"
class Watch:
    early = late = 0.0
    count = 0
    def started(self, run, planned, done, cap_usd):
        pass
    def done(self, report):
        self.count += 1
        if self.count == n // 4:
            self.early = resident()
        elif self.count == n:
            self.late = resident()
def resident():
    return next(int(x.split()[1]) / 1024 for x in open("/proc/self/status") if x.startswith("VmRSS"))
with tempfile.TemporaryDirectory() as home:
    watch = Watch()
    started, cpu = time.perf_counter(), time.process_time()
    done = run_suite(suite, agent, home=home, name="b", k=n // tasks, workers=10, watcher=watch)
    OUT = dict(wall=time.perf_counter() - started, work=time.process_time() - cpu, early=watch.early, late=watch.late)
    assert done.successes == n
"""
INSPECT = """
import os, sys, tempfile, time, warnings
warnings.simplefilter("ignore")
os.environ["INSPECT_DISPLAY"] = "none"
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import exact
def reply(input, tools, tool_choice, config):
    # with its usage given, the mock model need not fetch a tokenizer to count
    output = ModelOutput.from_content(model="mockllm", content="hi")
    output.usage = ModelUsage(input_tokens=2, output_tokens=1, total_tokens=3)
    return output
n, tasks = int(sys.argv[1]), 50
with tempfile.TemporaryDirectory() as logs:
    task = Task(dataset=[Sample(input="say hi", target="hi", id=i) for i in range(tasks)], scorer=exact(), epochs=n // tasks)
    started, cpu = time.perf_counter(), time.process_time()
    (log,) = eval(task, model=get_model("mockllm/model", custom_outputs=reply), log_dir=logs, display="none", max_samples=10)
    OUT = dict(wall=time.perf_counter() - started, work=time.process_time() - cpu)
    assert log.status == "success" and len(log.samples) == n, log.status
"""
PYDANTIC = """
import asyncio, sys, time
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import EqualsExpected
n, tasks = int(sys.argv[1]), 50
data = Dataset(name="b", cases=[Case(name=f"t{i}", inputs="say hi", expected_output="hi") for i in range(tasks)], evaluators=[EqualsExpected()])
async def agent(prompt):
    return "hi"
started, cpu = time.perf_counter(), time.process_time()
report = asyncio.run(data.evaluate(agent, repeat=n // tasks, max_concurrency=10, progress=False))
OUT = dict(wall=time.perf_counter() - started, work=time.process_time() - cpu)
assert len(report.cases) == n and all(a.value for c in report.cases for a in c.assertions.values())
"""


def main() -> bool:
    ours: list[tuple[int, dict[str, Any]]] = []
    for n in (500, 2000) if QUICK else (500, 5000, 20_000, 50_000):
        ours.append((n, child(OURS, str(n))))
    samples = 100 if QUICK else 500
    found = [("ethogram", n, out) for n, out in ours]
    peers = {}
    for name, code, count in (
        ("inspect-ai, mock model, log on disk", INSPECT, samples),
        ("pydantic-evals, stores nothing", PYDANTIC, 10 * samples),
    ):
        try:
            peers[name] = (count, child(code, str(count)))
            found.append((name, *peers[name]))
        except SystemExit as error:
            print(f"  {name} could not be measured: {str(error).strip().splitlines()[-1][:200]}")
    rows = [[name, n, o["work"], n / o["work"], n / o["wall"], o["rss_mb"]] for name, n, o in found]
    table("harness overhead", ["harness", "episodes", "CPU s", "per CPU s", "per s", "peak RSS MB"], rows)
    rows = [[n, o["early"], o["late"], o["rss_mb"]] for n, o in ours]
    table("memory of a run", ["episodes", "RSS MB after a quarter", "after the last", "peak, summary included"], rows)
    speed = {n: n / o["work"] for n, o in ours}
    most, last = ours[-1]
    low = ours[1][0]
    held = [
        verdict(
            f"growth is linear: {speed[most]:,.0f} per CPU s at {most:,}, {speed[low]:,.0f} at {low:,}",
            speed[most] > 0.7 * speed[low],
        )
    ]
    each = (last["late"] - last["early"]) * 2**20 / (0.75 * most)
    held.append(
        verdict(
            f"memory stays flat: {each / 1024:.2f} KB for each further episode at {most:,}; peak {last['rss_mb']:.0f} MB, "
            f"{ours[1][1]['rss_mb']:.0f} MB at {low:,}",
            last["rss_mb"] < 2 * ours[1][1]["rss_mb"],
        )
    )
    for name, (count, out) in peers.items():
        ratio = speed[low] / (count / out["work"])
        if name.startswith("inspect"):
            held.append(verdict(f"at least 20 times inspect-ai per CPU second ({ratio:.0f}×)", ratio >= 20))
        else:
            print(f"  beside {name}: {ratio:.2f}× its episodes per CPU second")
    return all(held)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
