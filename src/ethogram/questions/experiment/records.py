"""Records of a paired experiment: its treatments, its pairs, and results over pairs."""

from __future__ import annotations

import csv
import io
from typing import Any, ClassVar

import msgspec

from ethogram.display import Drawing, Presentation
from ethogram.estimate import Estimate
from ethogram.measures.behaviour_test import Spread
from ethogram.measures.noise_floor import NoiseFloor
from ethogram.questions.divergence.pair_fields import EditCounts, Overhead
from ethogram.questions.divergence.question import PairRow
from ethogram.result import Result

SILENT, CRASH = "silent_semantic_corruption", "crash"


class Treatment(msgspec.Struct, frozen=True, kw_only=True):
    """A condition of an experiment: which operator, on what, how strongly, and what it changed in words."""

    condition: str
    operator: str
    kind: str
    intensity: float
    file: str | None
    tasks: list[str]
    summary: str = ""


class NotApplied(msgspec.Struct, frozen=True, kw_only=True):
    """An operator that was not applied to a task, and why: known before anything ran."""

    operator: str
    task: str
    why: str
    file: str | None = None


class ExperimentPair(msgspec.Struct, frozen=True, kw_only=True):
    """A clean and a disturbed attempt with the same seed; `calls_changed` is known where tools were disturbed.

    `delivered` is false where the damage never reached the agent: no call that it made was changed.
    """

    operator: str
    condition: str
    intensity: float
    file: str | None
    attempt: int
    score_clean: float | None
    score_perturbed: float | None
    calls_changed: int | None
    delivered: bool
    pair: PairRow


class Undelivered(msgspec.Struct, frozen=True, kw_only=True):
    """A pair whose damage never reached the agent, and why: it says nothing of the damage and is in no share."""

    condition: str
    task: str
    attempt: int
    trace: str
    why: str


class Aggregate(msgspec.Struct, frozen=True, kw_only=True):
    """Pairs taken together: of one operator, or of all.

    `pairs` counts all of them, `delivered` those whose damage reached the agent; shares, distances and the recovery
    rate are over the delivered ones. `recovery_rate`: of the pairs that took another way, the share that still arrived,
    by the outcomes where both sides have one, else by the answers. `accuracy_lost` is clean minus disturbed over all
    attempts as planned, `accuracy_lost_delivered` over the delivered ones. `manifestations_within_floor` is the part
    of each prevalence that lies within the noise floor, of the same pairs; empty where the floor was not measured.
    """

    name: str
    pairs: int
    delivered: int
    mean_d_norm: float | None
    max_d_norm: float | None
    within_noise_floor: Estimate | None
    manifestations: dict[str, Estimate]
    manifestations_within_floor: dict[str, Estimate]
    groups: dict[str, Estimate]
    counts: dict[str, int]
    recovery_rate: Estimate
    token_overhead: Overhead
    accuracy_clean: float | None
    accuracy_perturbed: float | None
    accuracy_lost: Estimate
    accuracy_lost_delivered: Estimate


class Dose(msgspec.Struct, frozen=True, kw_only=True):
    """One operator at one intensity: what it cost and how far behaviour moved, over all attempts at that intensity."""

    operator: str
    intensity: float
    accuracy_lost: Estimate
    accuracy_perturbed: float | None
    mean_d_norm: float | None
    pairs: int
    delivered: int


class OperatorTask(msgspec.Struct, frozen=True, kw_only=True):
    """One operator on one task, over delivered pairs: how many changed their answer or crashed, and the score lost.

    `changed` counts among `comparable` pairs, those with answers or a crash to go by; `score_lost` is null without
    scores on both sides.
    """

    operator: str
    task: str
    pairs: int
    delivered: int
    comparable: int
    changed: int
    score_lost: float | None


class ExperimentResults(Result, kw_only=True):
    """A paired experiment: every pair, results over pairs, and the noise floor that they are compared with.

    `planned_pairs` counts what was to be compared; `missing` counts episodes without a score by reason. An agent that
    is `deterministic` does the same with the same seed, so that its floor need not be measured. `noise_floor_runs` is
    the number of re-runs that were asked for, `floor_t_star` the first difference (t*/T) between clean attempts.
    """

    presentation: ClassVar[Presentation] = Presentation(
        headline="{run}: {delivered_pairs} of {planned_pairs} pairs, agent {agent}",
        facts=("deterministic", "noise_floor_runs", "missing"),
        columns=(
            "operator",
            "task",
            "intensity",
            "d_norm",
            "t_star",
            "manifestation",
            "answer_changed",
            "token_overhead",
        ),
        drawing=Drawing("name", "accuracy_lost", "accuracy lost", source="aggregates"),
    )

    run: str
    agent: str
    deterministic: bool
    planned_pairs: int
    delivered_pairs: int
    noise_floor: NoiseFloor
    noise_floor_runs: int
    floor_t_star: Spread
    treatments: list[Treatment]
    pairs: list[ExperimentPair]
    undelivered: list[Undelivered]
    aggregates: list[Aggregate]
    by_task: list[OperatorTask]
    dose_response: list[Dose]
    not_applicable: list[NotApplied]
    missing: dict[str, int]
    warnings: list[str]

    def rows(self) -> list[dict[str, Any]]:
        """One flat row per pair."""
        flat = []
        for row in self.pairs:
            built = msgspec.to_builtins(row)
            pair = built.pop("pair")
            edits = pair.pop("edits") or dict.fromkeys(EditCounts.__struct_fields__)
            flat.append({**built, **pair, **edits})
        return flat

    def to_csv(self) -> str:
        """The rows as CSV; unlike a data frame it needs nothing installed."""
        out = io.StringIO()
        names = [*ExperimentPair.__struct_fields__[:-1], *PairRow.__struct_fields__, *EditCounts.__struct_fields__]
        writer = csv.DictWriter(out, [n for n in names if n != "edits"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows())
        return out.getvalue()

    @property
    def overall(self) -> Aggregate:
        """All pairs together."""
        return self.aggregates[-1]

    def summary(self) -> str:
        """The experiment in a few lines, the most important first; warnings are at the top.

        Example: `print(experiment.run().summary())`
        """
        whole = self.overall
        lines = [f"{self.run}: {len(self.pairs)} of {self.planned_pairs} pairs, agent {self.agent}"]
        lines += [f"  WARNING: {warning}" for warning in self.warnings]
        lines.append(f"  accuracy lost to the damage: {_words(whole.accuracy_lost, '+.2f')}")
        lines.append(f"  delivered: {whole.delivered} of {whole.pairs} pairs; what follows is of these")
        for name, share in sorted(whole.manifestations.items(), key=lambda x: -(x[1].value or 0)):
            if whole.counts.get(name):
                pairs = f"{whole.counts[name]} pair{'s' * (whole.counts[name] != 1)}"
                lines.append(f"    {name}: {pairs}, {_words(share, '.2f')}")
        floor = self.noise_floor
        if whole.mean_d_norm is None or whole.max_d_norm is None:
            lines.append("  d_norm: unavailable")
        else:
            lines.append(f"  d_norm: mean {whole.mean_d_norm:.3f}, largest {whole.max_d_norm:.3f}")
        if floor.mean is not None and floor.max is not None:
            lines.append(
                f"  noise floor: mean {floor.mean:.3f}, largest {floor.max:.3f} ({floor.reruns} re-runs of each clean "
                "attempt)"
            )
        else:
            lines.append(f"  noise floor: not measured ({self.noise_floor_runs} re-runs asked for)")
        lines.append(f"  recovery rate: {_words(whole.recovery_rate, '.2f')}")
        tokens = whole.token_overhead
        lines.append(f"  token overhead: {tokens if isinstance(tokens, str) else f'{tokens:.2f}×'}")
        return "\n".join(lines)


def _words(estimate: Estimate, form: str) -> str:
    if estimate.value is None:
        return f"unknown ({estimate.why})" if estimate.why else "unknown"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:{form}}"
    return f"{estimate.value:{form}} [{estimate.low:{form}}, {estimate.high:{form}}]"
