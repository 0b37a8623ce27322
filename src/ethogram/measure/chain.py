"""The chain, read aloud: width, convergence, separation, skew, stages, and what to do; refusing where evidence is thin.

Every sentence rests on the default reading. A dimension that parts success and failure is named only if the test over
all dimensions says so; what goes with success is not yet its cause, so advice ends with what to compare next.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np

from ethogram.estimate import Estimate

from . import twin
from .field import Field
from .horizon import Rule
from .metrics import DimensionReading, FieldReport
from .stages import HorizonReading, walk

NEGLIGIBLE = 0.8
"""Standard deviations: if no difference above this is possible, the dimensions do not explain failure."""

Answer = Literal["yes", "no", "unknown"]
Advice = Literal["constrain", "expand", "mixed", "nothing to fix", "not enough evidence", "look elsewhere"]


class ChainStep(msgspec.Struct, frozen=True, kw_only=True):
    """One question of the chain, its answer, the sentence that says it, and the numbers behind it."""

    name: str
    question: str
    answer: Answer
    text: str
    estimates: dict[str, Estimate] = {}


class Flag(msgspec.Struct, frozen=True, kw_only=True):
    """A dimension that parts success and failure: what to do about it, and the evidence."""

    dimension: str
    action: Literal["constrain", "expand"]
    separation: Estimate
    skew: Estimate
    adjusted_p: float


class Chain(msgspec.Struct, frozen=True, kw_only=True):
    """The reading of one field; `text` is all of it as paragraphs."""

    K: int
    tasks: int
    successes: int
    failures: int
    missing: dict[str, int]
    steps: tuple[ChainStep, ...]
    flags: tuple[Flag, ...]
    advice: Advice
    advice_text: str
    rule: Rule
    alpha: float
    draws: int
    seed: int

    @property
    def text(self) -> str:
        """Paragraphs, one per step, the advice last."""
        return "\n\n".join([*(s.text for s in self.steps), self.advice_text])

    def step(self, name: str) -> ChainStep:
        """A step by its name: width, convergence, separation, skew, stages."""
        return next(s for s in self.steps if s.name == name)


def read_aloud(field: Field, *, rule: Rule = "visited", alpha: float = 0.05, draws: int = 999, seed: int = 0) -> Chain:
    """Read a field from width to advice."""
    report = field.metrics().report(level=1 - alpha, draws=draws, seed=seed)
    flags = _flags(report, alpha)
    readings = walk(field, rule, level=1 - alpha) if len(field.states) > 1 else ()
    steps = [
        _width(field, report),
        _convergence(report),
        _separation(report, flags, alpha),
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
        seed=seed,
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
    question = "Does behaviour vary?"
    spread = report.estimates["spread"]
    where = f"{_count(report.K, 'run')} of {_count(report.tasks, 'task')}"
    common = {"name": "width", "question": question}
    estimates = {"spread": spread, "width": report.estimates["width"]}
    if spread.value is None:
        text = f"{where}: {spread.why}. Whether behaviour varies cannot be said."
        return ChainStep(answer="unknown", text=text, estimates=estimates, **common)
    if spread.value == 0:
        text = f"{where}: on every dimension, all runs of a task did the same. There is no variation to explain."
        return ChainStep(answer="no", text=text, estimates=estimates, **common)
    alive = report.d - len(report.constant)
    typical = np.expm1(np.sqrt(spread.value / alive))
    loud = _loudest(field)
    still = f" {_listed(report.constant)} never vary within a task." if report.constant else ""
    text = (
        f"Behaviour varies: in {where}, a run typically differs from the mean of its task by {100 * typical:.0f} % "
        f"per dimension (width in logs {_told(spread)}). It varies most in {loud}.{still} "
        f"The plain width is {report.width:.3g}."
    )
    if spread.low is None and spread.why:
        text += f" {_sentence(f'the width has no interval: {spread.why}')}"
    return ChainStep(answer="yes", text=text, estimates=estimates, **common)


def _loudest(field: Field) -> str:
    sd = twin.scale_of(field).sd
    order = np.argsort(-sd)[:2]
    return " and ".join(f"{field.names[j]} (× {np.exp(sd[j]):.2g} or ÷)" for j in order if sd[j] > 0)


def _convergence(report: FieldReport) -> ChainStep:
    rate, convergence = report.estimates["pass_rate"], report.estimates["convergence"]
    common = {"name": "convergence", "question": "Are outcomes stable?"}
    estimates = {"pass_rate": rate, "convergence": convergence}
    absent = sum(report.missing.values())
    gone = f" Not counted for want of an outcome: {_count(absent, 'run')}." if absent else ""
    if rate.value is None:
        return ChainStep(answer="unknown", text=f"{_sentence(rate.why)}", estimates=estimates, **common)
    told = (
        f"{report.successes} of {report.successes + report.failures} runs succeeded "
        f"(rate {_told(rate)}; convergence {_told(convergence)})."
    )
    if report.failures == 0 or report.successes == 0:
        all_ = "succeeded" if report.failures == 0 else "failed"
        text = f"Every scored run {all_}: {told} What happens in the other case was not seen.{gone}"
        return ChainStep(answer="yes", text=text, estimates=estimates, **common)
    text = f"Outcomes are not stable: {told}{gone}"
    return ChainStep(answer="no", text=text, estimates=estimates, **common)


def _separation(report: FieldReport, flags: tuple[Flag, ...], alpha: float) -> ChainStep:
    common = {"name": "separation", "question": "What parts success from failure?"}
    tested = [d for d in report.dimensions if d.adjusted is not None]
    estimates = {d.name: d.estimates["separation"] for d in report.dimensions}
    if not tested:
        why = report.notes[0] if report.notes else "nothing could be tested"
        text = f"What parts success from failure cannot be said: {why}.{_hint(report)}"
        return ChainStep(answer="unknown", text=text, estimates=estimates, **common)
    if flags:
        named = "; ".join(f"{f.dimension} {_told(f.separation)} sd (p {_p(f.adjusted_p)})" for f in flags)
        text = (
            f"Within tasks, successes and failures part on {_count(len(flags), 'dimension')} of {report.d} "
            f"(successes minus failures; p over all dimensions): {named}."
        )
        return ChainStep(answer="yes", text=text, estimates=estimates, **common)
    best = min(tested, key=lambda d: d.adjusted or 0.0)
    reach = _still_possible(report)
    clear = reach is not None and reach <= NEGLIGIBLE
    thin = f" {_sentence(report.notes[0])}" if report.notes else ""
    if reach is not None and not clear:
        thin += f" Differences of up to {reach:.2g} sd remain possible."
    text = (
        f"No dimension parts success from failure at {alpha:g} among {len(tested)} tested; the nearest is "
        f"{best.name}, {_told(best.estimates['separation'])} sd (p {_p(best.adjusted or 1.0)}).{thin}"
    )
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
    """The strongest estimate, said to be only that."""
    found: list[tuple[float, DimensionReading]] = [
        (abs(d.estimates["separation"].value or 0.0), d)
        for d in report.dimensions
        if d.estimates["separation"].value is not None
    ]
    if not found:
        return ""
    best = max(found, key=lambda pair: pair[0])[1]
    return (
        f" The largest difference seen, no more than a hint: {best.name}, {best.estimates['separation'].value:+.2g} sd."
    )


def _skew(flags: tuple[Flag, ...]) -> ChainStep:
    common = {"name": "skew", "question": "Does more help or hurt?"}
    estimates = {f.dimension: f.skew for f in flags}
    if not flags:
        text = "No dimension is flagged, so there is no direction to read."
        return ChainStep(answer="unknown", text=text, estimates=estimates, **common)
    named = "; ".join(
        f"more {f.dimension} goes with {'success' if f.action == 'expand' else 'failure'} "
        f"(correlation within tasks {_told(f.skew)})"
        for f in flags
    )
    return ChainStep(answer="yes", text=f"{named[0].upper()}{named[1:]}.", estimates=estimates, **common)


def _stages(readings: tuple[HorizonReading, ...], rule: Rule) -> ChainStep:
    common = {"name": "stages", "question": "Where do failures leave the corridor?"}
    estimates = {r.state: r.estimates["drift"] for r in readings if "drift" in r.estimates}
    path = ", ".join(f"{r.state} {r.K} ({r.successes} succeed)" for r in readings)
    firm = [
        r for r in readings
        if (e := estimates.get(r.state)) is not None and e.low is not None and e.low > 0 and e.why is None
    ]  # fmt: skip
    start = f"Runs that {rule} each state: {path}."
    if firm:
        first = firm[0]
        drift = estimates[first.state]
        text = (
            f"{start} Failures spread further than successes from {first.state!r} on: drift {_told(drift)} (in units "
            f"of the field's spread; {drift.n} of {first.successes} successes are of tasks that also failed)."
        )
        return ChainStep(answer="yes", text=text, estimates=estimates, **common)
    claims = [e for e in estimates.values() if e.low is not None and e.why is None]
    if claims:
        text = f"{start} At no state does drift lie clear of 0."
        return ChainStep(answer="no", text=text, estimates=estimates, **common)
    why = next((e.why for e in estimates.values() if e.why), "no state has enough successes")
    return ChainStep(answer="unknown", text=f"{start} Drift is not interpreted: {why}.", estimates=estimates, **common)


def _advice(report: FieldReport, flags: tuple[Flag, ...], steps: list[ChainStep]) -> tuple[Advice, str]:
    answers = {s.name: s.answer for s in steps}
    if report.failures == 0 and report.successes > 0:
        low = report.estimates["pass_rate"].low or 0.0
        return "nothing to fix", (
            f"Nothing to fix on this evidence: no run failed. The pass rate may still be as low as {low:.2g}; "
            "more runs would say."
        )
    if not flags:
        if answers["separation"] == "no":
            return "look elsewhere", (
                "These dimensions do not explain failure: measure something else (what was read, in which order, "
                "what was checked), or compare two settings directly."
            )
        needed = report.notes[0] if report.notes else _more_runs(report)
        return "not enough evidence", f"No advice yet: {needed}."
    less = [f.dimension for f in flags if f.action == "constrain"]
    more = [f.dimension for f in flags if f.action == "expand"]
    parts = []
    if less:
        parts.append(
            f"constrain {_listed(less)}: failing runs do more, so tighten the prompt, the tools or the stopping rule"
        )
    if more:
        parts.append(f"expand {_listed(more)}: failing runs do less, so ask for it, or give room for it")
    joined = "; ".join(parts)
    text = f"What to try: {joined}. This is association: change it, run again, and compare the two fields."
    return ("mixed" if less and more else "constrain" if less else "expand"), text


def _more_runs(report: FieldReport) -> str:
    """How many runs would leave only negligible differences possible, if none showed."""
    reach, used = _still_possible(report), max((d.estimates["separation"].n for d in report.dimensions), default=0)
    if reach is None:
        return "more runs per task are needed"
    needed = int(np.ceil(used * (reach / NEGLIGIBLE) ** 2))
    return (
        f"{used} runs of tasks that both succeed and fail leave differences of up to {reach:.2g} sd possible; "
        f"about {needed} would tell those above {NEGLIGIBLE:g} sd"
    )


def _told(estimate: Estimate) -> str:
    if estimate.value is None:
        return "unknown"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.3g} (no interval)"
    return f"{estimate.value:.3g} [{estimate.low:.3g}, {estimate.high:.3g}]"


def _p(value: float) -> str:
    return f"= {value:.2g}" if value >= 0.001 else "< 0.001"


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]


def _sentence(text: str | None) -> str:
    words = text or "unknown"
    return f"{words[0].upper()}{words[1:]}."
