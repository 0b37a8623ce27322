"""Logs of six harnesses: from the page of a run to why it fails and what to change, within three clicks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ethogram.questions.home.exports import export
from ethogram.questions.logs.imports import import_logs

from .conftest import REFUSED, attempt

pytestmark = pytest.mark.xdist_group("browser")
MOST_CLICKS = 3
TASKS, ATTEMPTS = 6, 4
SCORED = ("tau-bench", "inspect", "otlp", "atif")
UNSCORED = ("claude-code", "swe-agent")


def tau_bench(folder: Path) -> Path:
    log = folder / "tau.json"
    log.write_text(json.dumps([attempt(t, k) for t in range(TASKS) for k in range(ATTEMPTS)]))
    return log


def claude_code(folder: Path) -> Path:
    """Sessions, each of which looks a word up that is refused; such logs have no score."""
    out = folder / "sessions"
    out.mkdir()
    for number in range(3):
        session, lines = f"33333333-3333-4333-8333-33333333333{number}", []
        use = {"type": "tool_use", "id": "c", "name": "look_up", "input": {"word": "no"}}
        refusal = {"type": "tool_result", "tool_use_id": "c", "is_error": True, "content": REFUSED}
        said: list[tuple[str, Any]] = [
            ("user", "say yes"),
            ("assistant", [use]),
            ("user", [refusal]),
            ("assistant", [{"type": "text", "text": "no"}]),
        ]
        for i, (role, content) in enumerate(said):
            message: dict[str, Any] = {"role": role, "content": content}
            if role == "assistant":
                message |= {"id": f"m{i}", "model": "m", "usage": {"input_tokens": 3, "output_tokens": 1}}
            place = {"sessionId": session, "cwd": "/home", "version": "1.0.0", "isSidechain": False}
            ids = {"uuid": f"{session[:-2]}{i}{number}", "parentUuid": lines[-1]["uuid"] if lines else None}
            lines.append({"type": role, **ids, **place, "timestamp": f"2026-01-02T03:04:0{i}.000Z", "message": message})
        (out / f"{session}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return out


def swe_agent(folder: Path) -> Path:
    """Trajectories whose command is refused; such logs have no score."""
    out = folder / "trajectories"
    out.mkdir()
    for number in range(3):
        call = {"action": "look_up no\n", "response": "Look.\n```\nlook_up no\n```", "thought": "Look."}
        steps = [{**call, "observation": REFUSED, "state": "{}"}, {**call, "observation": REFUSED, "state": "{}"}]
        history = [{"role": "user", "content": f"say yes {number}", "agent": "primary"}]
        stats = {"instance_cost": 0.5, "tokens_sent": 9, "tokens_received": 2, "api_calls": 1}
        info = {"exit_status": "submitted", "submission": "no", "model_stats": stats}
        log = {"environment": "swe_main", "trajectory": steps, "history": history, "info": info}
        (out / f"t{number}.traj").write_text(json.dumps(log))
    return out


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, serve_home: Callable[[Path], str]) -> str:
    """A home with a run for each format, by its name."""
    folder = tmp_path_factory.mktemp("harnesses")
    home = str(folder / "home")
    import_logs(tau_bench(folder), run="tau-bench", home=home, format="tau-bench")
    import_logs(claude_code(folder), run="claude-code", home=home, format="claude-code")
    import_logs(swe_agent(folder), run="swe-agent", home=home, format="swe-agent")
    for name in ("inspect", "otlp", "atif"):
        (file,) = export("tau-bench", name, out=str(folder / f"{name}-log"), home=home).files
        import_logs(file, run=name, home=home, format=name)
    return serve_home(folder / "home")


class Reader:
    """A new user: reads what is on the page, and clicks; counts the clicks."""

    def __init__(self, page: Any) -> None:
        self.page, self.clicks = page, 0

    def click(self, selector: str) -> None:
        self.page.locator(selector).first.click()
        self.clicks += 1

    def sees(self, selector: str, words: str) -> None:
        self.page.locator(selector, has_text=words).first.wait_for(state="visible")


@pytest.mark.parametrize("name", SCORED)
def test_a_scored_log_says_why_and_what_to_change(open_page: Callable[..., Any], address: str, name: str) -> None:
    reader = Reader(open_page(f"{address}/#/run?run={name}"))
    reader.sees(".headline", "12 of 24 attempts failed")
    reader.sees(".reasons .try", "Try")
    advice = reader.page.locator(".reasons .try").first.inner_text().removeprefix("Try").strip()
    reader.click(".reasons .examples a")
    reader.sees(".step.current pre", REFUSED)
    reader.sees(".beside-line .reason", advice)
    reader.sees(".beside-line", "First difference: step 2: look_up fails")
    reader.click(".beside-line button")
    reader.sees(".passing .step.current pre", "found it")
    reader.sees(".cards-pane:not(.passing) .step.current pre", REFUSED)
    assert reader.clicks <= MOST_CLICKS


@pytest.mark.parametrize("name", UNSCORED)
def test_a_log_without_scores_says_what_to_read_and_how_to_score(
    open_page: Callable[..., Any], address: str, name: str
) -> None:
    reader = Reader(open_page(f"{address}/#/run?run={name}"))
    reader.sees(".headline", "None of 3 attempts has a score")
    reader.sees("main .try", "Try")
    reader.sees("main .note", "ethogram score")
    reader.click(".reasons .examples a, .read-first .examples a")
    reader.sees(".cards-pane pre", REFUSED)
    assert reader.clicks <= MOST_CLICKS
