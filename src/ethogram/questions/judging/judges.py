"""The port of all judges, and the two that need neither rules nor a model: known verdicts, and several judges at once.

A judge answers about one trace at a time and does no I/O of its own. What it may not see (the outcome, the agent's own
claims of success) is taken out of the trace before, by the guards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import Literal, NamedTuple, Protocol

from ethogram.findings.asked_steps import asked_of
from ethogram.findings.finding import Facts
from ethogram.findings.rubric import ItemVerdict, Rubric, TraceVerdict, rubric_score
from ethogram.findings.step_words import TraceWords
from ethogram.traces import Param, Trace

PairChoice = Literal["first", "second", "tie"]


class Case(NamedTuple):
    """What a judge gets: a trace, what a suite declares of its tools, and which reading this is.

    A score of `success_at` or more is a success. A judge that draws draws anew for every `reading`; the same reading is
    the same draw.
    """

    trace: Trace
    success_at: float
    facts: Facts | None = None
    reading: int = 0


class Preference(NamedTuple):
    """Which of two traces is better; `choice` is None where the judge could not decide, with the reason in `why`."""

    choice: PairChoice | None
    why: str = ""


class Judge(Protocol):
    """Answers the questions of a rubric."""

    @property
    def by(self) -> str:
        """The author, as labels name it: `rule`, `model:NAME`, `panel:…`, `fixed:…`."""
        ...

    @property
    def settings(self) -> Mapping[str, Param]:
        """All that changes its verdicts; labels carry the digest of it."""
        ...

    @property
    def models(self) -> tuple[str, ...]:
        """The language models that it asks."""
        ...

    def judge(self, case: Case, rubric: Rubric) -> TraceVerdict:
        """A verdict for every item and every step that it asks about."""
        ...

    def prefer(self, first: Case, second: Case, rubric: Rubric) -> Preference:
        """Which of two traces of the same task is better by the rubric."""
        ...

    def reading_in(self, window: int) -> Judge:
        """The same judge, shown this number of characters at once; one that reads everything at once is the same."""
        ...


class FixedJudge:
    """Verdicts that are known in advance: for tests, and to import verdicts of others.

    `known` holds the verdict of a trace id (or its beginning), item and step; a step of None speaks for all steps of
    the item. Everything else is `default`; None leaves it unknown.
    """

    models: tuple[str, ...] = ()

    def __init__(
        self,
        default: bool | None = True,
        known: Mapping[tuple[str, str, int | None], bool] | None = None,
        *,
        name: str = "",
        choice: PairChoice = "tie",
    ) -> None:
        """`name` is what stands behind `fixed:`; `choice` is what it answers about pairs."""
        self.default = default
        self.known = dict(known or {})
        self.choice: PairChoice = choice
        word = "unknown" if default is None else "yes" if default else "no"
        self.by = f"fixed:{name or word}"

    @property
    def settings(self) -> dict[str, Param]:
        """The default, and how the known verdicts read."""
        listed = sorted((t, i, -1 if s is None else s, v) for (t, i, s), v in self.known.items())
        return {"judge": self.by, "default": self.default, "known": repr(listed)}

    def judge(self, case: Case, rubric: Rubric) -> TraceVerdict:
        """The known verdicts."""
        found = []
        for item, steps in asked_of(TraceWords(case.trace), rubric, case.facts).items():
            for step in steps:
                value = self._value(case.trace.head.trace_id, item, step)
                found.append(ItemVerdict(item=item, step=step, value=value, why="known beforehand"))
        return TraceVerdict(verdicts=tuple(found))

    def prefer(self, first: Case, second: Case, rubric: Rubric) -> Preference:
        """Always the same."""
        return Preference(self.choice)

    def reading_in(self, window: int) -> FixedJudge:
        """It reads nothing."""
        return self

    def _value(self, trace: str, item: str, step: int) -> bool | None:
        for (name, asked, at), value in self.known.items():
            if _is_start(name, trace) and asked == item and at in (None, step):
                return value
        return self.default

    def unused(self, traces: Sequence[str], asked: Mapping[str, Set[tuple[str, int]]]) -> list[str]:
        """Known verdicts that decide nothing, each with why: `traces` are all there are, `asked` what was asked."""
        found = []
        for name, item, at in self.known:
            own = [t for t in traces if _is_start(name, t)]
            places = [place for t in own for place in asked.get(t, ())]
            if not own:
                found.append(f"no trace here begins with {name!r}")
            elif places and not any(item == what and at in (None, step) for what, step in places):
                where = "any step" if at is None else f"step {at}"
                found.append(f"{item} is not asked about {where} of {name}")
        return found


def _is_start(name: str, trace: str) -> bool:
    return trace == name or trace.removeprefix("b2:").startswith(name)


class PanelJudge:
    """Several judges: each step gets what most of them say; a panel that is split evenly does not know."""

    def __init__(self, members: Sequence[Judge]) -> None:
        self.members = tuple(members)

    @property
    def by(self) -> str:
        """`panel:` and its members."""
        return "panel:" + "+".join(member.by for member in self.members)

    @property
    def settings(self) -> dict[str, Param]:
        """Those of all members."""
        found: dict[str, Param] = {}
        for number, member in enumerate(self.members):
            found |= {f"{number}.{name}": value for name, value in member.settings.items()}
        return found

    @property
    def models(self) -> tuple[str, ...]:
        """The models of all members."""
        return tuple(dict.fromkeys(m for member in self.members for m in member.models))

    def judge(self, case: Case, rubric: Rubric) -> TraceVerdict:
        """The majority for each step; `split` holds the steps on which members disagree."""
        said = [member.judge(case, rubric) for member in self.members]
        votes: dict[tuple[str, int], list[tuple[str, ItemVerdict]]] = {}
        for member, verdict in zip(self.members, said, strict=True):
            for one in verdict.verdicts:
                votes.setdefault((one.item, one.step), []).append((member.by, one))
        found = tuple(_majority(item, step, own) for (item, step), own in votes.items())
        known = {place: {v.value for _, v in own if v.value is not None} for place, own in votes.items()}
        split = tuple(place for place, values in known.items() if len(values) > 1)
        coverage = [v.coverage for v in said if v.coverage is not None]
        least = min(coverage, key=lambda c: c.seen / max(c.steps, 1), default=None)
        return TraceVerdict(verdicts=found, split=split, coverage=least)

    def prefer(self, first: Case, second: Case, rubric: Rubric) -> Preference:
        """What most members prefer; a tie where no choice has more than half of them."""
        said = [member.prefer(first, second, rubric) for member in self.members]
        counts = Counter(p.choice for p in said if p.choice is not None)
        if not counts:
            return Preference(None, said[0].why if said else "the panel has no members")
        choice, count = counts.most_common(1)[0]
        return Preference(
            choice if 2 * count > sum(counts.values()) else "tie", "; ".join(p.why for p in said if p.why)
        )

    def reading_in(self, window: int) -> PanelJudge:
        """All members read in such windows."""
        return PanelJudge([member.reading_in(window) for member in self.members])


def _majority(item: str, step: int, votes: Sequence[tuple[str, ItemVerdict]]) -> ItemVerdict:
    yes = sum(v.value is True for _, v in votes)
    no = sum(v.value is False for _, v in votes)
    reasons = "; ".join(f"{by}: {v.why}" for by, v in votes if v.value is False and v.why)
    if yes == no:
        applies = any(v.applies for _, v in votes)
        why = f"the panel is split {yes} to {no}" if yes else votes[0][1].why
        return ItemVerdict(item=item, step=step, value=None, why=why, applies=applies)
    return ItemVerdict(
        item=item, step=step, value=yes > no, why=reasons if no > yes else f"{yes} of {len(votes)} say yes"
    )


def prefer_by_score(judge: Judge, first: Case, second: Case, rubric: Rubric) -> Preference:
    """A preference from the two scores, for judges that look at one trace at a time."""
    one, two = (rubric_score(rubric, judge.judge(case, rubric)) for case in (first, second))
    if one is None or two is None:
        return Preference(None, "no item could be judged in one of the two traces")
    choice: PairChoice = "tie" if one == two else "first" if one > two else "second"
    return Preference(choice, f"scores {one:.2f} and {two:.2f}")
