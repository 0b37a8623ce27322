"""`ethogram diff` and `ethogram divergence`: what people see, what scripts read, what bad input says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]
Document = Callable[..., dict[str, Any]]


def talk(task: int, trial: int, tools: list[str], answer: str = "Done.") -> dict[str, Any]:
    """One run of a small agent that calls these tools in turn."""
    said: list[dict[str, Any]] = [{"role": "user", "content": "Please."}]
    for i, name in enumerate(tools):
        failed = name.endswith("!")
        name = name.rstrip("!")
        call = {"id": f"c{i}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        said.append({"role": "assistant", "content": None, "tool_calls": [call]})
        words = "Error: torn" if failed else "fine"
        said.append({"role": "tool", "tool_call_id": f"c{i}", "name": name, "content": words})
    said.append({"role": "assistant", "content": answer})
    return {"task_id": task, "trial": trial, "reward": 1.0, "info": {"source": "user"}, "traj": said}


LONG = ["look"] * 12


@pytest.fixture
def two(env: dict[str, str], call: Call) -> tuple[str, str]:
    """Two runs of two tasks, four trials each; the second one thinks a lot. Gives a trace of each."""
    base = [talk(t, k, [*LONG[: 10 + k], "act"]) for t in (0, 1) for k in range(4)]
    cand = [talk(t, k, [*LONG, "act!", "think", "think", "act"]) for t in (0, 1) for k in range(4)]
    for name, runs in (("base", base), ("cand", cand)):
        Path(f"{name}.json").write_text(json.dumps(runs))
        assert call("import", f"{name}.json", "--run", name, "--redact", "none").code == 0
    found = []
    for name in ("base", "cand"):
        rows = json.loads(call("show", name, "--json").out)["traces"]
        found.append(next(r["trace_id"] for r in rows if r["task"] == "0" and r["attempt"] == 2))
    return found[0], found[1]


def test_aligned_steps_are_signed_and_folded(two: tuple[str, str], call: Call) -> None:
    said = call("diff", *two)
    assert said.code == 0, said
    lines = said.out.splitlines()
    assert lines[0].startswith("- ")
    assert lines[1].startswith("+ ")
    assert lines[3].startswith("loop_or_extended_execution (behavioral_detours): "), "the answer comes before the steps"
    assert lines[4].startswith("d_norm ")
    assert lines[5].startswith("t* ")
    assert any(line.strip().startswith("… ") and "equal steps" in line for line in lines)
    added = [line for line in lines[3:] if line.startswith("+ ")]
    assert any("tool:think" in line for line in added)
    assert any(line.startswith("= ") and line.count("tool:look") == 2 for line in lines)
    assert any(line.startswith("~ ") and "tool:act" in line and "tool:act:error" in line for line in lines) or any(
        "tool:act:error" in line for line in added
    )
    assert "d_norm " in said.out
    assert "loop_or_extended_execution (behavioral_detours)" in said.out
    assert "tokens unavailable" in said.out
    assert "above the noise floor of 3 re-runs" in said.out
    whole = call("diff", *two, "--all")
    assert "equal steps" not in whole.out
    assert len(whole.out.splitlines()) > len(lines)


def test_a_terminal_gets_colours_too(two: tuple[str, str], shell: Call) -> None:
    line = f"ethogram diff {two[0]} {two[1]}"
    said = shell(f"script -qec '{line}' /dev/null", TERM="xterm-256color", COLUMNS="120")
    if said.code == 127:
        pytest.skip("script(1) is not here, so there is no terminal to look at")
    assert "\x1b[" in said.out
    assert "+ " in said.out


def test_diff_for_scripts(two: tuple[str, str], document: Document) -> None:
    built = document("diff", *two)
    for key in (
        "d_norm",
        "t_star",
        "t_star_norm",
        "edits",
        "answer_changed",
        "manifestation",
        "group",
        "token_overhead",
    ):
        assert key in built
    assert set(built["edits"]) == {"substitutions", "insertions", "deletions"}
    assert built["token_overhead"] == "unavailable"
    assert built["t_star"] == 26
    assert built["noise_floor"]["reruns"] == 3
    by_messages = document("diff", *two, "--reading", "messages")
    assert by_messages["steps"][0]["first_signature"] == "user"
    same = document("diff", two[0], two[0])
    assert same["t_star"] is None
    assert same["manifestation"] == "no_observable_effect"


def test_a_run_against_its_baseline(two: tuple[str, str], call: Call, document: Document) -> None:
    said = call("divergence", "cand", "--against", "base", "--draws", "999")
    assert said.code == 0, said
    assert "different (p = " in said.out
    assert "tool:think" in said.out
    assert "loop_or_extended_execution" in said.out
    assert re.search(r"^noise floor  ", said.out, re.MULTILINE)
    assert said.out.splitlines()[1].startswith("different (p = ")
    built = document("divergence", "cand", "--against", "base", "--draws", "999")
    assert built["p_value"] <= 0.05
    assert built["verdict"] == "different"
    assert built["tasks"]["0"]["pairs"] == 16
    assert {"runs", "mean", "q95"} <= built["noise_floor"].keys()
    assert built == document("divergence", "cand", "--against", "base", "--draws", "999")


def test_repeats_of_a_task(two: tuple[str, str], call: Call, document: Document) -> None:
    built = document("divergence", "base")
    assert built["tasks"]["0"]["pairs"] == 6
    assert built["mean_of_means"] == pytest.approx(built["noise_floor"]["mean"])
    assert built["p_value"] is None
    said = call("divergence", "base", "--limit", "1")
    mean = f"{built['mean_of_means']:.3f}"
    assert said.out.startswith(f"base: mean distance between repeats {mean}, over 2 tasks (steps, structural)\n")
    assert "… and 1 more task; --limit 0 shows all" in said.out


def test_what_cannot_be_measured_ends_with_two(env: dict[str, str], call: Call, document: Document) -> None:
    Path("one.json").write_text(json.dumps([talk(0, 0, ["look"])]))
    assert call("import", "one.json", "--run", "one").code == 0
    said = call("divergence", "one")
    assert said.code == 2
    assert "there is no pair" in " ".join(said.err.split())
    document("divergence", "one", code=2)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["diff", "ffff", "eeee"], "no trace 'ffff'"),
        (["divergence", "base", "--against", "base"], "compared with itself"),
        (["divergence", "base", "--signature", "sounds"], "no signature named 'sounds'"),
        (["divergence", "base", "--reading", "aloud"], "no reading 'aloud'"),
        (["divergence", "base", "--signature", "nowhere:f"], "cannot import 'nowhere'"),
        (["divergence", "nobody"], "nobody"),
    ],
)
def test_bad_input_is_one_sentence(two: tuple[str, str], call: Call, args: list[str], words: str) -> None:
    said = call(*args)
    assert said.code == 64
    assert words in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""
