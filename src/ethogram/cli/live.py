"""A run while it goes: a live table for people at a terminal, plain lines for logs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ethogram.display.money import dollars
from ethogram.harness.executor import EpisodeReport

from .printing import cell, known, say, stderr

PLAIN_EVERY = 5.0


class LiveCounts:
    """Counts of a run, by task."""

    def __init__(self) -> None:
        self.run = ""
        self.planned = 0
        self.cap: float | None = None
        self.tasks: dict[str, list[int]] = {}
        self.spent: dict[str, float] = {}
        self.done = 0
        self.fresh = 0
        self.usd = 0.0
        self.blind = False
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
        self.blind = self.blind or "usd" in report.unmetered
        self.spent[report.task] = self.spent.get(report.task, 0.0) + report.usd

    def line(self) -> str:
        """The whole run in one line."""
        if not self.run:
            return "getting ready"
        seconds = time.monotonic() - self.began
        rate = self.fresh / seconds if seconds > 0 else 0.0
        passed = sum(r[1] for r in self.tasks.values())
        missing = sum(r[2] for r in self.tasks.values())
        parts = [f"{self.done} of {self.planned} done", f"{passed} passed", f"{missing} missing"]
        cost = known(None if self.blind else self.usd, self.usd, dollars, "cost")
        parts.append(cost + (f" of {dollars(self.cap)}" if self.cap is not None else ""))
        parts.append(f"{rate:.1f}/s" if rate >= 1 or not rate else f"{60 * rate:.1f}/min")
        if rate > 0 and self.done < self.planned:
            parts.append(f"about {lasting((self.planned - self.done) / rate)} left")
        return f"{self.run}: {', '.join(parts)}"

    def screen(self, height: int) -> Group:
        """The run in one line, and by task as far as the screen has room."""
        built = Table(box=None, pad_edge=False, header_style="bold dim")
        for name in ("task", "done", "passed", "missing", "spent"):
            built.add_column(name, justify="left" if name == "task" else "right", no_wrap=True, overflow="ellipsis")
        room = max(1, height - 4)
        for task, (done, passed, missing) in list(self.tasks.items())[:room]:
            spent = self.spent[task]
            built.add_row(
                cell(task),
                f"{done:,}",
                f"{passed:,}",
                f"{missing:,}" if missing else "–",
                dollars(spent) if spent else "–",
            )
        parts: list[Any] = [Text(self.line(), style="bold", no_wrap=True, overflow="ellipsis")]
        if self.tasks:
            parts.append(built)
        if len(self.tasks) > room:
            parts.append(Text(f"and {len(self.tasks) - room} more tasks", style="dim"))
        return Group(*parts)


def lasting(seconds: float) -> str:
    """A time that lies ahead, as people say it."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


class LiveLines(LiveCounts):
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
            say(self.line())


class _Watching:
    """The port, in front of a tally."""

    def __init__(self, tally: LiveCounts, after: Any) -> None:
        self._tally = tally
        self._after = after

    def started(self, run: str, planned: int, done: Sequence[EpisodeReport], cap_usd: float | None) -> None:
        self._tally.started(run, planned, done, cap_usd)

    def done(self, report: EpisodeReport) -> None:
        self._after(report)

    def warn(self, words: str) -> None:
        say(f"note: {words}")


@contextmanager
def watcher(*, quiet: bool) -> Iterator[Any]:
    """What shows the progress of a run: only what it warns of for --json, a live table at a terminal, else lines."""
    if quiet:
        yield _Watching(LiveCounts(), lambda report: None)
    elif sys.stderr.isatty():
        tally = LiveCounts()
        console = stderr()
        with Live(get_renderable=lambda: tally.screen(console.height), console=console, refresh_per_second=4):
            yield _Watching(tally, tally.count)
    else:
        lines = LiveLines()
        yield _Watching(lines, lines.done_one)
