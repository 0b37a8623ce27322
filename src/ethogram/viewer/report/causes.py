"""The causes of failure of a run, computed once for all parts of a report."""

from __future__ import annotations

from functools import cached_property

from ethogram.questions.why.question import short_place, why
from ethogram.questions.why.results import Example, WhyResult
from ethogram.store import Home, Run
from ethogram.traces import is_outcome_only

from .views import PagePlace


class RunAnswers:
    """The answers about one run; nothing is read before it is asked for."""

    def __init__(
        self, run: Run, *, base: Run | None = None, common_tasks: bool = False, home: Home | str | None = None
    ) -> None:
        """With a `base`, the run is asked why it fails against that one.

        `common_tasks` compares both only on the tasks that are the same in both.
        """
        self.run, self.base, self.common_tasks, self.home = run, base, common_tasks, home

    @cached_property
    def told(self) -> WhyResult:
        """Why the run fails."""
        return why(self.run, against=self.base, common_tasks=self.common_tasks, home=self.home)

    @cached_property
    def has_traces(self) -> bool:
        """Whether an attempt can be opened; those that a table gave have no steps."""
        return any(not is_outcome_only(entry.head) for entry in self.run.entries)

    def place(self, example: Example) -> PagePlace:
        """A place that is written as `ethogram trace` takes it, and leads there."""
        return PagePlace(text=short_place(example), trace=example.trace, step=example.step)
