"""`ethogram replay` and `ethogram run --replay`: what people see, what scripts read, what bad input says."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ethogram.cli.main import run_verb as ethogram
from ethogram.store import open_home
from ethogram.traces import ToolResult
from ethogram.wire.gateway.call import ModelReply, ModelRequest
from ethogram.worlds.model_server import serve_model, text_reply, tool_reply

SUITE = """
name: shop
tasks:
  - {id: tea, prompt: "What does tea cost?", checks: [{contains: "6"}]}
  - {id: ale, prompt: "What does ale cost?", checks: [{contains: "6"}]}
"""
AGENT = """
import sys
import openai

PROMPT = "Be short."
TOOLS = [{"type": "function", "function": {"name": "price", "parameters": {"type": "object"}}}]

def talk(prompt):
    said = [{"role": "system", "content": PROMPT}, {"role": "user", "content": prompt}]
    with openai.OpenAI(max_retries=0) as client:
        while True:
            reply = client.chat.completions.create(model="gpt-4o-mini", messages=said, tools=TOOLS).choices[0].message
            if not reply.tool_calls:
                return reply.content
            said.append(reply.model_dump(exclude_none=True))
            said += [{"role": "tool", "tool_call_id": call.id, "content": "6"} for call in reply.tool_calls]

def solve(task):
    return talk(task.prompt)

if __name__ == "__main__":
    print(talk(sys.stdin.read()), end="")
"""


def shop(request: ModelRequest) -> ModelReply:
    last = request.messages[-1].parts[0]
    if isinstance(last, ToolResult):
        return text_reply(f"It costs {last.content}.")
    hurry = any("hurry" in message.text for message in request.messages)
    return text_reply("6, I guess.") if hurry else tool_reply(("price", {"item": "tea"}))


class Shop:
    """A folder with a suite, two agents and a recorded run; `call` is without a server, `live` with one."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self.capsys, self.patch = capsys, patch
        (folder / "suite").mkdir()
        (folder / "suite" / "suite.yaml").write_text(SUITE)
        (folder / "agent.py").write_text(AGENT)
        (folder / "edited.py").write_text(AGENT.replace("Be short.", "Be long."))
        code, _, _ = self.live("run", "suite", "--agent", "agent.py:solve", "-k", "2", "--run", "rec")
        assert code == 0
        heads = [entry.head for entry in open_home(str(folder / "home")).run("rec").entries]
        self.trace = next(h.trace_id for h in heads if (h.task, h.attempt) == ("tea", 0))

    def call(self, *words: str) -> tuple[int, str, str]:
        self.capsys.readouterr()
        code = ethogram(list(words))
        said = self.capsys.readouterr()
        return code, said.out, said.err

    def live(self, *words: str) -> tuple[int, str, str]:
        with serve_model(shop) as server, self.patch.context() as patch:
            for name, value in server.variables().items():
                patch.setenv(name, value)
            return self.call(*words)


@pytest.fixture
def shop_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shop:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ETHOGRAM_HOME", str(tmp_path / "home"))
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return Shop(tmp_path, capsys, monkeypatch)


Schema = Callable[[str, str], Any]


def test_one_trace_replayed(shop_folder: Shop, checked: Schema) -> None:
    call, trace = shop_folder.call, shop_folder.trace
    code, out, _ = call("replay", trace)
    assert code == 0
    assert "2 of 2 model calls answered from the record" in out
    assert "no deviation" in out
    assert "answer: the same" in out
    assert "d_norm 0.000; t* none" in out
    code, out, _ = call("replay", trace, "--json", "--", sys.executable, "agent.py")
    found = checked("replay", out)
    assert code == 0
    assert (found["same"], found["d_norm"], found["first_divergence"], found["served"]) == (True, 0.0, None, 2)
    code, out, _ = call("replay", trace, "--agent", "edited.py:solve")
    assert code == 1
    assert "deviation at step 0: the request differs from that of step 0; the replay ends there" in out
    assert "-Be short." in out
    assert "+Be long." in out
    assert "missing (deviation); recorded score 1" in out
    code, out, _ = shop_folder.live("replay", trace, "--agent", "edited.py:solve", "--lenient")
    assert code == 0
    assert "live from there on" in out


def test_a_run_replayed(shop_folder: Shop, checked: Schema) -> None:
    call = shop_folder.call
    code, out, _ = call("run", "--replay", "rec")
    assert code == 0
    assert "no deviation from rec: every request was recorded" in out
    code, out, _ = call("run", "suite", "--replay", "rec", "--agent", "edited.py:solve", "--json")
    found = checked("run", out)
    assert code == 1
    assert (found["replays"], len(found["failures"]), found["missing"]) == ("rec", 4, {"deviation": 4})
    code, out, _ = call("run", "--replay", "rec", "--agent", "edited.py:solve", "--task", "ale", "-k", "1")
    assert code == 1
    assert "task ale attempt 0: deviation: the request differs from that of step 0" in out
    for verb in (["stats", "latest"], ["compare", "rec", "latest"], ["gate", "rec", "latest"]):
        code, _, err = call(*verb)
        assert code == 64
        assert "not independent attempts" in err


def test_time_travel(shop_folder: Shop, checked: Schema, tmp_path: Path) -> None:
    (tmp_path / "hurry.txt").write_text("You are in a hurry.\n")
    travel = ("--prompt", "hurry.txt")
    code, out, _ = shop_folder.live("replay", shop_folder.trace, *travel, "-k", "6", "--max-usd", "1")
    assert code == 0
    assert "first different decision: step 0; caused by the change: step 0" in out
    code, out, _ = shop_folder.live("replay", shop_folder.trace, *travel, "--json")
    found = checked("replay", out)
    assert (code, found["first_divergence"], found["calls"]) == (0, 0, 4)
    assert found["change"] == {"prompt": "You are in a hurry."}
    code, out, _ = shop_folder.live("replay", "rec", *travel)
    assert code == 0
    assert "traces that differ: 1 [0.342, 1]" in out
    code, out, _ = shop_folder.live("replay", "rec", *travel, "--limit", "2", "--json")
    assert len(checked("replay", out)["traces"]) == 2


BAD = [
    ("replay 0000", "no trace '0000'"),
    ("replay TRACE --agent a.py:b -- python agent.py", "name the agent once"),
    ("replay TRACE --model m --agent a.py:b", "leave out the agent"),
    ("replay TRACE --model m", "set OPENAI_API_KEY"),
    ("replay TRACE --prompt none.txt", "cannot be read"),
    ("replay TRACE --agent gone.py:solve", "no file at 'gone.py'"),
    ("run --replay none", "no run"),
    ("run --replay rec --resume rec", "leave out --resume"),
    ("run --replay rec --task none", "none"),
]


def test_bad_input_is_one_sentence(shop_folder: Shop) -> None:
    for words, sentence in BAD:
        code, out, err = shop_folder.call(*words.replace("TRACE", shop_folder.trace).split())
        assert (code, out) == (64, ""), words
        assert sentence in err
        assert "Traceback" not in err
