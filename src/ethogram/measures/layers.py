"""Success by layer: the answer (L0), single tool calls (L1), the steps taken (L2), the state at the end (L3)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from ethogram.estimate import Estimate
from ethogram.traces import LAYERS, Layer

from .contrasts import share_of
from .outcomes import Bools, Floats, Outcomes
from .reliability import estimate_reliability

NAMES: Mapping[Layer, str] = {"L0": "the answer", "L1": "tool calls", "L2": "the way taken", "L3": "end state"}
UNMEASURED: Mapping[Layer, str] = {
    "L0": "no check looks at the answer",
    "L1": "no tool_calls check, and no expected calls in the log",
    "L2": "the steps were not judged; use ethogram judge",
    "L3": "no check looks at the end state, and no score of the log is known to",
}
END: Layer = "L3"
RIGHT: Mapping[Layer, str] = {"L1": "make the correct tool calls", "L2": "take the right steps"}
"""What an attempt does that passes a layer below the end state."""
MOST = 0.5
"""Above this share of the attempts with a wrong end state, the sentence says "most of them"."""


@dataclass(frozen=True, eq=False)
class LayerScores:
    """The scores of each layer for the episodes of `outcomes`: one per episode, NaN where unknown.

    `demands` holds, for every layer and task that was looked at, who looked. `spoiled` are episodes that the agent
    ended itself, by a crash or at its cap: where no verdict was given on what they left, they fail every layer of
    their task. `unplaced` counts scores that belong to no known layer, by who gave them.
    """

    outcomes: Outcomes
    scores: Mapping[Layer, Floats]
    demands: Mapping[tuple[Layer, str], frozenset[str]]
    spoiled: Bools
    unplaced: Mapping[str, int]

    def tasks(self, layer: Layer) -> list[str]:
        """The tasks at which this layer was looked at."""
        return [t for t in self.outcomes.tasks if (layer, t) in self.demands]

    def speaks_of(self, layer: Layer, tasks: Collection[str]) -> bool:
        """Whether anything is known of this layer at these tasks: a verdict was asked for, or the agent spoiled it."""
        chosen = set(tasks)
        if any((layer, task) in self.demands for task in chosen):
            return True
        return any(self.outcomes.tasks[i] in chosen for i in self.outcomes.task[self.spoiled].tolist())

    def of(self, layer: Layer, tasks: Collection[str]) -> Outcomes:
        """The outcomes of one layer on these tasks, in the order of the run; all of them must demand it somewhere."""
        whole = self.outcomes
        value = np.where(whole.ended, self.scores[layer], np.nan)
        value = np.where(np.isnan(value) & self.spoiled, 0.0, value)
        reason = whole.reason.copy()
        reason[~np.isnan(value)] = None
        reason[np.isnan(value) & whole.scored] = "unscored"
        chosen = set(tasks)
        return replace(whole, value=value, reason=reason).only([t for t in whole.tasks if t in chosen])


def layer_rates(found: LayerScores, level: float = 0.95) -> dict[Layer, Estimate]:
    """The success rate of every layer over the tasks at which it was looked at; `why` where it was at none.

    An episode succeeds at a layer where every check of that layer passed, required for the outcome or not.
    """
    return {layer: _rate(found, layer, level) for layer in LAYERS}


def _rate(found: LayerScores, layer: Layer, level: float) -> Estimate:
    tasks = found.tasks(layer)
    if not tasks:
        return Estimate(value=None, level=level, n=0, of="tasks", why=f"not measured: {UNMEASURED[layer]}")
    return estimate_reliability(found.of(layer, tasks), [1], level=level).pass_at["1"]


class LayerGap(msgspec.Struct, frozen=True, kw_only=True):
    """Of the runs that fail at the end state, the share that passes a layer below it.

    A large share says that what this layer looks at is not what goes wrong.
    """

    layer: Layer
    passed: int
    failed_at_end: int
    share: Estimate


def layer_gaps(found: LayerScores, level: float = 0.95) -> list[LayerGap]:
    """For every layer below the end state, attempts that pass it with a wrong end state; simultaneous intervals."""
    tasks = found.tasks(END)
    below = [layer for layer in LAYERS[:-1] if set(found.tasks(layer)) & set(tasks)]
    each = 1 - (1 - level) / max(len(below), 1)
    gaps = []
    for layer in below:
        both = [t for t in found.tasks(layer) if t in set(tasks)]
        end, own = found.of(END, both), found.of(layer, both)
        bad = end.scored & ~end.success & own.scored
        of, hits = (np.bincount(end.task[rows], minlength=len(both)) for rows in (bad, bad & own.success))
        share = msgspec.structs.replace(share_of(hits.astype(np.int64), of.astype(np.int64), each), level=level)
        gaps.append(LayerGap(layer=layer, passed=int(hits.sum()), failed_at_end=int(of.sum()), share=share))
    return gaps


def look_in_one_run(gaps: Sequence[LayerGap]) -> str:
    """Where to look, from the highest layer below the end state that is measured; "" where no such layer is."""
    told = [g for g in gaps if g.failed_at_end and g.layer != "L0"]
    if not told:
        return ""
    gap = told[-1]
    share, low, high = (x if x is not None else 0.0 for x in (gap.share.value, gap.share.low, gap.share.high))
    count = f"{gap.passed} of {gap.failed_at_end} attempts with a wrong end state pass {gap.layer} ({NAMES[gap.layer]})"
    told_share = f"{count}, {share:.2f} [{low:.2f}, {high:.2f}]"
    if low > MOST:
        outside = "the environment and the verifier"
        first = outside if gap.layer == "L2" else f"the plan and its context, {outside}"
        return f"{told_share}: most of them {RIGHT[gap.layer]}, so look at {first}"
    if high < MOST:
        first = "the plan and its context" if gap.layer == "L2" else "tool descriptions and arguments"
        return f"{told_share}: most of them go wrong there already, so look at {first}"
    return f"{told_share}: this does not show where to look"
