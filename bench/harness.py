"""Claims: with an agent that returns at once and every trace committed durably (in groups, within half a second), the
harness does at least as many episodes per CPU second as pydantic-evals, which stores nothing, and at least 20 times as
many as inspect-ai with its mock model and its fastest settings; growth is linear to 50 000 episodes and memory stays
flat. Rates are marginal: the episodes between a small and a large run over the CPU seconds between them, so that what is
imported and set up once does not count on any side."""

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
    (log,) = eval(task, model=get_model("mockllm/model", custom_outputs=reply), log_dir=logs, display="none", max_samples=10,
                  log_realtime=False, score_display=False, log_buffer=1000, log_model_api=False)
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


def marginal(code: str, low: int, high: int) -> tuple[float, list[tuple[int, dict[str, Any]]]]:
    """Episodes per CPU second between two sizes, the best of three measurements of each, and those."""
    best = [min((child(code, str(n)) for _ in range(3)), key=lambda out: float(out["work"])) for n in (low, high)]
    return (high - low) / (best[1]["work"] - best[0]["work"]), list(zip((low, high), best, strict=True))


def beside(rate: float) -> tuple[list[list[Any]], list[bool]]:
    """Marginal rates of the others: rows of the table, and whether ours holds against each."""
    rows, held = [], []
    # inspect-ai takes milliseconds for a sample
    for name, code, sizes, least in (
        ("pydantic-evals, stores nothing", PYDANTIC, (1000, 5000) if QUICK else (2000, 10_000), 1.0),
        ("inspect-ai, mock model, fastest settings", INSPECT, (50, 150) if QUICK else (100, 500), 20.0),
    ):
        try:
            theirs, runs = marginal(code, *sizes)
        except SystemExit as error:
            print(f"  {name} could not be measured: {str(error).strip().splitlines()[-1][:200]}")
            continue
        rows += [[name, n, o["work"], theirs, o["rss_mb"]] for n, o in runs]
        ratio = rate / theirs
        held.append(verdict(f"at least {least:g} times {name}, per CPU second ({ratio:.2f}×)", ratio >= least))
    return rows, held


def main() -> bool:
    low, high = (1000, 5000) if QUICK else (2000, 10_000)
    rate, pair = marginal(OURS, low, high)
    most = high if QUICK else 50_000
    last = pair[1][1] if QUICK else child(OURS, str(most))
    ours = pair if QUICK else [*pair, (most, last)]
    rows, held = beside(rate)
    mine = [["ethogram, durable", n, o["work"], rate, o["rss_mb"]] for n, o in ours]
    table("harness overhead", ["harness", "episodes", "CPU s", "marginal per CPU s", "peak RSS MB"], [*mine, *rows])
    rows = [[n, o["early"], o["late"], o["rss_mb"]] for n, o in ours]
    table("memory of a run", ["episodes", "RSS MB after a quarter", "after the last", "peak, summary included"], rows)
    speed = {n: n / o["work"] for n, o in ours}
    held.append(
        verdict(
            f"growth is linear: {speed[most]:,.0f} per CPU s at {most:,}, {speed[low]:,.0f} at {low:,}",
            speed[most] > 0.7 * speed[low],
        )
    )
    each = (last["late"] - last["early"]) * 2**20 / (0.75 * most)
    held.append(
        verdict(
            f"memory stays flat: {each / 1024:.2f} KB for each further episode at {most:,}; peak {last['rss_mb']:.0f} MB, "
            f"{pair[0][1]['rss_mb']:.0f} MB at {low:,}",
            last["rss_mb"] < 2 * pair[0][1]["rss_mb"],
        )
    )
    return all(held)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
