"""Opening an incident: from one failing trace to a dated record with its owner and its rollback.

The playbook says for each class of failure which command rolls a bad version back:

    # playbook.yaml
    loop:
      rollback: kubectl rollout undo deployment/agent
    other:
      rollback: git revert --no-edit HEAD && make deploy

It is looked for in the current folder, beside the run's suite and beside the home; the first one counts.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from ethogram.errors import BadInput, BadUsage, NotFound
from ethogram.findings.findings import FAILURE_CLASSES
from ethogram.findings.verifier_messages import what_checks_said
from ethogram.measures.divergence import diverge
from ethogram.measures.sequence import read_positions
from ethogram.questions.why.decisions import step_words
from ethogram.questions.why.owners import OTHER, owners_of, places_beside
from ethogram.questions.why.run_findings import gather_findings, step_text
from ethogram.reading.dates import now, person
from ethogram.reading.episode_costs import known_costs
from ethogram.reading.expected_calls import facts_for
from ethogram.reading.task_names import task_name
from ethogram.reading.traces import find_trace
from ethogram.store import Entry, Home, Run, home_of
from ethogram.store.incidents import new_incident
from ethogram.store.lake import FORK, REPLAY
from ethogram.suites.files import read_yaml
from ethogram.traces import Missing, Scored, Trace, metered

from .incident import EvidencePair, FailureCost, IncidentEvent, IncidentFacts, incident_of
from .records import IncidentResult, read_incident, stored_event

MOST_PASSING = 8
"""How many passing attempts are held beside the failing one to find the nearest."""


def open_incident(
    trace: str,
    *,
    why: str = "",
    run: str | None = None,
    passing: str | None = None,
    failure: str | None = None,
    owner: str | None = None,
    playbook: str | Path | None = None,
    by: str | None = None,
    home: Home | str | None = None,
) -> IncidentResult:
    """Write down that a trace failed in production.

    The class of failure is what the detectors of `why` find (`failure` says another), the owner is that of
    `owners.toml`, the evidence is the nearest passing attempt of the same task (or `passing`), and the command to roll
    back is that of `playbook.yaml`. `why` says in words what happened. Gives the incident. Raises `BadUsage` for a
    trace that passed its checks and no `why`, `NotFound` for a trace or a class that does not exist.

    Example: `open_incident("4f1c22", why="a customer got the wrong price").incident.id`
    """
    lake = home_of(home)
    found, entry = find_trace(trace, run=run, home=lake)
    if entry.forgotten:
        raise BadUsage(f"the trace {trace!r} is no longer kept ({entry.forgotten}), so it is no evidence")
    outcome = entry.head.outcome
    if isinstance(outcome, Scored) and outcome.success(found.success_at) and not why.strip():
        raise BadUsage(
            f"the trace {trace!r} passed its checks (score {outcome.value:g}); if it failed all the same, say in words "
            "what its checks did not see, with --why"
        )
    if failure is not None and failure not in FAILURE_CLASSES:
        raise NotFound.named("class of failure", failure, list(FAILURE_CLASSES))
    facts = _facts(lake, found, entry, passing, failure, owner, Path(playbook) if playbook is not None else None)
    said = why.strip() or f"task {facts.task} failed ({facts.class_ or facts.outcome})"
    event = IncidentEvent(event="opened", at=now(), by=person(by), why=said, facts=facts)
    incident_of("new", [event])
    name = new_incident(lake, event.at[:10], stored_event(lake, event, found.info.redaction))
    return IncidentResult(incident=read_incident(lake, name), next=what_next(facts, name))


def what_next(facts: IncidentFacts, name: str) -> str:
    """What to do about an open incident."""
    promote = f"ethogram golden promote {_short(facts.evidence.failing)} --suite SUITE"
    if facts.evidence.passing is not None:
        promote += f" --reference {_short(facts.evidence.passing)}"
    return f"{promote}, then: ethogram incident close {name} --task TASK --suite SUITE"


def _facts(
    home: Home,
    run: Run,
    entry: Entry,
    passing: str | None,
    failure: str | None,
    owner: str | None,
    playbook: Path | None,
) -> IncidentFacts:
    trace = run.trace(entry)
    rows = gather_findings(run, [entry], facts_for(run, home)).rows
    outcome = entry.head.outcome
    classes = [str(c) for row in rows for c in row.classes]
    if isinstance(outcome, Missing) and outcome.reason.startswith("infrastructure"):
        classes = ["infrastructure"]
    chosen = failure or next(iter(classes), None)
    owners = owners_of(run)[chosen or OTHER]
    rollback, rollback_why = rollback_for(run, chosen, playbook)
    step = rows[0].step if rows else None
    return IncidentFacts(
        task=task_name(entry.head),
        agent=entry.head.agent,
        class_=chosen,
        classes=classes,
        owner=owner or owners.owner,
        try_=owners.try_,
        step=step,
        said=what_checks_said(trace, run.success_at),
        outcome=f"score {outcome.value:g}" if isinstance(outcome, Scored) else f"no score: {outcome.reason}",
        evidence=_evidence(home, run, entry, trace, passing),
        cost=_cost(run, entry),
        rollback=rollback,
        rollback_why=rollback_why,
    )


def _cost(run: Run, entry: Entry) -> FailureCost:
    (usd,) = known_costs([(run, entry)])
    return FailureCost(usd=usd, tokens=metered(entry.head, entry.totals).tokens, seconds=entry.head.seconds)


def _evidence(home: Home, run: Run, entry: Entry, trace: Trace, passing: str | None) -> EvidencePair:
    own = EvidencePair(failing=entry.head.trace_id, failing_run=run.name)
    outcome = entry.head.outcome
    if passing is None and isinstance(outcome, Scored) and outcome.success(run.success_at):
        return msgspec.structs.replace(
            own, why="its checks passed this one too, so they prove nothing of others; name one with --passing"
        )
    near = find_trace(passing, home=home) if passing is not None else nearest_passing(home, run, entry)
    if near is None:
        return msgspec.structs.replace(own, why="no passing attempt of the same task is stored")
    where, beside = near
    other = where.trace(beside)
    own = msgspec.structs.replace(own, passing=beside.head.trace_id, passing_run=where.name)
    apart = diverge(read_positions(other), read_positions(trace))
    at, said = apart.t_star, None
    if at is None:
        at = first_other_words(other, trace)
        said = "both took the same steps" + ("; from t* on their words differ" if at is not None else "")
    if at is None:
        return msgspec.structs.replace(own, why=said)
    return msgspec.structs.replace(
        own,
        t_star=at,
        t_star_norm=at / max(len(trace.steps), len(other.steps), 1),
        failing_step=_step(trace, at),
        passing_step=_step(other, at),
        why=said,
    )


def first_other_words(one: Trace, two: Trace) -> int | None:
    """The first step at which two traces with the same steps say, ask or get something else; texts are compared by
    their hash."""
    for at, (a, b) in enumerate(zip(one.steps, two.steps, strict=False)):
        if (a.arguments, a.result, a.output) != (b.arguments, b.result, b.output):
            return at
    return None


def _step(trace: Trace, at: int) -> str | None:
    if at >= len(trace.steps):
        return None
    words = step_text(trace, at)
    return f"{step_words(trace.steps[at])}: {words}" if words else step_words(trace.steps[at])


def nearest_passing(home: Home, run: Run, entry: Entry) -> tuple[Run, Entry] | None:
    """The passing attempt of the same task that takes the most similar steps: of the same run, else of a newer one
    first."""
    others = [r for r in reversed(list(home.runs())) if r.name != run.name and r.info.kind not in (REPLAY, FORK)]
    own = read_positions(run.trace(entry))
    task = task_name(entry.head)
    for candidate in (run, *others):
        threshold = candidate.success_at
        passing = [
            e
            for e in candidate.entries
            if task_name(e.head) == task
            and e.forgotten is None
            and isinstance(e.head.outcome, Scored)
            and e.head.outcome.success(threshold)
        ][:MOST_PASSING]
        if passing:
            apart = [(diverge(read_positions(candidate.trace(e)), own).d_norm or 0.0, i) for i, e in enumerate(passing)]
            return candidate, passing[min(apart)[1]]
    return None


def _short(trace: str) -> str:
    return trace.removeprefix("b2:")[:12]


FILE = "playbook.yaml"


class Play(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to do about one class of failure."""

    rollback: str


def rollback_for(run: Run, failure: str | None, given: Path | None = None) -> tuple[str | None, str]:
    """The command for a class of failure, or None, and where it comes from or why there is none.

    `given` names the file; raises `BadInput` where it, or one that was found, cannot be used.
    """
    if given is not None and not given.is_file():
        raise BadInput(f"there is no playbook at {str(given)!r}", where=str(given))
    path = given or next((p for p in places_beside(run, FILE) if p.is_file()), None)
    if path is None:
        return (
            None,
            f"no {FILE} in the working folder, beside the suite or in the home; write one before the next incident",
        )
    plays = _read(path)
    for name in (failure, OTHER):
        if name is not None and name in plays:
            return plays[name].rollback, f"{path.name}, {name}"
    return None, f"{path.name} has no entry for {failure or 'an unknown class'} and none for {OTHER}"


def _read(path: Path) -> dict[str, Play]:
    known = (*FAILURE_CLASSES, OTHER)
    try:
        found = msgspec.convert(read_yaml(path, path.name) or {}, dict[str, Play])
    except msgspec.ValidationError as error:
        raise BadInput(
            f"{path.name} cannot be used: {error}; write 'rollback: COMMAND' below each class", where=str(path)
        ) from None
    odd = sorted(found.keys() - set(known))
    if odd:
        raise BadInput(
            f"{path.name} names {odd[0]!r}, which is not a class; classes are: {', '.join(known)}", where=str(path)
        )
    return found
