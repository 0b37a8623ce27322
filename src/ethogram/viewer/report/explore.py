"""The part of a report about an exploration: its map with certainty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ethogram.display.chart import Chart
from ethogram.questions.explore.charts import effect_intervals, rate_map, rounds_curve
from ethogram.questions.explore.effects import Effects, explain_exploration, slice_exploration
from ethogram.questions.explore.exploration import RoundMetrics, open_exploration
from ethogram.questions.explore.maps import ExplorationMap, map_exploration
from ethogram.questions.explore.posterior import PointRow
from ethogram.questions.explore.tube import MISLEADS
from ethogram.store import Home, Run

from .views import Card, Section, TableView, picture, said

ID, TITLE = "explore", "Where is it unsafe?"
MOST_EFFECTS = 12
"""How many effects are drawn, the largest first."""
MOST_POINTS = 15
"""How many of the most dangerous points are listed; `ethogram explore export` has them all."""
MOST_CELLS = 12
"""A parameter with more values than this is no axis of a map: its cells could not be read."""


def explore_part(run: Run) -> tuple[Section, list[Card]] | None:
    """The section about an exploration; None where the run is none."""
    if run.info.kind != "explore":
        return None
    home, name = _place(run)
    rounds = open_exploration(name, home=home).committed()
    if not rounds:
        note = "no round is complete yet; continue with the same command: ethogram explore"
        return Section(id=ID, title=TITLE, notes=[note]), []
    found = map_exploration(name, home=home)
    effects = explain_exploration(name, home=home)
    drawn = [*_maps(found, effects, name, home), effect_intervals(_effect_rows(effects)), rounds_curve(_curve(rounds))]
    section = Section(
        id=ID,
        title=TITLE,
        lead=found.established,
        paragraphs=[_question(found), *_against_truth(rounds[-1])],
        pictures=[picture(c) for c in drawn],
        tables=[_worst(found), _levels(effects)],
        notes=[_headline(rounds[-1]), MISLEADS],
    )
    return section, _cards(found, rounds[-1])


def _place(run: Run) -> tuple[Home, str]:
    """How the laboratory finds the run again: by its name in its home, or by its directory outside of one."""
    home = Home(run.files, run.keys)
    return home, run.name if run.path == f"runs/{run.name}" else f"{run.files.address.rstrip('/')}/{run.path}"


def _question(found: ExplorationMap) -> str:
    settings = ", ".join(f"{name} ({len(values)} values)" for name, values in found.parameters.items())
    return (
        f"Where does the agent fail more often than {found.tau:g} of the time? {len(found.points)} settings of "
        f"{found.world}: {settings}. The strategy {found.strategy!r} bought {found.episodes:,} episodes."
    )


def _against_truth(last: RoundMetrics) -> list[str]:
    truth = last.truth
    if truth is None or truth.balanced_accuracy is None:
        return []
    return [
        f"The true rates of this world are known. Beyond ± {truth.zone:g} of tau, balanced accuracy is "
        f"{truth.balanced_accuracy:.3f}, recall of unsafe points {said(truth.recall)}, specificity "
        f"{said(truth.specificity)}; {truth.false_safe} unsafe points are in the conservative tube."
    ]


def _headline(last: RoundMetrics) -> str:
    tube = last.tube
    return (
        f"The mean tube holds {tube.tube_points_total} points: tube_var_sum {tube.tube_var_sum:.6f}, tube_coverage "
        f"{tube.tube_coverage:.3f}, {last.status}."
    )


def _cards(found: ExplorationMap, last: RoundMetrics) -> list[Card]:
    points, level = len(found.points), f"at {100 * found.level:g} %"
    expected = last.certainty.expected_balanced_accuracy
    missing = sum(last.counts.missing.values())
    visited = f"{last.certainty.visited:,} of {points:,} points visited"
    return [
        Card(label="safe", value=f"{found.safe:,}", detail=f"of {points:,} points, {level}"),
        Card(label="unsafe", value=f"{found.unsafe:,}", detail=f"fail more often than {found.tau:g}, {level}"),
        Card(label="undecided", value=f"{found.undecided:,}", detail="neither is established"),
        Card(
            label="balanced accuracy, expected",
            value="–" if expected is None else f"{expected:.0%}",
            detail=f"by the posterior, beyond {found.tau:g} ± {found.zone:g}",
        ),
        Card(
            label="episodes",
            value=f"{found.episodes:,}",
            detail=f"{visited}; {missing:,} missing" if missing else visited,
        ),
    ]


def _maps(found: ExplorationMap, effects: Effects, name: str, home: Home) -> list[Chart]:
    """The two parameters that matter most against each other: at the safest setting of the others, and on average."""
    chosen = [e.parameters[0] for e in effects.main if len(found.parameters[e.parameters[0]]) <= MOST_CELLS][:2]
    if len(chosen) < 2:
        return []
    x, y = chosen
    safest = min(found.points, key=lambda p: (p.rate.value if p.rate.value is not None else 1.0, p.point))
    others = {k: v for k, v in safest.settings.items() if k not in (x, y)}
    values = [found.parameters[x], found.parameters[y]]
    rows = [_point(p, x, y) for p in found.points if all(p.settings[k] == v for k, v in others.items())]
    at = ", ".join(f"{k} {v}" for k, v in others.items())
    held = f", with {at}, as at the safest point" if others else ""
    drawn = [rate_map(rows, x, y, values, f"failure rate, its 95 % interval and the verdict by {x} and {y}{held}")]
    if others:
        averaged = slice_exploration(x, y, None, name, home=home).cells
        rows = [{"x": c.x, "y": c.y, "rate": c.rate.value, "low": c.rate.low, "high": c.rate.high} for c in averaged]
        words = f"mean failure rate and its 95 % interval by {x} and {y}, over all values of the other settings"
        drawn.append(rate_map(rows, x, y, values, words))
    return drawn


def _point(p: PointRow, x: str, y: str) -> dict[str, Any]:
    rate = p.rate
    ends = {"rate": rate.value, "low": rate.low, "high": rate.high}
    return {"x": p.settings[x], "y": p.settings[y], **ends, "verdict": p.verdict}


def _effect_rows(effects: Effects) -> list[dict[str, Any]]:
    rows = sorted(effects.rows(), key=lambda r: -(r["share"] or 0))
    return [r for r in rows if r["share"] is not None][:MOST_EFFECTS]


def _curve(rounds: Sequence[RoundMetrics]) -> list[dict[str, Any]]:
    rows = []
    for m in rounds:
        known = m.certainty
        points = known.safe + known.unsafe + known.undecided
        shares = {
            "safe": known.safe / points,
            "unsafe": known.unsafe / points,
            "undecided": known.undecided / points,
            "visited": known.visited / points,
        }
        rows += [{"episodes": known.episodes, "who": who, "value": value} for who, value in shares.items()]
    return rows


def _worst(found: ExplorationMap) -> TableView:
    worst = sorted(found.points, key=lambda p: (-(p.rate.value or 0), p.point))[:MOST_POINTS]
    rows = [[*(str(v) for v in p.settings.values()), str(p.episodes), said(p.rate), p.verdict] for p in worst]
    return TableView(
        columns=[*found.parameters, "episodes", "failure rate", "verdict"],
        rows=rows,
        caption=f"The {len(worst)} most dangerous of {len(found.points):,} points",
    )


def _levels(effects: Effects) -> TableView:
    rows = [[v.parameter, str(v.value), said(v.rate)] for v in effects.levels]
    return TableView(
        columns=["parameter", "value", "mean failure rate"],
        rows=rows,
        caption="Mean failure rate at each value, over all other settings",
    )
