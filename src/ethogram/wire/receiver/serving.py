"""`ethogram serve`: the receiver with its spool and its run, from the first request to the last commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from importlib import import_module
from typing import Any

import msgspec

from ethogram.capture.intake import Skipped
from ethogram.store import Home
from ethogram.store.tokens import Tokens
from ethogram.wire.access import Access, ListenSettings
from ethogram.wire.gateway.server import App, ServerThread, check_free
from ethogram.wire.stopping import StopEvent, on_stop_signals

from .app import OtlpReceiver
from .ingest import IngestCounts
from .live_run import LiveRun

PORT = 4318
"""Where exporters send OTLP over HTTP if nobody tells them otherwise."""
SETTLE_SECONDS = 5.0
"""Exporters send in batches, every five seconds by default: spans of another process may come so much later."""
Around = Callable[[OtlpReceiver, Access], App]
"""An application around the receiver: pages beside OTLP, on one port."""


class ServeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where to listen, and which run gets the traces."""

    port: int = PORT
    listen: ListenSettings = ListenSettings()
    run: str = "live"
    settle: float = SETTLE_SECONDS
    redact: str = "default"


class ServeResult(IngestCounts, kw_only=True):
    """What a server received and stored."""

    address: str
    run: str
    recovered: int = 0
    traces: int = 0
    superseded: int = 0
    skipped: list[Skipped] = []
    problems: list[str] = []

    def rows(self) -> list[dict[str, Any]]:
        """One row."""
        return [{"run": self.run, "address": self.address, "spans": self.spans, "traces": self.traces}]


class OtlpService:
    """A receiver that serves: requests come in, traces of a run come out."""

    def __init__(
        self, home: Home, settings: ServeSettings, say: Callable[[str], None], around: Around | None = None
    ) -> None:
        """Binds, takes the spool, and takes up what an earlier process left in it.

        `around` gives a larger application that passes requests of exporters on to the receiver.
        Raises `BadUsage` for a home that is no folder of this machine, a run of another kind, a port that is taken, and
        an address that needs a token where there is none with scope `ingest`.
        """
        access = Access(Tokens(home.files), settings.listen)
        access.check_start(["ingest"])
        check_free(settings.listen.host, settings.port, "the server")  # before a run is made
        self._live = LiveRun(home, settings.run, settle=settings.settle, redact=settings.redact, say=say)
        self.run = self._live.run
        self.receiver = OtlpReceiver(self._live.ingest, access)
        try:
            app = self.receiver if around is None else around(self.receiver, access)
            self._server = ServerThread(app, host=settings.listen.host, port=settings.port, what="the server")
        except BaseException:
            self._live.give_up()
            raise

    def start(self) -> ServeResult:
        """Begin to serve; gives what is known by then."""
        for needed in ("pyarrow.parquet", "opentelemetry.proto.collector.trace.v1.trace_service_pb2"):
            import_module(needed)  # the first request should not wait for what every request needs
        self._live.start()
        self._server.start()
        return self._result(IngestCounts())

    def close(self) -> ServeResult:
        """Answer what has come, write every trace, and give back the run; says what was done."""
        try:
            self._server.close(self.receiver.drained())
        finally:
            self._live.close()
        counts, report = self._live.ingest.counts, self._live.report
        counts.redactions = dict(sorted(counts.redactions.items()))
        counts.lost = dict(Counter(report.lost) + Counter(counts.lost))
        result = self._result(counts)
        result.traces, result.superseded = report.traces - self._live.superseded, self._live.superseded
        result.skipped = report.skipped
        return result

    def _result(self, counts: IngestCounts) -> ServeResult:
        return ServeResult(
            **msgspec.structs.asdict(counts),
            address=self._server.address,
            run=self.run.name,
            recovered=self._live.recovered,
            problems=self._live.problems,
        )


def serve_until_stopped(
    home: Home,
    settings: ServeSettings,
    ready: Callable[[ServeResult], None],
    say: Callable[[str], None],
    around: Around | None = None,
) -> ServeResult:
    """Serve until SIGINT or SIGTERM; `ready` is told the address. `around` as in `OtlpService`."""
    over = StopEvent()
    with on_stop_signals(over.set):
        service = OtlpService(home, settings, say, around)
        ready(service.start())
        try:
            over.wait()
        finally:
            result = service.close()
    return result
