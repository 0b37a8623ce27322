"""Every kind of operator works on an agent that is not ours: the openai package, its own tools, Python or a command."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ethogram.errors import BadUsage, EthogramError
from ethogram.harness.options import RunOptions, parse_conditions
from ethogram.harness.suites import run
from ethogram.perturbations.model import OPERATORS as MODEL_OPERATORS
from ethogram.questions.experiment.buying.experiment import Experiment
from ethogram.questions.experiment.records import ExperimentResults
from ethogram.store import Home
from ethogram.traces import Missing, ToolResult
from ethogram.wire.gateway.call import ModelReply, ModelRequest, Usage
from ethogram.worlds.model_server import ModelServer, serve_model, text_reply, tool_reply

AGENT = """
import sys
from pathlib import Path
import openai

client = openai.OpenAI(api_key="k", max_retries=0)
TOOLS = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {}}}}]

def solve(task, episode):
    return talk(task.prompt, episode.workspace / "sales.csv")

def talk(prompt, file):
    messages = [{"role": "user", "content": prompt}]
    while True:
        reply = client.chat.completions.create(model="gpt-4o-mini", messages=messages, tools=TOOLS).choices[0].message
        if not reply.tool_calls:
            return reply.content
        messages.append(reply.model_dump(exclude_none=True))
        for call in reply.tool_calls:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": file.read_text()})

if __name__ == "__main__":
    print(talk(sys.stdin.read(), Path("sales.csv")), end="")
"""
TABLE = "item,price\napple,3\nbread,4\nmilk,2\n"
QUESTION = "What is the total of all prices? Answer with the number only."


def adds(request: ModelRequest) -> ModelReply:
    """Reads the table twice with the agent's tool, then says the sum of the second reading and the question."""
    results = [p for m in request.messages for p in m.parts if isinstance(p, ToolResult)]
    if len(results) < 2:
        return tool_reply(("read", {"turn": len(results)}))
    rows = [line.partition(",")[2] for line in results[-1].content.splitlines()[1:]]
    asked = next(m.text for m in request.messages if m.role == "user")
    total = sum(int(price) for price in rows if price.isdigit())
    said = str(total) if asked == QUESTION else f"{total}, if I understand you"
    return text_reply(said, usage=Usage(input_tokens=100, output_tokens=5))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with serve_model(adds) as running:
        for name, value in running.variables().items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture(params=["python", "command"])
def agent(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    (tmp_path / "my_agent.py").write_text(AGENT)
    (tmp_path / "sales.csv").write_text(TABLE)
    place = tmp_path / "my_agent.py"
    return f"{place}:solve" if request.param == "python" else f"cmd: {sys.executable} {place}"


def experiment(home: Home, tmp_path: Path, agent: str, *operators: str, **options: object) -> Experiment:
    return Experiment(
        agent=agent,
        files=[tmp_path / "sales.csv"],
        question=QUESTION,
        expected="9",
        operators=operators,
        noise_floor=0,
        run="e",
        options=RunOptions(**options),  # type: ignore[arg-type]
        home=home,
    )


def scores(found: ExperimentResults) -> dict[str, tuple[float | None, float | None]]:
    return {p.condition: (p.score_clean, p.score_perturbed) for p in found.pairs}


def test_one_operator_of_each_kind_reaches_the_agent(
    home: Home, server: ModelServer, agent: str, tmp_path: Path
) -> None:
    kinds = ("null_content", "truncated_result", "stale_result", "prompt_typo", "model_context_limit")
    found = experiment(home, tmp_path, agent, *kinds).run()
    assert not found.not_applicable
    assert found.delivered_pairs == 4, "the second result repeats the first, so a stale one is no change"
    right = {"null_content": 0, "truncated_result": 0, "stale_result": 1, "prompt_typo": 0, "model_context_limit": 0}
    assert scores(found) == {name: (1, score) for name, score in right.items()}
    assert found.missing == {}
    run = home.run("e")
    heads = {e.head.condition: e.head for e in run.entries}
    assert heads["model_context_limit"].meta["perturbed_calls"] == 1
    assert heads["truncated_result"].meta["perturbed_calls"] == 2
    (entry,) = [e for e in run.entries if e.head.condition == "truncated_result"]
    trace = run.trace(entry)
    last = [s for s in trace.spans if s.kind == "model"][-1]
    notes = json.loads(trace.text(last.attributes)) if last.attributes else {}
    assert notes["note"] == "perturbed: truncated_result in 2 results"
    read = [p.content for m in trace.conversation(last) for p in m.parts if isinstance(p, ToolResult)]
    assert all(TABLE.startswith(r[:5]) and r != TABLE for r in read), "the model read less than the tool gave"


def test_calls_that_are_made_to_fail_are_the_agents_to_bear(
    home: Home, server: ModelServer, agent: str, tmp_path: Path
) -> None:
    names = [o.name for o in MODEL_OPERATORS]
    found = experiment(home, tmp_path, agent, *names, workers=4).run()
    assert not found.not_applicable
    assert found.missing == {}, "an error that we made is no fault of the world, so it is scored and not tried again"
    right = dict.fromkeys(names, 0) | {"model_latency": 1, "model_truncated": 1}
    assert scores(found) == {name: (1, score) for name, score in right.items()}
    delivered = {p.condition for p in found.pairs if p.delivered}
    assert delivered == set(names) - {"model_truncated"}, "the scripted model heeds no limit of tokens"


def test_the_same_seed_hits_the_same_calls_and_another_seed_others(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    (tmp_path / "my_agent.py").write_text(AGENT)
    (tmp_path / "sales.csv").write_text(TABLE)

    def hits(name: str, seed: int) -> list[object]:
        made = Experiment(
            agent=f"{tmp_path / 'my_agent.py'}:solve",
            files=[tmp_path / "sales.csv"],
            question=QUESTION,
            expected="9",
            operators=["model_error"],
            intensities=[0.4],
            k=6,
            noise_floor=0,
            seed=seed,
            run=name,
            home=home,
        )
        made.run()
        entries = [e for e in home.run(name).entries if e.head.condition]
        assert not any(isinstance(e.head.outcome, Missing) for e in entries)
        return [
            (e.head.attempt, e.head.meta["perturbed_calls"], e.totals.model_calls)
            for e in sorted(entries, key=lambda e: e.head.attempt)
        ]

    one = hits("one", 1)
    assert one == hits("again", 1)
    assert one != hits("other", 2)
    assert {n for _, n, _ in one} == {0, 1}, "some attempts are hit, some are not"


def test_without_capture_what_needs_the_gateway_says_so(home: Home, server: ModelServer, tmp_path: Path) -> None:
    (tmp_path / "my_agent.py").write_text(AGENT)
    (tmp_path / "sales.csv").write_text(TABLE)
    agent = f"{tmp_path / 'my_agent.py'}:solve"
    made = experiment(home, tmp_path, agent, "model_error", "null_content", capture="off")
    (refused,) = made.plan().not_applicable
    assert refused.operator == "model_error"
    assert refused.why == "model calls of this agent do not pass the gateway, which would change them"
    made.discard()
    with pytest.raises(BadUsage, match="do not pass the gateway"):
        experiment(home, tmp_path, agent, "model_error", capture="off").run()


def test_a_condition_of_a_run_disturbs_too(home: Home, server: ModelServer, tmp_path: Path) -> None:
    (tmp_path / "my_agent.py").write_text(AGENT)
    (tmp_path / "sales.csv").write_text(TABLE)
    (tmp_path / "tasks.yaml").write_text(
        f"- {{id: t, prompt: '{QUESTION}', files: {{sales.csv: sales.csv}}, checks: [{{equals: '9'}}]}}"
    )
    words = ("tests=on", "perturb=model_error@1", "perturb=truncated_result", "perturb=null_content:sales.csv")
    conditions = parse_conditions((*words, "perturb=prompt_typo"))
    run(str(tmp_path / "tasks.yaml"), f"{tmp_path / 'my_agent.py'}:solve", conditions=conditions, home=home, run="a")
    right = {e.head.condition: getattr(e.head.outcome, "value", None) for e in home.run("a").entries}
    assert right == {"tests=on": 1, **dict.fromkeys([c.name for c in conditions[1:]], 0)}


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("perturb=model_eror", "model_error"),
        ("perturb=null_content", "changes a file, and the condition names none"),
        ("perturb=null_content:a.png", "does not work on"),
        ("perturb=model_error@2", "above 0 and up to 1"),
        ("perturb=model_error@x", "is not a disturbance; write for example perturb=model_error@0.5"),
        ("perturb=3", "cannot be read"),
    ],
)
def test_a_condition_that_disturbs_nothing_is_refused_before_anything_runs(word: str, told: str) -> None:
    with pytest.raises(EthogramError, match=told):
        parse_conditions((word,))
