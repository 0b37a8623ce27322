"""Claims: `why` reads 1,000 traces of 40 steps and tests everything in them in less than ten seconds of CPU; Holm's rule
for counted p-values finds nearly what the permutation of outcomes within tasks finds (Westfall and Young), and more than
Holm's own.

    python bench/why.py [--quick]
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from _common import QUICK, cpu, new_home, table, verdict

from ethogram.measures.contrasts import ContrastEvent, ContrastRuns, contrast_events
from ethogram.questions.logs.imports import import_logs
from ethogram.questions.why.question import why
from ethogram.statistics import multiplicity, permutation

TRACES, STEPS, TOOLS = (200 if QUICK else 1000), 40, 12
REPEATS = 20 if QUICK else 100


def attempt(task: int, trial: int, rng: np.random.Generator) -> dict[str, object]:
    """A run of forty steps; one in three calls a tool four times in a row, and mostly fails for it."""
    calls = [(f"tool{rng.integers(TOOLS)}", int(rng.integers(50))) for _ in range((STEPS - 2) // 2)]
    flawed = rng.random() < 0.3
    if flawed:
        calls[5:9] = [("stock", 9)] * 4
    talk: list[dict[str, object]] = [{"role": "user", "content": "Please."}]
    for i, (name, argument) in enumerate(calls):
        function = {"name": name, "arguments": json.dumps({"k": argument})}
        result = "Error: unknown item 12" if rng.random() < 0.1 else "a result of some length " * 10
        talk += [
            {"role": "assistant", "content": None, "tool_calls": [{"id": f"c{i}", "function": function}]},
            {"role": "tool", "tool_call_id": f"c{i}", "name": name, "content": result},
        ]
    talk.append({"role": "assistant", "content": "Done."})
    reward = float(rng.random() > (0.8 if flawed else 0.2))
    return {"task_id": task, "trial": trial, "reward": reward, "info": {}, "traj": talk}


def speed() -> tuple[float, int, str]:
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        home = new_home(Path(folder))
        log = Path(folder) / "log.json"
        log.write_text(json.dumps([attempt(i // 8, i % 8, rng) for i in range(TRACES)]))
        import_logs(log, home=home, run="log", redact="none", format="tau-bench")
        seconds, found = cpu(lambda: why("log", home=home), 2)
        return seconds, found.tested, found.causes[0].what


def power(tasks: int, attempts: int, events: int, effect: float) -> list[float]:
    """How often the event with an effect is found by Holm, by Holm for counted p-values and by permutation."""
    hits = np.zeros(3)
    for seed in range(REPEATS):
        rng = np.random.default_rng([seed, tasks, events])
        task = np.repeat(np.arange(tasks), attempts)
        latent = rng.standard_normal((task.size, 5)) @ rng.standard_normal((5, events)) * 0.6
        latent = (latent + rng.standard_normal(latent.shape) + 0.5 * rng.standard_normal((tasks, events))[task]) / 1.7
        often = rng.beta(0.6, 1.5, events)
        often[0] = 0.3
        shown = latent < np.quantile(rng.standard_normal(10_000), np.clip(often, 0.001, 0.999))
        fails = 1 / (1 + np.exp(-rng.normal(0, 1.2, tasks)[task]))
        failed = rng.random(task.size) < fails + effect * (1 - fails) * shown[:, 0]
        runs = ContrastRuns(failed, task, task)
        found = contrast_events(
            [ContrastEvent(str(j), np.flatnonzero(shown[:, j])) for j in range(events)], runs
        ).contrasts
        p = [1.0 if c.p is None else c.p for c in found]
        hits[0] += multiplicity.holm(p)[0] <= 0.025
        hits[1] += found[0].is_cause
        one_sided = permutation.association(shown, failed, task, tasks, 999, rng)
        hits[2] += one_sided.adjusted[0] <= 0.05 and one_sided.z[0] > 0
    return [float(h / REPEATS) for h in hits]


def main() -> bool:
    seconds, tested, first = speed()
    row = [TRACES, STEPS, tested, seconds, first]
    table("why on a stored run", ["traces", "steps", "tests", "CPU s", "first cause"], [row])
    settings = [(20, 5, 60, 0.6), (30, 8, 200, 0.5), (100, 4, 300, 0.5)]
    rows = [[*s, *power(*s)] for s in settings]
    columns = ["tasks", "attempts", "events", "effect", "Holm", "counted Holm", "Westfall and Young"]
    table(f"how often the one event with an effect is found, {REPEATS} runs each", columns, rows)
    nearly = all(row[5] >= row[4] and row[5] >= row[6] - 0.1 for row in rows)
    held = [
        verdict("1,000 traces of 40 steps in less than 10 s of CPU", seconds < 10),
        verdict("counted p-values find no less than Holm's rule, and nearly what permutation finds", nearly),
    ]
    return all(held)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
