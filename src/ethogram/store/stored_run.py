"""A run: a directory with a plan, a ledger, spans, texts and labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from ethogram.errors import BadInput, BadUsage, Damaged, NotFound, Sealed, first_line
from ethogram.traces import SUCCESS_AT, Head, Label, Param, Ref, Span, Trace, TraceId, detached_refs, short_id

from . import ledger, ledger_file
from .batch import Batch
from .entry import DataFile, Entry, Segment
from .files import Files
from .head_texts import head_with_words, label_with_words, named_refs
from .lease import Lease, is_alive, leases
from .ledger import Standing
from .recount import recounted
from .redact import Redactor
from .rows import SpanReader
from .seal import Keyring
from .segment import damage, spans_of
from .sink import Limits
from .texts import TextReader, TraceTexts
from .writer import COMMIT_WINDOW, LIMITS, RunWriter

if TYPE_CHECKING:
    from .episodes import Episodes
    from .span_table import SpanTable

EXTENSIONS = "extensions"
"""Notes on attempts that were added to a plan; `planned` of the last one is how many episodes there are then."""
SCORINGS = "scorings"
"""Notes on scorings by a suite that counts successes otherwise than the run did: `success_at` of the last one holds."""


class RunInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`run.json`: what a run is, with which code and settings it was made; `digest` proves that nothing changed."""

    schema_version: int
    name: str
    kind: str
    created_ns: int
    version: str
    tags: tuple[str, ...] = ()
    redaction: str = "default"
    meta: dict[str, Param] = {}
    plan: dict[str, Any] = {}
    digest: str = ""


def info_digest(data: bytes) -> str:
    """The hash of a `run.json`, taken over its content without the digest itself."""
    content = msgspec.json.decode(data)
    content.pop("digest", None)
    return ledger_file.hash_of(msgspec.json.encode(content, order="deterministic"))


class Run:
    """A run, opened for reading; `writer` adds to it."""

    def __init__(self, files: Files, path: str, keys: Keyring) -> None:
        """`path` is relative to the files' root."""
        self.files = files
        self.path = path
        self.keys = keys
        self.name = path.rpartition("/")[2]

    def __repr__(self) -> str:
        return f"Run({self.name!r})"

    @cached_property
    def info(self) -> RunInfo:
        """What the run is."""
        try:
            return msgspec.json.decode(self.files.read(f"{self.path}/run.json"), type=RunInfo)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise BadInput(
                f"run.json of {self.name!r} cannot be read: {first_line(error)}", where=f"{self.path}/run.json"
            ) from None

    def segments(self) -> list[Segment]:
        """Ledger segments in force, read anew."""
        return ledger.read_segments(self.files, self.path)

    @cached_property
    def standing(self) -> Standing:
        """What the ledger says, as of the first time it was asked."""
        with ledger.gc_paused():
            standing = ledger.standing(self.segments())
        return msgspec.structs.replace(standing, live=recounted(self.files, self.path, standing.live))

    @cached_property
    def visible(self) -> Standing:
        """What the ledger says of files alone: `live` entries have ids and places, and nothing else was decoded."""
        if "standing" in self.__dict__:
            return self.standing
        with ledger.gc_paused():
            return ledger.standing(ledger.unreplaced(ledger.read_all(self.files, self.path, ledger_file.decode_places)))

    def episodes(self, figures: Sequence[str] = ()) -> Episodes:
        """Committed episodes that count, as columns, with these figures: for code that counts and opens no trace.

        `run.episodes(["cost_usd", "seconds"]).figures["seconds"]`; names are in `store.episodes.FIGURES`.
        """
        held: Episodes | None = self.__dict__.get("_episodes")
        if held is None or not held.figures.keys() >= set(figures):
            from .episodes import read_episodes  # needs numpy

            held = read_episodes(self.files, self.path, sorted(set(figures)))
            for name in held.uncounted:  # of an earlier version of the ledger
                held.recount(name, [getattr(entry.totals, name) for entry in self.entries])
            self.__dict__["_episodes"] = held
        return held

    def forget_cache(self) -> None:
        """Look at the ledger anew: it was rewritten or has grown."""
        for name in ("standing", "visible", "success_at", "_episodes", "texts", "_spans", "_labels_of"):
            self.__dict__.pop(name, None)

    def reopened(self) -> Run:
        """The same run for another thread: what was read of its ledger is shared, open files are not."""
        run = Run(self.files, self.path, self.keys)
        for name in ("info", "standing", "_episodes", "_labels_of"):
            if name in self.__dict__:
                run.__dict__[name] = self.__dict__[name]
        return run

    def labels_of(self, entry: Entry) -> tuple[Label, ...]:
        """The labels of one trace in order of commit, their words as references."""
        return tuple(self._labels_of.get(entry.head.trace_id, ()))

    @property
    def planned(self) -> int | None:
        """How many episodes are planned, with those that were added later; None where nothing was (an import)."""
        planned = [int(msgspec.json.decode(line)["planned"]) for _, line in self.notes(EXTENSIONS)]
        begun = self.info.plan.get("planned")
        return max([begun, *planned]) if begun is not None else None

    @cached_property
    def success_at(self) -> float:
        """From which score on an episode is a success: as the suite says that scored the run last, else its own."""
        own = self.info.plan.get("success_at", SUCCESS_AT)
        noted = self.notes(SCORINGS) if self.files.names(f"{self.path}/{SCORINGS}") else ()  # few runs have any
        return float([own, *(msgspec.json.decode(line)["success_at"] for _, line in noted)][-1])

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Committed episodes that count, those of batches apart."""
        return self.standing.live

    @property
    def batches(self) -> tuple[Batch, ...]:
        """Committed batches of episodes without traces."""
        return self.standing.batches

    @cached_property
    def texts(self) -> TextReader:
        """Texts by address."""
        return TextReader(self.files, self.path, self.standing.files, self.keys)

    @cached_property
    def _spans(self) -> SpanReader:
        known = self.standing.files if "standing" in self.__dict__ else ledger.visible_files(self.files, self.path)
        return SpanReader(self.files, self.path, known)

    def writer(
        self,
        redactor: Redactor,
        *,
        seal: bool | None = None,
        window: float | None = COMMIT_WINDOW,
        limits: Limits = LIMITS,
    ) -> RunWriter:
        """A new writer; payloads are sealed when a key is active, unless `seal` says otherwise."""
        active = self.keys.active() if seal is not False else None
        if seal and active is None:
            raise BadUsage("there is no key to seal with; make one with: ethogram keys new")
        key = (active, self.keys.get(active)) if active else None
        return RunWriter(self.files, self.path, redactor, key=key, window=window, limits=limits)

    @cached_property
    def _by_id(self) -> dict[str, Entry]:
        return {e.head.trace_id: e for e in self.entries}

    def find(self, wanted: str) -> Entry:
        """The entry of a trace by its id, by the start of it if no other begins so, or as `TASK/ATTEMPT`."""
        if wanted in self._by_id:
            return self._by_id[wanted]
        digits = wanted.removeprefix("b2:")
        found = [e for e in self.entries if e.head.trace_id.removeprefix("b2:").startswith(digits)]
        if len(found) > 1:
            raise BadUsage(f"{len(found)} traces of {self.name!r} begin with {wanted!r}; give more digits")
        task, _, attempt = wanted.rpartition("/")
        if not found and task and attempt.isdecimal():
            found = [e for e in self.entries if e.head.task == task and e.head.attempt == int(attempt)]
            if len(found) > 1:
                ids = ", ".join(short_id(e.head.trace_id) for e in found[:6])
                raise BadUsage(f"{len(found)} traces of {self.name!r} are attempt {wanted!r}; give one's id: {ids}")
        if not found:
            raise NotFound(
                f"no trace {wanted!r} in run {self.name!r}; list them with: ethogram show {self.name}",
                where=f"run {self.name!r}",
                what="trace",
                name=wanted,
            )
        return found[0]

    def spans(self, entry: Entry) -> Iterator[Span]:
        """Spans of a trace in the order of the log, a few thousand in memory at a time."""
        for place in entry.spans:
            for batch in self._spans.rows(place):
                with damage(place.file):
                    spans = spans_of(batch)
                yield from spans

    def span_table(self, entry: Entry) -> SpanTable:
        """The spans of a trace as a table of which only what is asked for is read."""
        from .span_table import SpanTable

        return SpanTable(self._spans, entry.spans)

    def span_batches(self, entry: Entry) -> Iterator[Any]:
        """Rows of a trace as Arrow batches."""
        for place in entry.spans:
            yield from self._spans.rows(place)

    def trace(self, wanted: Entry | str) -> Trace:
        """A trace, by its id or its entry, with its texts at hand; bodies are read when asked for."""
        entry = self.find(wanted) if isinstance(wanted, str) else wanted
        if entry.forgotten:
            raise NotFound(
                f"trace {entry.head.trace_id} is no longer kept: {entry.forgotten}",
                where=f"run {self.name!r}",
                what="trace",
                name=entry.head.trace_id,
            )
        spans = tuple(self.spans(entry))
        labels = self.labels_of(entry)
        texts = TraceTexts(self.texts, entry.texts, spans, named_refs(entry.head, labels))
        try:
            head = self.head(entry)
            labels = tuple(label_with_words(label, texts.__getitem__) for label in labels)
        except Sealed:  # all that needs no key can still be read
            head = entry.head
        return Trace(head, spans, texts, labels)

    def head(self, entry: Entry) -> Head:
        """The head of a trace with its words: why its outcome is missing, and facts that are more than a name."""
        return head_with_words(entry.head, lambda ref: self.texts.get(ref, entry.texts))

    def traces(self) -> Iterator[Trace]:
        """All traces, one after the other."""
        return (self.trace(e) for e in self.entries if not e.forgotten)

    def labels(self) -> Iterator[Label]:
        """Labels of all traces that count, in order of commit."""
        decoder = msgspec.json.Decoder(Label)
        live, dead = {e.head.trace_id for e in self.entries}, set(self.standing.dead)
        for name, line in self.notes(ledger.LABELS):
            try:
                label = decoder.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                raise Damaged(
                    f"{name} of run {self.name!r} cannot be read; run: ethogram verify", where=f"{self.path}/{name}"
                ) from None
            if label.trace_id in live and (name, label.trace_id) not in dead:
                yield label

    def notes(self, folder: str) -> Iterator[tuple[str, bytes]]:
        """Lines of all committed files in a folder of the run, each with its file's name, in order of commit."""
        for file in ledger.named(self._files, folder + "/"):
            for line in ledger_file.ledger_lines(self.files, f"{self.path}/{file.name}"):
                yield file.name, line

    @property
    def _files(self) -> tuple[DataFile, ...]:
        """Visible files, from whatever was read of the ledger already."""
        return (self.standing if "standing" in self.__dict__ else self.episodes()).files

    @cached_property
    def _labels_of(self) -> dict[TraceId, list[Label]]:
        found: dict[TraceId, list[Label]] = {}
        for label in self.labels():
            found.setdefault(label.trace_id, []).append(label)
        return found

    def leases(self) -> dict[str, Lease]:
        """Writers that did not finish, by name."""
        return leases(self.files, self.path)

    def busy(self) -> list[str]:
        """Writers that may still be at work."""
        return [name for name, held in self.leases().items() if is_alive(held)]

    def all_refs(self, entry: Entry) -> list[Ref]:
        """Every text that a trace needs once, in order, those that its messages lean on included."""
        named = dict.fromkeys(named_refs(entry.head, self._labels_of.get(entry.head.trace_id, ())))
        messages: dict[Ref, None] = {}
        for span in self.spans(entry):
            named.update(dict.fromkeys(span.refs))
            messages.update(dict.fromkeys((*span.input, *span.output)))
        for ref in messages:
            named.update(dict.fromkeys(detached_refs(self.texts.get(ref, entry.texts))))
        return list(named)
