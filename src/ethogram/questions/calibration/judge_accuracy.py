"""Calibration of a judge: its verdicts against labels by hand, and the corrected rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ethogram.estimate import Estimate
from ethogram.statistics._numeric import Numbers, floats
from ethogram.statistics.anytime import geometric_bets, log_e, mean_capital
from ethogram.statistics.interval import known_ends, mover, wilson_edge

from . import agreement
from .agreement import AgreementFigure
from .corrected import Corrected, JudgedSample, Labels, corrected_mean, label_worth, raw_multiplier

MIN_J = 0.6
"""An item is automated from this J on,"""
MIN_J_LOW = 0.5
"""and with this lower end of its interval,"""
MIN_LABELS = 100
"""and no number that rests on a judge is printed without a warning below this number of labels."""
KAPPA_LABELS = 200
"""Kappa is known to about ±.12 from here on."""

Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]


class Graded(NamedTuple):
    """Grades where there are more than two: one row for each person who graded a labelled unit, with its weight."""

    judge: Floats
    person: Floats
    weight: Floats
    task: Ints


@dataclass(frozen=True, eq=False)
class Paired:
    """Verdicts (1 yes, 0 no) of all judged units with their tasks, and the labels of those that a sample drew.

    `place` says which units are labelled, `truth` the share of people who say yes, `probability` that of having been
    drawn. `ratings` are (labelled units, people), NaN where a person said nothing. `graded` are the grades behind
    yes and no, where there are more than two; a part of the units has none.
    """

    verdict: Floats
    task: Ints
    place: Ints
    truth: Floats
    probability: Floats
    ratings: Floats
    graded: Graded | None = None

    def only(self, which: Any) -> Paired:
        """Some of the units, by a mask."""
        new = np.cumsum(which) - 1
        kept = which[self.place]
        return Paired(
            verdict=self.verdict[which],
            task=self.task[which],
            place=new[self.place[kept]],
            truth=self.truth[kept],
            probability=self.probability[kept],
            ratings=self.ratings[kept],
        )


class ConfusionTable(msgspec.Struct, frozen=True, kw_only=True):
    """Labels by what judge and people said; a label on which people are split counts in part on both sides."""

    both_yes: float
    judge_yes_people_no: float
    judge_no_people_yes: float
    both_no: float


class People(msgspec.Struct, frozen=True, kw_only=True):
    """How far people agree with each other: no judge can be held to more. `twice` units have two labels or more."""

    people: int
    twice: int
    agreement: Estimate
    alpha: Estimate
    kappa: Estimate


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """One judge on one item. `decided` is False where more labels could still change `automate`.

    `corrected` is the rate that people would give all judged runs, `raw` the one that the judge gives. `label_worth`:
    how many labels one label counts for because of the judge; `runs_multiplier`: 1 / J², and `gate_multiplier`: how
    many times the runs a comparison of raw verdicts needs, at the rates seen here. `ac1` is Gwet's agreement beyond
    chance, which has a value where nearly all answers are alike; `weighted_kappa` is of grades, by squared distance.
    """

    labels: int
    judged: int
    tasks: int
    confusion: ConfusionTable
    agreement: Estimate
    kappa: Estimate
    ac1: Estimate
    precision: Estimate
    recall: Estimate
    sensitivity: Estimate
    specificity: Estimate
    j: Estimate
    phi: float | None
    bias: float | None
    raw: Estimate
    corrected: Estimate
    trust: float | None
    label_worth: float | None
    runs_multiplier: float | None
    gate_multiplier: float | None
    automate: bool
    decided: bool
    why: str
    warnings: list[str] = []
    people: People | None = None
    weighted_kappa: Estimate | None = None


class LabelsForWidth(msgspec.Struct, frozen=True, kw_only=True):
    """About how many labels in all give an interval of this half width; None where no number does, and why."""

    half_width: float
    labels: int | None
    why: str


def calibration_of(paired: Paired, level: float = 0.95) -> Calibration:
    """All that labels say of a judge. Without labels the verdicts are there and every figure says why it is not."""
    f, y = paired.verdict[paired.place], paired.truth
    w, task = 1 / paired.probability, paired.task[paired.place]
    table, weighted = agreement.confusion(f, y), agreement.confusion(f, y, w)
    none = "no label that a sample drew"
    wrong_side = {"yes": "people never say yes", "no": "people never say no"} if y.size else {"yes": none, "no": none}

    def share(part: Floats, whole: Floats, why: str) -> AgreementFigure:
        return agreement.share(w * part, w * whole, task, level, why if y.size else none)

    sensitivity = share(f * y, y, wrong_side["yes"])
    specificity = share((1 - f) * (1 - y), 1 - y, wrong_side["no"])
    j = agreement.youden(sensitivity, specificity)
    phi = agreement.phi(weighted)
    corrected, found = corrected_rate(paired, level)
    raw = raw_rate(paired, level)
    automate, decided, why = _bar(int(y.size), j)

    def told(figure: AgreementFigure, method: str) -> Estimate:
        return _estimate(figure, method, level)

    kappa = agreement.cohen(f, y, w, task, level) if y.size else AgreementFigure(None, why=none)
    ac1 = agreement.gwet(f, y, w, task, level) if y.size else AgreementFigure(None, why=none)
    return Calibration(
        labels=int(y.size),
        judged=int(paired.verdict.size),
        tasks=int(np.unique(paired.task).size),
        confusion=ConfusionTable(
            both_yes=table.both_yes,
            judge_yes_people_no=table.judge_yes,
            judge_no_people_yes=table.missed,
            both_no=table.both_no,
        ),
        agreement=told(share(f * y + (1 - f) * (1 - y), np.ones_like(y), none), "wilson-neff"),
        kappa=told(kappa, "cohen, jackknife over tasks"),
        ac1=told(ac1, "gwet, jackknife over tasks"),
        precision=told(share(f * y, f, "the judge never says yes"), "wilson-neff"),
        recall=told(sensitivity, "wilson-neff"),
        sensitivity=told(sensitivity, "wilson-neff"),
        specificity=told(specificity, "wilson-neff"),
        j=told(j, "sensitivity + specificity - 1"),
        phi=phi,
        bias=None if corrected.value is None or raw.value is None else raw.value - corrected.value,
        raw=raw,
        corrected=corrected,
        trust=None if found is None else found.trust,
        label_worth=label_worth(phi, int(y.size), int(paired.verdict.size)) if y.size else None,
        runs_multiplier=raw_multiplier(j.value, None, None),
        gate_multiplier=raw_multiplier(j.value, corrected.value, raw.value),
        automate=automate,
        decided=decided,
        why=why,
        warnings=_warnings(int(y.size), kappa) + _scale_warning(paired.graded),
        people=_people(paired, level),
        weighted_kappa=_weighted(paired.graded, level),
    )


def raw_rate(paired: Paired, level: float) -> Estimate:
    """The share of verdicts that are yes, clustered by task: what would be reported without labels."""
    figure = agreement.share(paired.verdict, np.ones_like(paired.verdict), paired.task, level, "nothing was judged")
    return msgspec.structs.replace(_estimate(figure, "wilson-neff", level), of="verdicts")


def corrected_rate(paired: Paired, level: float) -> tuple[Estimate, Corrected | None]:
    """The share of runs that people would call yes, and the figures behind it."""
    base = Estimate(value=None, level=level, method="ppi++ wilson-neff", n=int(paired.truth.size), of="labels")
    if not paired.truth.size:
        return msgspec.structs.replace(base, why="no label that a sample drew"), None
    alike = float(np.ptp(paired.probability)) <= 1e-9
    cell = None if alike else paired.verdict
    name = base.method if alike else "stratified ppi++ wilson-neff"
    labels = Labels.of(paired.place, paired.truth, paired.probability)
    try:
        found = corrected_mean(JudgedSample.of(paired.verdict, paired.task, cell), labels, level)
    except ValueError:
        empty = "yes" if not np.any(paired.verdict[paired.place]) else "no"
        why = f"no attempt that the judge calls {empty} has a label"
        return msgspec.structs.replace(base, method=name, why=why), None
    if found.clusters < 2:
        why = "all labels are of one task, which says nothing of how tasks differ"
        return msgspec.structs.replace(base, method=name, value=found.value, why=why), found
    made = msgspec.structs.replace(base, method=name, value=found.value, low=found.low, high=found.high)
    return made, found


def labels_for_width(paired: Paired, half_width: float, level: float) -> LabelsForWidth:
    """About how many labels in all make the interval of the corrected rate this narrow."""
    rate, found = corrected_rate(paired, level)
    if found is None or rate.low is None:
        return LabelsForWidth(half_width=half_width, labels=None, why=rate.why or "nothing is labelled yet")
    wanted, judged = found.labels_for(half_width, level), int(paired.verdict.size)
    if wanted is None or wanted > judged:
        why = f"{judged:,} judged attempts are too few, even if all of them are labelled: judge more"
        return LabelsForWidth(half_width=half_width, labels=None, why=why)
    return LabelsForWidth(half_width=half_width, labels=wanted, why=f"from the spread of {found.labels} labels")


def corrected_difference(base: Estimate, candidate: Estimate) -> Estimate:
    """Candidate minus base of two corrected rates; wide where both are of the same tasks, which only helps."""
    made = Estimate(value=None, level=candidate.level, method="mover of corrected rates", n=candidate.n, of="labels")
    before, after = (known_ends(rate.value, rate.low, rate.high) for rate in (base, candidate))
    if before is None or after is None:
        side, rate = ("baseline", base) if before is None else ("candidate", candidate)
        return msgspec.structs.replace(made, why=f"the corrected rate of the {side} is not known: {rate.why}")
    value, low, high = mover([(1.0, after), (-1.0, before)])
    return msgspec.structs.replace(made, value=value, low=max(low, -1.0), high=min(high, 1.0))


def _bar(labels: int, j: AgreementFigure) -> tuple[bool, bool, str]:
    """Whether to automate, whether that is settled, and why."""
    bar = f"the bar is J ≥ {MIN_J:g} with a lower end ≥ {MIN_J_LOW:g} from {MIN_LABELS} labels"
    if j.value is None or j.low is None or j.high is None:
        return False, False, f"J is unknown: {j.why}; {bar}"
    seen = f"J = {j.value:.2f} [{j.low:.2f}, {j.high:.2f}] from {labels} labels"
    if j.high < MIN_J:
        return False, True, f"{seen}: below the bar; {bar}"
    if labels < MIN_LABELS:
        return False, False, f"{seen}: {MIN_LABELS - labels} more labels are needed; {bar}"
    if j.value >= MIN_J and j.low >= MIN_J_LOW:
        return True, True, f"{seen}: above the bar; {bar}"
    return False, False, f"{seen}: more labels could still lift it above the bar; {bar}"


def _warnings(labels: int, kappa: AgreementFigure) -> list[str]:
    told = []
    if 0 < labels < MIN_LABELS:
        told.append(f"{labels} labels: a number that rests on a judge needs {MIN_LABELS}")
    if MIN_LABELS <= labels < KAPPA_LABELS and kappa.value is not None:
        told.append(f"kappa from {labels} labels is known to about ±.17; {KAPPA_LABELS} give ±.12")
    return told


def _weighted(graded: Graded | None, level: float) -> Estimate | None:
    """Agreement of grades, a disagreement by the square of its distance; None where there are no more than two."""
    if graded is None:
        return None
    figure = agreement.weighted_kappa(graded.judge, graded.person, graded.weight, graded.task, level)
    return _estimate(figure, "cohen, quadratic weights, jackknife over tasks", level)


def _scale_warning(graded: Graded | None) -> list[str]:
    """Grades such as 1 to 5 are all above the threshold of yes: rates and J then say nothing."""
    most = 0.0 if graded is None else float(max(graded.judge.max(), graded.person.max()))
    return [f"grades go up to {most:g}: every figure but weighted kappa is of yes and no, not of grades"] * (most > 1)


def _people(paired: Paired, level: float) -> People | None:
    """Agreement among people, where some unit has two of them."""
    r = paired.ratings
    given = ~np.isnan(r)
    twice = given.sum(axis=1) >= 2
    if not np.any(twice):
        return None
    r, task = r[twice], paired.task[paired.place][twice]
    yes, n = np.nansum(r, axis=1), (~np.isnan(r)).sum(axis=1)
    same = (yes * (yes - 1) + (n - yes) * (n - yes - 1)) / (n * (n - 1))
    both = agreement.share(same, np.ones_like(same), task, level)
    kappa = agreement.fleiss(np.column_stack([yes, n - yes]), task, level)
    return People(
        people=int(np.any(given, axis=0).sum()),
        twice=int(twice.sum()),
        agreement=_estimate(both, "wilson-neff", level),
        alpha=_estimate(agreement.krippendorff(r, task, level), "krippendorff, jackknife over tasks", level),
        kappa=_estimate(kappa, "fleiss, jackknife over tasks", level),
    )


def _estimate(figure: AgreementFigure, method: str, level: float) -> Estimate:
    return Estimate(
        value=figure.value,
        low=figure.low,
        high=figure.high,
        level=level,
        method=method,
        n=figure.n,
        of="labels",
        why=figure.why,
    )


class Watched(NamedTuple):
    """The limit that is watched, after every label the logarithm of the e-value, and the first label above `at`."""

    limit: float
    log_e: Floats
    at: float
    alarm: int | None


def watch_fall(good: Numbers, n: Numbers, later: Numbers, alpha: float) -> Watched:
    """Test for a fall: first `good` of `n` (effective counts), then 1 or 0 in order of time."""
    y = floats(later)
    limit = float(wilson_edge(good, n, 1 - alpha).low)  # two-sided 1 - alpha: alpha / 2 below
    bets = geometric_bets(0.05, 0.95, 16)
    worse = np.arange(1, y.size + 1) - np.cumsum(y)
    counts = np.stack([np.cumsum(y), worse], axis=-1)
    e = log_e(mean_capital([limit - 1, limit], counts, bets), bets) if y.size else np.zeros(0)
    at = float(np.log(2 / alpha))
    over = np.flatnonzero(e >= at)
    return Watched(limit, floats(e), at, int(over[0]) if over.size else None)
