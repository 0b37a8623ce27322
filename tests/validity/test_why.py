"""`ethogram why` on generated worlds, stored and read back as a user's logs are: planted causes are found and ranked
first, nothing is found where nothing was planted, and methods that forget the tasks or the number of tests fail."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ethogram.measures import contrasts
from ethogram.measures.contrasts import ContrastEvent, ContrastRuns
from ethogram.questions.home.runs import load
from ethogram.questions.logs.imports import import_logs
from ethogram.questions.why.causes import find_causes
from ethogram.questions.why.question import why
from ethogram.questions.why.results import WhyResult
from ethogram.questions.why.run_findings import AllFindings, gather_findings
from ethogram.store import Home

Call = tuple[str, dict[str, Any], str]
Flaw = Callable[[list[Call], np.random.Generator], list[Call]]

AMOUNT = 30
REFERENCE = [{"name": "refund", "kwargs": {"order": 7, "amount": AMOUNT}}]


def ordinary(rng: np.random.Generator, hard: float) -> list[Call]:
    """What the agent does when nothing goes wrong, with the detours, errors and orders that agents have anyway.

    Hard tasks are searched more often and have more errors: this tells tasks apart, and says nothing about attempts.
    """
    calls: list[Call] = [("find_user", {"name": "ada"}, "user 3")]
    for tool in ("orders", "policy"):
        calls.append((tool, {"user": 3}, f"{tool} of user 3"))
    if rng.random() < 0.5:
        calls[1], calls[2] = calls[2], calls[1]
    for number in range(int(rng.binomial(3, 0.2 + 0.6 * hard))):
        failed = rng.random() < 0.2 + 0.4 * hard
        calls.append(("search", {"page": number}, "Error: search timed out after 30 s" if failed else "no hits"))
    if rng.random() < 0.1 + 0.8 * (hard > 0.5):
        calls.append(("note", {"text": "careful"}, "noted"))
    calls += [("ask_user", {"question": "shall I?"}, "yes"), ("refund", {"order": 7, "amount": AMOUNT}, "refunded")]
    if rng.random() < 0.5:
        calls.append(("orders", {"user": 3}, "order 7 refunded"))
    return calls


def at(calls: list[Call], tool: str) -> int:
    return next(i for i, c in enumerate(calls) if c[0] == tool)


def tool_fails(calls: list[Call], rng: np.random.Generator) -> list[Call]:
    place = at(calls, "refund")
    return [*calls[:place], ("refund", calls[place][1], "Error: refund service answered 503"), *calls[place + 1 :]]


def misread_field(calls: list[Call], rng: np.random.Generator) -> list[Call]:
    place = at(calls, "refund")
    return [*calls[:place], ("refund", {"order": 7, "amount": 3}, "refunded"), *calls[place + 1 :]]


def loop(calls: list[Call], rng: np.random.Generator) -> list[Call]:
    place = at(calls, "ask_user")
    return [*calls[:place], *[("stock", {"item": 9}, "unknown item")] * 4, *calls[place:]]


def no_confirmation(calls: list[Call], rng: np.random.Generator) -> list[Call]:
    return [c for c in calls if c[0] != "ask_user"]


def choice_at_three(calls: list[Call], rng: np.random.Generator) -> list[Call]:
    return [*calls[:3], ("guess_order", {"user": 3}, "order 7"), *calls[3:]]


FLAWS: dict[str, tuple[Flaw, str]] = {
    "a tool that fails": (tool_fails, "error:"),
    "a misread field": (misread_field, "wrong_arguments:refund.amount"),
    "a loop": (loop, "loop:stock"),
    "a missing confirmation": (no_confirmation, "never_called:ask_user"),
    "a choice at step 3": (choice_at_three, "called:guess_order"),
}


def attempt(task: int, trial: int, reward: float, calls: list[Call]) -> dict[str, Any]:
    """One run as tau-bench writes it, the expected actions included."""
    talk: list[dict[str, Any]] = [{"role": "user", "content": f"Refund order 7, please ({task})."}]
    for i, (name, arguments, result) in enumerate(calls):
        function = {"name": name, "arguments": json.dumps(arguments)}
        talk += [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"c{i}", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": f"c{i}", "name": name, "content": result},
        ]
    talk.append({"role": "assistant", "content": "Your refund is on its way."})
    info = {"task": {"user_id": "ada", "actions": REFERENCE, "instruction": "", "outputs": []}, "source": "user"}
    return {"task_id": task, "trial": trial, "reward": reward, "info": info, "traj": talk}


def world(
    rng: np.random.Generator, tasks: int, attempts: int, flaw: Flaw | None, harm: float = 0.8
) -> list[dict[str, Any]]:
    """Attempts at tasks of every difficulty; the flaw befalls three in ten, and then costs `harm` of the successes."""
    made = []
    for task in range(tasks):
        hard = float(rng.random())
        for trial in range(attempts):
            calls = ordinary(rng, hard)
            flawed = flaw is not None and rng.random() < 0.3
            if flaw is not None and flawed:
                calls = flaw(calls, rng)
            fails = 0.1 + (0.35 if flaw is not None else 0.8) * hard
            fails += (1 - fails) * harm * flawed
            made.append(attempt(task, trial, float(rng.random() >= fails), calls))
    return made


def stored(home: Home, folder: Path, name: str, attempts: list[dict[str, Any]]) -> None:
    path = folder / f"{name}.json"
    path.write_text(json.dumps(attempts))
    import_logs(path, home=home, run=name, redact="none", format="tau-bench")


def names_of(found: WhyResult) -> list[set[str]]:
    return [{cause.cause, *cause.also} for cause in found.causes]


@pytest.mark.parametrize("planted", FLAWS)
def test_a_planted_cause_is_found_and_ranked_first(planted: str, home: Home, tmp_path: Path) -> None:
    flaw, name = FLAWS[planted]
    first = 0
    for seed in range(3):
        stored(home, tmp_path, f"run{seed}", world(np.random.default_rng([seed, 1]), 20, 8, flaw))
        found = why(f"run{seed}", home=home)
        listed = names_of(found)
        assert listed, f"{planted} was not found with seed {seed}"
        first += any(n.startswith(name) for n in listed[0])
        cause = found.causes[0]
        assert cause.failed_with > cause.succeeded_with
        assert cause.examples[0].text
        assert found.explained is not None
        assert found.explained >= cause.failed_with
    assert first == 3, [names_of(why(f"run{s}", home=home)) for s in range(3)]


def in_one_group(found: AllFindings) -> AllFindings:
    return found._replace(rows=[row._replace(group=("", "", "")) for row in found.rows])


def test_nothing_is_found_where_nothing_was_planted(home: Home, tmp_path: Path) -> None:
    """Difficulty moves outcomes and behaviour of tasks; within a task they have nothing to do with each other."""
    times, false, pooled, alone = 30, 0, 0, 0
    for seed in range(times):
        stored(home, tmp_path, f"null{seed}", world(np.random.default_rng([seed, 2]), 16, 7, None))
        run = load(f"null{seed}", home=home)
        found = gather_findings(run, run.entries)
        tested = find_causes(found, 0.95)
        false += bool(tested.causes)
        alone += any(t.contrast.p is not None and t.contrast.p <= 0.05 for t in tested.tested)
        pooled += bool(find_causes(in_one_group(found), 0.95).causes)
    allowed = 0.05 + 2 * np.sqrt(0.05 * 0.95 / times)
    assert false / times <= allowed, f"false causes in {false} of {times} runs"
    assert pooled / times > 0.5, f"forgetting the tasks must fail here; it did in {pooled} of {times} runs"
    assert alone / times > 0.2, f"forgetting how many tests there are must fail here; it did in {alone} of {times} runs"


def falls(seed: int, tasks: int, attempts: int, events: int, cost: float) -> tuple[bool, bool]:
    """Whether all intervals hold at once, as they are given and as if each stood alone; the first event has a cost."""
    rng = np.random.default_rng([seed, 3])
    task = np.repeat(np.arange(tasks), attempts)
    shown = rng.random((task.size, events)) < rng.uniform(0.1, 0.6, events)
    passed = rng.random(task.size) < rng.uniform(0.45, 0.95, tasks)[task] - cost * shown[:, 0]
    runs = ContrastRuns(~passed, task, task)
    family = [ContrastEvent(str(j), np.flatnonzero(shown[:, j])) for j in range(events)]
    each = contrasts.contrast_events(family, runs).each
    truth = [-cost, *[0.0] * (events - 1)]

    def hold(level: float) -> bool:
        told = [contrasts.fall(event, runs, level) for event in family]
        return all(
            e.low is None or e.high is None or e.low - 1e-9 <= t <= e.high + 1e-9
            for e, t in zip(told, truth, strict=True)
        )

    return hold(each), hold(contrasts.ALPHA)


@pytest.mark.parametrize(("tasks", "attempts", "cost"), [(20, 6, 0.0), (20, 6, 0.4), (5, 20, 0.4)])
def test_intervals_of_decision_points_hold_together(tasks: int, attempts: int, cost: float) -> None:
    told = np.array([falls(seed, tasks, attempts, 30, cost) for seed in range(60)])
    assert told[:, 0].mean() > 0.95 - 2 * np.sqrt(0.05 * 0.95 / 60)
    assert told[:, 1].mean() < 0.6, "intervals that each stand alone must fail here"
