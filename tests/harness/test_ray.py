"""The Ray engine on a real cluster of two nodes on this machine: the local engine's ledger, node loss included."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ethogram.errors import MachineFailure
from ethogram.harness.engines.ray import BudgetActor, RayEngine, RemoteBudget
from ethogram.harness.environment import Environment
from ethogram.harness.executor import Work
from ethogram.harness.options import AllCaps
from ethogram.harness.suites import run as run_suite
from ethogram.plans import Episode
from ethogram.prices import Amounts, Budget, CapReached, Caps
from ethogram.store import Home, open_home
from ethogram.traces import EpisodeId
from ethogram.wire.gateway.call import Usage

pytest.importorskip("ray", reason="the extra 'ray' is not installed")
pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.filterwarnings("ignore")]

AGENT = """
import time

def agent(task, episode):
    with episode.record.model(model="m", at_most_usd=0.01) as call:
        time.sleep({pause})
        call.done("thinking", input_tokens=5, output_tokens=2, cost_usd=0.01)
    return task.inputs["say"] if episode.rng.random() < 0.7 else "wrong"

agent.meters = ("tokens", "usd")
"""
SUITE = """
from ethogram.plans import Check, Suite, Task

SUITE = Suite(name="many", tasks=tuple(
    Task(id=f"t{i}", prompt="?", inputs={"say": str(i)}, expected=str(i),
         checks=(Check(kind="equals"),)) for i in range(10)))
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ray
        from ray.cluster_utils import Cluster

        small = {"object_store_memory": 80 * 2**20}
        built = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **small})
        nodes = [built.add_node(num_cpus=1, **small) for _ in range(2)]
        ray.init(address=built.address, log_to_driver=False, logging_level="ERROR")
        built.wait_for_nodes()
        yield built, nodes
        ray.shutdown()
        built.shutdown()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "many.py").write_text(SUITE)
    (tmp_path / "quick.py").write_text(AGENT.format(pause=0.0))
    (tmp_path / "slow.py").write_text(AGENT.format(pause=0.05))
    return tmp_path


def ledger(home: Home, run: str) -> set[tuple[Any, ...]]:
    return {
        (e.head.episode, e.head.task, e.head.attempt, e.head.seed, e.head.outcome, e.totals.cost_usd)
        for e in home.run(run).entries
    }


def run(place: Path, home: Home, name: str, agent: str = "slow", **options: Any) -> Any:
    return run_suite(str(place / "many.py"), f"{place / agent}.py:agent", k=12, home=home, run=name, **options)


def test_every_engine_gives_the_same_ledger_even_when_a_node_is_lost(cluster: Any, place: Path) -> None:
    built, nodes = cluster
    home = open_home(str(place / "home"))
    run(place, home, "one", workers=1, agent="slow")
    run(place, home, "eight", workers=8)
    two = run(place, home, "two-nodes", engine="ray", workers=4)
    assert (two.scored, two.missing, two.not_run) == (120, {}, 0)

    def lose_a_node() -> None:
        deadline = time.monotonic() + 60
        while not home.files.names("runs/lost/ledger") and time.monotonic() < deadline:
            time.sleep(0.02)
        built.remove_node(nodes[1], allow_graceful=False)

    killer = threading.Thread(target=lose_a_node)
    killer.start()
    lost = run(place, home, "lost", engine="ray", workers=4)
    killer.join(timeout=120)
    assert not killer.is_alive()
    assert (lost.scored, lost.missing, lost.not_run) == (120, {}, 0)
    expected = ledger(home, "one")
    assert len(expected) == 120
    for name in ("eight", "two-nodes", "lost"):
        assert ledger(home, name) == expected, name
    caps = AllCaps(experiment=Caps(usd=0.3))
    capped = run(place, home, "capped", engine="ray", workers=4, caps=caps)
    assert capped.cost_usd <= 0.3 + 0.01
    assert capped.stopped == "cap.experiment"
    run(place, home, "task-caps", engine="ray", workers=4, caps=AllCaps(task=Caps(usd=0.05)))
    spent: dict[str, float] = {}
    for entry in home.run("task-caps").entries:
        spent[entry.head.task] = spent.get(entry.head.task, 0.0) + (entry.totals.cost_usd or 0.0)
    assert spent == pytest.approx(dict.fromkeys(spent, 0.05))  # one budget over all workers, not one each
    nodes[1] = built.add_node(num_cpus=1, object_store_memory=80 * 2**20)


MODEL_AGENT = """
import os, openai

client = openai.OpenAI(api_key="k", max_retries=0)

def agent(task):
    asked = [{"role": "user", "content": task.inputs["say"]}]
    reply = client.chat.completions.create(model="gpt-4o-mini", messages=asked, max_tokens=1000)
    return reply.choices[0].message.content

if __name__ == "__main__":
    import json, types
    with open(os.environ["ETHOGRAM_TASK"]) as file:
        print(agent(types.SimpleNamespace(**json.load(file))), end="")
"""


def test_model_calls_are_captured_and_capped_on_workers(cluster: Any, place: Path) -> None:
    from ethogram.worlds.model_server import serve_model, text_reply

    path = place / "model.py"
    path.write_text(MODEL_AGENT)
    home = open_home(str(place / "home"))
    usage = Usage(input_tokens=10, output_tokens=1000)
    price = (10 * 0.15 + 1000 * 0.6) / 1e6

    with serve_model(lambda request: text_reply(request.messages[0].parts[0].text, usage=usage)) as server:
        given = {
            "engine": "ray",
            "home": home,
            "workers": 4,
            "environment": Environment(passed={"OPENAI_BASE_URL": f"{server.address}/v1"}),
        }
        many = str(place / "many.py")
        called = run_suite(many, f"{path}:agent", k=2, run="python", **given)
        assert (called.successes, called.model_calls, len(server.calls)) == (20, 20, 20)
        assert called.cost_usd == pytest.approx(20 * price)
        capped = run_suite(many, f"{path}:agent", k=12, run="c", caps=AllCaps(experiment=Caps(usd=5 * price)), **given)
        assert capped.stopped == "cap.experiment"
        assert 0 < capped.cost_usd <= 5 * price, "what a call may cost is set aside before it is made"
        command = run_suite(many, f"cmd: {sys.executable} {path}", limit=2, run="command", **given)
        assert (command.successes, command.model_calls) == (2, 2)
        assert command.cost_usd == pytest.approx(2 * price)


def test_a_cluster_without_room_is_told_instead_of_waited_for(cluster: Any) -> None:
    import ray

    class Hog:
        def ready(self) -> bool:
            return True

    hogs = [ray.remote(num_cpus=1)(Hog).remote() for _ in range(2)]
    assert ray.get([h.ready.remote() for h in hogs], timeout=120) == [True, True]
    budget = Budget("experiment", Caps())
    engine = RayEngine(no_executor, budget, set, concurrency=1, task_caps=Caps(), spent={})
    engine.patience = 1.0
    episode = Episode(id=EpisodeId("e"), task="t", agent="a", attempt=0, seed=1)
    with pytest.raises(MachineFailure, match="given no worker for 1 s"):
        engine.run([Work(episode)], lambda _: None, lambda: None)
    for hog in hogs:
        ray.kill(hog)
    engine.close()


def no_executor(*_: Any) -> Any:
    raise AssertionError("no worker should be built")


def test_a_lost_budget_actor_stops_the_run(cluster: Any) -> None:
    import ray

    budgets = ray.remote(num_cpus=0)(BudgetActor).remote(Caps(usd=1.0), Amounts(), Caps(), {})
    budget = RemoteBudget(Caps(usd=1.0), budgets)
    budget.take(Amounts(usd=0.5))
    with pytest.raises(CapReached):
        budget.take(Amounts(usd=0.6))
    ray.kill(budgets)
    with pytest.raises(MachineFailure, match="--resume"):
        take_until(budget, time.monotonic() + 60)


def take_until(budget: Budget, deadline: float) -> None:
    """An actor that is being ended may answer once more."""
    while time.monotonic() < deadline:
        budget.take(Amounts())
