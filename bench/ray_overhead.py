"""Claim: with an agent that returns at once, an episode on the Ray engine costs at most 4 times the CPU that it costs
on the local engine, at one node and at two; what it costs to start is shown apart. All processes of the cluster count."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from _common import QUICK, child, table, verdict

TRIES = 4
RUN = """
import os, sys, tempfile, threading, time, warnings
from pathlib import Path
warnings.simplefilter("ignore")
os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0")
nodes, few, many = map(int, sys.argv[1:4])
from ethogram.harness.suites import run as run_suite
SUITE = '''
from ethogram.plans import Check, Suite, Task
SUITE = Suite(name="b", tasks=tuple(Task(id=f"t{i}", prompt="?", expected="hi", checks=(Check(kind="equals"),)) for i in range(50)))
'''
AGENT = '''
async def agent(task, episode):
    with episode.record.model(model="mock") as call:
        call.done("hi", input_tokens=2, output_tokens=1)
    return "hi"
'''
class Meter(threading.Thread):
    # CPU seconds of this process and all its descendants, also of those that end meanwhile
    def __init__(self):
        super().__init__(daemon=True)
        self.first, self.last, self.over = {}, {}, threading.Event()
    def look(self):
        stats = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                stats[int(stat.parent.name)] = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
        family = {os.getpid()}
        while more := {p for p, s in stats.items() if int(s[1]) in family} - family:
            family |= more
        for pid in family & stats.keys():
            self.last[pid] = (int(stats[pid][11]) + int(stats[pid][12])) / os.sysconf("SC_CLK_TCK")
    def __enter__(self):
        self.look()
        self.first = dict(self.last)
        self.start()
        return self
    def run(self):
        while not self.over.wait(0.1):
            self.look()
    def __exit__(self, *_):
        self.look()
        self.over.set()
        self.join()
        self.cpu = sum(t - self.first.get(p, 0.0) for p, t in self.last.items())
with tempfile.TemporaryDirectory() as place:
    Path(place, "suite.py").write_text(SUITE)
    Path(place, "agent.py").write_text(AGENT)
    cluster = None
    if nodes:
        import ray
        from ray.cluster_utils import Cluster
        small = {"object_store_memory": 80 * 2**20}
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **small})
        for _ in range(nodes):
            cluster.add_node(num_cpus=1, **small)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        cluster.wait_for_nodes()
    class Watch:
        # from the few-th episode to the last, so that starting workers and their imports do not count
        def __init__(self, meter):
            self.meter, self.count, self.at = meter, 0, []
        def started(self, run, planned, done, cap_usd):
            self.began = time.perf_counter()
        def done(self, report):
            self.count += 1
            if self.count in (few, many):
                self.meter.look()
                self.at.append((self.count, sum(self.meter.last.values()), time.perf_counter()))
    with Meter() as meter:
        watch = Watch(meter)
        done = run_suite(f"{place}/suite.py", f"{place}/agent.py:agent", k=many // 50, home=f"{place}/home",
                         engine="ray" if nodes else "local", workers=8, progress=watch)
    assert done.successes == many, done
    (n, cpu, at), (m, more_cpu, later) = watch.at
    each = (later - at) / (m - n)
    OUT = dict(each_cpu=(more_cpu - cpu) / (m - n), each_wall=each, start_wall=at - watch.began - each * n)
    if cluster is not None:
        ray.shutdown()
        cluster.shutdown()
"""


def measured(nodes: int, few: int, many: int) -> dict[str, Any]:
    """One engine; a busy machine may need a second try to start a cluster in the half minute that Ray allows."""
    for _ in range(TRIES - 1):
        try:
            return child(RUN, str(nodes), str(few), str(many))
        except SystemExit as error:
            print(f"  trying again: {str(error).strip().splitlines()[-1][:120]}")
    return child(RUN, str(nodes), str(few), str(many))


def main() -> bool:
    if importlib.util.find_spec("ray") is None:
        print("the extra 'ray' is not installed, so there is nothing to measure")
        return True
    few, many = (1000, 5000) if QUICK else (2000, 20_000)
    found = {nodes: measured(nodes, few, many) for nodes in (0, 1, 2)}
    rows = [
        [
            f"ray, {n} node(s)" if n else "local",
            o["each_cpu"] * 1000,
            o["each_wall"] * 1000,
            (o["each_cpu"] - found[0]["each_cpu"]) * 1000,
            o["each_cpu"] / found[0]["each_cpu"],
            o["start_wall"],
        ]
        for n, o in found.items()
    ]
    columns = ["engine", "CPU ms each", "wall ms each", "CPU ms more", "ratio", "start wall s"]
    table(f"overhead per episode, from {few:,} to {many:,} episodes", columns, rows)
    held = [
        verdict(f"at most 4 times the local engine's CPU at {n} node(s) ({row[4]:.2f}×)", row[4] <= 4)
        for n, row in zip(found, rows, strict=True)
        if n
    ]
    return all(held)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
