"""Which layer says what of the episodes of a run: from the labels of its checks, the reference in its logs, and the
score that the logs came with.

L0 is the answer, L1 single tool calls, L2 the steps taken, L3 the state at the end. A kind of check declares its layer
with its settings, and the label of a check names its kind, so labels of any age have a layer. The score of a foreign
log has the layer of what its harness verifies, where that is known."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np

from ethogram.checks.settings import KINDS
from ethogram.errors import EthogramError
from ethogram.estimate import Estimate
from ethogram.findings.facts import HOLDS_CALLS, known_facts
from ethogram.findings.finding import Category, Facts
from ethogram.findings.reference import category_of, reference_findings
from ethogram.findings.rubric import RUBRIC_LABEL
from ethogram.findings.step_words import TraceWords
from ethogram.measures.layers import LayerGap, LayerScores, layer_gaps, layer_rates, look_in_one_run
from ethogram.measures.outcomes import Outcomes
from ethogram.result import Result
from ethogram.store import Entry, Home, Run
from ethogram.store.head_texts import fact_names
from ethogram.traces import LAYERS, Label, Layer, Scored, Trace, TraceId

from .outcomes import chosen_entries, load_outcomes
from .samples import sampled_run
from .task_names import task_name

REFERENCE = "reference"
"""Who speaks where calls are compared with the expected ones that a log keeps."""
SPOILED = "blame"
"""Who scored an episode that the agent ended itself and nobody could judge."""
_AS_EXPECTED = "same_calls"

CallCategory = Callable[[Entry], Category | None]
"""How the calls of an episode differ from the expected ones that its log keeps."""


class LayersResult(Result, kw_only=True):
    """Success by layer in one run, what failing runs pass below the end, and where to look."""

    run: str
    layers: dict[Layer, Estimate]
    gaps: list[LayerGap]
    look: str
    notes: list[str] = []

    def rows(self) -> list[dict[str, Any]]:
        """One row per layer."""
        return [{"layer": layer, **msgspec.to_builtins(rate)} for layer, rate in self.layers.items()]


def layers_of(
    run: str | Run,
    *,
    condition: str | None = None,
    agent: str | None = None,
    level: float = 0.95,
    home: Home | str | None = None,
) -> LayersResult:
    """Success by layer in a stored run: L0 the answer, L1 tool calls, L2 the way taken, L3 the end state.

    `condition` and `agent` choose where a run holds several. A layer at which nobody looked has no value, and says so.

    Example: `layers_of("night").layers["L1"]`
    """
    found = sampled_run(run, home)
    outcomes = load_outcomes(found, condition=condition, agent=agent)
    return layers_result(found, load_layers(found, outcomes, condition=condition, agent=agent), level)


def layers_result(run: Run, scores: LayerScores, level: float) -> LayersResult:
    """The answer from scores that were placed already."""
    gaps = layer_gaps(scores, level)
    return LayersResult(
        run=run.name,
        layers=layer_rates(scores, level),
        gaps=gaps,
        look=look_in_one_run(gaps),
        notes=[f"{n} scores by {by!r} belong to no known layer" for by, n in scores.unplaced.items()],
    )


def load_layers(run: Run, outcomes: Outcomes, *, condition: str | None = None, agent: str | None = None) -> LayerScores:
    """The scores of each layer for the episodes of `outcomes`, which were loaded from this run by the same choice."""
    known = set(outcomes.tasks)  # a comparison of two versions of a suite leaves tasks out
    entries = [e for e in chosen_entries(run, condition, agent) if task_name(e.head) in known]
    return place_scores(run, entries, outcomes, lambda entry: _calls(run, entry))


def place_scores(run: Run, entries: Sequence[Entry], outcomes: Outcomes, calls: CallCategory) -> LayerScores:
    """The same for entries that stand beside the first rows of `outcomes`, in their order."""
    told = _verdicts(run)
    rows = outcomes.value.size
    scores: dict[Layer, list[float]] = {layer: [np.nan] * rows for layer in LAYERS}
    demands: dict[tuple[Layer, str], set[str]] = {}
    spoiled = np.zeros(rows, dtype=bool)
    unplaced: dict[str, int] = {}
    for row, entry in enumerate(entries):
        own = dict(told.get(entry.head.trace_id, {}))
        judged = own.pop(RUBRIC_LABEL, None)  # says nothing about what the score of the log looks at
        outcome, task = entry.head.outcome, task_name(entry.head)
        spoiled[row] = isinstance(outcome, Scored) and outcome.by == SPOILED
        found: dict[Layer, list[tuple[str, float]]] = {}
        for layer, by, value in (*own.values(), *(() if judged is None else (judged,))):
            found.setdefault(layer, []).append((by, value))
        if "L1" not in found and (category := calls(entry)) is not None:
            found["L1"] = [(REFERENCE, float(category == _AS_EXPECTED))]
        if isinstance(outcome, Scored) and not own and not spoiled[row]:
            placed = layer_of_score(entry.head.origin.format if entry.head.origin else "", outcome.by)
            if placed is not None:
                found.setdefault(placed, []).append((outcome.by, outcome.value))
            else:
                unplaced[outcome.by or "score"] = unplaced.get(outcome.by or "score", 0) + 1
        for layer, verdicts in found.items():
            # one verdict that cannot be given leaves the layer unknown, as it does with the outcome
            scores[layer][row] = float(np.min([value for _, value in verdicts]))
            demands.setdefault((layer, task), set()).update(by for by, _ in verdicts)
    return LayerScores(
        outcomes=outcomes,
        scores={layer: np.array(values, dtype=np.float64) for layer, values in scores.items()},
        demands={place: frozenset(who) for place, who in demands.items()},
        spoiled=spoiled,
        unplaced=dict(sorted(unplaced.items())),
    )


def _verdicts(run: Run) -> dict[TraceId, dict[str, tuple[Layer, str, float]]]:
    """The newest verdict of every check and judge of a trace by its name: layer, who gave it, score (NaN: it cannot
    tell)."""
    found: dict[TraceId, dict[str, tuple[Layer, str, float]]] = {}
    layers: dict[tuple[str, str], Layer | None] = {}
    for label in run.labels():
        if label.source not in ("verifier", "judge") or label.span_id is not None:
            continue
        kind = (label.by, label.name if label.source == "judge" else "")
        if kind not in layers:
            layers[kind] = layer_of_label(label)
        layer = layers[kind]
        if layer is not None:
            found.setdefault(label.trace_id, {})[label.name] = (layer, label.by, _number(label))
    return found


def _number(label: Label) -> float:
    return float(label.value) if isinstance(label.value, bool | int | float) else np.nan


def _calls(run: Run, entry: Entry) -> Category | None:
    """The comparison with the log's own reference; a trace whose words are sealed or gone says nothing."""
    if entry.forgotten or not HOLDS_CALLS & fact_names(entry.head):
        return None
    with suppress(EthogramError, KeyError):
        trace = run.trace(entry)
        return calls_category(trace, known_facts(trace))
    return None


_HARNESS: dict[str, Layer] = {
    "tau-bench": "L3",
    "tau2": "L3",
    "agentdojo": "L3",
    "openhands": "L3",
    "who-and-when": "L0",
}
"""What the harness of a format verifies: the state of its environment, or the answer."""


_ANSWER_SCORERS = frozenset(
    ("match", "includes", "pattern", "answer", "exact", "f1", "choice", "model_graded_qa", "model_graded_fact")
)
"""Scorers of Inspect that look at the answer; those with other names may look at anything."""


_SUPPLIED = re.compile(r"(csv|label|meta):")


def layer_of_label(label: Label) -> Layer | None:
    """The layer of a label that a check gave, or of a judge's score by a rubric (L2); None where it is neither, or the
    kind of the check is not installed here."""
    if label.source == "judge":
        return "L2" if label.name == RUBRIC_LABEL and label.span_id is None else None
    kind, at, _ = label.by.partition("@")
    if label.source != "verifier" or label.span_id is not None or not at:
        return None
    shape = KINDS.get(kind)
    return shape.layer if shape is not None else None


def layer_of_score(format: str, by: str) -> Layer | None:
    """The layer of a score that came with a foreign log; None where nobody says what was verified.

    Example: `layer_of_score("tau-bench", "reward")` is `"L3"`: the reward compares states of its database.
    """
    if _SUPPLIED.match(by):
        return None
    if format == "inspect":
        return "L0" if by in _ANSWER_SCORERS else "L3" if by.startswith("swe_bench") else None
    return _HARNESS.get(format)


def calls_category(trace: Trace, facts: Facts) -> Category | None:
    """How the calls of a trace differ from the expected ones; None where nothing is expected of them."""
    return category_of(reference_findings(TraceWords(trace), facts)) if facts.expected is not None else None
