"""How a change shows in a pair: changes of control flow, its category by ordered rules, its group, prevalence.

Eight categories compare steps and answers. Six more say what those cannot: a crash on either side is a fact of its own
and no answer; where neither run has a recorded step, the answer alone is compared, under that name; a detour that
neither an outcome nor an answer follows up is no recovery.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

import msgspec
import numpy as np

from ethogram.estimate import Estimate
from ethogram.statistics import interval, passk
from ethogram.traces import Totals

from .divergence import Divergence
from .sequence import ANSWER_HANDED_OVER, Reading

Manifestation = Literal[
    "catastrophic_failure",
    "early_termination",
    "loop_or_extended_execution",
    "silent_semantic_corruption",
    "strategy_reroute",
    "structural_divergence_with_outcome_change",
    "structural_divergence_recovered",
    "no_observable_effect",
    "structural_divergence",
    "crash",
    "baseline_crash",
    "answer_changed",
    "answer_same",
    "not_comparable",
]
ManifestationGroup = Literal[
    "combined_disruption",
    "behavioral_detours",
    "silent_corruption",
    "no_observable_effect",
    "crash",
    "by_answer_alone",
    "not_comparable",
]
MANIFESTATIONS: tuple[Manifestation, ...] = get_args(Manifestation)
GROUPS: tuple[ManifestationGroup, ...] = get_args(ManifestationGroup)
GROUP_OF: Mapping[Manifestation, ManifestationGroup] = MappingProxyType(
    {
        "catastrophic_failure": "combined_disruption",
        "early_termination": "combined_disruption",
        "silent_semantic_corruption": "silent_corruption",
        "no_observable_effect": "no_observable_effect",
        "loop_or_extended_execution": "behavioral_detours",
        "strategy_reroute": "behavioral_detours",
        "structural_divergence_with_outcome_change": "behavioral_detours",
        "structural_divergence_recovered": "behavioral_detours",
        "structural_divergence": "behavioral_detours",
        "crash": "crash",
        "baseline_crash": "not_comparable",
        "answer_changed": "by_answer_alone",
        "answer_same": "by_answer_alone",
        "not_comparable": "not_comparable",
    }
)
NO_STEPS = "no steps captured"
"""Why a pair has no distance: neither run recorded a step, which does not say that the agent took none."""
MAJOR, LONG_CHANGES, LONG_DISTANCE = 0.5, 3, 0.2
"""d_norm of a major disruption; control-flow changes or d_norm that make a longer run a loop."""


class ControlFlow(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of control flow from the first trace to the second."""

    reroutes: int = 0
    extra_routing_cycles: int = 0
    missing_routing_cycles: int = 0
    tool_failures_introduced: int = 0
    tool_failures_avoided: int = 0
    tool_calls_added: int = 0
    tool_calls_removed: int = 0
    early_termination: bool = False
    extended_execution: bool = False

    @property
    def total(self) -> int:
        """All of them, an early end and an extension counting one each."""
        return sum(int(getattr(self, name)) for name in self.__struct_fields__)


class Showing(NamedTuple):
    """The category of a pair, its group, and the rule that fired, with the facts that made it fire."""

    manifestation: Manifestation
    group: ManifestationGroup
    rule: str


def control_flow(first: Reading, second: Reading, found: Divergence) -> ControlFlow:
    """Compare two aligned readings.

    A reroute is a handoff to somebody else at the same place of the alignment; where a log has no handoffs, a step that
    another agent took. Cycles and tool calls are differences of counts, so that one event is not counted twice.
    """
    introduced = avoided = reroutes = 0
    routed = first.count("handoff") + second.count("handoff") > 0
    several = min(len(set(first.agents)), len(set(second.agents))) > 1
    # an alignment is slow to compute; without these nothing could be counted along it
    aligned = found.alignment if routed or several or any(first.failed) or any(second.failed) else ()
    for sign, i, j in aligned:
        if i is None or j is None:
            continue
        if first.kinds[i] == second.kinds[j] == "tool" and first.names[i] == second.names[j]:
            introduced += second.failed[j] and not first.failed[i]
            avoided += first.failed[i] and not second.failed[j]
        if routed:
            chosen = (first.names[i], second.names[j])
            hands = first.kinds[i] == second.kinds[j] == "handoff" and ANSWER_HANDED_OVER not in chosen
            reroutes += hands and chosen[0] != chosen[1]
        elif several and sign == "~":
            reroutes += first.agents[i] != second.agents[j]
    cycles = second.count("handoff") - first.count("handoff")
    calls = second.count("tool") - first.count("tool")
    longer = turns(second, first) - turns(first, second)
    return ControlFlow(
        reroutes=reroutes,
        extra_routing_cycles=max(cycles, 0),
        missing_routing_cycles=max(-cycles, 0),
        tool_failures_introduced=introduced,
        tool_failures_avoided=avoided,
        tool_calls_added=max(calls, 0),
        tool_calls_removed=max(-calls, 0),
        early_termination=longer < 0,
        extended_execution=longer > 0,
    )


def turns(reading: Reading, other: Reading) -> int:
    """Distinct turns: the log's own numbers; else model calls, since tools and results belong to the call before them;
    else, where neither trace has a model call, all steps."""
    if reading.turns is not None and (other.turns is not None or not len(other)):
        return len(set(reading.turns))
    if reading.count("model") or other.count("model"):
        return reading.count("model")
    return len(reading)


def answer_changed(first: Any, second: Any) -> bool | None:
    """Whether two answers differ once written alike; None where neither run gave one."""
    if first is None and second is None:
        return None
    return not same_answer(first, second)


def same_answer(first: Any, second: Any) -> bool:
    """Equal as numbers where both are numbers, else as text, ignoring case, width and spaces."""
    if first is None or second is None:
        return first is second
    if isinstance(first, bool) or isinstance(second, bool):
        return _plain(first) == _plain(second)
    one, two = _number(first), _number(second)
    if one is not None and two is not None:
        return one == two
    return _plain(first) == _plain(second)


def _number(value: Any) -> float | None:
    try:
        number = float(value) if isinstance(value, int | float | str) else math.nan
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _plain(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value, order="sorted").decode()
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


class Ends(NamedTuple):
    """How the two runs of a pair ended. `passed` is None where a side has no outcome."""

    crashed: tuple[bool, bool] = (False, False)
    passed: tuple[bool | None, bool | None] = (None, None)

    @property
    def scored(self) -> bool:
        """Whether both sides have an outcome."""
        return None not in self.passed


def recovered(changed: bool | None, ends: Ends) -> bool | None:
    """Whether a run that took another way still arrived: by the outcomes where both exist, else by the answers.

    None where nothing says so: a baseline that failed had nothing to recover, and without outcomes or answers on both
    sides nobody knows.
    """
    before, after = ends.passed
    if ends.scored:
        return after if before else None
    if any(ends.crashed):
        return None if ends.crashed[0] else False
    return None if changed is None else not changed


def classify(
    d_norm: float | None, flow: ControlFlow, changed: bool | None, *, null_answer: bool, ends: Ends | None = None
) -> Showing:
    """The first rule that holds, in order. `null_answer`: the second run gave no answer where the first gave one.

    A `d_norm` of None means that no steps were captured; `changed` is None where answers cannot be compared, and then
    nothing is claimed about them. A crash comes first: what a run did before it ended is no behaviour of its own.
    """
    ends = ends or Ends()
    if any(ends.crashed):
        return _crashed(ends)
    if d_norm is None:
        return _by_answer(changed, null_answer)
    total = flow.total
    outcome = _outcome_changed(changed, ends)
    reroutes = f"another agent was chosen {flow.reroutes} time{'' if flow.reroutes == 1 else 's'}"
    changes = f"{total} control-flow change{'' if total == 1 else 's'}"
    rules: tuple[tuple[Manifestation, bool, str], ...] = (
        (
            "catastrophic_failure",
            null_answer and (flow.early_termination or d_norm >= MAJOR),
            f"no answer, and {'it stopped early' if flow.early_termination else f'd_norm {d_norm:.3g} ≥ {MAJOR}'}",
        ),
        ("early_termination", flow.early_termination, "fewer turns than the baseline"),
        (
            "loop_or_extended_execution",
            flow.extended_execution and (total >= LONG_CHANGES or d_norm >= LONG_DISTANCE),
            f"more turns than the baseline, {changes}, d_norm {d_norm:.3g}",
        ),
        (
            "silent_semantic_corruption",
            (bool(changed) or outcome) and d_norm == 0 and total == 0,
            f"the {'answer' if changed else 'outcome'} changed, the steps did not",
        ),
        ("strategy_reroute", flow.reroutes > 0, reroutes),
        (
            "structural_divergence_with_outcome_change",
            outcome and (d_norm > 0 or total > 0),
            f"d_norm {d_norm:.3g}, {changes}, "
            + ("another outcome" if ends.scored and ends.passed[0] != ends.passed[1] else "another answer"),
        ),
        (
            "structural_divergence_recovered",
            (d_norm > 0 or total > 0) and recovered(changed, ends) is True,
            f"d_norm {d_norm:.3g}, {changes}, " + ("both runs succeeded" if ends.scored else "the same answer"),
        ),
        (
            "structural_divergence",
            d_norm > 0 or total > 0,
            f"d_norm {d_norm:.3g}, {changes}, "
            + ("the baseline failed as well" if ends.scored else "no answer on either side to compare"),
        ),
    )
    for name, holds, why in rules:
        if holds:
            return Showing(name, GROUP_OF[name], why)
    answer = "no answer on either side to compare" if changed is None else "the same answer"
    return Showing("no_observable_effect", "no_observable_effect", f"the same steps, {answer}")


def _outcome_changed(changed: bool | None, ends: Ends) -> bool:
    """Whether the pair ended otherwise: by the outcomes where both exist; where both failed, and without outcomes, by
    the answers."""
    before, after = ends.passed
    if ends.scored and (before or after):
        return before != after
    return bool(changed)


def _crashed(ends: Ends) -> Showing:
    before, after = ends.crashed
    if not before:
        return Showing("crash", GROUP_OF["crash"], "the run crashed, the baseline did not")
    also = "both runs crashed" if after else "the baseline crashed, the run did not"
    return Showing("baseline_crash", GROUP_OF["baseline_crash"], f"{also}: nothing is known of the change")


def _by_answer(changed: bool | None, null_answer: bool) -> Showing:
    """A pair without steps on either side, by its answers alone."""
    name: Manifestation = "not_comparable" if changed is None else "answer_changed" if changed else "answer_same"
    what = {
        "not_comparable": "no answer on either side to compare",
        "answer_changed": "no answer where the baseline gave one" if null_answer else "another answer",
        "answer_same": "the same answer",
    }[name]
    return Showing(name, GROUP_OF[name], f"{NO_STEPS}; by answer alone: {what}")


def token_overhead(first: Totals, second: Totals) -> float | None:
    """All tokens of the second run over all tokens of the first; None where either log has no usage."""
    one, two = first.tokens, second.tokens
    return None if not one or two is None else two / one


def prevalence(pairs: Sequence[tuple[str, str]], names: Iterable[str], level: float = 0.95) -> dict[str, Estimate]:
    """The share of pairs with each name, from (task, name) rows: the mean over tasks, which are the clusters.

    One task has no clusters to learn a spread from: its pairs are then taken as independent, and the method says so.
    """
    by_task: dict[str, list[str]] = {}
    for task, name in pairs:
        by_task.setdefault(task, []).append(name)
    sizes = np.array([len(v) for v in by_task.values()], dtype=np.float64)
    found = {}
    for name in names:
        if not by_task:
            found[name] = Estimate(value=None, level=level, of="pairs", why="there are no pairs")
            continue
        rates = np.array([v.count(name) / len(v) for v in by_task.values()])
        if len(by_task) == 1:
            low, high = interval.wilson(rates[0] * sizes[0], sizes[0], level)
            value, method = float(rates[0]), "wilson"
        else:
            curve = passk.population(rates[:, None], sizes, [1], level)
            value, low, high, method = float(curve.value[0]), curve.low[0], curve.high[0], "wilson-neff"
        found[name] = Estimate(
            value=value, low=float(low), high=float(high), level=level, method=method, n=len(pairs), of="pairs"
        )
    return found
