"""What became more frequent since another run of the same tasks: the test of causes, with the run as the outcome."""

from __future__ import annotations

import numpy as np

from ethogram.measures import contrasts
from ethogram.measures.contrasts import ContrastEvent, ContrastRuns, EventContrast

from . import decisions
from .cause_words import what_it_is
from .causes import Causes
from .decisions import Choice
from .results import Against, CauseChange, CauseTrend
from .run_findings import VERIFIER, AllFindings, Seen, never_called

MOST_CHANGES = 20


def compare_causes(now: AllFindings, before: AllFindings, name: str, tested: Causes, level: float) -> Against:
    """Every event of either run, over the attempts at tasks that both have; the causes of this run come first."""
    shared = {r.task for r in now.rows} & {r.task for r in before.rows}
    order = {task: i for i, task in enumerate(sorted(shared))}
    rows = [(0, i) for i, r in enumerate(before.rows) if r.task in order]
    rows += [(1, i) for i, r in enumerate(now.rows) if r.task in order]
    place = {row: i for i, row in enumerate(rows)}
    task = np.array([order[(before, now)[side].rows[i].task] for side, i in rows], dtype=np.int64)
    side = np.array([side == 1 for side, _ in rows], dtype=bool)
    seen: dict[str, dict[int, Seen]] = {}
    for which, found in enumerate((before, now)):
        for one in (*found.seen.values(), *never_called(found)):
            if one.source != VERIFIER:
                seen.setdefault(one.name, {})[which] = one
    causes = {t.contrast.name for g in tested.causes for t in (g.head, *g.also)}
    names = sorted(seen)
    kinds: list[Seen | Choice] = [seen[event].get(1) or seen[event][0] for event in names]
    events = [_event(event, seen[event], place) for event in names]
    ways = decisions.choices([(before, now)[side].paths[i] for side, i in rows])
    kinds += ways
    events += [way.event for way in ways]
    said = now._replace(words=before.words | now.words)
    runs = ContrastRuns(side, task, task)
    grew = contrasts.contrast_events(events, runs, level)
    fell = contrasts.contrast_events(events, runs._replace(failed=~side), level)
    changes = []
    for i, kind in enumerate(kinds):
        up, down = grew.contrasts[i], fell.contrasts[i]
        event, change = events[i].name, _change(up, down)
        if change == "unsure" and event not in causes:
            continue
        changes.append(
            CauseChange(
                cause=event,
                what=what_it_is(kind, said),
                change=change,
                with_now=up.failed_with,
                with_before=up.succeeded_with,
                difference=contrasts.rise(events[i], runs, grew.each, level),
                adjusted=down.adjusted if change in ("shrank", "gone") else up.adjusted,
                is_cause=event in causes,
            )
        )
    changes.sort(key=lambda c: (not c.is_cause, -abs(c.difference.value or 0.0), c.cause))
    return Against(
        run=name,
        tasks=len(order),
        runs_now=int(side.sum()),
        runs_before=int((~side).sum()),
        changes=changes[:MOST_CHANGES],
    )


def _event(name: str, seen: dict[int, Seen], place: dict[tuple[int, int], int]) -> ContrastEvent:
    rows = [place[side, r] for side, one in seen.items() for r in one.rows if (side, r) in place]
    return ContrastEvent(name, np.array(sorted(rows), dtype=np.int64))


def _change(up: EventContrast, down: EventContrast) -> CauseTrend:
    if up.is_cause:
        return "grew" if up.succeeded_with else "new"
    if down.is_cause:
        return "shrank" if down.succeeded_with else "gone"
    return "unsure"
