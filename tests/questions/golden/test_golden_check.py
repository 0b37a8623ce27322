"""Checking a golden set over real files and stored runs: canaries, copied words, and what attempts say of each task."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ethogram.errors import NotFound
from ethogram.harness.suites import run
from ethogram.plans import Task
from ethogram.questions.golden.question import golden
from ethogram.questions.golden.versions import freeze
from ethogram.store import Home

KETTLE = "A customer bought three red kettles on Monday and wants to return one of them before the week ends"
LAMP = "Count the lamps in the second room of the museum and say how many of them are switched on at noon"


@pytest.fixture
def suite(tmp_path: Path) -> str:
    folder = tmp_path / "suite"
    folder.mkdir()
    (folder / "tasks.yaml").write_text(
        f'- {{id: kettle, prompt: "{KETTLE}", expected: one, checks: [equals]}}\n'
        f'- {{id: lamp, prompt: "{LAMP}", expected: two, checks: [equals]}}\n'
    )
    freeze(str(folder))
    return str(folder)


def verdicts(found: Any) -> dict[str, str]:
    return {o.task: o.verdict for o in found.contamination.overlaps if o.part == "prompt"}


def test_a_copied_task_and_a_canary_are_found_in_files(suite: str, tmp_path: Path, home: Home) -> None:
    corpus = tmp_path / "corpus"
    (corpus / "deep").mkdir(parents=True)
    (corpus / "clean.txt").write_text("nothing of note " * 1000)
    (corpus / "picture.bin").write_bytes(b"\0\1\2" * 100)
    found = golden(suite, corpus=[corpus], home=home)
    assert (found.verdict, verdicts(found)) == ("no alarm", {"kettle": "clean", "lamp": "clean"})
    assert "no text" in found.contamination.looked.skipped[0]
    (corpus / "deep" / "copy.txt").write_text("filler " * 700_000 + KETTLE + " filler" * 100)  # beyond one block
    found = golden(suite, corpus=[corpus], home=home)
    assert (found.verdict, verdicts(found)) == ("alarm", {"kettle": "contaminated", "lamp": "clean"})
    canary = Path(suite, "tasks.yaml").read_text().splitlines()[0].split()[-1]
    (corpus / "leak.md").write_text(f"see {canary.upper()}")
    found = golden(suite, corpus=[corpus], home=home)
    assert [c.where for c in found.contamination.canaries] == [str(corpus / "leak.md")]
    assert golden(suite, corpus=[Path(suite).parent], home=home).contamination.looked.files == 3, "not the suite"
    with pytest.raises(NotFound, match="there is no file or folder"):
        golden(suite, corpus=["nowhere"], home=home)


def talking(system: str, reply: str) -> Any:
    def act(task: Task, episode: Any) -> str:
        from ethogram.traces import Message, Text

        asked = (Message("system", (Text(system),)), Message("user", (Text(task.prompt),)))
        with episode.record.model(model="m", input=asked) as call:
            call.done(reply, input_tokens=1, output_tokens=1, cost_usd=0.0)
        return "one"

    return act


def test_prompts_and_replies_of_stored_traces_are_looked_through(suite: str, home: Home) -> None:
    run(suite, talking("Be brief.", "hm"), home=home, run="honest")
    assert golden(suite, home=home).verdict == "no alarm", "a task may stand where it is asked"
    run(suite, talking(f"For example: {LAMP}. The answer is two.", "hm"), home=home, run="coached")
    found = golden(suite, home=home)
    assert (found.verdict, verdicts(found)) == ("alarm", {"kettle": "clean", "lamp": "contaminated"})
    canary = Path(suite, "tasks.yaml").read_text().splitlines()[0].split()[-1]
    run(suite, talking("Be brief.", f"I remember {canary}"), home=home, run="recites")
    found = golden(suite, runs=["recites"], home=home)
    assert [c.kind for c in found.contamination.canaries] == ["reply", "reply"]


def test_another_run_counts_as_a_text(suite: str, tmp_path: Path, home: Home) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(f'- {{id: x, prompt: "{KETTLE}", checks: [{{contains: y}}]}}\n')
    run(str(other), talking("Be brief.", "hm"), home=home, run="production")
    assert verdicts(golden(suite, traces=["production"], home=home))["kettle"] == "contaminated"


def test_the_same_end_with_another_verdict_is_a_flaky_check(tmp_path: Path, home: Home) -> None:
    folder = tmp_path / "flaky"
    folder.mkdir()
    (folder / "coin.py").write_text("import os\ndef check(evidence):\n    return float(os.environ.get('COIN', '1'))\n")
    (folder / "tasks.yaml").write_text(
        "- {id: coin, prompt: Go, checks: [{custom: 'coin.py:check'}]}\n"
        "- {id: word, prompt: Go, checks: [{contains: done}]}\n"
        f"- {{id: file, prompt: Go, checks: [{{command: 'test -e {tmp_path}/heads'}}]}}\n"
    )
    freeze(str(folder))

    def act(task: Task, episode: Any) -> str:
        if episode.workspace is not None:
            # the first attempts differ in what they leave, the second ones do not
            left = os.environ.get("COIN", "1") if episode.attempt == 0 else "the same"
            (episode.workspace / "left.txt").write_text(left)
        return "done"

    with pytest.MonkeyPatch.context() as patch:
        (tmp_path / "heads").touch()
        run(str(folder), act, k=2, home=home, run="heads")
        (tmp_path / "heads").unlink()
        patch.setenv("COIN", "0")
        run(str(folder), act, k=2, home=home, run="tails")
    coin, word, file = golden(str(folder), home=home).health
    assert (coin.findings, coin.advice, coin.attempts, coin.runs) == (["flaky"], "fix the check", 4, 2)
    assert coin.same_end_other_verdict.value == 1.0
    assert (file.findings, file.same_end_other_verdict.value, file.same_end_other_verdict.n) == (["flaky"], 1.0, 2)
    assert (word.findings, word.same_end_other_verdict.value) == ([], 0.0)


def test_health_counts_only_attempts_at_the_task_as_it_is_now(suite: str, home: Home) -> None:
    run(suite, lambda task: "one", k=3, home=home, run="before")
    path = Path(suite, "tasks.yaml")
    path.write_text(path.read_text().replace("expected: two", "expected: one"))
    assert golden(suite, home=home).verdict == "alarm", "the suite changed without a new version"
    freeze(suite, why="one is right")
    kettle, lamp = golden(suite, home=home).health
    assert (kettle.attempts, lamp.attempts) == (3, 0)
    assert lamp.success.value is None
