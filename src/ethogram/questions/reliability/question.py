"""pass@k and pass^k of a stored run, with the notes that belong to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from ethogram.arguments import at_least, check_level, choice_of
from ethogram.display import Drawing, Presentation
from ethogram.errors import BadUsage
from ethogram.measures import reliability as measured
from ethogram.measures.reliability import Convention, Reliability
from ethogram.reading.outcomes import facts_of, load_outcomes
from ethogram.reading.samples import sampled_run
from ethogram.reading.task_names import without_task
from ethogram.statistics.passk import Target
from ethogram.store import Home, Run
from ethogram.store.ledger import gc_paused


class ReliabilityResult(Reliability, kw_only=True):
    """Reliability of one run; `facts` are model, temperature and scaffold, or `unknown`.

    `same_tasks` is false where some k is over fewer tasks than another: then pass^k may rise along k.
    """

    presentation: ClassVar[Presentation] = Presentation(
        headline="{run}: {c} of {n} scored attempts succeeded",
        facts=("condition", "target", "facts", "level"),
        estimates=("score",),
        columns=("kind", "k", "value", "n"),
        hidden=("pass_at", "pass_hat"),
        drawing=Drawing(kind="curve"),
    )

    run: str
    condition: str | None
    facts: dict[str, str]
    n: int
    c: int
    level: float
    notes: list[str] = []

    def rows(self) -> list[dict[str, Any]]:
        """One row per k and kind."""
        return [
            {"kind": kind, "k": int(k), **estimate.to_dict()}
            for kind, curve in (("pass@k", self.pass_at), ("pass^k", self.pass_hat))
            for k, estimate in curve.items()
        ]


def stats(
    run: str | Run = "latest",
    ks: Sequence[int] = (),
    *,
    home: Home | str | None = None,
    condition: str | None = None,
    agent: str | None = None,
    level: float = 0.95,
    missing: Convention = "bounds",
    target: Target | None = None,
    naive: bool = False,
) -> ReliabilityResult:
    """pass@k, pass^k, bounds and tasks of a run.

    `ks` are the k to estimate (by default up to the attempts of the tasks). `missing` is `bounds` (a missing attempt is
    unknown) or `failure` (it counts as one). `target` is `population` or `suite`: what the intervals are about, by
    default the population from 20 tasks on. `naive` adds the biased plug-in estimates.

    Gives estimates with intervals; one that cannot be given has no value and says why. Raises `NotFound` for a run that
    does not exist, `BadUsage` for a bad value, and where `condition` or
    `agent` must choose.

    Example: `stats("night", [1, 4]).pass_hat["4"].low`
    """
    check_level(level)
    choice_of("missing", missing, measured.CONVENTIONS)
    if target is not None:
        choice_of("target", target, measured.TARGETS)
    for k in ks:
        at_least("ks", k, 1)
    found = sampled_run(run, home)
    with gc_paused():
        outcomes = load_outcomes(found, condition=condition, agent=agent, metrics=["steps", "errors"])
        told = measured.estimate_reliability(outcomes, ks, level=level, convention=missing, target=target, naive=naive)
        facts = facts_of(found)
    return ReliabilityResult(
        **msgspec.structs.asdict(told),
        run=found.name,
        condition=condition,
        facts=facts,
        n=int(outcomes.attempts.sum()),
        c=int(outcomes.successes.sum()),
        level=level,
        notes=[note] if (note := without_task(outcomes.tasks)) else [],
    )


def read_k(text: str) -> list[int]:
    """`1,2,4` or `1-8` as a list of k."""
    found: list[int] = []
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        try:
            found += range(int(low), int(high) + 1) if dash else [int(low)]
        except ValueError:
            raise BadUsage(f"--k {text!r} cannot be read; write for example --k 1,2,4 or --k 1-8") from None
    if not found or min(found) < 1:
        raise BadUsage(f"--k {text!r}: k counts attempts, from 1 on")
    return found
