"""Results of `ethogram why`."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from ethogram.display import Drawing, Presentation
from ethogram.estimate import Estimate
from ethogram.findings.classes_by_hand import Override
from ethogram.findings.findings import Category, FailureClass
from ethogram.measures.layer_changes import LayerComparison
from ethogram.result import Result
from ethogram.traces import Layer

from .decisions import DecisionPoint

__all__ = [
    "Against",
    "Cause",
    "CauseChange",
    "CauseTrend",
    "ClassRow",
    "DecisionPoint",
    "Example",
    "Said",
    "SettledCause",
    "SettlingExperiment",
    "TemplateRow",
    "WhyResult",
    "WhyTrace",
]

CauseSource = Literal["reference", "class", "template", "decision", "event"]
"""Where the evidence comes from, the most telling first; `decision` is a choice at a decision point."""
CauseTrend = Literal["new", "grew", "unsure", "shrank", "gone"]
"""`unsure`: neither more nor less frequent by the test, which does not say that nothing changed."""


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """One place to read: a trace, a step of it (None: the whole trace), and its text."""

    trace: str
    step: int | None
    text: str


class SettlingExperiment(msgspec.Struct, frozen=True, kw_only=True):
    """What would settle whether a cause is one: a command, at most how many runs it takes, and their price.

    A `fork` goes on from the step with what a successful attempt chose there; a `gate` compares a changed agent. Where
    there is no command, or no price, `why` says so.
    """

    kind: Literal["fork", "gate"] | None
    command: str | None
    runs: int | None
    usd: float | None
    why: str | None = None


SettledStatus = Literal["confirmed", "struck_out", "not_settled"]


class SettledCause(msgspec.Struct, frozen=True, kw_only=True):
    """What an experiment found of a cause: attempts that show it, each gone on from its step with what successful
    attempts chose there (`to`), against what it chose itself (`from`).

    `effect` is the difference; its interval holds for all causes that were tried at once, wherever it stopped, and
    counts each attempt once. `confirmed`: it excludes 0; `struck_out`: it lies below the smallest effect that
    matters; else `not_settled`, and `needed` are the attempts that would settle it if they went as these did, with
    `needed_usd` as the price of their runs.
    """

    status: SettledStatus
    what: str
    effect: Estimate
    from_: Estimate = msgspec.field(name="from")
    to: Estimate
    attempts: int
    runs: int
    usd: float | None
    run: str | None
    command: str
    why: str
    needed: int | None = None
    needed_usd: float | None = None


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """Something that failed runs show, in the order of the failed runs that it accounts for.

    A cause is more frequent in failures than in successes of the same tasks by one test over everything that was
    looked at; a lead is not, or could not be tested. `adjusted` is the p-value of that test over all events. `also` are
    other events that add nothing to this one: they happen in the same runs, or because of it. `rests_on` are failed
    runs that show it (the first 100), `experiment` is what would settle it, `settled` what one found. `tasks` counts
    the failed runs with it by task, most first; of a run without scores, all runs with it.
    """

    cause: str
    what: str
    class_: FailureClass | None = msgspec.field(name="class")
    source: CauseSource
    failed_with: int
    succeeded_with: int
    share: Estimate
    lift: float | None
    examples: list[Example]
    owner: str | None
    try_: str = msgspec.field(name="try")
    runs_with: int = 0
    excess: float = 0.0
    p: float | None = None
    adjusted: float | None = None
    step: float | None = None
    also: list[str] = []
    rests_on: list[str] = []
    experiment: SettlingExperiment | None = None
    settled: SettledCause | None = None
    tasks: dict[str, int] = {}


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the verifier on failed attempts: it describes a failure and does not explain it."""

    said: str
    failed_with: int
    examples: list[Example]


class ClassRow(msgspec.Struct, frozen=True, kw_only=True):
    """One bar of the Pareto chart: a class of failure, the failed runs that show it, and who owns it.

    `covered` is the share of failed attempts that show this class or one above it.
    """

    class_: FailureClass = msgspec.field(name="class")
    failed_with: int
    succeeded_with: int
    share: Estimate
    covered: float | None
    owner: str | None
    try_: str = msgspec.field(name="try")


class WhyTrace(msgspec.Struct, frozen=True, kw_only=True):
    """One run that failed, or, in a log without scores, one that shows a class of failure.

    `by_hand` is set where a person, or a judge, said another class than the rules: who, and why.
    """

    trace: str
    task: str
    attempt: int
    classes: list[FailureClass]
    category: Category | None
    step: int | None
    failed: bool | None
    explained: bool
    by_hand: Override | None = None


class TemplateRow(msgspec.Struct, frozen=True, kw_only=True):
    """One error text with ids, numbers and paths masked: its episodes, its count, its first and last time.

    Where a log has no times, `first_seen` and `last_seen` are None.
    """

    template: str
    words: str
    episodes: int
    failed_with: int | None
    succeeded_with: int | None
    times: int
    of: list[str]
    first_seen: str | None
    last_seen: str | None
    examples: list[Example]


class CauseChange(msgspec.Struct, frozen=True, kw_only=True):
    """One event in this run against another run of the same tasks: runs that show it, of those that both attempted."""

    cause: str
    what: str
    change: CauseTrend
    with_now: int
    with_before: int
    difference: Estimate
    adjusted: float | None
    is_cause: bool


class Against(msgspec.Struct, frozen=True, kw_only=True):
    """What became more or less frequent since another run, within the tasks that both attempted, and which layer
    moved."""

    run: str
    tasks: int
    runs_now: int
    runs_before: int
    changes: list[CauseChange]
    layers: LayerComparison | None = None


class WhyResult(Result, kw_only=True):
    """Why a run fails: causes with evidence, leads, what is unexplained.

    `failed` and what is counted of it is None in a run without scores. `contrast` says on what the causes rest.
    `layers` are success rates by layer, and `look` says where they point.
    """

    presentation: ClassVar[Presentation] = Presentation(
        facts=("run", "task", "failed", "explained", "unexplained", "missing"),
        estimates=(),
        columns=("what", "share", "failed_with", "succeeded_with", "adjusted", "owner", "try"),
        hidden=("causes", "leads"),
        drawing=Drawing("what", "share", "share of failed attempts"),
    )

    run: str
    task: str | None
    headline: str
    runs: int
    scored: int
    failed: int | None
    explained: int | None
    unexplained: int | None
    causes: list[Cause]
    leads: list[Cause]
    said: list[Said]
    classes: list[ClassRow]
    reference: dict[Category, int]
    traces: list[WhyTrace]
    templates: list[TemplateRow]
    decision_points: list[DecisionPoint]
    layers: dict[Layer, Estimate] = {}
    look: str = ""
    contrast: str = ""
    tested: int = 0
    mixed_tasks: int = 0
    missing: dict[str, int] = {}
    score_with: list[str] = []
    against: Against | None = None
    notes: list[str] = []

    def rows(self) -> list[dict[str, Any]]:
        """One row per cause, then one per lead; `is_cause` distinguishes them."""
        built = []
        for kind, causes in ((True, self.causes), (False, self.leads)):
            for cause in causes:
                row = msgspec.to_builtins(cause)
                share = cause.share
                row |= {"is_cause": kind, "share": share.value, "share_low": share.low, "share_high": share.high}
                row["examples"] = [f"{e.trace}:{e.step}" for e in cause.examples]
                built.append(row)
        return built
