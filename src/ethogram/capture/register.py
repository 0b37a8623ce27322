"""What a run holds already: which traces, which attempts, which files; so that nothing is imported twice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from ethogram.errors import Damaged
from ethogram.store import Entry, Redactor, Run, RunWriter
from ethogram.store.lake import SOURCES
from ethogram.traces import EpisodeId, Head, Origin, TraceId

from .growth import Content, content_of, core_of
from .intake import SourceReport
from .source import Source

FILES_PER_NOTE = 2000
MAX_VERSIONS = 64
"""With how many earlier files of a common start a source is compared."""
RENUMBERED = "attempt (renumbered)"
"""What is lost where a trace has the task, condition, agent and attempt of another one."""


class _Known(msgspec.Struct, gc=False):
    """What the register remembers of a committed trace."""

    trace_id: TraceId
    spans: int
    attempt: int
    group: tuple[str, str, str]


def _group(head: Head) -> tuple[str, str, str]:
    """Within it attempts are numbered."""
    return head.task, head.condition, head.agent


def mark_of(source: Source, redactor: Redactor) -> str:
    """Tells a file from others of its name without saying where it lies; a stream is known by its content alone."""
    return redactor.mark(source.place) if source.place else source.digest


def _marks_beside(source: Source, redactor: Redactor) -> set[str]:
    """The marks of the other files in a source's folder."""
    folder = os.path.dirname(source.place)
    with suppress(OSError):
        return {redactor.mark(os.path.join(folder, name)) for name in os.listdir(folder)} - {
            redactor.mark(source.place)
        }
    return set()


class Register:
    """What the run holds already: traces by episode, attempts in use, files read to the end."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.episodes: dict[EpisodeId, _Known] = {}
        self.used: dict[tuple[str, str, str], set[int]] = {}
        self.next: dict[tuple[str, str, str], int] = {}
        self.files: dict[tuple[str, str, str], SourceReport] = {}
        self.places: dict[tuple[str, str], str] = {}
        self.versions: dict[str, dict[int, dict[str, ReadFile]]] = {}
        self.last: dict[str, EpisodeId] = {}
        self.unpublished: list[ReadFile] = []
        for read in read_files(run):
            self._keep(read)
            self.places[read.origin.name, read.mark] = read.place
            if read.content.start:
                sizes = self.versions.setdefault(read.content.start, {})
                sizes.setdefault(read.content.size, {})[read.content.core] = read
        self.named = {name for name, _ in self.places}
        for entry in run.entries:
            self._note(entry)

    def _keep(self, read: ReadFile) -> None:
        for digest in (read.origin.digest, read.content.digest):
            self.files[read.origin.format, digest, read.columns] = read.report

    def _note(self, entry: Entry) -> None:
        head = entry.head
        self.episodes[head.episode] = _Known(head.trace_id, entry.totals.spans, head.attempt, _group(head))
        self._use(_group(head), head.attempt)
        if head.origin is not None:
            self.last[head.origin.digest] = head.episode

    def _use(self, group: tuple[str, str, str], attempt: int) -> None:
        self.used.setdefault(group, set()).add(attempt)
        self.next[group] = max(self.next.get(group, 0), attempt + 1)

    def entry(self, head: Head) -> _Known | None:
        """What is known of this episode."""
        return self.episodes.get(head.episode)

    def continues(self, head: Head, read: ReadFile) -> None:
        """Know a trace by the name that it has now, where the program that writes it was in the middle of its record
        when the last version of the source was read: it was the last one then, and is in the same position now."""
        before, now = read.before, read.report
        if before is None or head.episode in self.episodes or _count(now) != _count(before.report) - 1:
            return
        last = self.last.get(before.origin.digest)
        if last is not None and (known := self.episodes.pop(last, None)) is not None:
            self.episodes[head.episode] = known

    def number(self, head: Head, spans: int, report: SourceReport) -> Head:
        """Give the head an attempt that no other trace of its task, condition and agent has."""
        used = self.used.setdefault(_group(head), set())
        known = self.episodes.get(head.episode)
        attempt = head.attempt
        if known is not None and known.group == _group(head):
            attempt = known.attempt
        elif attempt < 0 or attempt in used:
            if attempt >= 0:
                report.lose(RENUMBERED)
            attempt = self.next.get(_group(head), 0)
        self._use(_group(head), attempt)
        self.episodes[head.episode] = _Known(head.trace_id, spans, attempt, _group(head))
        return msgspec.structs.replace(head, attempt=attempt)

    def repeats(self, report: SourceReport, format: str, digest: str, columns: str) -> bool:
        """Whether a file was read to the end before, with these columns; its report then says what that one said."""
        before = self.files.get((format, digest, columns))
        if before is not None:
            report.repeat(before)
            report.end()
        return before is not None

    def identify(
        self, origin: Origin, source: Source, report: SourceReport, redactor: Redactor, columns: str
    ) -> ReadFile:
        """What is known of a source that is about to be read, and what stands for it in the names of its episodes.

        That is what stood for the file that it is a later version of, wherever that lay. Else it is the name of the
        source, unless another file of that name came first: so a file that has changed supersedes its traces, and
        `a/log.json` never those of `b/log.json`.
        """
        mark = mark_of(source, redactor)
        content, starts = content_of(source, redactor.mark)
        before = self._earlier(source, content, starts, mark, redactor)
        place = before.place if before is not None else self.places.get((origin.name, mark))
        if before is None and place is not None and self._moved(place, mark):
            place = None
        if place is None:
            place = f"{origin.name}\n{mark}" if origin.name in self.named else origin.name
        self.places[origin.name, mark] = place
        self.named.add(origin.name)
        return ReadFile(origin, report, place, mark, columns, content, before)

    def _moved(self, place: str, mark: str) -> bool:
        """Whether the file that a place stands for was read elsewhere since."""
        return any(known == place and other != mark for (_, other), known in self.places.items())

    def _earlier(
        self, source: Source, content: Content, starts: list[str], mark: str, redactor: Redactor
    ) -> ReadFile | None:
        """The latest version of a source that an earlier import read: the source begins with it, and it is not a file
        of its own that lies beside the source."""
        for start in starts:
            sizes = self.versions.get(start, {})
            for size in sorted((n for n in sizes if n <= content.size), reverse=True)[:MAX_VERSIONS]:
                read = sizes[size].get(core_of(source, size, redactor.mark))
                if read is not None and (read.mark == mark or read.mark not in _marks_beside(source, redactor)):
                    return read
        return None

    def finish(self, read: ReadFile, writer: RunWriter) -> None:
        """Note a file that was read to the end; the note is committed with its traces or after them."""
        self._keep(read)
        self.unpublished.append(msgspec.structs.replace(read, before=None))
        if len(self.unpublished) >= FILES_PER_NOTE:
            self.flush(writer)

    def flush(self, writer: RunWriter) -> None:
        """Commit the traces together with the notes: what was skipped and lost stays known."""
        if self.unpublished:
            writer.note(SOURCES, [msgspec.json.encode(r) for r in self.unpublished])
            self.unpublished = []
        writer.commit()


class ReadFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file that was read to the end, its report, what stands for it in ids, what tells it from its namesakes, which
    columns the user named, what it held, and while it is read: its earlier version, if it has grown since."""

    origin: Origin
    report: SourceReport
    place: str = ""
    mark: str = ""
    columns: str = ""
    content: Content = Content()
    before: ReadFile | None = None


def _count(report: SourceReport) -> int:
    return report.traces + report.unchanged


def read_files(run: Run) -> Iterator[ReadFile]:
    """The files that were imported into a run, with what was skipped and lost in each.

    A file that two imports read at the same time is told of once.
    """
    decoder = msgspec.json.Decoder(ReadFile)
    seen = set()
    for name, line in run.notes(SOURCES):
        try:
            read = decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise Damaged(
                f"{name} of run {run.name!r} cannot be read; run: ethogram verify", where=f"{run.path}/{name}"
            ) from None
        if (read.origin, read.columns) not in seen:
            seen.add((read.origin, read.columns))
            yield read
