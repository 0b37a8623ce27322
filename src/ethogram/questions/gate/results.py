"""The answer of a gate: verdict, evidence, and what it takes to decide."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from ethogram.display import Drawing, Presentation
from ethogram.estimate import Estimate
from ethogram.measures.comparison import TaskChange
from ethogram.measures.layer_changes import LayerComparison
from ethogram.measures.metrics import metric
from ethogram.questions.compare.moved_tasks import MovedTask
from ethogram.reading.suite_versions import SuiteVersions
from ethogram.result import Result

from .behaviour import Behaviour
from .confirmation import Confirmation
from .judged_outcomes import OutcomeJudge
from .monitor import Watch
from .noise import OutcomeFloor
from .plan import GateSettings
from .quarantine import Quarantined
from .verdict import Look, Verdict


class Needed(msgspec.Struct, frozen=True, kw_only=True):
    """What it takes to decide: how many more runs at most, how many until the next look, and their price."""

    runs: int | None
    next_look_runs: int | None
    cost_usd: float | None
    baseline_runs: int | None = None
    why: str | None = None


class GateEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """What the verdict rests on."""

    why: str
    looks: list[Look]
    planned_looks: int
    decided_at: int | None
    power: float
    noise_floor: OutcomeFloor
    bounds: tuple[float, float] | None
    missing_base: dict[str, int]
    missing_candidate: dict[str, int]
    moved: list[TaskChange]
    watched: list[Watch] | None = None
    e_value: float | None = None
    anytime_p: float | None = None


class GateResult(Result, kw_only=True):
    """The verdict with its evidence; `difference` is candidate minus base, `agent` whose episodes were chosen.

    `layers` is information beside the verdict: one look at all recorded attempts, for the metric `success`. `judge` is
    there where a judge gave the outcomes: a verdict that leans on one without proof is held back. `suite` tells which
    versions of the suite were run, where they are known.
    """

    presentation: ClassVar[Presentation] = Presentation(
        headline="{verdict}: {candidate_run} against {base_run}",
        facts=("margin", "base_agent", "agent"),
        columns=("look", "runs", "scored", "coverage", "change", "worst_case", "decision"),
        drawing=Drawing(kind="looks"),
    )

    base_run: str
    candidate_run: str
    verdict: Verdict
    settings: GateSettings
    margin: float
    difference: Estimate
    evidence: GateEvidence
    needed: Needed
    quarantined: list[Quarantined]
    tasks: list[MovedTask] = []
    confirmations: list[Confirmation] = []
    behaviour: Behaviour | None = None
    warnings: list[str] = []
    base_agent: str | None = None
    agent: str | None = None
    layers: LayerComparison | None = None
    judge: OutcomeJudge | None = None
    suite: SuiteVersions | None = None

    @property
    def worse_word(self) -> str:
        """What a change for the worse is called: a drop of success, a rise of cost."""
        return "drop" if metric(self.settings.metric).better == "more" else "rise"

    def rows(self) -> list[dict[str, Any]]:
        """One row per look."""
        return [msgspec.to_builtins(look) for look in self.evidence.looks]
