"""What `ethogram explore` and its sub-commands print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.markup import escape

from ethogram.questions.explore.buying.rounds import ExploreResult
from ethogram.questions.explore.effects import Effects, Neighbours, Slice
from ethogram.questions.explore.exploration import RoundMetrics
from ethogram.questions.explore.maps import ExplorationMap
from ethogram.questions.explore.race import RaceResult

from .printing import plural, stderr, stdout, table

SHOWN = 20
"""Points of a map that are printed; the whole map is in `--json` and in `explore export`."""

ANSWERS = {"budget": "NOT ENOUGH IS KNOWN", "no outcomes": "NOTHING WAS SCORED"}
"""The answer of an exploration that stopped for this reason before enough was known."""

RACE_COLUMNS = {
    "strategy": "strategy",
    "n95": "to 95 %",
    "n99": "to 99 %",
    "balanced_accuracy": "balanced",
    "recall_unsafe": "recall",
    "specificity": "specificity",
    "tube_var_sum": "tube_var_sum",
    "visited": "visited",
    "certified": "certified at",
}


def print_round(metrics: RoundMetrics) -> None:
    """One line on stderr after every round."""
    known = metrics.certainty
    expected = known.expected_balanced_accuracy
    stderr().print(
        f"round {metrics.round_num}: {metrics.counts.trajectories_total:,} episodes, {known.safe} safe, "
        f"{known.unsafe} unsafe, {known.undecided} undecided, expected balanced accuracy "
        f"{'–' if expected is None else f'{expected:.3f}'}",
        markup=False,
        soft_wrap=True,
    )


def print_exploration(result: ExploreResult) -> None:
    """The answer, what may be claimed, the figures, and last those of version 1 with a warning."""
    out, known = stdout(), result.metrics.certainty
    answer = "DONE" if result.enough else ANSWERS.get(result.stopped, "ROUNDS DONE")
    counts = f"{known.safe} safe, {known.unsafe} unsafe, {known.undecided} undecided"
    of = f"{plural(result.points, 'point')} ({100 * known.level:g} % level, {plural(known.episodes, 'episode')})"
    out.print(f"[bold]{answer}[/bold]: {counts} of {of}", soft_wrap=True)
    safe = f"safe: failure rate at most {result.metrics.tube.tau:g}"
    out.print(f"run {escape(result.run)}; {safe}; stopped: {result.stopped}", soft_wrap=True)
    _print_claims(result.claims[1:])  # the first line says what the first of them does
    out.print(table(["figure", "value"], _figures(result)))
    tube = result.metrics.tube
    rows = [["tube_var_sum", f"{tube.tube_var_sum:.6f}"], ["tube_coverage", f"{tube.tube_coverage:.3f}"]]
    out.print(table(["mean tube, as in version 1", "value"], rows))
    out.print(f"note: {tube.misleads}", style="dim", markup=False)
    out.print(f"next: ethogram explore map {result.run}", style="dim", markup=False)


def _print_claims(claims: Sequence[str]) -> None:
    """What may be claimed, one sentence per line."""
    for sentence in claims:
        stdout().print(f"note: {sentence}", style="dim", markup=False)


def _figures(result: ExploreResult) -> list[list[str]]:
    """The figures of an exploration, as rows."""
    truth = result.metrics.truth
    expected = result.metrics.certainty.expected_balanced_accuracy
    rows = [
        ["strategy", result.strategy],
        ["rounds", f"{result.rounds} ({result.new_rounds} new)"],
        ["episodes", f"{result.episodes:,}"],
        ["expected balanced accuracy", "–" if expected is None else f"{expected:.3f}"],
    ]
    if truth is not None and truth.recall.value is not None and truth.specificity.value is not None:
        rows += [
            [f"known truth beyond ± {truth.zone:g}: balanced accuracy", f"{truth.balanced_accuracy:.3f}"],
            ["known truth: recall of unsafe", f"{truth.recall.value:.3f}"],
            ["known truth: specificity", f"{truth.specificity.value:.3f}"],
        ]
    return rows


def print_race(result: RaceResult) -> None:
    """One row per strategy."""
    out = stdout()
    out.print(
        f"{result.world}: {result.unsafe} of {result.points} points unsafe; {result.seeds} seeds, "
        f"{result.max_episodes:,} episodes, zone ± {result.zone:g}"
    )
    rows = [[getattr(standing, field) for field in RACE_COLUMNS] for standing in result.standings]
    out.print(table([*RACE_COLUMNS.values()], rows))
    out.print(result.misleads, style="dim", markup=False)


def print_map(result: ExplorationMap) -> None:
    """The verdicts, the points that fail most, then what may be claimed."""
    out = stdout()
    verdicts = Counter(point.verdict for point in result.points)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    out.print(f"{result.run}: {counts} of {len(result.points)} points", style="bold", markup=False)
    worst = sorted(result.points, key=lambda p: -(p.rate.value or 0))[:SHOWN]
    rows = [
        [p.point, *p.settings.values(), p.episodes, p.rate.value, p.rate.low, p.rate.high, p.verdict] for p in worst
    ]
    out.print(table(["point", *result.parameters, "episodes", "rate", "low", "high", "verdict"], rows))
    out.print(f"the {len(worst)} points with the highest failure rate; all points: --json, or explore export")
    _print_claims(result.claims)


def print_effects(result: Effects) -> None:
    """The share of variation of every effect, then the mean failure rate at every value."""
    out = stdout()
    effects = result.rows()
    rows = [[r["effect"], r["share"], r["low"], r["high"]] for r in effects]
    most = max(effects, key=lambda r: r["share"] or 0.0, default=None)
    if most is not None and most["share"]:
        share = f"{most['share']:.0%}"
        told = (
            f"explains most of the variation ({share})" if most["share"] > 0.5 else f"has the largest effect ({share})"
        )
        out.print(f"{result.run}: {most['effect']} {told}", style="bold", markup=False)
    out.print(table(["effect", "share of variation", "low", "high"], rows))
    out.print()
    levels = [[v.parameter, str(v.value), v.rate.value, v.rate.low, v.rate.high] for v in result.levels]
    out.print(table(["parameter", "value", "mean failure rate", "low", "high"], levels))


def print_neighbours(result: Neighbours) -> None:
    """The failure rate of a setting, and of those one step away."""
    out = stdout()
    out.print(f"here: failure rate {result.here.rate} ({result.here.verdict})", markup=False)
    rows = [
        [", ".join(f"{k} → {v}" for k, v in n.change.items()), n.rate.value, str(n.difference), n.verdict]
        for n in result.neighbours
    ]
    out.print(table(["change", "rate", "difference", "verdict"], rows))


def print_slice(result: Slice) -> None:
    """One row per value, or per pair of values."""
    names = [n for n in (result.x, result.y) if n is not None]
    rows = [
        [*map(str, (c.x, c.y)[: len(names)]), c.rate.value, c.rate.low, c.rate.high, c.episodes] for c in result.cells
    ]
    stdout().print(table([*names, "rate", "low", "high", "episodes"], rows))
