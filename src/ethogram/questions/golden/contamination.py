"""Contamination of a golden set: its canary and its texts, searched in corpora, prompts and replies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, TextIO

import msgspec

from ethogram.errors import NotFound
from ethogram.plans import Suite, Task
from ethogram.store import Run
from ethogram.traces import Trace

from .health import RanTasks
from .overlap import LEAST_WORDS, OverlapSearch, WordsFound

CONTAMINATED = 0.5
"""From this share of a text's runs of words on, it stands elsewhere as a whole; below, a part of it does."""
BLOCK = 4 << 20
MOST_PLACES = 20

OverlapVerdict = Literal["contaminated", "suspect", "clean", "not measured"]


class CanaryFound(msgspec.Struct, frozen=True, kw_only=True):
    """A place where the canary of the set was found: a file, or a reply of a model."""

    where: str
    kind: Literal["file", "reply"]


class TextOverlap(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a task's text was found elsewhere, in sequences of `n` words; `part` is its prompt or reference."""

    task: str
    part: Literal["prompt", "reference"]
    verdict: OverlapVerdict
    found: int | None
    of: int | None
    n: int | None
    where: str | None
    first: str | None
    why: str | None = None


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """How much was looked through."""

    files: int
    bytes: int
    traces: int
    runs: int
    skipped: list[str]


class Contamination(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of a golden set outside it; `measured` is false where nothing was looked through."""

    canaries: list[CanaryFound]
    overlaps: list[TextOverlap]
    looked: Looked
    measured: bool


class ContaminationSearch:
    """One pass over files and traces for the canary and the words of a set."""

    def __init__(self, suite: Suite, canary: str, root: Path) -> None:
        """Files below `root`, where the suite itself lies, are not looked through."""
        self.root = root.resolve()
        self.key = canary.split()[-1].casefold()
        self.texts = {
            f"{task.id}\0{part}": text for task in suite.tasks for part, text in task_texts(task).items() if text
        }
        self.search = OverlapSearch(self.texts)
        self.canaries: list[CanaryFound] = []
        self.files = self.bytes = self.traces = self.runs = 0
        self.skipped: list[str] = []

    def corpus(self, paths: Sequence[Path]) -> None:
        """Look through files, and through all files of folders; what is no text is skipped and named."""
        for path in paths:
            if not path.exists():
                raise NotFound(f"there is no file or folder {str(path)!r} to look through", where=str(path))
            for file in sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]:
                if not file.resolve().is_relative_to(self.root):
                    self._file(file)

    def _file(self, file: Path) -> None:
        try:
            with file.open("rb") as raw:
                if b"\0" in raw.read(8192):
                    self.skipped.append(f"{file}: no text")
                    return
            seen = False
            with file.open(encoding="utf-8", errors="replace") as stream:
                for text in _blocks(stream, max(self.search.longest, 8)):
                    seen = seen or self.key in text.casefold()
                    self.search.feed(text, str(file))
            self.bytes += file.stat().st_size
        except OSError as error:
            self.skipped.append(f"{file}: {error.strerror}")
            return
        self.files += 1
        if seen:
            self.canaries.append(CanaryFound(where=str(file), kind="file"))

    def own_run(self, ran: RanTasks) -> None:
        """Look through a run of this suite: replies for the canary, system prompts for the words of any task."""
        for trace, name in self._traces(ran.run):
            for text in _system_prompts(trace):
                self.search.feed(text, f"system prompt of {name}")

    def other_run(self, run: Run) -> None:
        """Search a run of other tasks: none of its messages should contain a task."""
        for trace, name in self._traces(run):
            for message in trace.messages:
                self.search.feed(message.text, name)

    def _traces(self, run: Run) -> Iterator[tuple[Trace, str]]:
        self.runs += 1
        for entry in run.entries:
            if entry.forgotten:
                continue
            trace = run.trace(entry)
            self.traces += 1
            name = f"{entry.head.trace_id.removeprefix('b2:')[:12]} of {run.name}"
            if any(self.key in text.casefold() for text in _replies(trace)):
                self.canaries.append(CanaryFound(where=name, kind="reply"))
            yield trace, name

    def result(self) -> Contamination:
        """What was found."""
        looked = Looked(
            files=self.files,
            bytes=self.bytes,
            traces=self.traces,
            runs=self.runs,
            skipped=self.skipped[:MOST_PLACES],
        )
        measured = bool(self.files or self.traces)
        found = self.search.found()
        overlaps = []
        for name in self.texts:
            task, _, part = name.partition("\0")
            overlaps.append(_overlap(task, part, found.get(name), self.search.short.get(name), measured))
        return Contamination(canaries=self.canaries[:MOST_PLACES], overlaps=overlaps, looked=looked, measured=measured)


def task_texts(task: Task) -> dict[str, str]:
    """The texts of a task that a model must not have seen: what is asked, and what is right."""
    right = task.expected
    if right is not None and not isinstance(right, str):
        right = msgspec.json.encode(right, enc_hook=str).decode()
    return {"prompt": task.prompt, "reference": right or ""}


def _overlap(task: str, part: str, found: WordsFound | None, short: int | None, measured: bool) -> TextOverlap:
    where: Literal["prompt", "reference"] = "prompt" if part == "prompt" else "reference"
    if found is None or not measured:
        why = "nothing was searched: give --corpus or --traces, or run the suite"
        if short is not None:
            why = f"{short} words are too few to be specific; {LEAST_WORDS} are needed"
        return TextOverlap(
            task=task, part=where, verdict="not measured", found=None, of=None, n=None, where=None, first=None, why=why
        )
    share = found.found / found.of
    verdict: OverlapVerdict = "contaminated" if share >= CONTAMINATED else "suspect" if found.found else "clean"
    return TextOverlap(
        task=task,
        part=where,
        verdict=verdict,
        found=found.found,
        of=found.of,
        n=found.n,
        where=found.where,
        first=found.first,
    )


def _blocks(stream: TextIO, words: int) -> Iterator[str]:
    """A file in pieces, each beginning with the last words of the one before, so that nothing is cut in two."""
    rest = ""
    while block := stream.read(BLOCK):
        text = rest + block
        yield text
        rest = " ".join(text[-40 * words :].split()[-words:]) + (" " if text[-1:].isspace() else "")


def _replies(trace: Trace) -> Iterator[str]:
    for span in trace.spans:
        if span.kind == "model":
            for ref in span.output:
                yield trace.message(ref).text
    if trace.head.answer is not None:
        yield trace.text(trace.head.answer)


def _system_prompts(trace: Trace) -> Iterator[str]:
    yield from (m.text for m in trace.messages if m.role in ("system", "developer"))
