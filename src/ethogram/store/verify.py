"""Verification: re-derive every hash, follow every reference; sweep files that were never committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

import msgspec

from ethogram.errors import BadInput, Damaged, EthogramError, NotFound, Sealed
from ethogram.traces import Label, Ref, detached_refs, text_ref

from . import lease, ledger, ledger_file, manifest, spool
from .entry import DataFile, Entry, Segment
from .head_texts import named_refs
from .lake import CONFIRMATIONS, DERIVED, DOCUMENTS, REDACTION_KEY, Home
from .segment import damage, open_parquet
from .stored_run import EXTENSIONS, SCORINGS, Run, info_digest

VerifyProgress = Callable[[int], None]
YOUNG_S = 60.0
_OWN_FILES = ("run.json", "stop.json", manifest.NAME)
_OWN_FOLDERS = (ledger.FOLDER, lease.FOLDER, DERIVED, spool.FOLDER)
"""Ledger segments and spools have hashes of their own; leases and derived figures are made anew if unreadable."""
_NOTES = (ledger.LABELS, "sources", "retention", EXTENSIONS, CONFIRMATIONS, DOCUMENTS, SCORINGS)


class IntegrityProblem(msgspec.Struct, frozen=True):
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
    damaged: list[IntegrityProblem] = []
    advice: str | None = None
    """What to do about damage that can be mended."""
    leftovers: list[str] = []
    unproven: list[str] = []
    """Files that no hash covers: of an earlier version, or not ours."""

    @property
    def ok(self) -> bool:
        """Whether everything is as it was written."""
        return not self.damaged


def verify_run(run: Run, progress: VerifyProgress | None = None) -> Verification:
    """Check one run, as its ledger stands now."""
    run.forget_cache()
    check = _Check(run)
    check.all(progress)
    with suppress(EthogramError):  # a damaged ledger cannot say what is left over; it is named above
        check.found.leftovers = leftovers(run)
    return check.found


class _Check:
    """One check of one run: what was found so far, and which texts lie where."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.found = Verification(run=run.name)
        self.held: dict[Ref, tuple[int, ...]] = {}
        self.detached: dict[Ref, tuple[Ref, ...]] = {}
        self.numbers: dict[str, int] = {}
        self.refers_to: dict[str, str | None] = {}
        self.sealed: set[str] = set()
        self.broken: set[str] = set()

    def damaged(self, where: str, what: str) -> None:
        self.found.damaged.append(IntegrityProblem(where, what))

    def all(self, progress: VerifyProgress | None) -> None:
        """Check every file, then every reference."""
        self._info()
        segments = ledger.in_force(self._segments())
        standing = ledger.standing(segments)
        self.found.episodes = len(standing.live) + sum(map(len, standing.batches))
        for file in standing.files:
            self.found.files += 1
            self.numbers[file.name] = len(self.numbers)
            self.refers_to[file.name] = file.refers_to
            if not self._is_whole(file):
                self.broken.add(file.name)
            elif file.name.startswith("texts-"):
                self._texts(file)
            if progress is not None:
                progress(file.bytes)
        labels = self._labels(standing.named(ledger.LABELS + "/"))
        dead = set(standing.dead)
        for segment in segments:
            own = {f.name for f in segment.header.files}
            for entry in segment.entries:
                trace = entry.head.trace_id
                # a trace that was written twice counts once; labels of the one that does not count lie beside it
                counts = not dead or not any((name, trace) in dead for name in own)
                said = [
                    label
                    for name, label in labels.get(trace, ())
                    if ((name, trace) not in dead if counts else name in own)
                ]
                self._entry(segment.name, entry, said)
        self._beside({file.name for file in standing.files})

    def _beside(self, visible: set[str]) -> None:
        """Files that no ledger names: those of an exploration stand in a list of hashes of their own."""
        run = self.run
        for where, what in manifest.problems(run.files, run.path):
            self.damaged(where, what)
        with suppress(EthogramError):  # a damaged list is named above
            listed = set(manifest.read_manifest(run.files, run.path).files)
            self.found.files += len(listed)
            known = {*visible, *listed, *_OWN_FILES}
            self.found.unproven = [f for f in _others(run) if f not in known]

    def _info(self) -> None:
        """`run.json` against its own digest."""
        try:
            info = Run(self.run.files, self.run.path, self.run.keys).info
            if info_digest(self.run.files.read(f"{self.run.path}/run.json")) != info.digest:
                self.damaged("run.json", "the content does not match its digest")
        except EthogramError as error:
            self.damaged("run.json", str(error))

    def _segments(self) -> list[Segment]:
        segments = []
        folder = f"{self.run.path}/{ledger.FOLDER}"
        for name in self.run.files.names(folder):
            try:
                segments.append(ledger_file.decode_segment(name, self.run.files.read(f"{folder}/{name}")))
            except NotFound:
                continue  # replaced since it was listed
            except (Damaged, BadInput) as error:
                self.damaged(f"{ledger.FOLDER}/{name}", str(error))
        return segments

    def _is_whole(self, file: DataFile) -> bool:
        try:
            data = self.run.files.read(f"{self.run.path}/{file.name}")
        except NotFound:
            self.damaged(file.name, "the file is missing")
            return False
        except EthogramError as error:
            self.damaged(file.name, str(error))
            return False
        if ledger_file.hash_of(data) != file.digest:
            self.damaged(file.name, "the bytes do not match the ledger's hash")
            return False
        return True

    def _texts(self, file: DataFile) -> None:
        """Re-derive the address of every text."""
        try:
            key = self.run.keys.get(file.key) if file.key else None
        except Sealed:
            self.found.sealed_away += 1
            self.sealed.add(file.name)
            return
        try:
            with damage(file.name), self.run.files.open(f"{self.run.path}/{file.name}") as source:
                for batch in open_parquet(source, key).iter_batches(
                    batch_size=1024, columns=["ref", "body"], use_threads=False
                ):
                    for ref, body in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                        self._text(file, ref, body)
        except EthogramError as error:
            self.broken.add(file.name)
            self.damaged(file.name, str(error))

    def _text(self, file: DataFile, ref: Ref, body: str) -> None:
        number = self.numbers[file.name]
        self.found.texts += 1
        self.held[ref] = (*self.held.get(ref, ()), number)
        detached = detached_refs(body)
        if detached:
            self.detached[ref] = detached
        if text_ref(body) != ref:
            self.damaged(file.name, f"text {ref} does not match its address")

    def _labels(self, files: Iterable[DataFile]) -> dict[str, list[tuple[str, Label]]]:
        """Labels by trace, each with its file; these were compared with the ledger's hash before."""
        found: dict[str, list[tuple[str, Label]]] = {}
        decoder = msgspec.json.Decoder(Label)
        for file in files:
            if file.name in self.broken:
                continue
            try:
                for line in ledger_file.ledger_lines(self.run.files, f"{self.run.path}/{file.name}"):
                    label = decoder.decode(line)
                    found.setdefault(label.trace_id, []).append((file.name, label))
            except (EthogramError, msgspec.MsgspecError) as error:
                self.damaged(file.name, str(error))
        return found

    def _entry(self, segment: str, entry: Entry, labels: Sequence[Label]) -> None:
        """Follow every reference of a trace."""
        trace = f"trace {entry.head.trace_id}"
        unknown = [n for n in (*(p.file for p in entry.spans), *entry.texts) if n not in self.numbers]
        if unknown:
            self.damaged(f"{ledger.FOLDER}/{segment}", f"{trace} names {unknown[0]}, which the ledger does not hold")
            return
        if any(place.file in self.broken or self.refers_to.get(place.file) in self.broken for place in entry.spans):
            return
        named: dict[Ref, None] = dict.fromkeys(named_refs(entry.head, () if entry.forgotten else labels))
        try:
            count = 0
            for span in self.run.spans(entry):
                count += 1
                if span.trace_id != entry.head.trace_id:
                    self.damaged(trace, f"span {span.span_id} belongs to another trace")
                named.update(dict.fromkeys(span.refs))
                for message in (*span.input, *span.output):
                    named.update(dict.fromkeys(self.detached.get(message, ())))
        except EthogramError as error:
            self.damaged(trace, str(error))
            return
        self.found.spans += count
        if count != entry.totals.spans and not entry.forgotten:
            self.damaged(trace, f"{count} spans where the ledger says {entry.totals.spans}")
        self._refs(trace, entry, named)

    def _refs(self, trace: str, entry: Entry, named: Iterable[Ref]) -> None:
        """Every text must lie in one of the segments that the entry names; what is sealed away cannot be looked at."""
        if any(name in self.sealed or name in self.broken for name in entry.texts):
            return
        own = {self.numbers[name] for name in entry.texts}
        lost = [ref for ref in named if own.isdisjoint(self.held.get(ref, ()))]
        if lost:
            more = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
            self.damaged(trace, f"text {lost[0]}{more} is not where the ledger says")


def verify_home(home: Home) -> tuple[list[IntegrityProblem], list[str]]:
    """Files of the home itself against their hashes, and those that have none."""
    found = [IntegrityProblem(where, what) for where, what in manifest.problems(home.files, "")]
    found += [IntegrityProblem(f"suites/{where}", what) for where, what in manifest.problems(home.files, "suites")]
    unproven = []
    with suppress(EthogramError):
        if home.files.exists(REDACTION_KEY) and REDACTION_KEY not in manifest.read_manifest(home.files, "").files:
            unproven.append(REDACTION_KEY)
    return found, unproven


def leftovers(run: Run) -> list[str]:
    """Files that no ledger segment in force makes visible and no living writer may still commit.

    The order matters: files first, then leases, then the ledger. A file that was there before the leases were
    read belongs to a writer that still lives, or that committed it before the ledger was read, or that is gone.
    """
    files, drafts = list(_files(run)), list(_drafts(run))
    held = run.leases()
    alive = [name for name, lease_held in held.items() if lease.is_alive(lease_held)]
    segments = ledger.read_all(run.files, run.path, ledger_file.decode_header)
    visible = {f.name for s in ledger.unreplaced(segments) for f in s.header.files}
    replaced = {f"{ledger.FOLDER}/{name}" for s in segments for name in s.header.replaces}
    there = {f"{ledger.FOLDER}/{s.name}" for s in segments}
    # the draft of a lease is older than the lease, so one whose owner is not known is left alone for a while
    old = [draft for draft, is_old in drafts if is_old or any(name in draft for name in held)]
    found = [f for f in (*files, *old) if f not in visible and not any(name in f for name in alive)]
    return sorted({*found, *(replaced & there)})


def _files(run: Run) -> Iterator[str]:
    """Everything in a run directory that only a ledger can give a meaning."""
    yield from (n for n in run.files.names(run.path) if n.endswith(".parquet"))
    for folder in _NOTES:
        yield from (f"{folder}/{n}" for n in run.files.names(f"{run.path}/{folder}"))


def _others(run: Run, folder: str = "") -> Iterator[str]:
    """Every file below a run that does not lie in one of our own folders, and is no segment."""
    for name in run.files.names(f"{run.path}/{folder}".rstrip("/")):
        below = f"{folder}/{name}" if folder else name
        if below in _OWN_FOLDERS or below in _NOTES or name.endswith(".parquet"):
            continue
        if "." in name:  # all files that we write have an ending, and no folder has
            yield below
        else:
            yield from _others(run, below)


def _drafts(run: Run) -> Iterator[tuple[str, bool]]:
    """Drafts in a run directory, and whether nobody has touched them for a while."""
    for folder in ("", ledger.FOLDER, lease.FOLDER, DERIVED, *_NOTES):
        below = f"{run.path}/{folder}".rstrip("/")
        old = set(run.files.drafts(below, YOUNG_S))
        yield from (((f"{folder}/{d}" if folder else d), d in old) for d in run.files.drafts(below))


def sweep(run: Run) -> list[str]:
    """Remove what nobody committed; files of writers that may still be at work are left alone."""
    gone = leftovers(run)
    held = run.leases()
    for path in gone:
        run.files.delete(f"{run.path}/{path}")
    for writer, lease_held in held.items():
        if not lease.is_alive(lease_held):
            lease.release_lease(run.files, run.path, writer)
    return gone
