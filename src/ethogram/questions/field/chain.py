"""A summary of a field in sentences: width, convergence, separation, skew, stages, and advice.

A sentence has names and directions; the numbers are in `estimates`. All of them are the default metrics of a field. A
dimension is named only if the test over all dimensions is significant. What goes with success need not be its cause,
so advice ends with what to compare next. Where there is too little evidence, the sentence says so.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np

from ethogram.estimate import Estimate, json_number

from . import standardised
from .field import Field
from .horizon import MembershipRule
from .metrics import FieldReport

NEGLIGIBLE = 0.8
"""Standard deviations: if no difference above this is possible, the dimensions do not explain failure."""

ChainAnswer = Literal["yes", "no", "unknown"]
Advice = Literal["constrain", "expand", "mixed", "nothing to fix", "not enough evidence", "look elsewhere"]


class ChainStep(msgspec.Struct, frozen=True, kw_only=True):
    """One question of the summary: its answer, the same as a sentence, and the numbers behind it."""

    name: str
    question: str
    answer: ChainAnswer
    text: str
    estimates: dict[str, Estimate] = {}


class Flag(msgspec.Struct, frozen=True, kw_only=True):
    """A dimension on which successes and failures differ: what to do about it, and the evidence."""

    dimension: str
    action: Literal["constrain", "expand"]
    separation: Estimate
    skew: Estimate
    adjusted_p: float


class Chain(msgspec.Struct, frozen=True, kw_only=True):
    """The summary of one field; `text` is all of it as paragraphs."""

    K: int
    tasks: int
    successes: int
    failures: int
    missing: dict[str, int]
    steps: tuple[ChainStep, ...]
    flags: tuple[Flag, ...]
    advice: Advice
    advice_text: str
    rule: MembershipRule
    alpha: float
    draws: int
    seed: int

    @property
    def text(self) -> str:
        """Paragraphs, one per step, the advice last."""
        return "\n\n".join([*(s.text for s in self.steps), self.advice_text])


def summarise(field: Field, report: FieldReport, *, rule: MembershipRule = "visited", alpha: float = 0.05) -> Chain:
    """Summarise a field in sentences, from width to advice; dimensions are tested at the level `alpha`.

    `report` is that of the field, at the level 1 - `alpha`: its permutation test takes most of the time, so it is
    made once.

    Example: `summarise(field, field.metrics().report())`
    """
    flags = _flags(report, alpha)
    readings = walk(field, rule, level=1 - alpha) if len(field.states) > 1 else ()
    steps = [
        _width(field, report),
        _convergence(report),
        _separation(report, flags),
        _skew(flags),
        *([_stages(readings, rule)] if readings else []),
    ]
    advice, text = _advice(report, flags, steps)
    return Chain(
        K=report.K,
        tasks=report.tasks,
        successes=report.successes,
        failures=report.failures,
        missing=report.missing,
        steps=tuple(steps),
        flags=flags,
        advice=advice,
        advice_text=text,
        rule=rule,
        alpha=alpha,
        draws=report.draws,
        seed=report.seed,
    )


def _flags(report: FieldReport, alpha: float) -> tuple[Flag, ...]:
    found = [
        Flag(
            dimension=d.name,
            action="expand" if (d.estimates["separation"].value or 0.0) > 0 else "constrain",
            separation=d.estimates["separation"],
            skew=d.estimates["skew"],
            adjusted_p=d.adjusted,
        )
        for d in report.dimensions
        if d.adjusted is not None and d.adjusted <= alpha
    ]
    return tuple(sorted(found, key=lambda f: -abs(f.separation.value or 0.0)))


def _width(field: Field, report: FieldReport) -> ChainStep:
    common = {"name": "width", "question": "Does behaviour vary?"}
    spread = report.estimates["spread"]
    estimates = {"spread": spread, "width": report.estimates["width"]}
    if spread.value is None:
        text = f"Whether behaviour varies is unknown: {spread.why}."
        return ChainStep(answer="unknown", text=text, estimates=estimates, **common)
    if spread.value == 0:
        text = "Behaviour does not vary: on every dimension, all attempts at a task are equal."
        return ChainStep(answer="no", text=text, estimates=estimates, **common)
    still = f"; constant within tasks: {_listed(report.constant)}" if report.constant else ""
    text = f"Behaviour varies between attempts at the same task, most in {_listed(_most_varied(field))}{still}."
    return ChainStep(answer="yes", text=text, estimates=estimates, **common)


def _most_varied(field: Field) -> list[str]:
    """The two dimensions with the largest standard deviation within tasks, on the log scale."""
    sd = standardised.scale_of(field).sd
    return [field.names[j] for j in np.argsort(-sd)[:2] if sd[j] > 0]


def _convergence(report: FieldReport) -> ChainStep:
    rate, convergence = report.estimates["pass_rate"], report.estimates["convergence"]
    common = {"name": "convergence", "question": "Are outcomes stable?"}
    estimates = {"pass_rate": rate, "convergence": convergence}
    absent = sum(report.missing.values())
    gone = f"; {_count(absent, 'attempt')} without an outcome not counted" if absent else ""
    if rate.value is None:
        return ChainStep(answer="unknown", text=_sentence(rate.why), estimates=estimates, **common)
    if report.failures == 0 or report.successes == 0:
        ended = "succeeded" if report.failures == 0 else "failed"
        text = f"Outcomes do not vary: every scored attempt {ended}{gone}."
        return ChainStep(answer="yes", text=text, estimates=estimates, **common)
    scored = report.successes + report.failures
    text = f"Outcomes are not stable: {report.successes} of {_count(scored, 'scored attempt')} succeeded{gone}."
    return ChainStep(answer="no", text=text, estimates=estimates, **common)


def _separation(report: FieldReport, flags: tuple[Flag, ...]) -> ChainStep:
    common = {"name": "separation", "question": "On what do successes and failures differ?"}
    tested = [d for d in report.dimensions if d.adjusted is not None]
    estimates = {d.name: d.estimates["separation"] for d in report.dimensions}
    if not tested:
        why = report.notes[0] if report.notes else "nothing could be tested"
        text = f"What differs between successes and failures is unknown: {why}{_hint(report)}."
        return ChainStep(answer="unknown", text=text, estimates=estimates, **common)
    if flags:
        text = (
            f"Within tasks, successes and failures differ on {len(flags)} of {_count(report.d, 'dimension')}, "
            f"the largest difference first: {_listed([f.dimension for f in flags])}."
        )
        return ChainStep(answer="yes", text=text, estimates=estimates, **common)
    best = min(tested, key=lambda d: (d.adjusted or 0.0, -abs(d.estimates["separation"].value or 0.0)))
    reach = _still_possible(report)
    clear = reach is not None and reach <= NEGLIGIBLE
    text = (
        f"No dimension of {len(tested)} tested differs significantly between successes and failures; "
        f"{best.name} has the smallest p"
    )
    text += f", and differences above {NEGLIGIBLE:g} sd are ruled out." if clear else "."
    return ChainStep(answer="no" if clear else "unknown", text=text, estimates=estimates, **common)


def _still_possible(report: FieldReport) -> float | None:
    """The largest difference that an interval does not exclude."""
    ends = [
        max(abs(e.low), abs(e.high))
        for d in report.dimensions
        if (e := d.estimates["separation"]).low is not None and e.high is not None
    ]
    return max(ends, default=None)


def _hint(report: FieldReport) -> str:
    """The dimension with the largest difference, marked as untested."""
    seen = [d for d in report.dimensions if d.estimates["separation"].value is not None]
    if not seen:
        return ""
    best = max(seen, key=lambda d: abs(d.estimates["separation"].value or 0.0))
    return f"; the largest difference, untested, is in {best.name}"


def _skew(flags: tuple[Flag, ...]) -> ChainStep:
    common = {"name": "skew", "question": "Does more help or hurt?"}
    estimates = {f.dimension: f.skew for f in flags}
    if not flags:
        text = "There is no direction to report: no dimension differs significantly."
        return ChainStep(answer="unknown", text=text, estimates=estimates, **common)
    less, more = _by_action(flags)
    parts = [f"higher in failures: {_listed(less)}"] if less else []
    parts += [f"higher in successes: {_listed(more)}"] if more else []
    return ChainStep(answer="yes", text=_sentence("; ".join(parts)), estimates=estimates, **common)


def _by_action(flags: tuple[Flag, ...]) -> tuple[list[str], list[str]]:
    """The names of dimensions to constrain, and of those to expand."""
    less = [f.dimension for f in flags if f.action == "constrain"]
    return less, [f.dimension for f in flags if f.action == "expand"]


def _stages(readings: tuple[HorizonReading, ...], rule: MembershipRule) -> ChainStep:
    common = {"name": "stages", "question": "Where do failures leave the corridor?"}
    estimates = {r.state: r.estimates["drift"] for r in readings if "drift" in r.estimates}
    firm = [
        r for r in readings
        if (e := estimates.get(r.state)) is not None and e.low is not None and e.low > 0 and e.why is None
    ]  # fmt: skip
    if firm:
        text = f"Failures spread further than successes from the state {firm[0].state!r} on ({rule})."
        return ChainStep(answer="yes", text=text, estimates=estimates, **common)
    if any(e.low is not None and e.why is None for e in estimates.values()):
        text = f"At no state ({rule}) is drift significantly above 0: failures do not spread further than successes."
        return ChainStep(answer="no", text=text, estimates=estimates, **common)
    text = f"Where failures leave the corridor is unknown: drift has no interval at any state ({rule})."
    return ChainStep(answer="unknown", text=text, estimates=estimates, **common)


def _advice(report: FieldReport, flags: tuple[Flag, ...], steps: list[ChainStep]) -> tuple[Advice, str]:
    answers = {s.name: s.answer for s in steps}
    if report.failures == 0 and report.successes > 0:
        low = report.estimates["pass_rate"].low or 0.0
        return "nothing to fix", (
            f"Nothing to fix on this evidence: no attempt failed. The pass rate may still be as low as {low:.2g}; "
            "more attempts narrow this."
        )
    if not flags:
        if answers["separation"] == "no":
            return "look elsewhere", (
                "These dimensions do not explain failure: measure something else (what was read, in which order, "
                "what was checked), or compare two settings directly."
            )
        needed = report.notes[0] if report.notes else _more_attempts(report)
        return "not enough evidence", f"No advice yet. {needed[0].upper()}{needed[1:]}."
    less, more = _by_action(flags)
    parts = [f"constrain {_listed(less)} (failing attempts do more)"] if less else []
    parts += [f"expand {_listed(more)} (failing attempts do less)"] if more else []
    text = (
        f"What to try: {'; '.join(parts)}. "
        "This is an association, not a cause: change it, run again, and compare the two fields."
    )
    return ("mixed" if less and more else "constrain" if less else "expand"), text


def _more_attempts(report: FieldReport) -> str:
    """How many attempts would detect differences that are not negligible."""
    reach, used = _still_possible(report), max((d.estimates["separation"].n for d in report.dimensions), default=0)
    if reach is None:
        return "more attempts per task are needed"
    needed = int(np.ceil(used * (reach / NEGLIGIBLE) ** 2))
    return (
        f"{_count(used, 'attempt')} at tasks that both succeed and fail leave differences of up to {reach:.2g} sd "
        f"possible; about {needed} attempts would detect differences above {NEGLIGIBLE:g} sd"
    )


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]


def _sentence(text: str | None) -> str:
    words = text or "unknown"
    return f"{words[0].upper()}{words[1:]}."


class HorizonReading(msgspec.Struct, frozen=True, kw_only=True):
    """One horizon. Plain keys are the essay's definitions (drift is None below two successes), `estimates` the default.

    `rule` says who belongs to it.
    """

    state: str
    rule: MembershipRule
    K: int
    successes: int
    width: float | None
    convergence: float | str | None
    drift: float | None
    estimates: dict[str, Estimate]


def walk(field: Field, rule: MembershipRule = "visited", *, level: float = 0.95) -> tuple[HorizonReading, ...]:
    """Every state in order, with width, convergence and drift of its horizon; the terminal one only if visited."""
    states = [s for s in field.states if rule == "visited" or s != field.terminal]
    return tuple(read_horizon(field.horizon(state, rule), state, rule, level) for state in states)


def read_horizon(part: Field, state: str, rule: MembershipRule, level: float) -> HorizonReading:
    """One horizon in both readings."""
    if part.K == 0:
        return HorizonReading(
            state=state, rule=rule, K=0, successes=0, width=None, convergence=None, drift=None, estimates={}
        )
    m, good = part.metrics(), part.success_region()
    width = m.width()
    return HorizonReading(
        state=state,
        rule=rule,
        K=part.K,
        successes=good.K,
        width=width,
        convergence=json_number(m.convergence()),
        drift=width - good.metrics().width() if good.K >= 2 else None,
        estimates={name: m.estimate(name, level=level) for name in ("width", "convergence", "pass_rate", "drift")},
    )
