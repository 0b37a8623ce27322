"""Results about judged runs."""

from __future__ import annotations

from typing import Any

import msgspec

from ethogram.capture.intake import Skipped
from ethogram.estimate import Estimate
from ethogram.findings.rubric import Coverage
from ethogram.prices.call_use import CallUse
from ethogram.result import Result

from .bias import BiasReport


class CitedNo(msgspec.Struct, frozen=True, kw_only=True):
    """A "no" and the step that it cites; `place` can be pasted after `ethogram trace`."""

    trace: str
    task: str
    step: int
    place: str
    why: str


class JudgedItem(msgspec.Struct, frozen=True, kw_only=True):
    """One item: the share of runs that are yes, and the steps that are not.

    `yes` is of the runs with a verdict; its `missing` counts those to which the item does not apply and those that
    could not be judged.
    """

    item: str
    question: str
    yes: Estimate
    runs_no: int
    steps: int
    steps_no: int
    steps_unknown: int
    examples: list[CitedNo]


class ScoreCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many runs have a score."""

    score: float
    runs: int


class JudgeResult(Result, kw_only=True):
    """The verdicts of a judge on a run.

    `judged` traces were judged now, `kept` before with the same version, and `left` are not judged: `stopped` says why
    where a cap ended it, `skipped` lists traces that could not be. `score` is the mean over runs of the share of items
    that are yes, `scores` its distribution. `biases` were measured in this call; `removed` counts what guards hid.
    """

    run: str
    judge: str
    version: str
    rubric: str
    rubric_digest: str
    guards: list[str]
    judged: int
    kept: int
    left: int
    items: list[JudgedItem]
    score: Estimate
    scores: list[ScoreCount]
    use: CallUse = CallUse()
    removed: dict[str, int] = {}
    coverage: Coverage | None = None
    disagreement: Estimate | None = None
    biases: list[BiasReport] = []
    stopped: str | None = None
    skipped: list[Skipped] = []
    notes: list[str] = []
    recorded: str | None = None

    def rows(self) -> list[dict[str, Any]]:
        """One row per item."""
        return [
            {"item": i.item, **{k: v for k, v in i.yes.to_dict().items() if k != "missing"}, "steps_no": i.steps_no}
            for i in self.items
        ]


class PairwiseResult(Result, kw_only=True):
    """Which of two runs a judge prefers, pair by pair in both orders.

    A pair counts for a run only where the judge prefers it in both orders; `order_dependent` pairs changed with the
    order and count one half, as ties do. `preferred` is the share for `run`.
    """

    run: str
    against: str
    judge: str
    version: str
    rubric: str
    rubric_digest: str
    guards: list[str]
    pairs: int
    wins: int
    losses: int
    ties: int
    order_dependent: int
    unknown: int
    preferred: Estimate
    order: BiasReport
    use: CallUse = CallUse()
    stopped: str | None = None
    skipped: list[Skipped] = []
    notes: list[str] = []

    def rows(self) -> list[dict[str, Any]]:
        """One row."""
        return [{"run": self.run, "against": self.against, **self.preferred.to_dict()}]
