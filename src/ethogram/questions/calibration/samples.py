"""Which traces to label by hand: a stored sample with the probability that each was drawn.

Every trace has a fixed number between 0 and 1, a hash of its id. A sample takes, in every stratum, the traces with the
smallest numbers: nobody can choose them, a larger sample contains the smaller one, and the standing audit (all traces
below a share) is the same for everybody who asks.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np

from ethogram.errors import BadUsage
from ethogram.reading.task_names import task_name
from ethogram.store import Entry, Redactor, Run
from ethogram.traces import Scored, TraceId

from . import draws
from .verdicts import OUTCOME, RUBRIC, Item, Wanted, read_items

SAMPLES = "samples"
"""Notes on samples that were drawn for labelling; the newest of a name holds all that was drawn under it."""
PILOT = 50
"""Labels that are drawn in proportion first; they tell where further ones say most."""
Strata = Literal["verdict", "outcome", "task"]
STRATA: tuple[Strata, ...] = ("verdict", "outcome", "task")


class Stratum(msgspec.Struct, frozen=True, kw_only=True):
    """One stratum: how many traces it holds, and how many of them were drawn."""

    stratum: str
    of: int
    drawn: int


class Draw(msgspec.Struct, frozen=True, kw_only=True):
    """One trace that was drawn, from which stratum, and with which probability."""

    trace: TraceId
    stratum: str
    probability: float


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """All traces drawn under a name. `share` is that of a standing audit; `rule` says how sizes were found."""

    name: str
    at_ns: int
    by: tuple[str, ...]
    rule: str
    strata: tuple[Stratum, ...]
    drawn: tuple[Draw, ...]
    share: float | None = None

    def probabilities(self) -> dict[TraceId, float]:
        """How likely each drawn trace was to be drawn."""
        return {d.trace: d.probability for d in self.drawn}


def read_samples(run: Run) -> dict[str, list[Sample]]:
    """The newest sample and the newest audit of every name."""
    newest: dict[tuple[str, bool], Sample] = {}
    for _, line in run.notes(SAMPLES):
        sample = msgspec.json.decode(line, type=Sample)
        newest[sample.name, sample.share is not None] = sample
    found: dict[str, list[Sample]] = {}
    for sample in newest.values():
        found.setdefault(sample.name, []).append(sample)
    return found


def drawn_for(samples: Mapping[str, Sequence[Sample]], name: str) -> dict[TraceId, float]:
    """How likely each trace was to be drawn for this label, by any sample: those of all items of a rubric count.

    A trace has one number, so it is in several samples at once or not: the largest probability is that of all.
    """
    names = [name, RUBRIC] if name.startswith(RUBRIC + "/") else [name, OUTCOME]
    found: dict[TraceId, float] = {}
    for sample in (s for n in names for s in samples.get(n, ())):
        for trace, probability in sample.probabilities().items():
            found[trace] = max(probability, found.get(trace, 0.0))
    return found


def number_of(trace: TraceId) -> float:
    """The fixed number of a trace, between 0 and 1."""
    digest = hashlib.blake2b(f"label:{trace}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") / 2**64


def draw_sample(run: Run, name: str, n: int, by: Sequence[str], redactor: Redactor) -> Sample:
    """Draw `n` traces in all, with what was drawn before under the name, and keep the sample with the run.

    Sizes are in proportion for the first; once a pilot is labelled, larger where the labels vary (Neyman). Raises
    `BadUsage` where `n` does not reach every stratum.
    """
    for word in by:
        if word not in STRATA:
            raise BadUsage(f"a sample cannot be divided by {word!r}; choose {', '.join(STRATA)}")
    if n < 1:
        raise BadUsage(f"--sample must be at least 1, not {n}")
    items = sampled_items(run, name)
    strata = strata_of(run, items, by)
    old = drawn_for(read_samples(run), name)
    names = sorted(set(strata.values()))
    if len(names) > n:
        how = "leave out task" if "task" in by else "ask for more"
        raise BadUsage(f"{n} labels do not reach all {len(names)} strata ({', '.join(by)}); {how}")
    members: dict[str, list[TraceId]] = {stratum: [] for stratum in names}
    for trace in sorted(strata, key=number_of):
        members[strata[trace]].append(trace)
    sizes, rule = _sizes(members, items, old, n)
    drawn: dict[TraceId, Draw] = {}
    for stratum, count in zip(names, sizes, strict=True):
        probability = count / len(members[stratum])
        for trace in (*members[stratum][:count], *(t for t in members[stratum][count:] if t in old)):
            likely = max(probability, old.get(trace, 0.0))
            drawn[trace] = Draw(trace=trace, stratum=stratum, probability=likely)
    told = Counter(d.stratum for d in drawn.values())
    sample = Sample(
        name=name,
        at_ns=time.time_ns(),
        by=tuple(by),
        rule=rule,
        strata=tuple(Stratum(stratum=s, of=len(members[s]), drawn=told[s]) for s in names),
        drawn=tuple(sorted(drawn.values(), key=lambda d: number_of(d.trace) / d.probability)),
    )
    if drawn.keys() != old.keys():
        _keep(run, sample, redactor)
    return sample


def draw_audit(run: Run, name: str, share: float, redactor: Redactor) -> Sample:
    """Draw the standing audit: every judged trace whose number is below the share, now and in runs to come."""
    if not 0 < share <= 1:
        raise BadUsage(f"an audit of {share:g} of the traces cannot be; give a share above 0, such as 0.1")
    judged = sorted(strata_of(run, sampled_items(run, name), ()), key=number_of)
    chosen = [t for t in judged if number_of(t) < share]
    before = next((s for s in read_samples(run).get(name, ()) if s.share is not None), None)
    old = before.probabilities() if before is not None else {}
    sample = Sample(
        name=name,
        at_ns=time.time_ns(),
        by=(),
        rule=f"every trace whose number is below {share:g}",
        strata=(Stratum(stratum="all", of=len(judged), drawn=len(chosen)),),
        drawn=tuple(Draw(trace=t, stratum="all", probability=max(share, old.get(t, 0.0))) for t in chosen),
        share=share,
    )
    if before is None or old != sample.probabilities():
        _keep(run, sample, redactor)
    return sample


def sampled_items(run: Run, name: str) -> list[Item]:
    """The verdicts that a sample of this name is about: one item, all items of the rubric, or a score."""
    if name == RUBRIC:
        return [i for i in read_items(run, Wanted()) if i.name.startswith(RUBRIC + "/")]
    wanted = Wanted(items=(name,)) if name.startswith(RUBRIC) else Wanted(score=name)
    return read_items(run, wanted)


def strata_of(run: Run, items: Sequence[Item], by: Sequence[str]) -> dict[TraceId, str]:
    """The stratum of every judged trace; a trace that some item was denied is a no."""
    worst: dict[TraceId, float] = {}
    for item in items:
        for (trace, _), verdict in item.verdicts.items():
            if verdict is not None:
                worst[trace] = min(verdict, worst.get(trace, 1.0))
    threshold = run.success_at
    found = {}
    for entry in run.entries:
        trace = entry.head.trace_id
        if trace in worst and not entry.forgotten:
            said = {"verdict": "yes" if worst[trace] else "no", "outcome": outcome_word(entry, threshold)}
            said["task"] = task_name(entry.head)
            found[trace] = " ".join(f"{word} {said[word]}" for word in by) or "all"
    return found


def outcome_word(entry: Entry, threshold: float) -> str:
    """What became of a trace: pass, fail or missing."""
    outcome = entry.head.outcome
    return ("pass" if outcome.success(threshold) else "fail") if isinstance(outcome, Scored) else "missing"


def _sizes(
    members: Mapping[str, Sequence[TraceId]], items: Sequence[Item], old: Mapping[TraceId, float], n: int
) -> tuple[list[int], str]:
    """How many to draw per stratum, and by which rule."""
    sizes = [len(m) for m in members.values()]
    already = [sum(t in old for t in m) for m in members.values()]
    answers = [[a for t in m if t in old for a in answers_of(items, t)] for m in members.values()]
    labelled = sum(map(len, answers))
    if labelled < min(PILOT, 0.8 * sum(already)) or not old:
        return draws.proportional(sizes, n, already).tolist(), "proportional"
    spreads = draws.pilot_spread([sum(a) for a in answers], [len(a) for a in answers])
    return draws.neyman(sizes, spreads, n, already).tolist(), f"Neyman, from {labelled} labels"


def answers_of(items: Sequence[Item], trace: TraceId) -> list[float]:
    """Labels of people on a trace: per item the share of yes."""
    told = ([a for a in item.people.get((trace, None), {}).values() if a is not None] for item in items)
    return [float(np.mean(answers)) for answers in told if answers]


def _keep(run: Run, sample: Sample, redactor: Redactor) -> None:
    with run.writer(redactor) as writer:
        writer.note(SAMPLES, [msgspec.json.encode(sample)])
    run.forget_cache()
