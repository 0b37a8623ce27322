"""Foreign logs into the lake: every file is reported, nothing is silently lost, nothing is counted twice."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from ethogram.arguments import path_of
from ethogram.capture.columns import is_header, parse_columns, why_no_table
from ethogram.capture.discover import sources
from ethogram.capture.intake import Annotation, Intake, Skipped, SourceReport
from ethogram.capture.peek import peek_at
from ethogram.capture.readers import Reader, reader, recognise
from ethogram.capture.register import ReadFile, Register
from ethogram.capture.rows import sample_of, why_no_sample
from ethogram.capture.source import Source
from ethogram.capture.verdicts import outcome_of
from ethogram.display import Drawing, Presentation
from ethogram.errors import BadUsage, NotFound, Unreadable
from ethogram.reading.value_source import value_source
from ethogram.result import Result
from ethogram.store import Home, Redactor, Run, RunWriter, TraceWriter, home_of
from ethogram.store.redact import policy_from
from ethogram.traces import Head, Label, Missing, Origin, Outcome, TraceId

from .annotations import Waiting, annotate
from .source_names import clean_name, redacted_report, run_name, stems_of

ImportProgress = Callable[[str, int, int], None]
"""Called with a source's name, the bytes just read, and its size."""


TABLE = "table"


class ImportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to import: all of it optional."""

    run: str | None = None
    format: str | None = None
    task_from: str | None = None
    outcome_from: str | None = None
    redact: str = "default"
    patterns: tuple[str, ...] = ()
    seal: bool | None = None
    tags: tuple[str, ...] = ()
    columns: str | None = None


class ImportResult(Result, kw_only=True):
    """What an import did, file by file."""

    presentation: ClassVar[Presentation] = Presentation(
        headline="{run}: {traces} traces and {spans} spans added, {unchanged} unchanged",
        facts=("format", "superseded", "labels", "lost", "redactions"),
        hidden=("files",),
        drawing=Drawing("source", "spans", "spans", "bars"),
    )

    run: str
    format: str | None = None
    formats: dict[str, int] = {}
    traces: int = 0
    spans: int = 0
    unchanged: int = 0
    superseded: int = 0
    labels: int = 0
    skipped: list[Skipped] = []
    lost: dict[str, int] = {}
    redactions: dict[str, int] = {}
    files: list[SourceReport] = []

    def rows(self) -> list[dict[str, Any]]:
        """One row per file."""
        return [
            {
                "source": f.source,
                "format": f.format,
                "traces": f.traces,
                "spans": f.spans,
                "unchanged": f.unchanged,
                "skipped": len(f.skipped) + f.skipped_more,
                "lost": sum(f.lost.values()),
            }
            for f in self.files
        ]


_DEFAULTS = ImportOptions()
MANY_RECORDS = 10_000
"""Records that Python has not looked at for garbage yet, from which on they are set aside at the end."""
NAMES_TOGETHER = 500


def import_logs(
    paths: str | Path | Sequence[str | Path],
    *,
    home: Home | str | None = None,
    progress: ImportProgress | None = None,
    run: str | None = _DEFAULTS.run,
    format: str | None = _DEFAULTS.format,
    task_from: str | None = _DEFAULTS.task_from,
    outcome_from: str | None = _DEFAULTS.outcome_from,
    redact: str = _DEFAULTS.redact,
    patterns: tuple[str, ...] = _DEFAULTS.patterns,
    seal: bool | None = _DEFAULTS.seal,
    tags: tuple[str, ...] = _DEFAULTS.tags,
    columns: str | None = _DEFAULTS.columns,
) -> ImportResult:
    """Import logs into a run of the home, redacted before anything is written.

    `paths` are files, folders and archives. `run` names the run (by default after the first path), `format` the format
    (by default recognised by content). `task_from` and `outcome_from` say where tasks and outcomes come from:
    `name:REGEX`, `meta:KEY`, `label:NAME` or `csv:FILE[:COLUMN]`. `redact` is `default`, `secrets` or `none`,
    `patterns` are more to redact as `NAME=REGEX`; `seal` encrypts payloads (by default where a key is active).
    `columns` (`task=case,score=acc/100`) names the columns of a table of results.

    Importing a file again adds nothing; a file that has grown supersedes its trace. What cannot be read is listed in
    the result under `skipped`. Raises `NotFound` for a path that does not exist, `BadUsage` for a value that makes no
    sense.

    Example: `import_logs("logs/", run="night", task_from="name:(.*)_run").traces`
    """
    options = ImportOptions(
        run=run,
        format=format,
        task_from=task_from,
        outcome_from=outcome_from,
        redact=redact,
        patterns=patterns,
        seal=seal,
        tags=tags,
        columns=columns,
    )
    return read_logs(paths, options, home=home, progress=progress)


def read_logs(
    paths: str | Path | Sequence[str | Path],
    options: ImportOptions,
    *,
    home: Home | str | None = None,
    progress: ImportProgress | None = None,
) -> ImportResult:
    """`import_logs` with its options in one record."""
    lake = home_of(home)
    many: list[str | Path] = list(paths) if isinstance(paths, Iterable) and not isinstance(paths, str) else [paths]
    if not many:
        raise BadUsage("name at least one file, folder or archive, or - for standard input")
    for path in many:
        if str(path) != "-" and not path_of("paths", path).exists():
            raise NotFound(f"no file or folder at {str(path)!r}", where=str(path))
    return _Import(lake, options, progress).read(many)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Python looks for garbage in cycles less often: an import makes very many records and hardly a cycle.

    What is left of many records is set aside without a look, which else would come with the next record made.
    """
    before = gc.get_threshold()
    gc.set_threshold(200_000, 20, 20)
    try:
        yield
    finally:
        # to count what a program has frozen takes longer than to look at a few records
        if gc.get_count()[0] > MANY_RECORDS and gc.get_freeze_count() == 0:
            gc.freeze()  # both together move all records to the oldest generation
            gc.unfreeze()
        gc.set_threshold(*before)


class _Import:
    """One import into one run."""

    def __init__(self, home: Home, options: ImportOptions, progress: ImportProgress | None) -> None:
        self.home = home
        self.options = options
        self.progress = progress
        self.columns = parse_columns(options.columns) if options.columns else {}
        format = options.format or (TABLE if self.columns else None)
        self.reader: Reader | None = reader(format) if format else None
        self.task = value_source(options.task_from, "task") if options.task_from else None
        self.outcome = value_source(options.outcome_from, "outcome") if options.outcome_from else None
        self.policy = policy_from(options.redact, options.patterns)
        self.superseded = 0
        self.created = False
        self.waiting: list[Waiting] = []
        self.plain_names: set[str] = set()

    def read(self, paths: Sequence[str | Path]) -> ImportResult:
        """Read all paths and report."""
        redactor = self.home.redactor(self.policy)
        name = self.options.run or run_name(paths[0], redactor)
        tags, redaction = self.options.tags, self.options.redact
        run, self.created = self.home.run_of_kind(name, "import", tags=tags, redaction=redaction)
        self.register = Register(run)
        result, stored = ImportResult(run=run.name), False
        try:
            with rare_collections(), run.writer(redactor, seal=self.options.seal, window=None) as writer:
                for report in self._sources(paths, run, writer):
                    _add(result, report)
                self.register.flush(writer)
                for report in self._annotated(run, writer):
                    _add(result, report)
                self.register.flush(writer)
                result.redactions = dict(sorted(writer.redactions.items()))
            stored = result.traces > 0
        finally:
            run.forget_cache()
            if self.created and not stored and not run.entries and not run.busy():
                run.files.delete(run.path)  # an import of nothing leaves no run behind
        result.superseded = self.superseded
        used = list(result.formats)
        result.format = used[0] if len(used) == 1 else "mixed" if used else None
        return result

    def _sources(self, paths: Sequence[str | Path], run: Run, writer: RunWriter) -> Iterator[SourceReport]:
        stray: list[SourceReport] = []

        def report(where: str, why: str) -> None:
            name = clean_name(where, writer.redactor)
            stray.append(redacted_report(SourceReport(source=name, skipped=[Skipped(where, why)]), writer.redactor))

        for path in paths:
            name = Path(path).name
            for source in sources(path, self._is_log, report, lambda names: self._expect_names(names, writer.redactor)):
                yield from stray
                stray.clear()
                if source.name != name and str(path) != "-" and self._is_table(source):
                    # its outcomes may repeat those of the logs beside it
                    report(source.name, "a table of results in a folder; name the file itself to have its rows read")
                    continue
                report_of_source = self._read_one(source, writer)
                if report_of_source is not None:
                    yield report_of_source
            yield from stray
            stray.clear()

    def _expect_names(self, names: Sequence[str], redactor: Redactor) -> None:
        """Find the names of files without a secret, very many in one search."""
        for start in range(0, len(names) if "source" not in redactor.policy.fields else 0, NAMES_TOGETHER):
            some = names[start : start + NAMES_TOGETHER]
            words = [(name, word) for name in some for word in (name, *stems_of(name))]
            suspects = {words[i][0] for i in redactor.suspects([word for _, word in words])}
            self.plain_names.update(name for name in some if name not in suspects)

    def _is_table(self, source: Source) -> bool:
        """Whether a source of which nobody said what it is is a table of results."""
        if self.reader is not None:
            return False
        try:
            found = recognise(source)
        except Unreadable:
            return False
        return found is not None and found.format == TABLE

    def _is_log(self, source: Source) -> bool:
        return (self.reader or recognise(source)) is not None

    def _read_one(self, source: Source, writer: RunWriter) -> SourceReport | None:
        """Read one source and report on it, unless it annotates traces that may be read later than it.

        The report is kept in the home, so it is redacted as the log is.
        """
        name = source.name if source.name in self.plain_names else clean_name(source.name, writer.redactor)
        report = SourceReport(source=name)
        annotations: list[Annotation] = []
        taken = self._take_in(source, writer, report, annotations)
        if taken is None:
            return redacted_report(report, writer.redactor)
        if annotations:
            self.waiting.append(Waiting(taken, annotations))
            return None
        redacted_report(report, writer.redactor)
        self.register.finish(taken, writer)
        return report

    def _annotated(self, run: Run, writer: RunWriter) -> Iterator[SourceReport]:
        """Add what sources say of traces of other sources, now that all of them are committed.

        Labels come before the note that their file was read: after a crash it is read again.
        """
        if self.waiting:
            annotate(run, self.waiting, self.register, self._outcome, writer.redactor)
        for waiting in self.waiting:
            report = redacted_report(waiting.read.report, writer.redactor)
            if waiting.complete:
                self.register.finish(waiting.read, writer)
            yield report

    def _take_in(
        self, source: Source, writer: RunWriter, report: SourceReport, annotations: list[Annotation]
    ) -> ReadFile | None:
        """Read one source; a machine failure travels up, anything wrong with the source is reported.

        Gives what is to be noted of a source that was read to the end for the first time.
        """
        try:
            found = self.reader or recognise(source)
            if found is None:
                report.skip(report.source, _unknown(source))
                return None
            report.format = found.format
            origin = Origin(found.format, report.source, source.digest)
            columns = self.options.columns or ""
            if self.register.repeats(report, found.format, source.digest, columns):
                return None
            read = self.register.identify(origin, source, report, writer.redactor, columns)
            if self.register.repeats(report, found.format, read.content.digest, columns):
                return None
            if self.progress is not None:
                tell, size = self.progress, source.size
                source.on_bytes = None if source.held else lambda count: tell(report.source, count, size)
            sinks: dict[TraceId, TraceWriter] = {}

            def open_sink(trace: TraceId) -> TraceWriter:
                sinks[trace] = writer.trace(trace)
                return sinks[trace]

            def settle(head: Head, labels: Sequence[Label], spans: int) -> Head | None:
                return self._settle(head, labels, spans, read, sinks.pop(head.trace_id))

            expect = None if writer.redactor.idle else writer.expect
            intake = Intake(open_sink, origin, report, settle, read.place, expect, self.columns, self.register.episodes)
            found.read(source, intake)
            if self.progress is not None and source.held:
                self.progress(report.source, source.size, source.size)
            annotations.extend(intake.annotations)
            report.end()
        except Unreadable as error:
            report.skip(report.source, error.cli_message)
            return None
        except OSError as error:
            report.skip(report.source, f"cannot be read: {error.strerror or error}")
            return None
        return read

    def _settle(
        self, head: Head, labels: Sequence[Label], spans: int, read: ReadFile, sink: TraceWriter
    ) -> Head | None:
        """Decide whether this trace is news, number the attempt, and supply what the log lacks."""
        report = read.report
        self.register.continues(head, read)
        if self.task is not None and (task := self.task(head, labels)) is not None:
            head = msgspec.structs.replace(head, task=sink.clean(task, "task"))
        known = self.register.entry(head)
        if known is not None:
            if known.trace_id == head.trace_id:
                report.unchanged += 1
                return None
            if spans < known.spans:
                report.skip(head.origin.name if head.origin else "", "a longer version of this trace is here already")
                return None
            sink.supersedes = known.trace_id
            self.superseded += 1
        return self._judged(self.register.number(head, spans, report), labels, report)

    def _judged(self, head: Head, labels: Sequence[Label], report: SourceReport) -> Head:
        verdict = self._outcome(head, labels, report)
        return head if verdict is None else msgspec.structs.replace(head, outcome=verdict)

    def _outcome(self, head: Head, labels: Sequence[Label], report: SourceReport) -> Outcome | None:
        """The outcome that the user supplies; a table overrules the log, the other forms complete it."""
        form = (self.options.outcome_from or "").partition(":")[0]
        if self.outcome is None or not (isinstance(head.outcome, Missing) or form == "csv"):
            return None
        value = self.outcome(head, labels)
        verdict = outcome_of(value, form)
        if verdict is None and value:
            report.lose("outcome (supplied, but neither a number nor a verdict)")
        return verdict


def _add(result: ImportResult, report: SourceReport) -> None:
    result.files.append(report)
    result.traces += report.traces
    result.spans += report.spans
    result.unchanged += report.unchanged
    result.labels += report.labels
    room = 1000 - len(result.skipped)
    result.skipped.extend(
        s if s.where.startswith(report.source) else Skipped(f"{report.source}: {s.where}", s.why)
        for s in report.skipped[:room]
    )
    for field, count in report.lost.items():
        result.lost[field] = result.lost.get(field, 0) + count
    if report.format:
        result.formats[report.format] = result.formats.get(report.format, 0) + 1


def _unknown(source: Source) -> str:
    if not source.peek.strip():
        return "the file is empty"
    if source.peek[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "the text is in UTF-16; save it as UTF-8 and import it again"
    if source.peek.startswith(b"%PDF-"):
        return "a PDF, which holds no log; import the file that it was made from"
    sample = sample_of(peek_at(source))
    if sample is not None and (sample.rows or is_header(sample.names)):
        return why_no_table(sample)
    unknown = "no reader recognises this content; name its format with --format if you know it"
    return source.damage or why_no_sample(peek_at(source)) or unknown
