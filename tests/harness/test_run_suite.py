"""Running suites through the front door: outcomes, blame, caps, retries, resume."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from ethogram.errors import BadInput, BadUsage, NotFound
from ethogram.harness.agents import AgentCrash, Answer, ScriptedAgent
from ethogram.harness.faults import NetworkFault, RateLimited
from ethogram.harness.options import AllCaps, RunOptions, parse_caps, parse_meta
from ethogram.harness.suites import plan_run, resume_run
from ethogram.harness.suites import run as run_suite
from ethogram.plans import Check, Condition, Suite, Task
from ethogram.prices import Caps
from ethogram.questions.cost.question import cost as cost_of
from ethogram.questions.home.buying import drill
from ethogram.questions.home.kill_switch import kill
from ethogram.questions.home.runs import show
from ethogram.reading.traces import trace
from ethogram.store import Home, open_home
from ethogram.traces import Missing, Scored


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(str(tmp_path / "home"))


def suite(tasks: int = 3, **task: Any) -> Suite:
    check = Check(kind="equals")
    made = tuple(Task(id=f"t{i}", prompt=f"say {i}", expected=str(i), checks=(check,), **task) for i in range(tasks))
    return Suite(name="counting", tasks=made)


def right(task: Task, episode: Any) -> str:
    return task.prompt.removeprefix("say ")


right.meters = ("tokens", "usd")  # type: ignore[attr-defined]


def sometimes(task: Task, episode: Any) -> str:
    return right(task, episode) if episode.rng.random() < 0.6 else "wrong"


def outcomes(home: Home, run: str) -> dict[tuple[str, int], Any]:
    return {(e.head.task, e.head.attempt): e.head.outcome for e in home.run(run).entries}


def test_k_attempts_of_every_task_are_scored_and_kept(home: Home) -> None:
    result = run_suite(suite(), right, k=4, home=home, run="a")
    assert (result.planned, result.scored, result.successes, result.missing, result.not_run) == (12, 12, 12, {}, 0)
    run = home.run("a")
    assert {(e.head.task, e.head.attempt) for e in run.entries} == {(f"t{i}", k) for i in range(3) for k in range(4)}
    assert {x.name for x in run.labels()} == {"equals"}
    assert run.info.plan["suite_digest"] == suite().digest


def test_seeds_depend_on_nothing_but_names(home: Home) -> None:
    for name, most in (("one", 1), ("many", 8)):
        run_suite(suite(), sometimes, k=6, seed=3, home=home, run=name, workers=most)
    assert outcomes(home, "one") == outcomes(home, "many")
    run_suite(suite(), sometimes, k=6, seed=4, home=home, run="other")
    assert outcomes(home, "one") != outcomes(home, "other")


def test_conditions_are_paired_by_seed(home: Home) -> None:
    seen: dict[tuple[str, int], set[int]] = {}

    def agent(task: Task, episode: Any) -> str:
        seen.setdefault((task.id, episode.attempt), set()).add(episode.seed)
        return str(episode.condition.get("word", "none"))

    conditions = (Condition(), Condition(name="loud", settings={"word": "hey"}))
    result = run_suite(suite(2), agent, k=2, conditions=conditions, home=home, run="c")
    assert result.planned == 8
    assert all(len(seeds) == 1 for seeds in seen.values())
    assert {e.head.condition for e in home.run("c").entries} == {"", "loud"}


def test_the_agents_own_crash_is_scored_and_labelled(home: Home) -> None:
    def agent(task: Task, episode: Any) -> str:
        raise ValueError("a bug of mine")

    result = run_suite(suite(1), agent, home=home, run="a")
    assert (result.scored, result.missing) == (1, {})
    assert outcomes(home, "a")["t0", 0] == Scored(0.0, outcomes(home, "a")["t0", 0].by)
    labels = {x.name: x.value for x in home.run("a").labels()}
    assert labels["stopped_by"] == "crash.ValueError"


def test_a_call_that_cannot_be_recorded_says_nothing_about_the_agent(home: Home) -> None:
    """A failure inside the recorder would otherwise count against every version that meets it."""

    def agent(task: Task, episode: Any) -> str:
        with episode.record.model(model="m") as call:
            call.done(object(), input_tokens=1, output_tokens=1)
        return "42"

    result = run_suite(suite(1), agent, home=home, run="a")
    assert (result.scored, result.missing, result.crashed) == (0, {"infrastructure.other": 1}, 0)
    detail = result.missing_details["infrastructure.other"]
    assert detail.startswith("the call could not be recorded: ")
    assert "test_run_suite.py" in detail, "the place in the agent is named"


@pytest.mark.parametrize("error", [KeyError("own"), AttributeError("own"), TypeError("own")])
def test_an_accident_in_the_agents_own_code_is_its_own(home: Home, error: Exception) -> None:
    def agent(task: Task, episode: Any) -> str:
        with episode.record.model(model="m") as call:
            call.done("hm", input_tokens=1, output_tokens=1)
            raise error

    result = run_suite(suite(1), agent, home=home, run="a")
    assert (result.scored, result.crashed) == (1, 1)


@pytest.mark.parametrize("shape", ["plain", "answer", "dict"])
def test_an_answer_that_equals_everything_is_read_as_plain_text(home: Home, shape: str) -> None:
    class Anything(str):
        def __eq__(self, other: object) -> bool:
            return True

        def __str__(self) -> str:
            return self

        def _itself(self, *args: Any) -> Anything:
            return self

        __hash__ = str.__hash__
        casefold = strip = lower = _itself

    def agent(task: Task, episode: Any) -> Any:
        text = Anything("?")
        return {"plain": text, "answer": Answer(text), "dict": {"answer": text}}[shape]

    for settings in ({}, {"ignore_space": False}, {"ignore_case": False, "ignore_space": False}):
        task = Task(id="t", prompt="?", expected="42", checks=(Check(kind="equals", settings=settings),))
        run_suite(Suite(name="s", tasks=(task,)), agent, home=home, run=f"r{len(home.names())}")
    assert [home.run(name).entries[0].head.outcome.value for name in home.names()] == [0.0] * 3  # type: ignore[union-attr]


def test_what_a_crashed_agent_left_is_checked(home: Home) -> None:
    def agent(task: Task, episode: Any) -> str:
        raise AgentCrash("died after speaking", "0")

    run_suite(suite(1), agent, home=home, run="a")
    assert outcomes(home, "a")["t0", 0].value == 1.0


def test_infrastructure_failures_are_missing_with_their_reason_never_failures(home: Home) -> None:
    def agent(task: Task, episode: Any) -> str:
        if episode.random("world").random() < 0.2:
            raise NetworkFault("the wire is cut")
        return right(task, episode)

    result = run_suite(suite(10), agent, k=20, retries=0, home=home, run="a")
    assert set(result.missing) == {"infrastructure.network"}
    assert 20 <= result.missing["infrastructure.network"] <= 60
    assert result.successes == result.scored == 200 - result.missing["infrastructure.network"]
    assert all(isinstance(o, Missing) or o.value == 1.0 for o in outcomes(home, "a").values())


def test_faults_are_retried_and_the_retries_are_recorded(home: Home) -> None:
    tries: dict[int, int] = {}

    async def agent(task: Task, episode: Any) -> str:
        tries[episode.seed] = tries.get(episode.seed, 0) + 1
        if tries[episode.seed] < 3:
            raise RateLimited("slow down", retry_after=0.01)
        return right(task, episode)

    result = run_suite(suite(2), agent, home=home, run="a")
    assert (result.scored, result.successes) == (2, 2)
    assert [e.head.meta["tries"] for e in home.run("a").entries] == [3, 3]


def test_what_is_paid_twice_stands_beside_what_attempts_cost(home: Home) -> None:
    """`run`, `show` and `cost` give one cost of a run; repeated tries and replaced attempts are paid besides."""
    failures = {"t0": 1, "t1": 3, "t2": 0}

    def agent(task: Task, episode: Any) -> str:
        with episode.record.model(model="m") as call:
            call.done("hm", input_tokens=100, output_tokens=10, cost_usd=0.01)
        failures[task.id] -= 1
        if failures[task.id] >= 0:
            raise NetworkFault("down")
        return right(task, episode)

    agent.meters = ("tokens", "usd")  # type: ignore[attr-defined]
    first = run_suite(suite(), agent, retries=1, home=home, run="a")
    assert (first.scored, first.cost_usd, first.tokens) == (2, pytest.approx(0.03), 330)
    assert first.repeated_usd == pytest.approx(0.02), "one try of t0 and one of t1"
    again = resume_run("a", suite=suite(), agent=agent, retry=["infrastructure.network"], home=home)
    assert (again.scored, again.cost_usd, again.tokens) == (3, pytest.approx(0.03), 330)
    assert again.repeated_usd == pytest.approx(0.02 + 0.01 + 0.01), "the attempt that was replaced, and a further try"
    cost = cost_of("a", home=home)
    assert (cost.cost_usd, show("a", home=home).cost_usd) == (pytest.approx(0.03), pytest.approx(0.03))
    assert cost.repeated_usd == pytest.approx(again.repeated_usd)
    assert cost.paid_per_resolved == pytest.approx((0.03 + 0.04) / 3)


def test_retry_runs_only_what_is_missing_for_that_reason(home: Home, tmp_path: Path) -> None:
    broken = {"yes": True}

    def agent(task: Task, episode: Any) -> str:
        if task.id == "t1" and broken["yes"]:
            raise NetworkFault("down")
        return right(task, episode)

    run_suite(suite(), agent, k=2, retries=0, home=home, run="a")
    broken["yes"] = False
    nothing = resume_run("a", suite=suite(), agent=agent, home=home)
    assert (nothing.executed, nothing.missing) == (0, {"infrastructure.network": 2})
    again = resume_run("a", suite=suite(), agent=agent, retry=["infrastructure.network"], home=home)
    assert (again.executed, again.scored, again.missing) == (2, 6, {})
    assert len(home.run("a").entries) == 6
    with pytest.raises(NotFound, match=r"did you mean 'infrastructure\.network'"):
        resume_run("a", suite=suite(), agent=agent, retry=["infrastructure.netwrok"], home=home)


def spender(task: Task, episode: Any) -> str:
    while True:
        with episode.record.model(at_most_usd=0.01) as call:
            call.done("thinking", input_tokens=10, output_tokens=10, cost_usd=0.01)


spender.meters = ("tokens", "usd")  # type: ignore[attr-defined]


def test_an_agent_without_end_stops_at_its_own_cap_and_is_scored(home: Home) -> None:
    caps = AllCaps(episode=Caps(steps=5))
    result = run_suite(suite(2), spender, caps=caps, home=home, run="a")
    assert (result.scored, result.missing) == (2, {})
    assert [e.totals.model_calls for e in home.run("a").entries] == [5, 5]
    assert {x.value for x in home.run("a").labels() if x.name == "stopped_by"} == {"cap.steps"}


@pytest.mark.parametrize("concurrency", [1, 8])
def test_the_experiments_dollars_are_a_hard_stop(home: Home, concurrency: int) -> None:
    caps = AllCaps(experiment=Caps(usd=0.25))
    result = run_suite(suite(20), spender, caps=caps, home=home, run="a", workers=concurrency)
    assert result.cost_usd <= 0.25 + 0.01
    assert result.stopped == "cap.experiment"
    assert set(result.missing) == {"cap.experiment"}
    assert result.not_run > 0
    again = resume_run("a", suite=suite(20), agent=spender, home=home)
    assert again.cost_usd <= 0.25 + 0.01
    assert (again.scored, again.stopped) == (0, "cap.experiment")


def test_an_agent_may_end_in_good_order_at_its_cap(home: Home) -> None:
    from ethogram.prices import CapReached

    def polite(task: Task, episode: Any) -> str:
        try:
            spender(task, episode)
        except CapReached:
            return right(task, episode)
        return ""

    polite.meters = ("tokens", "usd")  # type: ignore[attr-defined]
    run_suite(suite(1), polite, caps=AllCaps(episode=Caps(tokens=100)), home=home, run="a")
    assert outcomes(home, "a")["t0", 0].value == 1.0


def test_wall_clock_of_an_episode(home: Home) -> None:
    async def slow(task: Task, episode: Any) -> str:
        await asyncio.sleep(30)
        return "never"

    result = run_suite(suite(1), slow, caps=AllCaps(episode=Caps(seconds=0.2)), home=home, run="a")
    assert result.seconds < 10
    assert (result.scored, result.successes) == (1, 0)
    assert {x.value for x in home.run("a").labels() if x.name == "stopped_by"} == {"cap.seconds"}


def test_a_cap_that_cannot_be_kept_is_refused_before_anything_runs(home: Home) -> None:
    with pytest.raises(BadUsage, match="max_usd cannot be enforced"):
        run_suite(suite(), "cmd: true", caps=AllCaps(experiment=Caps(usd=1)), home=home, run="a", capture="off")
    assert home.names() == []


def test_a_command_line_agent(home: Home, tmp_path: Path) -> None:
    script = tmp_path / "agent.py"
    script.write_text(
        "import json, os, sys\n"
        "prompt = sys.stdin.read()\n"
        "task = json.load(open(os.environ['ETHOGRAM_TASK']))\n"
        "assert task['id'] == os.environ['ETHOGRAM_TASK_ID'] and int(os.environ['ETHOGRAM_SEED']) > 0\n"
        "log = [{'role': 'user', 'content': prompt}, {'role': 'assistant', 'content': 'from the log'}]\n"
        "json.dump({'messages': log}, open(os.environ['ETHOGRAM_TRACE'], 'w'))\n"
        "if task['id'] == 't2': sys.exit('I give up')\n"
        "print(prompt.removeprefix('say '), end='')\n"
    )
    result = run_suite(suite(), f"cmd: {sys.executable} {script}", home=home, run="a")
    assert (result.scored, result.successes, result.missing) == (3, 2, {})
    run = home.run("a")
    trace = run.trace(next(e for e in run.entries if e.head.task == "t0"))
    assert [m.text for m in trace.messages] == ["say 0", "from the log"]
    assert {x.value for x in run.labels() if x.name == "stopped_by"} == {"crash.AgentCrash"}


class _Endpoint(BaseHTTPRequestHandler):
    asked = 0

    def do_POST(self) -> None:
        type(self).asked += 1
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if type(self).asked == 1:
            self.send_response(429)
            self.send_header("retry-after", "0.05")
            self.end_headers()
            return
        answer = json.dumps({"answer": body["prompt"].removeprefix("say "), "usage": {"input_tokens": 3}}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: object) -> None:
        pass


def test_an_endpoint_that_says_429_is_asked_again(home: Home) -> None:
    server = HTTPServer(("127.0.0.1", 0), _Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        result = run_suite(suite(), f"http://127.0.0.1:{server.server_port}/", home=home, run="a", workers=1)
    finally:
        server.shutdown()
        server.server_close()
    assert (result.successes, result.missing, result.at_least_tokens) == (3, {}, 9)


def test_an_endpoint_that_is_gone_is_the_networks_fault(home: Home) -> None:
    result = run_suite(suite(1), "http://127.0.0.1:9/", retries=0, home=home, run="a")
    assert result.missing == {"infrastructure.network": 1}


def test_the_scripted_agent_plays_and_varies(home: Home) -> None:
    from ethogram.suites.load import load_suite

    shop = str(Path(__file__).parents[2] / "src/ethogram/worlds/shop")
    good = [("tool", "price", {"item": "cheese"}), "9"]
    agent = ScriptedAgent({"price-cheese": [good, ["10"]], "*": [["no idea"]]})
    result = run_suite(shop, agent, k=10, tasks=("price-cheese",), home=home, run="a")
    assert 0 < result.successes < 10
    assert load_suite(shop).suite.digest == home.run("a").info.plan["suite_digest"]
    tools = [s.tool for e in home.run("a").entries for s in home.run("a").spans(e) if s.kind == "tool"]
    assert set(tools) == {"price"}


def test_a_bug_is_mended_and_verified_by_its_own_tests(home: Home) -> None:
    shop = str(Path(__file__).parents[2] / "src/ethogram/worlds/shop")
    fixed = 'def total(prices):\n    """What a cart costs."""\n    return sum(prices)\n'
    cheat = "def test_prices_add_up(): pass\ndef test_an_empty_cart_costs_nothing(): pass\n"
    mend = [
        ("tool", "read_file", {"name": "cart.py"}),
        ("tool", "write_file", {"name": "cart.py", "content": fixed}),
        "done",
    ]
    fake = [("tool", "write_file", {"name": "test_cart.py", "content": cheat}), "done"]
    for name, script, score in (("mend", mend, 1.0), ("fake", fake, 0.0), ("idle", ["done"], 0.0)):
        run_suite(shop, ScriptedAgent({"*": [script]}), tasks=("fix-total",), home=home, run=name)
        assert outcomes(home, name)["fix-total", 0].value == score, name


def test_the_plan_says_what_it_would_cost(home: Home) -> None:
    caps = parse_caps({"episode.usd": 0.5, "experiment.usd": None}, ("task.usd=1",))
    plan = plan_run(suite(), right, RunOptions(k=4, caps=caps))
    assert (plan.planned, plan.cost_usd_at_most) == (12, 3.0)
    unbounded = plan_run(suite(), right, RunOptions(k=4))
    assert unbounded.cost_usd_at_most is None
    assert unbounded.why is not None
    assert home.names() == []


@pytest.mark.parametrize(
    ("words", "said"),
    [("episode.gold=3", "cannot be capped"), ("nonsense", "is not a cap"), ("task.usd=-1", "more than 0")],
)
def test_caps_that_make_no_sense(words: str, said: str) -> None:
    with pytest.raises(BadUsage, match=said):
        parse_caps({}, (words,))


def test_meta_words() -> None:
    assert parse_meta(("temperature=0.7", "scaffold=react=1")) == {"temperature": "0.7", "scaffold": "react=1"}
    with pytest.raises(BadUsage):
        parse_meta(("temperature",))


def test_a_changed_suite_cannot_be_resumed(home: Home) -> None:
    run_suite(suite(), right, home=home, run="a")
    with pytest.raises(BadUsage, match="has changed"):
        resume_run("a", suite=suite(4), agent=right, home=home)


def test_the_kill_switch_halts_and_resume_goes_on(home: Home) -> None:
    count = {"n": 0}

    async def agent(task: Task, episode: Any) -> str:
        count["n"] += 1
        if count["n"] == 10:
            kill("a", why="test", home=home)
        await asyncio.sleep(0.02)
        return right(task, episode)

    result = run_suite(suite(10), agent, k=30, home=home, run="a", workers=4)
    assert result.stopped == "killed"
    assert 10 <= result.scored < 300
    assert result.not_run == 300 - result.scored
    again = resume_run("a", undo=True, suite=suite(10), agent=agent, home=home)
    assert (again.scored, again.not_run) == (300, 0)


def test_the_drill_measures_and_keeps_its_record(home: Home) -> None:
    result = drill(home=home, episodes=100, in_flight=4, seconds=0.1)
    assert result.ok
    assert result.seconds_to_halt <= 1.0
    assert result.episodes_not_run > 0
    assert len(home.files.names("drills")) == 1


def test_a_simulated_user_has_a_lane_of_its_own(home: Home, tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text("def reply(task, episode, text):\n    return 'my number is ' + task.expected\n")

    async def agent(task: Task, episode: Any) -> str:
        return (await episode.ask_user("which number?")).split()[-1]

    result = run_suite(suite(2, simulator=f"{tmp_path / 'user.py'}:reply"), agent, home=home, run="a")
    assert result.successes == 2
    run = home.run("a")
    assert {s.lane for e in run.entries for s in run.spans(e) if s.kind == "user"} == {"user"}

    def plain(task: Task, episode: Any) -> str:
        return str(episode.ask_user("which number?")).split()[-1]

    result = run_suite(suite(2, simulator=f"{tmp_path / 'user.py'}:reply"), plain, home=home, run="b")
    assert result.successes == 2


def test_the_user_of_a_suite_lies_beside_its_tasks_and_is_part_of_it(home: Home, tmp_path: Path) -> None:
    def asks(task: Task, episode: Any) -> str:
        return str(episode.ask_user("which?"))

    folder = tmp_path / "talk"
    folder.mkdir()
    (folder / "tasks.yaml").write_text(
        "- {id: t, expected: blue, simulator: 'user.py:reply', checks: [{kind: equals}]}\n"
    )
    with pytest.raises(BadInput, match=r"task 't': no Python file at 'user\.py'"):
        run_suite(str(folder), asks, home=home, run="a")
    (folder / "user.py").write_text("def reply(task, episode, text):\n    return 'blue'\n")
    assert run_suite(str(folder), asks, home=home, run="a").successes == 1
    (folder / "user.py").write_text("def reply(task, episode, text):\n    raise ValueError('speechless')\n")
    with pytest.raises(BadUsage, match="has changed since"):
        resume_run("a", agent=asks, home=home)
    result = run_suite(str(folder), asks, home=home, run="b", retries=0)
    assert result.missing == {"infrastructure.other": 1}  # the user is the world's, and so is its crash
    (entry,) = home.run("b").entries
    outcome = home.run("b").head(entry).outcome
    assert isinstance(outcome, Missing)
    assert "the simulated user crashed: ValueError: speechless" in outcome.detail


def test_a_workspace_that_is_kept_is_named(home: Home, tmp_path: Path) -> None:
    def leaves(task: Task, episode: Any) -> str:
        (episode.workspace / "draft.txt").write_text("half done")
        return "wrong"

    run_suite(suite(1, meta={"workspace": True}), leaves, home=home, run="a", keep="failure")
    (entry,) = home.run("a").entries
    kept = Path(str(entry.head.meta["workspace"]))
    assert (kept / "draft.txt").read_text() == "half done"
    assert trace(entry.head.trace_id, run="a", home=home).meta["workspace"] == str(kept)
    shutil.rmtree(kept)
