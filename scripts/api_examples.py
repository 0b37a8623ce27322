"""One example for each name of `import ethogram as eth`, in an order in which they run one after the other.

The reference page shows each block below its name (`import ethogram as eth` goes without saying there);
tests/docs/test_api.py runs all of them in an empty folder.
"""

# ruff: noqa: E402
import json
from pathlib import Path

import ethogram as eth

# == tool
STOCK = {"pear": 12, "plum": 7, "fig": 3}


@eth.tool
def stock(item: str) -> int:
    return STOCK[item]


# == span
def agent(task: eth.Task) -> str:
    with eth.span("look", attributes={"item": task.id}):
        found = stock(task.id)
    with eth.span("look again"):
        return str(max(found, stock(task.id)))


# == Task
from ethogram.plans import Check

pear = eth.Task(id="pear", prompt="How many pears are there?", expected="12", checks=(Check(kind="equals"),))

# == Suite
fig = eth.Task(id="fig", prompt="How many figs are there?", expected="3", checks=(Check(kind="equals"),))
suite = eth.Suite(name="shop", tasks=(pear, fig))

# == run
done = eth.run(suite, agent, k=3, run="shop")
print(f"{done.successes} of {done.scored} succeeded")

# == load
run = eth.load("shop")
first, second = (entry.head.trace_id for entry in run.entries[:2])
print(run.name, len(run.entries))

# == Trace
trace = run.trace(run.entries[0])
print(trace.head.task, trace.answer, [step.name for step in trace.steps])

# == show
print([task.successes for task in eth.show("shop").tasks])

# == trace
print(eth.trace(first).to_df()[["kind", "name"]])

# == diff
print(eth.diff(first, second).d_norm)

# == replay
again = eth.replay(first, agent, suite=suite)
print(again.same)


# == import_logs
def conversation(task: int, trial: int, patience: int) -> dict:
    good = (7 * task + 3 * trial + patience) % 5 > 1
    names = ["search"] * (1 + trial % 3 + (0 if good else patience)) + ["update"] * good
    talk = [{"role": "user", "content": f"Change order {task}."}]
    for i, name in enumerate(names):
        call = {"id": f"c{i}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        talk.append({"role": "assistant", "content": None, "tool_calls": [call]})
        talk.append({"role": "tool", "tool_call_id": f"c{i}", "name": name, "content": "ok"})
    talk.append({"role": "assistant", "content": "Done."})
    return {"task_id": task, "trial": trial, "reward": float(good), "info": {}, "traj": talk}


for name, patience in (("monday", 4), ("friday", 2)):
    log = [conversation(task, trial, patience) for task in range(4) for trial in range(8)]
    Path(f"{name}.json").write_text(json.dumps(log))
    eth.import_logs(f"{name}.json", run=name)

# == runs
print(eth.runs().to_df()[["run", "episodes", "scored"]])

# == sql
print(eth.sql("SELECT task, avg(score) AS rate FROM episodes GROUP BY task", runs=["monday"]).to_df())

# == stats
print(eth.stats("monday", [1, 4]).pass_hat["4"])

# == Estimate
rate = eth.stats("monday").pass_at["1"]
print(f"{rate.value:.2f} between {rate.low:.2f} and {rate.high:.2f}, of {rate.n} {rate.of}")

# == field
print(eth.field("monday", preset="service").to_df()[["dimension", "mean", "adjusted"]])


# == Dimension
calls = eth.Dimension("calls", "tool calls of one run")


# == Field
class Calls(eth.Field[eth.Trace]):
    def dimensions(self) -> list[eth.Dimension]:
        return [calls]

    def measure(self, trajectory: eth.Trace) -> list[int]:
        return [sum(step.kind == "tool" for step in trajectory.steps)]


field = Calls()
field.ingest(eth.load("monday").traces())
print(field.metrics().estimate("separation", "calls"))

# == why
print(eth.why("monday").headline)

# == divergence
print(eth.divergence("monday", "friday").verdict)

# == cost
costs = eth.cost("monday")
print(costs.resolution, costs.unpriced)

# == compare
print(eth.compare("monday", "friday").difference)

# == gate
verdict = eth.gate("monday", "friday", margin=0.1)
print(verdict.verdict, verdict.evidence.why)

# == plan
print(eth.plan("monday", drop=0.2).runs)

# == score
Path("labels.csv").write_text("task,attempt,value\n0,0,1\n0,1,0\n")
print(eth.score("monday", labels="labels.csv").scored)

# == judge
print(eth.judge("monday", judge="rule").score)

# == label
eth.label("monday", "0/1", "gave_up", why="it searched and never changed the order")

# == calibrate
print(eth.calibrate("monday", width=0.1).notes)

# == variance
print(eth.variance(["monday", "friday"], common_tasks=True).ledger.buy)

# == golden
from ethogram.questions.golden.versions import freeze

Path("suite.jsonl").write_text(json.dumps({"id": "fig", "prompt": "How many figs?", "checks": [{"equals": "3"}]}))
freeze("suite.jsonl")
print(eth.golden("suite.jsonl").why)

# == incident
from ethogram.questions.incident.opening import open_incident

open_incident(eth.load("monday").entries[0].head.trace_id, why="a customer got the wrong order")
print(eth.incident("latest").next)

# == report
print(eth.report("friday", "friday.html").sections)

# == explore
from ethogram.worlds.toy_v1 import ToyWorld

print(eth.explore(ToyWorld(), max_episodes=100).established)

# == Experiment
Path("sales.csv").write_text("item,sold\npear,3\nplum,4\nfig,5\n")


def add_up(task, episode):
    rows = episode.tools["read_file"](name="sales.csv").split()[1:]
    return sum(int(row.split(",")[1]) for row in rows)


experiment = eth.Experiment(
    files="sales.csv", question="How much was sold?", expected="12", agent=add_up, noise_floor=1, k=2
)
print(experiment.run().summary())

# == from_langgraph
from typing import TypedDict

from langgraph.graph import START, StateGraph


class State(TypedDict):
    messages: list


graph = StateGraph(State)
graph.add_node("answer", lambda state: {"messages": [*state["messages"], ("assistant", "12")]})
graph.add_edge(START, "answer")
clerk = eth.from_langgraph(graph.compile(), answer=lambda state: state["messages"][-1][1])

# == export
print(eth.export("friday", "csv", out="friday-csv").files)

# == verify
print(eth.verify(["friday"]).ok)

# == retain
print(eth.retain(["friday"], keep_all="7d").runs)

# == rm
eth.rm("friday")

# == EthogramError
try:
    eth.load("no such run")
except eth.EthogramError as error:
    print(f"{error} (exit code {error.exit_code})")
