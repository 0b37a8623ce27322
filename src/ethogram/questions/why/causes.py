"""From what runs show to causes and leads: one test over everything, then events that add nothing to another are put
under it, and what is left is ranked by the failed runs that it accounts for."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple, get_args

import numpy as np

from ethogram.measures import contrasts
from ethogram.measures.columns import Ints
from ethogram.measures.contrasts import ContrastEvent, ContrastFamily, ContrastRuns, EventContrast

from . import decisions
from .decisions import Choice, DecisionPoint
from .results import CauseSource
from .run_findings import VERIFIER, AllFindings, Seen, never_called

ADDS_NOTHING = 0.05
"""An event whose p-value, given another one, lies above this adds nothing to it."""
SAME_RUNS = 0.8
"""Two events with this share of their runs in common are one; the earlier one gives the name."""
SOURCES: tuple[CauseSource, ...] = get_args(CauseSource)
"""Which of two events that happen in the same runs, and at the same step, says more: the first of these."""


TROUBLE = frozenset(("repeat", "abandoned", "no_return", "refusal", "length_stop", "success_claimed_after_error"))
"""Events that tell of trouble by themselves; the others, such as the call of a tool, only beside an outcome."""
AS_EXPECTED = "same_calls"
"""What the reference says of a run that made its calls."""


class Tested(NamedTuple):
    """One event after the test: what it is, in which runs (by row of the gathered runs), and its contrast."""

    seen: Seen | Choice
    rows: frozenset[int]
    contrast: EventContrast
    event: ContrastEvent
    step: float | None

    @property
    def shown_in(self) -> frozenset[int]:
        """All runs that show it, those without a score included."""
        return self.rows if isinstance(self.seen, Choice) else frozenset(self.seen.rows)

    @property
    def source(self) -> CauseSource:
        """Where the evidence comes from."""
        if isinstance(self.seen, Choice):
            return "decision"
        return next(s for s in SOURCES if s == self.seen.source)

    @property
    def strength(self) -> int:
        """The rank of a finding where no test decides: 0 a mistake, 1 a sign of trouble, 2 an event."""
        return 2 if not self.is_failure_sign else 1 if self.source == "event" else 0

    @property
    def is_failure_sign(self) -> bool:
        """Whether it is a sign of failure by itself, without the outcomes."""
        if isinstance(self.seen, Choice):
            return False
        kind = self.seen.name.partition(":")[0]
        return kind in TROUBLE if self.source == "event" and self.seen.cls is None else kind != AS_EXPECTED


class CauseGroup(NamedTuple):
    """A cause and the events that add nothing to it."""

    head: Tested
    also: list[Tested]


class Causes(NamedTuple):
    """All that was tested, causes in order, leads in order, and the choices with their intervals."""

    tested: list[Tested]
    causes: list[CauseGroup]
    leads: list[CauseGroup]
    points: list[DecisionPoint]
    family: ContrastFamily
    runs: ContrastRuns
    mixed: int


def find_causes(found: AllFindings, level: float) -> Causes:
    """Test everything but the verifier's words over the runs that have a score."""
    scored = [i for i, row in enumerate(found.rows) if row.failed is not None]
    runs = _runs(found, scored)
    place = {row: i for i, row in enumerate(scored)}
    kinds: list[Seen | Choice] = [s for s in found.seen.values() if s.source != VERIFIER]
    kinds += never_called(found)
    events = [_event(s, place) for s in kinds if isinstance(s, Seen)]
    paths = [found.paths[i] for i in scored]
    ways = decisions.choices(paths)
    kinds += ways
    events += [way.event for way in ways]
    family = contrasts.contrast_events(events, runs, level)
    tested = [
        Tested(kind, frozenset(scored[i] for i in event.rows.tolist()), contrast, event, _step(kind, paths))
        for kind, event, contrast in zip(kinds, events, family.contrasts, strict=True)
    ]
    groups = _grouped([t for t in tested if t.contrast.is_cause], runs)
    taken = {id(t) for g in groups for t in (g.head, *g.also)}
    leads = [t for t in tested if id(t) not in taken and _is_lead(t)]
    leads.sort(key=lambda t: (t.strength, -_surplus(t.contrast, runs), t.contrast.name))
    points = _points(tested, found, paths, runs, family.each, level)
    return Causes(
        tested, groups, grouped_leads(leads), points, family, runs, int(np.unique(runs.group[_mixed_rows(runs)]).size)
    )


def _runs(found: AllFindings, scored: Sequence[int]) -> ContrastRuns:
    groups: dict[object, int] = {}
    tasks: dict[str, int] = {}
    group = [groups.setdefault(found.rows[i].group, len(groups)) for i in scored]
    task = [tasks.setdefault(found.rows[i].task, len(tasks)) for i in scored]
    failed = np.array([bool(found.rows[i].failed) for i in scored], dtype=bool)
    return ContrastRuns(failed, np.array(group, dtype=np.int64), np.array(task, dtype=np.int64))


def _event(seen: Seen, place: dict[int, int]) -> ContrastEvent:
    return ContrastEvent(seen.name, np.array([place[r] for r in seen.rows if r in place], dtype=np.int64))


def _mixed_rows(runs: ContrastRuns) -> Ints:
    """Runs of groups that hold both outcomes: the only ones that can tell a cause."""
    groups = int(runs.group.max(initial=-1)) + 1
    bad = np.bincount(runs.group[runs.failed], minlength=groups)
    mixed = (bad > 0) & (bad < np.bincount(runs.group, minlength=groups))
    return np.flatnonzero(mixed[runs.group])


def _step(kind: Seen | Choice, paths: Sequence[Sequence[str]]) -> float | None:
    """At which step it usually happens first."""
    if isinstance(kind, Choice):
        return median(decisions.step_of(kind, paths[i]) for i in kind.event.rows.tolist())
    steps = [s for s in kind.steps if s is not None]
    return median(steps) if steps else None


def _is_lead(tested: Tested) -> bool:
    """Trouble in failed runs that the test leaves open, or an event that points to failures when taken alone."""
    contrast = tested.contrast
    if not contrast.failed_with:
        return False
    alone = contrast.p is not None and contrast.p <= ADDS_NOTHING
    if isinstance(tested.seen, Choice):
        return False  # they have a list of their own
    return alone or (tested.is_failure_sign and not _never_worse(contrast))


def _surplus(contrast: EventContrast, runs: ContrastRuns) -> float:
    """Failed runs with the event beyond what successes of all tasks would lead one to expect: for the order alone."""
    failed = int(runs.failed.sum())
    expected = contrast.succeeded_with * failed / max(runs.failed.size - failed, 1)
    return max(contrast.excess, contrast.failed_with - expected)


def _never_worse(contrast: EventContrast) -> bool:
    """Where successes of the same tasks show it just as often it points nowhere."""
    return contrast.lift is not None and contrast.lift <= 1


def _grouped(causes: list[Tested], runs: ContrastRuns) -> list[CauseGroup]:
    """The strongest first; each of the others goes under the first one that leaves nothing of it."""
    causes = sorted(causes, key=lambda t: (t.contrast.p or 0.0, -t.contrast.excess, t.contrast.name))
    groups: list[CauseGroup] = []
    for one in causes:
        home = next((g for g in groups if _adds_nothing(one, g.head, runs)), None)
        if home is None:
            groups.append(CauseGroup(one, []))
        else:
            home.also.append(one)
    mixed = frozenset(_mixed_rows(runs).tolist())
    named = [_named(g, mixed) for g in groups]
    return sorted(named, key=lambda g: (-g.head.contrast.excess, g.head.contrast.p or 0.0, g.head.contrast.name))


def grouped_leads(leads: list[Tested]) -> list[CauseGroup]:
    """Leads in their order; one that the same attempts show at the same step as an earlier lead is listed under it."""
    groups: list[CauseGroup] = []
    for one in leads:
        alike = (g for g in groups if _overlap(one.shown_in, g.head.shown_in) >= SAME_RUNS)
        home = next((g for g in alike if one.step is not None and one.step == g.head.step), None)
        if home is None:
            groups.append(CauseGroup(one, []))
        else:
            home.also.append(one)
    return groups


def _adds_nothing(one: Tested, head: Tested, runs: ContrastRuns) -> bool:
    p = contrasts.given(one.event, runs, head.event.rows)
    return p is None or p > ADDS_NOTHING


def _named(group: CauseGroup, mixed: frozenset[int]) -> CauseGroup:
    """The group under its earliest event among those that happen in the same runs, the most telling first.

    Only runs of tasks with both outcomes were compared, so only these tell whether two events are one.
    """
    strongest = group.head
    own = mixed.intersection(strongest.event.rows.tolist())
    alike = [
        t for t in (strongest, *group.also) if _overlap(mixed.intersection(t.event.rows.tolist()), own) >= SAME_RUNS
    ]
    head = min(alike, key=_earliness)
    rest = [t for t in (strongest, *group.also) if t is not head]
    return CauseGroup(head, rest)


def _earliness(tested: Tested) -> tuple[int, float, int, float]:
    """What has no step, such as a tool that was never called, comes after what has one."""
    # a reference, a class or an error names the mistake itself; what happens before it is only the way there
    names_it = 1 if tested.source in ("decision", "event") else 0
    step = tested.step if tested.step is not None else float("inf")
    return (names_it, step, SOURCES.index(tested.source), tested.contrast.succeeded_with)


def _overlap(one: frozenset[int], two: frozenset[int]) -> float:
    return len(one & two) / max(len(one | two), 1)


def _points(
    tested: list[Tested],
    found: AllFindings,
    paths: list[tuple[str, ...]],
    runs: ContrastRuns,
    each: float,
    level: float,
) -> list[DecisionPoint]:
    """The choices after which success falls, established ones first, then those with the smallest p."""
    own = [t for t in tested if isinstance(t.seen, Choice) and t.contrast.p is not None]
    own = [t for t in own if t.contrast.is_cause or (t.contrast.p or 1.0) <= ADDS_NOTHING]
    own.sort(key=lambda t: (not t.contrast.is_cause, t.contrast.p, t.contrast.name))
    points = []
    for one in own[:20]:
        choice = one.seen
        assert isinstance(choice, Choice)
        among = choice.event.among
        ways = decisions.branches(choice, paths, runs)
        points.append(
            DecisionPoint(
                after=tuple(found.words[s] for s in choice.place.before[-3:]),
                choice=way_words(choice.choice, found),
                step=choice.place.step,
                reached=0 if among is None else int(among.size),
                chosen=int(choice.event.rows.size),
                fall=contrasts.fall(choice.event, runs, each, level),
                tasks=one.contrast.tasks,
                p=one.contrast.p,
                adjusted=one.contrast.adjusted,
                branches=tuple(
                    decisions.Branch(choice=way_words(b.choice, found), runs=b.runs, failed=b.failed) for b in ways[:6]
                ),
            )
        )
    return points


def way_words(sign: str, found: AllFindings) -> str:
    """A choice in words."""
    return "ends" if sign == decisions.END else found.words[sign]
