"""Claims: on Who&When, the step that rules blame is right more often than every constant guess, the step before the first
error, the last error and the last step, on the half of the traces that was not looked at while the rules were written;
findings of a trace of twenty steps within 1 ms of CPU. Also shown: the same within two steps, on the other half and for
each kind of log; F1 of failure classes on TRAIL beside guessing the most frequent classes.

The labelled traces are not part of the repository: without `../shared` this only says so."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
import numpy as np
from _common import cpu, table, verdict

from ethogram.capture.memory import read_traces
from ethogram.capture.source import file_source
from ethogram.findings.findings import blamed_step, findings
from ethogram.statistics import interval
from ethogram.traces import SUCCESS_AT, Trace

SHARED = Path(__file__).parents[2] / "shared"
KINDS = {"Algorithm-Generated": "machine-made", "Hand-Crafted": "hand-made"}
TRAIL_CLASSES = {
    "Tool Selection Errors": "wrong_tool",
    "Formatting Errors": "bad_args",
    "Tool Definition Issues": "bad_args",
    "Resource Not Found": "bad_args",
    "Language-only": "hallucinated_state",
    "Tool-related": "hallucinated_state",
    "Tool Output Misinterpretation": "hallucinated_state",
    "Incorrect Memory Usage": "hallucinated_state",
    "Resource Abuse": "loop",
    "Resource Exhaustion": "budget",
    "Timeout Issues": "budget",
    "Rate Limiting": "infrastructure",
    "Authentication Errors": "infrastructure",
    "Service Errors": "infrastructure",
    "Environment Setup Errors": "infrastructure",
}
"""Categories of TRAIL as our classes; those that are not here have none (docs/design/0013-findings.md says why)."""


class Case(NamedTuple):
    """A labelled trace: the step and the agent that people blame."""

    trace: Trace
    kind: str
    step: int
    agent: str
    held_out: bool


def is_held_out(path: Path) -> bool:
    """Whether a file belongs to the half that was not looked at: by a hash of its name, so that it never changes."""
    name = "/".join(path.parts[-2:])
    return blake2b(f"blame:{name}".encode(), digest_size=2).digest()[0] % 2 == 1


def cases() -> Iterator[Case]:
    for folder in ("labelled", "data"):
        for path in sorted((SHARED / folder / "who_and_when").rglob("*.json*")):
            for trace in read_traces(file_source(path, path.name))[0]:
                marks = {label.name: label for label in trace.labels}
                if "mistake_step" not in marks:
                    continue
                wanted = marks["mistake_step"].span_id
                step = next((i for i, s in enumerate(trace.steps) if s.span_id == wanted), None)
                if step is not None:
                    agent = str(marks["mistake_agent"].value) if "mistake_agent" in marks else ""
                    yield Case(trace, KINDS[path.parent.name], step, agent, is_held_out(path))


Guess = Callable[[Trace], int | None]


def by_rule(trace: Trace) -> int | None:
    found = blamed_step(trace, findings(trace, SUCCESS_AT))
    return None if found is None else found.step


def errors(trace: Trace) -> list[int]:
    return [i for i, s in enumerate(trace.steps) if s.status == "error"]


def before_first_error(trace: Trace) -> int | None:
    failed = errors(trace)
    return max(0, failed[0] - 1) if failed else None


def last_error(trace: Trace) -> int | None:
    failed = errors(trace)
    return failed[-1] if failed else None


def constant(step: int) -> Guess:
    return lambda trace: step if step < len(trace.steps) else None


GUESSES: dict[str, Guess] = {
    "rules": by_rule,
    "step before the first error": before_first_error,
    "last error": last_error,
    "last step": lambda trace: len(trace.steps) - 1,
    **{f"always step {n}": constant(n) for n in range(13)},
}


def rate(hits: Sequence[bool]) -> str:
    low, high = interval.wilson(sum(hits), len(hits), 0.95)
    return f"{sum(hits) / len(hits):.2f} [{float(low):.2f}, {float(high):.2f}]"


def shown(
    name: str, chosen: Sequence[Case], guesses: dict[str, list[int | None]], of: Sequence[Case]
) -> dict[str, float]:
    """Print how often each guess is right on some cases, the best constant alone; gives the exact rates."""
    at = [i for i, c in enumerate(of) if c in chosen]
    exact: dict[str, list[bool]] = {}
    near: dict[str, list[bool]] = {}
    for guess, steps in guesses.items():
        pairs = [(steps[i], of[i].step) for i in at]
        exact[guess] = [got == wanted for got, wanted in pairs]
        near[guess] = [got is not None and abs(got - wanted) <= 2 for got, wanted in pairs]
    constants = [g for g in guesses if g.startswith("always")]
    best = max(constants, key=lambda g: sum(exact[g]))
    widest = max(constants, key=lambda g: sum(near[g]))
    rows = [
        (g, rate(exact[g]), rate(near[g])) for g in dict.fromkeys((*list(guesses)[:4], "always step 1", best, widest))
    ]
    table(f"{name}: {len(at)} traces", ("blamed step", "exact [95 %]", "within two steps [95 %]"), rows)
    return {g: sum(hits) / len(hits) for g, hits in exact.items()}


def who_and_when() -> bool:
    of = list(cases())
    guesses = {name: [guess(c.trace) for c in of] for name, guess in GUESSES.items()}
    for kind in KINDS.values():
        shown(f"Who&When, {kind}", [c for c in of if c.kind == kind], guesses, of)
    shown("Who&When, looked at while the rules were written", [c for c in of if not c.held_out], guesses, of)
    exact = shown("Who&When, not looked at", [c for c in of if c.held_out], guesses, of)
    agents = [
        (found.agent.lower() if (found := blamed_step(c.trace, findings(c.trace, SUCCESS_AT))) else "")
        == c.agent.lower()
        for c in of
    ]
    print(f"  the agent is right in {rate(agents)} of all {len(of)} traces")
    best = max((g for g in exact if g != "rules"), key=exact.__getitem__)
    return verdict(
        f"ahead of every other guess on traces that were not looked at: {exact['rules']:.2f} against {exact[best]:.2f} ({best})",
        exact["rules"] > exact[best],
    )


# ---- classes ----


def annotated() -> Iterator[tuple[Trace, set[str], bool]]:
    """Traces of TRAIL, the classes that people marked, and whether the trace was not looked at."""
    import json

    for folder in ("labelled", "data"):
        for path in sorted((SHARED / folder / "trail").glob("*.json.gz")):
            beside = path.with_name(path.name.replace(".json.gz", ".annotation.json"))
            if not beside.exists():
                continue
            marked = json.loads(beside.read_text(encoding="utf-8"))
            classes = {TRAIL_CLASSES[e["category"]] for e in marked["errors"] if e.get("category") in TRAIL_CLASSES}
            for trace in read_traces(file_source(path, path.name))[0]:
                yield trace, classes, is_held_out(path)


def f1(counts: np.ndarray) -> np.ndarray:
    """F1 from mean true positives, false positives and false negatives."""
    hit, extra, lost = counts[..., 0], counts[..., 1], counts[..., 2]
    return 2 * hit / np.maximum(2 * hit + extra + lost, 1e-12)


def scored(found: Sequence[set[str]], wanted: Sequence[set[str]]) -> str:
    rows = np.array([(len(f & w), len(f - w), len(w - f)) for f, w in zip(found, wanted, strict=True)], dtype=float)
    picks = np.random.default_rng(1).integers(0, len(rows), size=(2000, len(rows)))
    low, high = np.quantile(f1(rows[picks].mean(axis=1)), [0.025, 0.975])
    return f"{float(f1(rows.mean(axis=0))):.2f} [{float(low):.2f}, {float(high):.2f}]"


def trail() -> None:
    of = list(annotated())
    wanted = [classes for _, classes, _ in of]
    found = [{f.cls for f in findings(t, SUCCESS_AT) if f.cls is not None} for t, _, _ in of]
    common = [c for c, _ in Counter(c for classes in wanted for c in classes).most_common()]
    rows = [("rules", scored(found, wanted))]
    rows += [(f"always {' and '.join(common[:n])}", scored([set(common[:n])] * len(of), wanted)) for n in (1, 2, 3)]
    table(f"Failure classes on TRAIL: {len(of)} traces, micro F1 over (trace, class)", ("guess", "F1 [95 %]"), rows)
    every = sorted({c for classes in (*wanted, *found) for c in classes})
    counts = [
        (
            c,
            sum(c in w for w in wanted),
            sum(c in f for f in found),
            sum(c in w and c in f for w, f in zip(wanted, found, strict=True)),
        )
        for c in every
    ]
    table("by class", ("class", "people", "rules", "both"), counts)


def speed() -> bool:
    path = SHARED / "data" / "tau_bench" / "gpt-4o-airline.dev_5tasks.json.gz"
    traces, _ = read_traces(file_source(path, path.name))
    steps = sum(len(t.steps) for t in traces)
    seconds, _ = cpu(lambda: [findings(t, SUCCESS_AT) for t in traces], repeats=5)
    each = 1000 * seconds / steps * 20
    return verdict(f"findings of 20 steps of tau-bench take {each:.2f} ms of CPU (at most 1)", each <= 1)


def main() -> int:
    if not SHARED.exists():
        print("bench/blame.py: the labelled traces (../shared) are not here; nothing was measured")
        return 0
    held = who_and_when()
    trail()
    return 0 if speed() and held else 1


if __name__ == "__main__":
    sys.exit(main())
