"""A span processor for programs that no run starts: spans of this process become traces of a run in a home."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from ethogram.capture.telemetry.spans import RawSpan
from ethogram.errors import MissingExtra
from ethogram.store import Home, home_of
from ethogram.wire.context import current_recorder
from ethogram.wire.receiver.batch import RequestBatch
from ethogram.wire.receiver.live_run import LiveRun

from .watching import raw_span_of

try:
    from opentelemetry.sdk.trace import SpanProcessor
except ImportError:
    raise MissingExtra.needed("otel", "a span processor") from None

FLUSH_SECONDS = 0.2
"""How long spans wait in memory; then they are on disk, before their trace is complete."""
MOST_SPANS = 10_000
"""Spans that wait in memory at most; code that ends one more waits until there is room."""
ROOM_SECONDS = 5.0


class StoredSpans(SpanProcessor):
    """Add it to a provider: `provider.add_span_processor(StoredSpans("production"))`.

    A trace is written when its root has ended and nothing more of it came for `settle` seconds, or at shutdown; spans
    that come later are joined with it. What happens in an episode of `ethogram run` is left to that.
    """

    def __init__(
        self, run: str = "live", *, home: Home | str | None = None, settle: float = 1.0, redact: str = "default"
    ) -> None:
        """Open the run, or make it. Raises `BadUsage` for a run of another kind, or one that another process has."""
        self._live = LiveRun(home_of(home), run, settle=settle, redact=redact, say=_say)
        self._waiting: list[tuple[str, RawSpan, Any]] = []
        self._changed = threading.Condition()
        self._keeping = threading.Lock()
        self._over = False
        self._process = os.getpid()
        self.lost = 0
        """Spans for which there was no room, and spans that came after shutdown."""
        self._live.start()
        self._thread = threading.Thread(target=self._keep_now_and_then, name="ethogram spans", daemon=True)
        self._thread.start()

    def on_end(self, span: Any) -> None:
        """Take a span. It waits for room where more come than can be kept, and counts what it must lose."""
        if current_recorder() is not None or os.getpid() != self._process:
            return
        taken = (f"{span.get_span_context().trace_id:032x}", raw_span_of(span), span.resource)
        with self._changed:
            room = self._changed.wait_for(lambda: self._over or len(self._waiting) < MOST_SPANS, ROOM_SECONDS)
            if self._over or not room:
                self.lost += 1
                if self.lost == 1:
                    _say("a span was lost: it came after shutdown, or the disk does not keep up")
                return
            self._waiting.append(taken)
            if len(self._waiting) >= MOST_SPANS // 2:
                self._changed.notify_all()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Have everything that has ended on disk; gives whether that was possible."""
        return self._keep()

    def shutdown(self) -> None:
        """Write every trace and give back the run."""
        with self._changed:
            if self._over:
                return
            self._over = True
            self._changed.notify_all()
        self._thread.join()
        self._keep()
        self._live.close()

    def _keep_now_and_then(self) -> None:
        while not self._over:
            with self._changed:
                self._changed.wait_for(lambda: self._over or len(self._waiting) >= MOST_SPANS // 2, FLUSH_SECONDS)
            self._keep()

    def _keep(self) -> bool:
        """Put what waits on disk, redacted; what cannot be written waits on."""
        with self._keeping:
            with self._changed:
                taken, self._waiting = self._waiting, []
                self._changed.notify_all()
            if not taken:
                return True
            batch = RequestBatch()
            resources: dict[int, int] = {}
            for trace, span, resource in taken:
                if id(resource) not in resources:
                    resources[id(resource)] = batch.resource(dict(resource.attributes))
                span.resource = resources[id(resource)]
                batch.add(trace, span)
            try:
                self._live.ingest.keep([batch])
            except OSError as error:
                _say(f"spans cannot be written and wait in memory: {error.strerror or error}")
                with self._changed:
                    self._waiting = [*taken, *self._waiting]
                return False
            return True


def _say(problem: str) -> None:
    print(f"ethogram: {problem}", file=sys.stderr)
