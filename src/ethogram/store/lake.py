"""The home: a directory of runs. A run: a directory with a plan, a ledger, spans, texts and labels."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from ethogram.errors import BadInput, BadUsage, Damaged, NotFound
from ethogram.trace import Label, Param, Ref, Span, Trace, TraceId, detached_refs

from . import ledger
from .files import Files, LocalFiles, files_at
from .ledger import Entry, Standing
from .redact import Policy, Redactor
from .seal import Keyring
from .segment import open_parquet, spans_of
from .texts import TextReader, TraceTexts
from .writer import COMMIT_WINDOW, Lease, RunWriter, is_alive

SCHEMA_VERSION = 1
DEFAULT_HOME = ".ethogram"
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")


class RunInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`run.json`: what a run is, with which code and settings it was made."""

    schema_version: int
    name: str
    kind: str
    created_ns: int
    version: str
    tags: tuple[str, ...] = ()
    redaction: str = "default"
    meta: dict[str, Param] = {}
    plan: dict[str, Any] = {}


class Home:
    """The lake: a folder or an object-store address with all runs in it."""

    def __init__(self, files: Files, keys: Keyring | None = None) -> None:
        """Use `open_home` unless you have files of your own."""
        self.files = files
        self.keys = keys or Keyring()

    def __repr__(self) -> str:
        return f"Home({self.files.address!r})"

    def names(self) -> list[str]:
        """Names of all runs."""
        return self.files.names("runs")

    def runs(self) -> Iterator[Run]:
        """All runs, oldest first; a directory without a readable `run.json` is not a run."""
        found = []
        for name in self.names():
            try:
                found.append(self.run(name))
            except BadInput:
                continue
        yield from sorted(found, key=lambda r: (r.info.created_ns, r.name))

    def run(self, name: str) -> Run:
        """A run by its name."""
        return Run(self.files, f"runs/{name}", self.keys)

    def resolve(self, wanted: str) -> Run:
        """A run directory, the name of a run in this home, or `latest`."""
        if wanted == "latest":
            runs = list(self.runs())
            if not runs:
                raise NotFound(f"there are no runs in {self.files.address}; begin with: ethogram import PATH")
            return runs[-1]
        if self.files.exists(f"runs/{wanted}/run.json") and _NAME.match(wanted):
            return self.run(wanted)
        path = Path(wanted)
        if (path / "run.json").is_file():
            path = path.absolute()
            return Run(LocalFiles(path.parent), path.name, self.keys)
        raise NotFound.named(f"run in {self.files.address}", wanted, self.names())

    def create(self, name: str, kind: str, **details: Any) -> Run:
        """A new run; an existing name is refused."""
        from ethogram import __version__

        if not _NAME.match(name):
            raise BadUsage(f"{name!r} cannot name a run: use letters, digits, '.', '_' and '-', at most 100")
        if self.files.exists(f"runs/{name}/run.json"):
            raise BadUsage(f"a run named {name!r} exists already in {self.files.address}; choose another name")
        info = RunInfo(
            schema_version=SCHEMA_VERSION,
            name=name,
            kind=kind,
            created_ns=time.time_ns(),
            version=__version__,
            **details,
        )
        self.files.publish(f"runs/{name}/run.json", msgspec.json.format(msgspec.json.encode(info)))
        return self.run(name)

    def redaction_key(self) -> bytes:
        """The secret behind redaction marks: equal secrets get equal marks within one home."""
        given = os.environ.get("ETHOGRAM_REDACTION_KEY")
        if given:
            return given.encode()
        if not self.files.exists("redaction.key"):
            self.files.publish("redaction.key", os.urandom(32).hex().encode())
            if isinstance(self.files, LocalFiles):
                (self.files.root / "redaction.key").chmod(0o600)
        return self.files.read("redaction.key").strip()

    def redactor(self, policy: Policy) -> Redactor:
        """A redactor with this home's key."""
        return Redactor(self.redaction_key(), policy)


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
        except msgspec.MsgspecError as error:
            raise BadInput(f"run.json of {self.name!r} cannot be read: {str(error).splitlines()[0]}") from None

    def segments(self) -> list[ledger.Segment]:
        """Ledger segments in force, read anew."""
        return ledger.read_segments(self.files, self.path)

    @cached_property
    def standing(self) -> Standing:
        """What the ledger says, as of the first time it was asked."""
        return ledger.standing(self.segments())

    def forget_cache(self) -> None:
        """Look at the ledger anew: it was rewritten or has grown."""
        for name in ("standing", "texts", "_labels_of"):
            self.__dict__.pop(name, None)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Committed episodes that count."""
        return self.standing.live

    @cached_property
    def texts(self) -> TextReader:
        """Texts by address."""
        return TextReader(self.files, self.path, self.standing.files, self.keys)

    def writer(
        self, redactor: Redactor, *, seal: bool | None = None, window: float | None = COMMIT_WINDOW
    ) -> RunWriter:
        """A new writer; payloads are sealed when a key is active, unless `seal` says otherwise."""
        active = self.keys.active() if seal is not False else None
        if seal and active is None:
            raise BadUsage("there is no key to seal with; make one with: ethogram keys new")
        key = (active, self.keys.get(active)) if active else None
        return RunWriter(self.files, self.path, redactor, key=key, window=window)

    def find(self, wanted: str) -> Entry:
        """The entry of a trace by its id, or by the start of it if no other begins so."""
        found = [e for e in self.entries if e.head.trace_id.removeprefix("b2:").startswith(wanted.removeprefix("b2:"))]
        if len(found) > 1:
            raise BadUsage(f"{len(found)} traces of {self.name!r} begin with {wanted!r}; give more digits")
        if not found:
            raise NotFound(f"no trace {wanted!r} in run {self.name!r}; list them with: ethogram show {self.name}")
        return found[0]

    def spans(self, entry: Entry) -> Iterator[Span]:
        """Spans of a trace in the order of the log, a few thousand in memory at a time."""
        for batch in self.span_batches(entry):
            yield from spans_of(batch)

    def span_batches(self, entry: Entry) -> Iterator[Any]:
        """Rows of a trace as Arrow batches."""
        for place in entry.spans:
            yield from self._rows_at(place)

    def _rows_at(self, place: ledger.Place) -> Iterator[Any]:
        file = open_parquet(self.files.open(f"{self.path}/{place.file}"))
        try:
            skip, left = place.row, place.rows
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if skip >= rows:
                    skip -= rows
                    continue
                table = file.read_row_group(group).slice(skip, left)
                yield from table.to_batches(max_chunksize=4096)
                left -= table.num_rows
                skip = 0
                if left <= 0:
                    return
            raise Damaged(f"{place.file} of run {self.name!r} is shorter than its ledger says; run: ethogram verify")
        finally:
            file.close()

    def trace(self, entry: Entry) -> Trace:
        """A trace with its texts at hand; bodies are read when asked for."""
        if entry.forgotten:
            raise NotFound(f"trace {entry.head.trace_id} is no longer kept: {entry.forgotten}")
        spans = tuple(self.spans(entry))
        refs = [r for s in spans for r in s.refs]
        if entry.head.answer is not None:
            refs.append(entry.head.answer)
        texts = TraceTexts(self.texts, entry.texts, refs)
        return Trace(entry.head, spans, texts, tuple(self._labels_of.get(entry.head.trace_id, ())))

    def traces(self) -> Iterator[Trace]:
        """All traces, one after the other."""
        return (self.trace(e) for e in self.entries if not e.forgotten)

    def labels(self) -> Iterator[Label]:
        """All labels, in order of publication."""
        decoder = msgspec.json.Decoder(Label)
        for name in self.files.names(f"{self.path}/labels"):
            for line in self.files.read(f"{self.path}/labels/{name}").splitlines():
                try:
                    yield decoder.decode(line)
                except msgspec.MsgspecError:
                    raise Damaged(f"label segment {name} of run {self.name!r} cannot be read") from None

    @cached_property
    def _labels_of(self) -> dict[TraceId, list[Label]]:
        found: dict[TraceId, list[Label]] = {}
        for label in self.labels():
            found.setdefault(label.trace_id, []).append(label)
        return found

    def leases(self) -> dict[str, Lease]:
        """Writers that did not finish, by name."""
        found = {}
        for name in self.files.names(f"{self.path}/writers"):
            try:
                held = msgspec.json.decode(self.files.read(f"{self.path}/writers/{name}"), type=Lease)
            except (msgspec.MsgspecError, NotFound):
                continue
            found[name.removesuffix(".json")] = held
        return found

    def busy(self) -> list[str]:
        """Writers that may still be at work."""
        return [name for name, held in self.leases().items() if is_alive(held)]

    def all_refs(self, entry: Entry) -> set[Ref]:
        """Every text that a trace needs, those that its messages lean on included."""
        named = {r for s in self.spans(entry) for r in s.refs}
        if entry.head.answer is not None:
            named.add(entry.head.answer)
        leaning = {d for r in named for d in detached_refs(self.texts.get(r, entry.texts))}
        return named | leaning


def open_home(address: str | None = None, keys: Keyring | None = None) -> Home:
    """The home at an address; by default `ETHOGRAM_HOME`, else `.ethogram` in this folder."""
    return Home(files_at(address or os.environ.get("ETHOGRAM_HOME") or DEFAULT_HOME), keys)
