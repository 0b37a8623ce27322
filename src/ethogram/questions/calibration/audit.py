"""The standing audit: a fixed share of judged attempts is labelled by hand, to detect drift of the judge."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
import numpy as np

from ethogram.arguments import between
from ethogram.display import Drawing, Presentation
from ethogram.errors import BadUsage
from ethogram.estimate import Estimate
from ethogram.result import Result
from ethogram.store import Home, Run, home_of, run_of

from . import judge_accuracy
from .judge_accuracy import Paired, calibration_of
from .question import JudgeReading
from .samples import number_of
from .verdicts import Item, Unit, Wanted, people_say, read_items

AUDIT_SHARE = 0.1
"""The share of judged runs that is labelled for ever, unless said otherwise."""
ALARM_LEVEL = 0.05
"""How often an unchanged judge may be called drifted, however often one looks."""
PERIOD = 20
"""How many audited labels make one row of the table over time."""


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of audited labels in order of time, of one version of the judge."""

    version: str
    from_ns: int
    to_ns: int
    labels: int
    agreement: Estimate
    j: Estimate


class ItemAudit(msgspec.Struct, frozen=True, kw_only=True):
    """One judge on one item since it was calibrated; `alarm_at` counts labels until the alarm.

    `due` traces belong to the audit and have no label yet. `limit` is the agreement that the judge must not fall below:
    the lower end of what the calibration measured.
    """

    item: str
    judge: str
    baseline: Estimate
    limit: float | None
    audited: int
    due: list[str]
    now: Estimate
    periods: list[Period]
    e_value: float | None
    alarm: bool
    alarm_at: int | None
    why: str


class AuditResult(Result, kw_only=True):
    """Whether judges have drifted; the alarm is sequential, its false alarms at most `level` in all."""

    presentation: ClassVar[Presentation] = Presentation(
        columns=("item", "judge", "baseline", "now", "audited", "alarm", "why"),
        drawing=Drawing("item", "now", "agreement now"),
    )

    run: str
    against: str
    share: float
    level: float
    items: list[ItemAudit]
    alarm: bool
    decided: bool

    def rows(self) -> list[dict[str, Any]]:
        """One row per item."""
        return [msgspec.to_builtins(i) for i in self.items]


def audit_run(
    run: str | Run = "latest",
    *,
    against: str | Run | None = None,
    items: tuple[str, ...] = (),
    judge: str | None = None,
    score: str | None = None,
    share: float = AUDIT_SHARE,
    alpha: float = ALARM_LEVEL,
    home: Home | str | None = None,
) -> AuditResult:
    """Watch the audited labels of a run, in order of time, against the agreement that a calibration measured.

    `against` is the run that was calibrated, by default the same one. The audit holds every judged trace whose fixed
    number is below `share`. Labels that a sample drew belong to the calibration; the others of the audit are watched.
    Raises `BadUsage` for a share that cannot be, `NotFound` where no judge has said anything.

    Example: `audit_run("tuesday", against="monday").alarm`
    """
    between("alpha", alpha, 0.0, 1.0)
    if not 0 < share <= 1:
        raise BadUsage(f"an audit of {share:g} of the traces cannot be; give a share above 0, such as 0.1")
    lake = home_of(home)
    found = run_of(run, lake)
    other = found if against is None else run_of(against, lake)
    wanted = Wanted(items=items, judge=judge, score=score, versions=True)
    before = {(i.name, i.judge): i for i in read_items(other, wanted)}
    made = []
    for item in read_items(found, wanted):
        base = before.get((item.name, item.judge)) or next((b for b in before.values() if b.name == item.name), None)
        made.append(_audited(found, other, item, base, share, alpha))
    return AuditResult(
        run=found.name,
        against=other.name,
        share=share,
        level=alpha,
        items=made,
        alarm=any(i.alarm for i in made),
        decided=all(i.limit is not None and i.audited > 0 for i in made),
    )


def _audited(run: Run, other: Run, item: Item, base: Item | None, share: float, alpha: float) -> ItemAudit:
    reading = JudgeReading(other)
    first = (
        calibration_of(reading.paired(base)[1]).agreement
        if base is not None
        else Estimate(value=None, why="no verdict")
    )
    used = set(reading.drawn(base)) if base is not None and other.name == run.name else set()
    here = JudgeReading(run)
    theirs = [u for u, v in item.verdicts.items() if v is not None and u[0] in here.entries]
    theirs = [u for u in theirs if number_of(u[0]) < share and u[0] not in used]
    done = sorted((u for u in theirs if people_say(item, u) is not None), key=lambda u: item.at_ns.get(u, 0))
    later = np.array([_same(item, u) for u in done], dtype=np.float64)
    seen = None
    if first.value is not None and first.n:
        worth = float(first.n) if first.low is None else _worth(first)
        seen = judge_accuracy.watch_fall(first.value * worth, worth, later, alpha)
    fallen = seen is not None and seen.alarm is not None
    return ItemAudit(
        item=item.name,
        judge=item.judge,
        baseline=first,
        limit=seen.limit if seen is not None else None,
        audited=len(done),
        due=[u[0].removeprefix("b2:")[:12] for u in theirs if people_say(item, u) is None],
        now=calibration_of(_paired(here, item, done)).agreement,
        periods=_periods(here, item, done),
        e_value=float(np.exp(seen.log_e.max())) if seen is not None and seen.log_e.size else None,
        alarm=fallen,
        alarm_at=seen.alarm + 1 if seen is not None and seen.alarm is not None else None,
        why=_why(first, seen, len(done), alpha),
    )


def _why(first: Estimate, seen: judge_accuracy.Watched | None, done: int, alpha: float) -> str:
    if seen is None:
        return f"nothing to hold the judge to: {first.why}; calibrate it first"
    if not done:
        return "no audited label yet"
    if seen.alarm is not None:
        return f"agreement has fallen below {seen.limit:.2f}: seen after {seen.alarm + 1} audited labels"
    return f"no sign that agreement is below {seen.limit:.2f}; a false alarm has a chance of at most {alpha:g}"


def _worth(estimate: Estimate) -> float:
    """How many independent labels have an interval as wide as this one."""
    assert estimate.value is not None
    assert estimate.low is not None
    assert estimate.high is not None
    from ethogram.statistics.interval import wilson

    n = np.arange(1, estimate.n + 1)
    low, high = wilson(estimate.value * n, n, estimate.level)
    return float(n[int(np.argmin(np.abs((high - low) - (estimate.high - estimate.low))))])


def _same(item: Item, unit: Unit) -> float:
    """How far people agree with the verdict on a unit, from 0 to 1."""
    verdict, truth = item.verdicts[unit], people_say(item, unit)
    assert verdict is not None
    assert truth is not None
    return 1 - abs(verdict - truth)


def _paired(here: JudgeReading, item: Item, units: list[Unit]) -> Paired:
    """Audited units alone: all of them were as likely to be drawn."""
    part = Item(item.name, item.judge, item.version, {u: item.verdicts[u] for u in units}, item.people)
    return here.paired(part, {trace: 1.0 for trace, _ in units})[1]


def _periods(here: JudgeReading, item: Item, done: list[Unit]) -> list[Period]:
    """Stretches of labels in order of time; a new version of the judge begins a new one."""
    stretches: list[list[Unit]] = []
    for unit in done:
        last = stretches[-1] if stretches else []
        if not last or len(last) == PERIOD or item.version_of.get(last[-1]) != item.version_of.get(unit):
            stretches.append(last := [])
        last.append(unit)
    made = []
    for units in stretches:
        found = calibration_of(_paired(here, item, units))
        times = [item.at_ns.get(u, 0) for u in units]
        made.append(
            Period(
                version=item.version_of.get(units[0], item.version),
                from_ns=min(times),
                to_ns=max(times),
                labels=len(units),
                agreement=found.agreement,
                j=found.j,
            )
        )
    return made
