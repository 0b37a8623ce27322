"""Distances between the repeats of a run, kept with the run that they were computed from.

A record lies in the run's folder `derived` under the hash of its inputs: the rule of reading and the ids of the traces,
group by group. A trace never changes under its id, so a record that is found under its name fits; another set of traces
or another rule has another name, is computed anew and stored beside. What cannot be written is not stored, and what
cannot be read is computed: nothing depends on a record. Signatures of the user's own are never stored, since their code
may change under the same name.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from math import isnan

import msgspec
import numpy as np

from ethogram.errors import EthogramError
from ethogram.measures.divergence import Floats, repeat_distances, upper
from ethogram.measures.noise_floor import NoiseFloor, noise_floor
from ethogram.statistics.distance import Alphabet
from ethogram.store import DERIVED, Run
from ethogram.traces.ids import digest
from ethogram.traces.signature import SIGNATURES

from .step_sequences import EpisodeReading, ReadingOptions

VERSION = 2
"""Raised when a signature or the distance is defined anew: older records then fit no longer."""


class Repeats(msgspec.Struct, frozen=True, kw_only=True):
    """Repeats of one task; `d_norm` of the first to all others, then of the second to those after it, and so on.

    Distances are None where none of the repeats recorded a step.
    """

    task: str
    traces: list[str]
    d_norm: list[float | None]


class FloorRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a floor was computed from, every distance, and their summary; `digest` is of all the rest."""

    version: int
    reading: str
    signature: str
    by_lane: bool
    noise_floor: NoiseFloor
    repeats: list[Repeats]
    digest: str = ""


def own_distances(run: Run, groups: Sequence[Sequence[EpisodeReading]], how: ReadingOptions) -> list[Floats]:
    """The square matrix of distances of each group of repeats: from the run's record if it fits, else computed.

    It is NaN where no repeat of a group recorded a step: nothing is known of how far apart those are.
    """
    record = kept_floor(run, groups, how)
    if record is not None:
        return [_square(r) for r in record.repeats]
    letters = Alphabet()
    found = [repeat_distances([e.reading for e in group], letters, by_lane=how.by_lane).d_norm for group in groups]
    with suppress(EthogramError):  # a home that may only be read
        if _storable(how) and any(len(g) > 1 for g in groups) and not run.busy():  # what still grows is soon outdated
            _store(run, groups, how, found)
    return found


def floor_of(groups: Sequence[Sequence[EpisodeReading]], squares: Sequence[Floats]) -> NoiseFloor:
    """The summary; a task that several versions were run on is one task."""
    tasks = {g[0].entry.head.task for g in groups}
    return msgspec.structs.replace(noise_floor(squares), tasks=len(tasks))


def kept_floor(run: Run, groups: Sequence[Sequence[EpisodeReading]], how: ReadingOptions) -> FloorRecord | None:
    """The record of these groups, if the run has one that is whole; readings are not looked at."""
    path = _path(run, groups, how)
    if not _storable(how) or not run.files.exists(path):
        return None
    try:
        record = msgspec.json.decode(run.files.read(path), type=FloorRecord)
    except (EthogramError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    whole = record.digest == _digest(record) and [r.traces for r in record.repeats] == [_ids(g) for g in groups]
    return record if whole else None


def _storable(how: ReadingOptions) -> bool:
    return isinstance(how.signature, str) and how.signature in SIGNATURES


def _store(run: Run, groups: Sequence[Sequence[EpisodeReading]], how: ReadingOptions, found: Sequence[Floats]) -> None:
    record = FloorRecord(
        version=VERSION,
        reading=how.reading,
        signature=how.name,
        by_lane=how.by_lane,
        noise_floor=floor_of(groups, found),
        repeats=[
            Repeats(task=g[0].entry.head.task, traces=_ids(g), d_norm=[None if isnan(x) else x for x in upper(d)])
            for g, d in zip(groups, found, strict=True)
        ],
    )
    record = msgspec.structs.replace(record, digest=_digest(record))
    run.files.publish(_path(run, groups, how), msgspec.json.encode(record))


def _path(run: Run, groups: Sequence[Sequence[EpisodeReading]], how: ReadingOptions) -> str:
    rule = (f"floor {VERSION}", how.reading, how.name, str(how.by_lane))
    named = digest(*rule, *("\n".join(_ids(g)) for g in groups))
    return f"{run.path}/{DERIVED}/floor-{named.rpartition(':')[2]}.json"


def _digest(record: FloorRecord) -> str:
    return digest(msgspec.json.encode(msgspec.structs.replace(record, digest="")))


def _ids(group: Sequence[EpisodeReading]) -> list[str]:
    return [e.entry.head.trace_id for e in group]


def _square(repeats: Repeats) -> Floats:
    size = len(repeats.traces)
    d = np.zeros((size, size))
    d[np.triu_indices(size, 1)] = np.array(repeats.d_norm, dtype=np.float64)  # None becomes NaN
    return d + d.T
