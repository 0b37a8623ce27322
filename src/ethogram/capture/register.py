"""What a run holds already: which traces, which attempts, which files; so that nothing is imported twice."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ethogram.errors import Damaged
from ethogram.store import Entry, Redactor, Run, RunWriter
from ethogram.store.lake import SOURCES
from ethogram.traces import Head, Origin, TraceId

from .intake import SourceReport
from .source import Source

FILES_PER_NOTE = 2000
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


class Register:
    """What the run holds already: traces by episode, attempts in use, files read to the end."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.episodes: dict[str, _Known] = {}
        self.used: dict[tuple[str, str, str], set[int]] = {}
        self.next: dict[tuple[str, str, str], int] = {}
        self.files: dict[tuple[str, str, str], SourceReport] = {}
        self.places: dict[tuple[str, str], str] = {}
        self.named: set[str] = set()
        self.unpublished: list[ReadFile] = []
        for read in read_files(run):
            self.files[read.origin.format, read.origin.digest, read.columns] = read.report
            self.places[read.origin.name, read.mark] = read.place
            self.named.add(read.origin.name)
        for entry in run.entries:
            self._note(entry)

    def _note(self, entry: Entry) -> None:
        head = entry.head
        self.episodes[head.episode] = _Known(head.trace_id, entry.totals.spans, head.attempt, _group(head))
        self._use(_group(head), head.attempt)

    def _use(self, group: tuple[str, str, str], attempt: int) -> None:
        self.used.setdefault(group, set()).add(attempt)
        self.next[group] = max(self.next.get(group, 0), attempt + 1)

    def entry(self, head: Head) -> _Known | None:
        """What is known of this episode."""
        return self.episodes.get(head.episode)

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

    def finished(self, origin: Origin, columns: str = "") -> SourceReport | None:
        """The report on a file that was read to the end before, with these columns; None if it was not."""
        return self.files.get((origin.format, origin.digest, columns))

    def place(self, origin: Origin, mark: str) -> str:
        """What stands for a file in the names of its episodes: its name, unless another file of that name came first.

        So a file that has grown supersedes its traces, and `a/log.json` never those of `b/log.json`.
        """
        if (origin.name, mark) not in self.places:
            self.places[origin.name, mark] = f"{origin.name}\n{mark}" if origin.name in self.named else origin.name
            self.named.add(origin.name)
        return self.places[origin.name, mark]

    def finish(self, origin: Origin, mark: str, report: SourceReport, writer: RunWriter, columns: str = "") -> None:
        """Note a file that was read to the end; the note is committed with its traces or after them."""
        self.files[origin.format, origin.digest, columns] = report
        self.unpublished.append(ReadFile(origin, report, self.place(origin, mark), mark, columns))
        if len(self.unpublished) >= FILES_PER_NOTE:
            self.flush(writer)

    def flush(self, writer: RunWriter) -> None:
        """Commit the traces together with the notes: what was skipped and lost stays known."""
        if self.unpublished:
            writer.note(SOURCES, [msgspec.json.encode(r) for r in self.unpublished])
            self.unpublished = []
        writer.commit()


class ReadFile(msgspec.Struct, frozen=True):
    """A file that was read to the end, its report, what stands for it in ids, what tells it from its namesakes, and
    which columns the user named."""

    origin: Origin
    report: SourceReport
    place: str = ""
    mark: str = ""
    columns: str = ""


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
