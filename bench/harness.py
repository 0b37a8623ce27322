"""Claims: with an async agent that returns at once, default settings (live capture is on) and every trace committed
durably (in groups, within half a second), the harness does at least as many episodes per CPU second as pydantic-evals,
which stores nothing and is given the same agent; with an agent that records one model call, at least 20 times as many as
inspect-ai with its mock model and its fastest settings. Growth is linear to 50 000 episodes and memory stays flat.

Rates are marginal: the episodes between a small and a large run over the CPU seconds between them, so that what is
imported and set up once does not count on any side. All sides take turns in each of several rounds, and a ratio is
that of one round: the table has the median and the range over rounds. Four agents of ours are measured, since each
costs something else: with live capture and without (`meters` says that the agent records all its use), returning at once
and recording a model call with its tokens. A synchronous agent, which is called in a thread, is shown too."""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
from _common import QUICK, child, table, verdict

OURS = """
import resource, sys, tempfile, time
from ethogram.plans import Check, Suite, Task
from ethogram.harness.suites import run as run_suite
n, tasks = int(sys.argv[1]), 50
suite = Suite(name="b", tasks=tuple(Task(id=f"t{i}", prompt="say hi", expected="hi", checks=(Check(kind="equals"),)) for i in range(tasks)))
how = sys.argv[2]
async def returns(task, episode):
    return "hi"
async def records(task, episode):
    with episode.record.model(model="mock") as call:
        call.done("hi", input_tokens=2, output_tokens=1)
    return "hi"
def blocks(task, episode):
    return "hi"
agent = blocks if "sync" in how else records if "records" in how else returns
if "off" in how:
    agent.meters = ("tokens", "usd")
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
    done = run_suite(suite, agent, home=home, run="b", k=n // tasks, workers=10, progress=watch)
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


class Side(NamedTuple):
    """One harness with one agent: its code, how its agent behaves, the sizes of a small and a large run."""

    name: str
    code: str
    how: str
    sizes: tuple[int, int]


DEFAULT = "ethogram, returns at once, capture on"
RECORDS = "ethogram, records a call, capture on"
PYDANTIC_EVALS = "pydantic-evals, returns at once, stores nothing"
INSPECT_AI = "inspect-ai, mock model, fastest settings"
LOW, HIGH = (1000, 5000) if QUICK else (2000, 10_000)
ROUNDS = 3 if QUICK else 5
SIDES = [
    Side(DEFAULT, OURS, "returns on", (LOW, HIGH)),
    Side(PYDANTIC_EVALS, PYDANTIC, "", (LOW, HIGH)),
    Side("ethogram, returns at once, capture off", OURS, "returns off", (LOW, HIGH)),
    Side(RECORDS, OURS, "records on", (LOW, HIGH)),
    Side("ethogram, records a call, capture off", OURS, "records off", (LOW, HIGH)),
    Side("ethogram, synchronous, capture on", OURS, "sync on", (LOW, HIGH)),
    # inspect-ai takes milliseconds for a sample
    Side(INSPECT_AI, INSPECT, "", (50, 150) if QUICK else (100, 500)),
]


def rates() -> tuple[dict[str, list[float]], dict[str, dict[str, Any]]]:
    """Episodes per CPU second by side, one for each round in which all sides took turns; and each side's last run."""
    found: dict[str, list[float]] = {}
    last: dict[str, dict[str, Any]] = {}
    for _ in range(ROUNDS):
        for side in SIDES:
            if side.name in found and not found[side.name]:
                continue
            try:
                low, high = (child(side.code, str(n), side.how) for n in side.sizes)
            except SystemExit as error:
                print(f"  {side.name} could not be measured: {str(error).strip().splitlines()[-1][:200]}")
                found[side.name] = []
                continue
            episodes = side.sizes[1] - side.sizes[0]
            found.setdefault(side.name, []).append(episodes / (high["work"] - low["work"]))
            last[side.name] = high
    return found, last


def beside(found: dict[str, list[float]], mine: str, theirs: str, least: float) -> bool:
    """Whether one side does at least `least` times the episodes of another per CPU second, by the median of rounds."""
    ratios = [a / b for a, b in zip(found[mine], found[theirs], strict=False)]
    if not ratios:
        return True  # it said above that it could not be measured
    told = f"{median(ratios):.2f}×, rounds {min(ratios):.2f} to {max(ratios):.2f}"
    return verdict(f"at least {least:g} times {theirs}: {mine}, per CPU second ({told})", median(ratios) >= least)


def main() -> bool:
    found, last = rates()
    rows = [
        [name, len(of), median(of), min(of), max(of), 1e6 / median(of), last[name]["rss_mb"]]
        for name, of in found.items()
        if of
    ]
    columns = ["harness and agent", "rounds", "marginal per CPU s", "least", "most", "µs each", "peak RSS MB"]
    table("harness overhead", columns, rows)
    held = [beside(found, DEFAULT, PYDANTIC_EVALS, 1.0), beside(found, RECORDS, INSPECT_AI, 20.0)]
    most = HIGH if QUICK else 50_000
    ours = [(n, child(OURS, str(n), "returns on")) for n in (LOW, most)]
    rows = [[n, o["early"], o["late"], o["rss_mb"]] for n, o in ours]
    table("memory of a run", ["episodes", "RSS MB after a quarter", "after the last", "peak, summary included"], rows)
    speed = {n: n / o["work"] for n, o in ours}
    held.append(
        verdict(
            f"growth is linear: {speed[most]:,.0f} per CPU s at {most:,}, {speed[LOW]:,.0f} at {LOW:,}",
            speed[most] > 0.7 * speed[LOW],
        )
    )
    last_run = ours[1][1]
    each = (last_run["late"] - last_run["early"]) * 2**20 / (0.75 * most)
    held.append(
        verdict(
            f"memory stays flat: {each / 1024:.2f} KB for each further episode at {most:,}; peak {last_run['rss_mb']:.0f} MB, "
            f"{ours[0][1]['rss_mb']:.0f} MB at {LOW:,}",
            last_run["rss_mb"] < 2 * ours[0][1]["rss_mb"],
        )
    )
    return all(held)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
