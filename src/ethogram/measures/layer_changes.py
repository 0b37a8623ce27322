"""Changes of each layer between two versions, and where to look: one test per layer, adjusted over all.

The test and the interval of a layer are those of `compare`. Over the layers Holm's rule keeps the chance of any false
find (1979); the intervals hold together, and exclude 0 exactly where the test does (Strassburger and Bretz 2008).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np

from ethogram.estimate import Estimate
from ethogram.statistics import multiplicity
from ethogram.traces import LAYERS, Layer

from .comparison import Design, OneLook, arm_mean, one_look
from .layers import NAMES, UNMEASURED, LayerScores

HOLDS = 0.10
"""A layer holds where a change as large as this is ruled out."""

LayerState = Literal["fell", "rose", "held", "unsure", "not measured"]
Suspect = Literal["prompt", "tools", "plan", "environment", "verifier"]


class LayerChange(msgspec.Struct, frozen=True, kw_only=True):
    """One layer in both versions; `adjusted` is the p-value after Holm's rule over the layers that were tested.

    `difference` is candidate minus base. Its interval holds together with those of the other layers.
    """

    layer: Layer
    name: str
    state: LayerState
    base: Estimate
    candidate: Estimate
    difference: Estimate
    p: float | None = None
    adjusted: float | None = None


class LayerComparison(msgspec.Struct, frozen=True, kw_only=True):
    """All layers, those that moved significantly, and where to look: whom to suspect, and why, in a sentence.

    `suspects` is empty where nothing fell significantly. `unsettled` says what the layers leave open.
    """

    level: float
    layers: dict[Layer, LayerChange]
    moved: list[Layer]
    suspects: list[Suspect]
    look: str
    unsettled: str
    notes: list[str] = []


def compare_layers(
    base: LayerScores,
    candidate: LayerScores,
    *,
    tasks: Collection[str] | None = None,
    level: float = 0.95,
    design: Design = "within",
) -> LayerComparison:
    """One look at every layer of two versions on the tasks that both have, or on those of them that are named.

    Tasks at which the two were asked different things are left out of a layer, and counted in `notes`.
    """
    looks: dict[Layer, OneLook] = {}
    arms = {}
    notes = []
    for layer in LAYERS:
        alike, unlike = _comparable(base, candidate, layer, tasks)
        if unlike:
            notes.append(
                f"{layer}: {unlike} tasks are left out, where the two versions were checked for different things"
            )
        if alike:
            arms[layer] = base.of(layer, alike).only(alike), candidate.of(layer, alike).only(alike)
            looks[layer] = one_look(*arms[layer], level=level, design=design)
    tested = [layer for layer in looks if looks[layer].p is not None]
    each = 1 - (1 - level) / max(len(tested), 1)
    adjusted = dict(zip(tested, _holm([looks[layer].p for layer in tested]), strict=True))
    changes = {}
    for layer in LAYERS:
        if layer not in looks:
            changes[layer] = _unmeasured(layer, base, candidate, level)
            continue
        wide = one_look(*arms[layer], level=each, design=design).difference
        one, two = (arm_mean(arm, "success", level) for arm in arms[layer])
        changes[layer] = _change(layer, looks[layer], wide, one, two, adjusted.get(layer), level)
    notes += [f"{n} scores by {by!r} belong to no known layer" for by, n in _unplaced(base, candidate).items()]
    moved = [layer for layer in LAYERS if changes[layer].state in ("fell", "rose")]
    suspects, look = where_to_look(changes)
    return LayerComparison(
        level=level,
        layers=changes,
        moved=moved,
        suspects=suspects,
        look=look,
        unsettled=_unsettled(changes),
        notes=notes,
    )


def _holm(p: Sequence[float | None]) -> list[float]:
    known = [x for x in p if x is not None]
    return multiplicity.holm(np.array(known)).tolist() if known else []


def _comparable(
    base: LayerScores, candidate: LayerScores, layer: Layer, among: Collection[str] | None
) -> tuple[list[str], int]:
    """Tasks of both versions with this layer in one of them; how many were left out because the demands differ."""
    there = set(candidate.outcomes.tasks)
    if among is not None:
        there.intersection_update(among)
    tasks, unlike = [], 0
    for task in base.outcomes.tasks:
        asked = [x.demands.get((layer, task)) for x in (base, candidate)]
        if task not in there or not any(asked):
            continue
        if all(asked) and asked[0] != asked[1]:
            unlike += 1
        else:
            tasks.append(task)
    # a layer that only one version was asked about cannot be compared at all
    return (tasks if base.speaks_of(layer, tasks) and candidate.speaks_of(layer, tasks) else []), unlike


def _unmeasured(layer: Layer, base: LayerScores, candidate: LayerScores, level: float) -> LayerChange:
    has = [bool(x.tasks(layer)) for x in (base, candidate)]
    why = UNMEASURED[layer]
    if any(has):
        why = "only the base has it" if has == [True, False] else "only the candidate has it"
        why = "no task of both versions has it" if all(has) else why
    none = Estimate(value=None, level=level, n=0, of="tasks", why=f"not measured: {why}")
    return LayerChange(layer=layer, name=NAMES[layer], state="not measured", base=none, candidate=none, difference=none)


def _change(
    layer: Layer, look: OneLook, wide: Estimate, one: Estimate, two: Estimate, adjusted: float | None, level: float
) -> LayerChange:
    """The interval made to agree with Holm's rule: it excludes 0 where, and only where, the layer moved."""
    state: LayerState = "unsure"
    low, high, value = wide.low, wide.high, wide.value
    if value is not None and low is not None and high is not None and adjusted is not None:
        if adjusted <= 1 - level and value != 0:
            state = "fell" if value < 0 else "rose"
            low, high = (low, min(high, 0.0)) if value < 0 else (max(low, 0.0), high)
        else:
            low, high = min(low, 0.0), max(high, 0.0)
            state = "held" if low > -HOLDS and high < HOLDS else "unsure"
    together = f"{wide.method}, simultaneous over the layers" if wide.method else wide.method
    return LayerChange(
        layer=layer,
        name=NAMES[layer],
        state=state,
        base=one,
        candidate=two,
        difference=msgspec.structs.replace(wide, low=low, high=high, level=level, method=together),
        p=look.p,
        adjusted=adjusted,
    )


def _unplaced(*versions: LayerScores) -> dict[str, int]:
    found: dict[str, int] = {}
    for version in versions:
        for by, n in version.unplaced.items():
            found[by] = found.get(by, 0) + n
    return found


# ---- where to look ----

_PROMPT = "the prompt and the form that it asks of an answer"
_TOOLS = "the descriptions of tools, the schemas of their arguments, and which tools are offered"
_PLAN = "the plan, and the context in which it is made"
_OUTSIDE = "the environment (data, services, what a tool really does) and the verifier itself"


def where_to_look(layers: Mapping[Layer, LayerChange]) -> tuple[list[Suspect], str]:
    """Whom to suspect and a sentence: the lowest layer that fell decides, for what lies above it rests on it.

    The answer (L0) rests on the others rather than under them: it decides only where nothing else fell.
    """
    fell = [layer for layer in LAYERS if layers[layer].state == "fell"]
    rose = [layer for layer in LAYERS if layers[layer].state == "rose"]
    if not fell and not rose:
        return [], "no layer changed significantly"
    told = ", ".join(f"{layer} ({NAMES[layer]}) {_moved(layers[layer])}" for layer in (*fell, *rose))
    if not fell:
        return [], f"{told}; no layer fell significantly"
    lowest = next((layer for layer in fell if layer != "L0"), "L0")
    suspects, words = _ROUTES[lowest](layers)
    if lowest != "L0" and "L0" in fell:
        words = f"{words}; the answer may have fallen for the same reason"
    return suspects, f"{told}. {words}"


def _only_answers(layers: Mapping[Layer, LayerChange]) -> tuple[list[Suspect], str]:
    """A wrong answer comes from how it was said, or from what was done before it: a layer must rule that out."""
    calls, end, answer = layers["L1"], layers["L3"], layers["L0"]
    done = end if calls.state == "not measured" else calls
    if _too_small(done, answer):
        return ["prompt"], f"{_excused(done)}: what was said changed, not what was done; look at {_PROMPT}"
    words = f"{_open(done)}, so the answer may be wrong for what was done before it: read failing attempts"
    return ["prompt", "tools", "plan"], words


def _single_calls(layers: Mapping[Layer, LayerChange]) -> tuple[list[Suspect], str]:
    words = f"Single decisions went wrong: look at {_TOOLS}"
    if layers["L3"].state == "held":
        words += "; the end state held, so the expected calls may also be narrower than the task"
    return ["tools"], words


def _way(layers: Mapping[Layer, LayerChange]) -> tuple[list[Suspect], str]:
    calls, way = layers["L1"], layers["L2"]
    if _too_small(calls, way):
        return ["plan"], f"{_excused(calls)}: look at {_PLAN}"
    return ["plan", "tools"], f"Look at {_PLAN}; {_open(calls)}, so {_TOOLS} are not ruled out"


def _end(layers: Mapping[Layer, LayerChange]) -> tuple[list[Suspect], str]:
    calls, way, end = layers["L1"], layers["L2"], layers["L3"]
    if _too_small(way, end):
        return ["environment", "verifier"], f"{_excused(way)}, and the way taken looks clean: look at {_OUTSIDE}"
    suspects: list[Suspect] = ["plan", "environment", "verifier"]
    if _too_small(calls, end):
        words = f"{_excused(calls)}: look at {_PLAN}, and at {_OUTSIDE}"
        return suspects, f"{words}; {_open(way)}, which would distinguish them"
    return ["tools", *suspects], f"{_open(calls)} and {_open(way)}, so the layer is not found: read failing attempts"


def _excused(below: LayerChange) -> str:
    return f"{_open(below)}, too little for that" if below.state == "unsure" else _open(below)


def _too_small(below: LayerChange, above: LayerChange) -> bool:
    """Whether a layer cannot account for the fall of one above it: it did not fall, or never by as much.

    Both intervals hold at once, and a run that fails below can spoil one run above, no more.
    """
    if below.state in ("held", "rose"):
        return True
    most, least = below.difference.low, above.difference.high
    return below.state == "unsure" and most is not None and least is not None and most > least


_ROUTES = {"L0": _only_answers, "L1": _single_calls, "L2": _way, "L3": _end}


def _moved(change: LayerChange) -> str:
    d = change.difference
    assert d.value is not None
    word = "fell" if change.state == "fell" else "rose"
    ends = sorted(abs(x) for x in (d.low, d.high) if x is not None)
    return f"{word} by {abs(d.value):.2f} [{ends[0]:.2f}, {ends[1]:.2f}]" if len(ends) == 2 else word


def _open(change: LayerChange) -> str:
    """What is not known of a layer that did not move for certain."""
    if change.state == "not measured":
        return f"{change.layer} is not measured"
    if change.state == "held":
        return f"{change.layer} held"
    if change.state in ("fell", "rose"):
        return f"{change.layer} {change.state}"
    low = change.difference.low
    return f"{change.layer} may have fallen by up to {-low:.2f}" if low is not None else f"{change.layer} is unsure"


def _unsettled(layers: Mapping[Layer, LayerChange]) -> str:
    return "; ".join(_open(layers[layer]) for layer in LAYERS if layers[layer].state in ("unsure", "not measured"))
