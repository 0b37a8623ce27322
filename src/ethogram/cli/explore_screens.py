"""What `ethogram explore` and its sub-commands print."""

from __future__ import annotations

from ethogram.lab.explore.effects import Effects, Neighbours, Slice
from ethogram.lab.explore.exploration import RoundMetrics
from ethogram.lab.explore.maps import ExplorationMap
from ethogram.study.explore import ExploreResult
from ethogram.study.race import RaceResult

from .out import stderr, stdout, table

SHOWN = 20
"""Points of a map that are printed; the whole map is in `--json` and in `explore export`."""

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
        f"{'–' if expected is None else f'{expected:.3f}'}, {metrics.status}",
        markup=False,
        soft_wrap=True,
    )


def print_exploration(result: ExploreResult) -> None:
    """What is established, then how it was reached."""
    out = stdout()
    tube, truth = result.metrics.tube, result.metrics.truth
    out.print(
        f"run [bold]{result.run}[/bold]: round {result.rounds} ({result.new_rounds} new), {result.episodes:,} episodes "
        f"on {result.points} points, strategy {result.strategy}, stopped: {result.stopped}"
    )
    out.print(result.established, markup=False)
    if truth is not None and truth.recall.value is not None and truth.specificity.value is not None:
        out.print(
            f"against the known truth, beyond ± {truth.zone:g}: balanced accuracy {truth.balanced_accuracy:.3f}, "
            f"recall of unsafe {truth.recall.value:.3f}, specificity {truth.specificity.value:.3f}",
            markup=False,
        )
    out.print(
        f"mean tube: tube_var_sum {tube.tube_var_sum:.6f}, tube_coverage {tube.tube_coverage:.3f}, "
        f"{result.metrics.status}"
    )
    out.print(tube.misleads, style="dim", markup=False)
    out.print(f"next: ethogram explore map {result.run}", style="dim", markup=False)


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
    """What is established, and the points that fail most."""
    out = stdout()
    out.print(f"{result.run}: {result.established}", markup=False)
    worst = sorted(result.points, key=lambda p: -(p.rate.value or 0))[:SHOWN]
    rows = [
        [p.point, *p.settings.values(), p.episodes, p.rate.value, p.rate.low, p.rate.high, p.verdict] for p in worst
    ]
    out.print(table(["point", *result.parameters, "episodes", "rate", "low", "high", "verdict"], rows))
    out.print(f"the {len(worst)} most dangerous of {len(result.points)} points; all of them: --json, or explore export")


def print_effects(result: Effects) -> None:
    """The share of variation of every effect, then the mean failure rate at every value."""
    out = stdout()
    rows = [[r["effect"], r["share"], r["low"], r["high"]] for r in result.rows()]
    out.print(table(["effect", "share of variation", "low", "high"], rows))
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
