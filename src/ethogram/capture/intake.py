"""Where readers put what they found: a reader opens a trace, adds drafts in the order of the log, and closes it; what
it cannot use it reports."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from traceback import walk_tb
from types import MappingProxyType, TracebackType
from typing import Any

import ijson
import msgspec

from ethogram.errors import BadInput
from ethogram.traces import EpisodeId, Head, Label, Origin, TraceId, cut_whole, episode_id, trace_id
from ethogram.traces.codec import check

from .builder import TraceBuilder, unlike
from .draft import TraceSink
from .parse import to_json

EXPECTED_BYTES = 1 << 20
FACT = 100
FIRST = ("the document", "run", "line 1", "document 1", "element 0")
"""What the first record of a source is called, by how many there are and how they are written."""
_NO_COLUMNS: Mapping[str, str] = MappingProxyType({})
RECORD_ERRORS = (
    ValueError,  # msgspec and ijson errors are ValueErrors
    TypeError,
    KeyError,
    AttributeError,
    IndexError,
    RecursionError,
    OverflowError,
    ijson.JSONError,
    BadInput,
)
PACKAGE = __name__.partition(".")[0]
_OF_JSON = re.compile(r"'(str|int|float|bool|list|dict|NoneType|bytes)' object ")
_WRONG_CALL = re.compile(r"\(\) (got an unexpected|got multiple|missing \d|takes \d|takes from)")
_WHY: dict[type, str] = {
    ijson.IncompleteJSONError: "the JSON is cut off",
    ijson.JSONError: "the JSON is damaged",
    RecursionError: "nested too deeply",
}


class Skipped(msgspec.Struct, frozen=True):
    """A record that could not be used: where it stands and why."""

    where: str
    why: str


class SourceReport(msgspec.Struct, kw_only=True):
    """What became of one file."""

    source: str
    format: str | None = None
    traces: int = 0
    spans: int = 0
    unchanged: int = 0
    labels: int = 0
    skipped: list[Skipped] = []
    skipped_more: int = 0
    lost: dict[str, int] = {}
    columns: str = ""
    """Of a table, the option that names the columns as they were read."""
    notes: list[str] = []

    def skip(self, where: str, why: str) -> None:
        """List a record that could not be used; beyond a hundred they are only counted."""
        why = " ".join(why.splitlines())  # names in a log may hold a line break
        if len(self.skipped) < 100:
            self.skipped.append(Skipped(where, cut_whole(why, 500)))
        else:
            self.skipped_more += 1

    def lose(self, field: str, count: int = 1) -> None:
        """Count what could not be represented."""
        if count > 0:
            self.lost[field] = self.lost.get(field, 0) + count

    def repeat(self, before: SourceReport) -> None:
        """The source is as it was when it was read before: nothing is new, and what was wrong with it still is."""
        self.unchanged = before.traces + before.unchanged
        self.skipped, self.skipped_more = list(before.skipped), before.skipped_more
        self.lost, self.notes = dict(before.lost), list(before.notes)

    def end(self) -> None:
        """The source was read to its end; that nothing was in it is worth a word."""
        if not (self.traces or self.unchanged or self.labels or self.skipped):
            self.skip(self.source, "there is no trace in it")


Settle = Callable[[Head, Sequence[Label], int], Head | None]
"""Completes or refuses the head of a trace, given its labels and its number of spans."""


class Annotation(msgspec.Struct):
    """Labels of a trace that another source holds.

    `episode` names that trace. Labels have no trace id yet; their `why` are words, their `span_id` is the log's own.
    """

    episode: EpisodeId
    labels: list[Label]


class Intake:
    """What a reader talks to while it reads one source."""

    def __init__(
        self,
        open_sink: Callable[[TraceId], TraceSink],
        origin: Origin,
        report: SourceReport,
        settle: Settle | None = None,
        place: str | None = None,
        expect: Callable[[Iterable[str]], None] | None = None,
        columns: Mapping[str, str] = _NO_COLUMNS,
        known: Container[EpisodeId] = (),
    ) -> None:
        """`settle` may complete a head (task, outcome, attempt) or refuse the trace by returning None.

        `place` stands for the source in the names of its episodes; by default the name of the source does. `expect`
        is told of strings that will probably be stored, before they are. `columns` are those of a table that the user
        named, by role. `known` are the episodes of which there is a trace already.
        """
        self._open = open_sink
        self.origin = origin
        self.report = report
        self._settle = settle
        self._place = origin.name if place is None else place
        self._expect = expect
        self.columns = columns
        self._known = known
        self._keys: defaultdict[str, int] = defaultdict(int)
        self.annotations: list[Annotation] = []

    def skip(self, where: str, why: str) -> None:
        """Report a record that could not be used."""
        self.report.skip(where, why)

    def lose(self, field: str, count: int = 1) -> None:
        """Report what could not be represented."""
        self.report.lose(field, count)

    @property
    def searches(self) -> bool:
        """Whether what is stored is searched for secrets, so that it helps to announce it."""
        return self._expect is not None

    def expect(self, value: Any) -> None:
        """Announce a foreign record, so that its short strings are searched for secrets all at once."""
        if self._expect is not None:
            self._expect(_strings(value))

    def expect_json(self, data: bytes) -> None:
        """The same of a record that is JSON still; one that is damaged or large is passed over."""
        if self._expect is not None and len(data) <= EXPECTED_BYTES:
            with suppress(ValueError, RecursionError):
                self.expect(msgspec.json.decode(data))

    def refuse(self, where: str, error: BaseException) -> None:
        """Report a record that one of `RECORD_ERRORS` was raised for."""
        told = error.cli_message if isinstance(error, BadInput) else str(error)
        why = told.split("\n", 1)[0] or type(error).__name__
        if mistake := _mistake_in_reader(error):
            why = f"{mistake}: {type(error).__name__}: {why}"
        elif not isinstance(error, BadInput):  # whose message is a sentence already
            why = f"{_WHY.get(type(error), 'not as this format writes it')}: {why}"
        self.skip(where, why)

    def record(self, where: str) -> _Record:
        """One foreign record: whatever is wrong with its shape is reported, and the reader goes on."""
        return _Record(self, where)

    def trace(
        self, key: str, *, worldwide: bool = False, content: str | None = None
    ) -> AbstractContextManager[TraceBuilder]:
        """Open a trace; `key` names it inside its source, or everywhere (a uuid) if `worldwide`.

        `content` is the hash of its own record, where a source that has changed still holds the same record: the trace
        is then the same too. An error inside the block forgets the trace and travels on.
        """
        if key in self._keys:
            self.lose("trace key (repeated)")
        key = unlike(key, self._keys)
        place = "" if worldwide else self._place
        if key in FIRST:
            names = (name for name in FIRST if episode_id(self.origin.format, place, name) in self._known)
            key = next(names, key)
        trace = trace_id(self.origin.format, *((place, content) if content else (self.origin.digest,)), key)
        return _TraceBlock(self, trace, episode_id(self.origin.format, place, key))

    def annotate(self, key: str, labels: list[Label]) -> None:
        """Labels for the trace that is known by this key everywhere, whichever source holds it."""
        self.annotations.append(Annotation(episode_id(self.origin.format, "", key), labels))
        self.report.labels += len(labels)

    def open_sink(self, trace: TraceId) -> TraceSink:
        """Where the spans of a new trace go."""
        return self._open(trace)

    def settle(self, head: Head, labels: Sequence[Label], spans: int) -> Head | None:
        """The final head of a trace, or None if it must not be kept."""
        return head if self._settle is None else self._settle(check(head), labels, spans)

    def finished(self, spans: int) -> None:
        """A trace with this number of spans was kept."""
        self.report.traces += 1
        self.report.spans += spans


class _TraceBlock:
    """The block of one trace: closes it, or forgets it where an error ends the block."""

    __slots__ = ("_builder", "_episode", "_intake", "_trace")

    def __init__(self, intake: Intake, trace: TraceId, episode: EpisodeId) -> None:
        self._intake = intake
        self._trace = trace
        self._episode = episode

    def __enter__(self) -> TraceBuilder:
        self._builder = TraceBuilder(self._intake, self._trace, self._episode)
        return self._builder

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            self._builder.abort()
            return
        try:
            self._builder.close()
        except BaseException:
            self._builder.abort()
            raise


class _Record:
    """The block of one foreign record. A class, since every message of a log has one and a generator costs more."""

    __slots__ = ("_intake", "_where")

    def __init__(self, intake: Intake, where: str) -> None:
        self._intake = intake
        self._where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if error is None or not isinstance(error, RECORD_ERRORS):
            return False
        self._intake.refuse(self._where, error)
        return True


def _mistake_in_reader(error: BaseException) -> str | None:
    """Where a plug-in's reader uses our classes wrongly, which is no fault of the data; None of any other error.

    Such an error is about an attribute that no JSON value has, or about the arguments of a call, below a line of a
    module that is not ours.
    """
    if isinstance(error, AttributeError):
        wrong = _OF_JSON.match(str(error)) is None
    else:
        wrong = isinstance(error, TypeError) and _WRONG_CALL.search(str(error)) is not None
    frames = [(f.f_globals.get("__name__", ""), f.f_code.co_filename, n) for f, n in walk_tb(error.__traceback__)]
    outside = [(file, line) for name, file, line in frames if name.partition(".")[0] != PACKAGE]
    if not wrong or not outside:
        return None
    file, line = outside[-1]
    return f"the reader is wrong, not the data ({Path(file).name} line {line})"


def _strings(value: Any) -> list[str]:
    """The strings in a JSON value, keys left out; arguments of a call as their JSON too, which is what is stored.

    What a record says of itself is stored as a fact, and searched for secrets together with its name.
    """
    found: list[str] = []
    if isinstance(value, dict):
        found += [f"{name}={fact}" for name, fact in value.items() if isinstance(fact, str) and len(fact) <= FACT]
    waiting: list[Any] = [[value]]
    while waiting:
        value = waiting.pop()
        if type(value) is dict:
            if isinstance(arguments := value.get("arguments"), dict):
                with suppress(UnicodeEncodeError, RecursionError):  # who reads the record refuses it, or stores it
                    found.append(to_json(arguments))
            value = value.values()
        for inner in value:
            kind = type(inner)
            if kind is str:
                found.append(inner)
            elif kind is dict or kind is list:
                waiting.append(inner)
    return found
