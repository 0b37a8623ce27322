"""A run while it goes: a live table for people at a terminal, plain lines for logs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.live import Live
from rich.table import Table

from ethogram.study.suites import EpisodeReport

from .out import cell, stderr

PLAIN_EVERY = 5.0
MAX_ROWS = 25


class Tally:
    """Counts of a run, by task."""

    def __init__(self) -> None:
        self.run = ""
        self.planned = 0
        self.cap: float | None = None
        self.tasks: dict[str, list[int]] = {}
        self.done = 0
        self.fresh = 0
        self.usd = 0.0
        self.began = time.monotonic()

    def started(self, run: str, planned: int, done: Sequence[EpisodeReport], cap_usd: float | None) -> None:
        """The run begins."""
        self.run, self.planned, self.cap = run, planned, cap_usd
        for report in done:
            self.count(report)
        self.fresh = 0
        self.began = time.monotonic()

    def count(self, report: EpisodeReport) -> None:
        """An episode ended."""
        row = self.tasks.setdefault(report.task, [0, 0, 0])
        row[0] += 1
        if report.passed is None:
            row[2] += 1
        else:
            row[1] += report.passed
        self.done += 1
        self.fresh += 1
        self.usd += report.usd

    def line(self) -> str:
        """The whole run in one line."""
        spent = f"${self.usd:.4f}" + (f" of ${self.cap:.2f}" if self.cap is not None else "")
        seconds = time.monotonic() - self.began
        rate = self.fresh / seconds if seconds > 0 else 0.0
        left = (
            f", about {(self.planned - self.done) / rate:.0f} s left" if rate > 0 and self.done < self.planned else ""
        )
        passed = sum(r[1] for r in self.tasks.values())
        missing = sum(r[2] for r in self.tasks.values())
        counts = f"{self.done}/{self.planned} done, {passed} passed, {missing} missing"
        return f"{self.run}: {counts}, {spent}, {rate:.1f}/s{left}"

    def table(self) -> Table:
        """The run by task."""
        built = Table(box=None, pad_edge=False, header_style="bold dim", caption=self.line(), caption_justify="left")
        for name in ("task", "done", "passed", "missing"):
            built.add_column(name, justify="left" if name == "task" else "right")
        shown = list(self.tasks.items())[-MAX_ROWS:]
        for task, (done, passed, missing) in shown:
            built.add_row(cell(task), str(done), str(passed), str(missing) if missing else "–")
        return built


class Lines(Tally):
    """Plain lines, a few a minute."""

    def __init__(self) -> None:
        super().__init__()
        self._said = 0.0

    def done_one(self, report: EpisodeReport) -> None:
        """Count, and say so now and then."""
        self.count(report)
        now = time.monotonic()
        if now - self._said >= PLAIN_EVERY or self.done == self.planned:
            self._said = now
            print(self.line(), file=sys.stderr, flush=True)


class _Watching:
    """The port, in front of a tally."""

    def __init__(self, tally: Tally, after: Any) -> None:
        self._tally = tally
        self._after = after

    def started(self, run: str, planned: int, done: Sequence[EpisodeReport], cap_usd: float | None) -> None:
        self._tally.started(run, planned, done, cap_usd)

    def done(self, report: EpisodeReport) -> None:
        self._after(report)


@contextmanager
def watcher(*, quiet: bool) -> Iterator[Any]:
    """Someone who watches a run: nobody for --json, a live table at a terminal, lines otherwise."""
    if quiet:
        yield None
    elif sys.stderr.isatty():
        tally = Tally()
        with Live(get_renderable=tally.table, console=stderr(), refresh_per_second=4, transient=False):
            yield _Watching(tally, tally.count)
    else:
        lines = Lines()
        yield _Watching(lines, lines.done_one)
