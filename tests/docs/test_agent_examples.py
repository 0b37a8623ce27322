"""The example agents of other packages and languages run as they are, against a scripted model."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ethogram.suites import load_suite
from ethogram.worlds.model_server import in_turn, serve_model, text_reply, tool_reply

AGENTS = Path(__file__).parents[2] / "examples" / "agents"
GUIDE = Path(__file__).parents[2] / "docs" / "guide"
SHOWN = {
    "openai_agent.py": "openai.md",
    "anthropic_agent.py": "anthropic.md",
    "langgraph_agent.py": "langgraph.md",
    "agent.sh": "any-language.md",
    "agent.mjs": "any-language.md",
}
SOLVE = "import sys, types, {0}; print({0}.solve(types.SimpleNamespace(prompt=sys.stdin.read())))"
SHOP = in_turn(tool_reply(("price", {"item": "Tea"})), text_reply("it costs 6"))


def said(command: list[str], reply=SHOP) -> tuple[str, list[bytes]]:
    """What a program answers to a question, and the bodies of its calls."""
    with serve_model(reply) as server:
        done = subprocess.run(
            command,
            input="How much is the tea?",
            env=os.environ | server.variables(),
            capture_output=True,
            text=True,
            cwd=AGENTS,
            timeout=120,
        )
        bodies = [call.body for call in server.calls]
    assert (done.returncode, done.stderr) == (0, ""), command
    return done.stdout.strip(), bodies


@pytest.mark.parametrize("name", ["openai_agent", "anthropic_agent", "langgraph_agent"])
def test_a_python_agent_looks_the_price_up(name):
    answer, bodies = said([sys.executable, "-B", "-c", SOLVE.format(name)])
    assert answer == "it costs 6"
    assert len(bodies) == 2
    assert b'"6"' in bodies[1]


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_node_without_packages():
    answer, bodies = said(["node", "agent.mjs"])
    assert (answer, len(bodies)) == ("it costs 6", 2)


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="curl or jq is not installed")
def test_a_shell_script():
    answer, bodies = said(["sh", "agent.sh"], lambda request: text_reply(f"heard: {request.messages[-1].text}"))
    assert (answer, len(bodies)) == ("heard: How much is the tea?", 1)


def test_the_suite_has_the_prices_of_the_agents():
    assert [task.id for task in load_suite(AGENTS / "shop.yaml").suite.tasks] == ["tea", "milk", "lamp"]


@pytest.mark.parametrize("name", SHOWN)
def test_a_guide_shows_the_example_as_it_is(name):
    page = (GUIDE / SHOWN[name]).read_text(encoding="utf-8")
    assert f"cat > {name} <<'END'\n{(AGENTS / name).read_text(encoding='utf-8')}END\n" in page
    assert f"cat > shop.yaml <<'END'\n{(AGENTS / 'shop.yaml').read_text(encoding='utf-8')}END\n" in page
