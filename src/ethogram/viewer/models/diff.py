"""The page of two attempts: their steps aligned, the words of each side; and of two runs: distances over the floor."""

from __future__ import annotations

import msgspec

from ethogram.estimate import Estimate
from ethogram.measures.manifestation import Manifestation, ManifestationGroup
from ethogram.measures.noise_floor import NoiseFloor
from ethogram.questions.divergence.diff import Side, StepRow, diff, pair_words
from ethogram.questions.divergence.pair_fields import EditCounts, Overhead
from ethogram.questions.divergence.question import PairRow, TaskDivergence, divergence
from ethogram.reading.trace_words import WordsPart
from ethogram.viewer.library import Library

MOST_SIGNS = 50_000
"""How many signs of an alignment are sent for its map; a longer alignment has none."""
MOST_CHARACTERS = 20_000
"""How much of one text is sent; the page of the trace has all of it."""
MOST_PAIRS = 200


class DiffQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Two traces by id or by the start of it, each in its run, and a window of their aligned steps.

    Without `start` the window begins a little before the first step that differs.
    """

    run: str = "latest"
    trace: str = ""
    other: str = ""
    against: str = ""
    start: int = -1
    count: int = 200


class DiffView(msgspec.Struct, frozen=True, kw_only=True):
    """Two traces compared. `rows` are aligned steps from `start` on, of `of`; `signs` has one character for each step
    (`=~+-`); `differs` is the first row that differs."""

    first: Side
    second: Side
    d_norm: float | None
    t_star: int | None
    edits: EditCounts | None
    manifestation: Manifestation
    group: ManifestationGroup
    rule: str
    answer_changed: bool | None
    token_overhead: Overhead
    within_noise_floor: bool | None
    tail_probability: float | None
    noise_floor: NoiseFloor
    warnings: list[str]
    unavailable: str | None
    differs: int | None
    start: int
    of: int
    rows: list[StepRow]
    signs: str


def diff_view(library: Library, query: DiffQuery) -> DiffView:
    """Two attempts, aligned."""
    names = (query.trace, query.other, query.against or query.run)
    found = library.answer(
        query.run,
        ("diff", *names),
        lambda run: diff(query.trace, query.other, run=run.name, against=query.against or None, home=library.home),
    )
    differs = next((i for i, row in enumerate(found.steps) if row.sign != "="), None)
    start = query.start if query.start >= 0 else max(0, (differs or 0) - 8)
    return DiffView(
        first=found.first,
        second=found.second,
        d_norm=found.d_norm,
        t_star=found.t_star,
        edits=found.edits,
        manifestation=found.manifestation,
        group=found.group,
        rule=found.rule,
        answer_changed=found.answer_changed,
        token_overhead=found.token_overhead,
        within_noise_floor=found.within_noise_floor,
        tail_probability=found.tail_probability,
        noise_floor=found.noise_floor,
        warnings=found.warnings,
        unavailable=found.unavailable,
        differs=differs,
        start=start,
        of=len(found.steps),
        rows=found.steps[start : start + max(0, query.count)],
        signs="".join(row.sign for row in found.steps) if len(found.steps) <= MOST_SIGNS else "",
    )


class DiffWordsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The position on each side of one aligned row; -1 where a side has none."""

    run: str = "latest"
    trace: str = ""
    other: str = ""
    against: str = ""
    first: int = -1
    second: int = -1


class DiffWordsView(msgspec.Struct, frozen=True, kw_only=True):
    """The words of both sides; `cut` counts the characters that were left out."""

    first: list[WordsPart]
    second: list[WordsPart]
    cut: int


def diff_words_view(library: Library, query: DiffWordsQuery) -> DiffWordsView:
    """What both sides say at one aligned row."""
    at = tuple(place if place >= 0 else None for place in (query.first, query.second))
    both = pair_words(
        query.trace,
        query.other,
        (at[0], at[1]),
        run=query.run,
        against=query.against or None,
        home=library.home,
    )
    cut = sum(max(0, len(part.text) - MOST_CHARACTERS) for side in both for part in side)
    first, second = ([_shortened(part) for part in side] for side in both)
    return DiffWordsView(first=first, second=second, cut=cut)


def _shortened(part: WordsPart) -> WordsPart:
    return msgspec.structs.replace(part, text=part.text[:MOST_CHARACTERS])


class DistancesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A run against another run of the same tasks; without it, its own repeats."""

    run: str = "latest"
    against: str = ""


class DistancesView(msgspec.Struct, frozen=True, kw_only=True):
    """How far attempts are apart, by task, beside the noise floor; `pairs` are the furthest ones with the other run."""

    run: str
    against: str | None
    tasks: dict[str, TaskDivergence]
    mean_of_means: float | None
    noise_floor: NoiseFloor
    evidence: str | None
    p_value: float | None
    pairs: list[PairRow]
    of_pairs: int
    groups: dict[str, Estimate]
    within_noise_floor: Estimate | None
    warnings: list[str]


def distances_view(library: Library, query: DistancesQuery) -> DistancesView:
    """The answer of `ethogram divergence`."""
    found = library.answer(
        query.run,
        ("distances", query.against, library.state(query.against) if query.against else ""),
        lambda run: divergence(run, query.against or None, home=library.home),
    )
    furthest = sorted(found.pairs, key=lambda pair: -(pair.d_norm if pair.d_norm is not None else -1.0))
    return DistancesView(
        run=found.run,
        against=found.baseline,
        tasks=found.tasks,
        mean_of_means=found.mean_of_means,
        noise_floor=found.noise_floor,
        evidence=found.evidence,
        p_value=found.p_value,
        pairs=furthest[:MOST_PAIRS],
        of_pairs=len(found.pairs),
        groups=found.groups,
        within_noise_floor=found.within_noise_floor,
        warnings=found.warnings,
    )
