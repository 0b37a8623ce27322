"""The routes of the viewer: one table of path, method, scope and view.

A view is a function of the library and a typed query that gives a typed answer; both types become TypeScript. A route
without a view is answered by the server itself (pages, events) or by the OTLP receiver.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, NamedTuple, get_type_hints

from ethogram.wire.access import RouteScope
from ethogram.wire.receiver.app import PATHS as OTLP_PATHS

from .guard import RouteRule
from .library import Library
from .models import (
    attempts,
    cards,
    diff,
    explore,
    field,
    gate,
    golden,
    judge,
    outline,
    perturbation,
    report,
    run,
    runs,
    task,
    trace,
)

ViewFunction = Callable[[Library, Any], Any]


class ApiRoute(NamedTuple):
    """One route; GET takes its query from the address, POST from a JSON body.

    The scope is what a token must allow: names and numbers are `metadata`, words of a trace `payloads`.
    """

    path: str
    method: Literal["GET", "POST"]
    scope: RouteScope
    view: ViewFunction | None = None

    @property
    def query(self) -> Any:
        """The type of the query."""
        assert self.view is not None
        return get_type_hints(self.view)["query"]

    @property
    def answer(self) -> Any:
        """The type of the answer."""
        assert self.view is not None
        return get_type_hints(self.view)["return"]


EVENTS = "/api/events"
MAX_BODY = 1 << 20
"""Bytes of what a page may send."""
ROUTES: tuple[ApiRoute, ...] = (
    ApiRoute("/", "GET", "metadata"),
    ApiRoute("/assets/{name}", "GET", "open"),
    ApiRoute(EVENTS, "GET", "metadata"),
    ApiRoute("/api/runs", "GET", "metadata", runs.runs_view),
    ApiRoute("/api/run", "GET", "metadata", run.run_view),
    ApiRoute("/api/run/why", "GET", "payloads", run.why_view),
    ApiRoute("/api/run/reliability", "GET", "metadata", run.reliability_view),
    ApiRoute("/api/run/cost", "GET", "metadata", run.cost_view),
    ApiRoute("/api/report", "GET", "payloads", report.report_page),
    ApiRoute("/api/run/attempts", "GET", "metadata", attempts.attempts_view),
    ApiRoute("/api/trace", "GET", "payloads", trace.trace_view),
    ApiRoute("/api/trace/neighbours", "GET", "metadata", attempts.neighbours_view),
    ApiRoute("/api/trace/beside", "GET", "payloads", trace.beside_view),
    ApiRoute("/api/trace/outline", "GET", "metadata", outline.outline_view),
    ApiRoute("/api/trace/turns", "GET", "metadata", outline.turns_view),
    ApiRoute("/api/trace/cards", "GET", "payloads", cards.cards_view),
    ApiRoute("/api/trace/text", "GET", "payloads", cards.text_view),
    ApiRoute("/api/trace/find", "GET", "payloads", trace.find_view),
    ApiRoute("/api/diff", "GET", "payloads", diff.diff_view),
    ApiRoute("/api/diff/words", "GET", "payloads", diff.diff_words_view),
    ApiRoute("/api/distances", "GET", "metadata", diff.distances_view),
    ApiRoute("/api/gate", "GET", "payloads", gate.gate_view),
    ApiRoute("/api/task", "GET", "payloads", task.task_view),
    ApiRoute("/api/field", "GET", "metadata", field.field_view),
    ApiRoute("/api/field/cloud", "GET", "metadata", field.cloud_view),
    ApiRoute("/api/explore", "GET", "metadata", explore.explore_view),
    ApiRoute("/api/explore/baselines", "GET", "metadata", explore.baselines_view),
    ApiRoute("/api/explore/slice", "GET", "metadata", explore.slice_view),
    ApiRoute("/api/perturbation", "GET", "payloads", perturbation.perturbation_view),
    ApiRoute("/api/golden", "GET", "payloads", golden.golden_view),
    ApiRoute("/api/judge", "GET", "metadata", judge.judge_view),
    ApiRoute("/api/judge/queue", "GET", "metadata", judge.queue_view),
    ApiRoute("/api/judge/question", "GET", "payloads", judge.question_view),
    ApiRoute("/api/judge/label", "POST", "write", judge.label_view),
    *(ApiRoute(path, "POST", "ingest") for path in OTLP_PATHS),
)


def api_routes() -> tuple[ApiRoute, ...]:
    """The routes that are answered by a view."""
    return tuple(route for route in ROUTES if route.view is not None)


def rule_of(method: str, path: str) -> RouteRule | None:
    """What a request needs; None where no route answers it."""
    asked = "GET" if method == "HEAD" else method
    for route in ROUTES:
        if route.method == asked and _pattern(route.path).fullmatch(path):
            return RouteRule(scope=route.scope, max_body=MAX_BODY if asked == "POST" else 0)
    return None


@cache
def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path)))
