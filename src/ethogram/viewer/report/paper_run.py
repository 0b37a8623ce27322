"""What the overview of a run shows, as answers inside a report: the same page as in the viewer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from ethogram.errors import EthogramError
from ethogram.questions.home.overview import run_overview
from ethogram.viewer.models.attempts import AttemptsQuery, attempts_of, grid_of
from ethogram.viewer.models.run import cost_answer, reliability_answer, run_answer, why_answer

from .attempts import MOST_TASKS
from .causes import RunAnswers


class Embedded(msgspec.Struct, frozen=True, kw_only=True):
    """An answer as `web/src/load.ts` finds it: of a path, for every query that says at least this."""

    path: str
    query: dict[str, Any]
    answer: Any


def overview_inside(answers: RunAnswers) -> list[Embedded]:
    """The answers behind the overview of a run; what cannot be answered of it is left out, and the page says so."""
    run = answers.run
    asked: Sequence[tuple[str, Callable[[], Any]]] = (
        ("/api/run", lambda: run_answer(run, run_overview(run))),
        ("/api/run/why", lambda: why_answer(run, answers.told)),
        ("/api/run/reliability", lambda: reliability_answer(run)),
        ("/api/run/cost", lambda: cost_answer(run)),
    )
    found = []
    for path, answer in asked:
        with suppress(EthogramError):
            found.append(Embedded(path=path, query={}, answer=answer()))
    # only the plain list: a filter needs a server
    plain = AttemptsQuery(count=MOST_TASKS)
    query = {"filter": plain.filter, "sort": plain.sort, "down": plain.down}
    found.append(Embedded(path="/api/run/attempts", query=query, answer=grid_of(attempts_of(run), plain)))
    return found
