"""Prove that nothing changed: re-derive every hash, follow every reference; sweep what nobody committed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b

import msgspec

from ethogram.errors import Damaged, EthogramError, Sealed
from ethogram.trace import Ref, detached_refs, text_ref
from ethogram.trace.ids import ALGORITHM

from . import ledger
from .files import LocalFiles
from .lake import Run
from .ledger import DataFile, Segment
from .segment import open_parquet

Progress = Callable[[int], None]


class Problem(msgspec.Struct, frozen=True):
    """Something that is not as it was written."""

    where: str
    what: str


class Verification(msgspec.Struct, kw_only=True):
    """What a check of one run found."""

    run: str
    episodes: int = 0
    spans: int = 0
    texts: int = 0
    files: int = 0
    sealed_away: int = 0
    damaged: list[Problem] = []
    leftovers: list[str] = []

    @property
    def ok(self) -> bool:
        """Whether everything is as it was written."""
        return not self.damaged


def verify(run: Run, progress: Progress | None = None) -> Verification:
    """Check one run."""
    found = Verification(run=run.name)
    segments = _segments(run, found)
    kept = ledger.in_force(segments)
    standing = ledger.standing(kept)
    found.episodes = len(standing.live)
    known: set[Ref] = set()
    leaning: set[Ref] = set()
    whole: set[str] = set()
    for file in standing.files:
        found.files += 1
        if _file_is_whole(run, file, found):
            whole.add(file.name)
            if file.name.startswith("texts-"):
                _check_texts(run, file, found, known, leaning)
        if progress is not None:
            progress(file.bytes)
    for missing in sorted(leaning - known):
        if not found.sealed_away:
            found.damaged.append(Problem("texts", f"text {missing} is referred to but not stored"))
    _check_entries(run, kept, found, known, whole)
    _check_labels(run, found)
    found.leftovers = list(leftovers(run, segments))
    return found


def _segments(run: Run, found: Verification) -> list[Segment]:
    segments = []
    folder = f"{run.path}/{ledger.FOLDER}"
    for name in run.files.names(folder):
        try:
            segments.append(ledger.decode_segment(name, run.files.read(f"{folder}/{name}")))
        except Damaged as error:
            found.damaged.append(Problem(f"ledger/{name}", str(error)))
    return segments


def _file_is_whole(run: Run, file: DataFile, found: Verification) -> bool:
    try:
        data = run.files.read(f"{run.path}/{file.name}")
    except EthogramError:
        found.damaged.append(Problem(file.name, "the file is missing"))
        return False
    if ALGORITHM + blake2b(data, digest_size=16).hexdigest() != file.digest:
        found.damaged.append(Problem(file.name, "the bytes do not match the ledger's hash"))
        return False
    return True


def _check_texts(run: Run, file: DataFile, found: Verification, known: set[Ref], leaning: set[Ref]) -> None:
    """Re-derive the address of every text."""
    try:
        key = run.keys.get(file.key) if file.key else None
    except Sealed:
        found.sealed_away += 1
        return
    parquet = open_parquet(run.files.open(f"{run.path}/{file.name}"), key)
    for batch in parquet.iter_batches(batch_size=1024, columns=["ref", "body"]):
        for ref, body in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            found.texts += 1
            known.add(ref)
            leaning.update(detached_refs(body))
            if text_ref(body) != ref:
                found.damaged.append(Problem(file.name, f"text {ref} does not match its address"))


def _check_entries(run: Run, segments: list[Segment], found: Verification, known: set[Ref], whole: set[str]) -> None:
    """Follow every reference of every trace."""
    for segment in segments:
        names = {f.name for s in segments for f in s.header.files}
        for entry in segment.entries:
            if not all(place.file in whole for place in entry.spans):
                if not all(place.file in names for place in entry.spans):
                    found.damaged.append(Problem(segment.name, f"trace {entry.head.trace_id} names an unknown file"))
                continue
            try:
                count = 0
                for span in run.spans(entry):
                    count += 1
                    lost = [r for r in span.refs if r not in known] if not found.sealed_away else []
                    if span.trace_id != entry.head.trace_id:
                        found.damaged.append(Problem(segment.name, f"span {span.span_id} belongs to another trace"))
                    if lost:
                        where = f"trace {entry.head.trace_id} span {span.span_id}"
                        found.damaged.append(Problem(where, f"text {lost[0]} is not stored"))
            except EthogramError as error:
                found.damaged.append(Problem(segment.name, str(error)))
                continue
            found.spans += count
            if count != entry.totals.spans and not entry.forgotten:
                what = f"{count} spans where the ledger says {entry.totals.spans}"
                found.damaged.append(Problem(f"trace {entry.head.trace_id}", what))


def _check_labels(run: Run, found: Verification) -> None:
    try:
        for _ in run.labels():
            pass
    except Damaged as error:
        found.damaged.append(Problem("labels", str(error)))


def leftovers(run: Run, segments: list[Segment]) -> Iterator[str]:
    """Files that no ledger segment in force makes visible: crashes leave them, nobody reads them."""
    kept = ledger.in_force(segments)
    visible = {f.name for s in kept for f in s.header.files}
    for name in run.files.names(run.path):
        if name.endswith(".parquet") and name not in visible:
            yield name
    replaced = {name for s in segments for name in s.header.replaces}
    yield from (f"{ledger.FOLDER}/{s.name}" for s in segments if s.name in replaced)
    if isinstance(run.files, LocalFiles):
        for folder in ("", ledger.FOLDER, "labels", "writers"):
            below = f"{run.path}/{folder}".rstrip("/")
            yield from (f"{folder}/{d}".lstrip("/") for d in run.files.drafts(below))


def sweep(run: Run) -> list[str]:
    """Remove what nobody committed; files of writers that may still be at work are left alone."""
    busy = run.busy()
    folder = f"{run.path}/{ledger.FOLDER}"
    segments = [ledger.decode_segment(n, run.files.read(f"{folder}/{n}")) for n in run.files.names(folder)]
    if busy:
        gone = [p for p in leftovers(run, segments) if p.endswith(".parquet") and not any(w in p for w in busy)]
    else:
        gone = list(leftovers(run, segments))
    for path in gone:
        run.files.delete(f"{run.path}/{path}")
    for writer in run.leases().keys() - set(busy):
        run.files.delete(f"{run.path}/writers/{writer}.json")
    return gone
