"""`ethogram serve`."""

from __future__ import annotations

from typing import Annotated

import typer

from ethogram.errors import BadUsage
from ethogram.store import home_of
from ethogram.viewer.server import WebApp
from ethogram.wire.access import ListenSettings
from ethogram.wire.receiver.serving import PORT, SETTLE_SECONDS, ServeResult, ServeSettings, serve_until_stopped

from .listening import LOOPBACK_HOST, AllowHostOption, ListenHostOption, RequireTokenOption
from .printing import HomeOption, JsonOption, plural, print_json, say


def command(
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 takes a free one.")] = PORT,
    host: ListenHostOption = LOOPBACK_HOST,
    allow_host: AllowHostOption = None,
    require_token: RequireTokenOption = False,
    run: Annotated[str, typer.Option(help="The run that gets the traces; it is made, or continued.")] = "live",
    store_after: Annotated[
        float, typer.Option(help="Seconds without a new span after which a trace with its root is stored.")
    ] = SETTLE_SECONDS,
    redact: Annotated[str, typer.Option(help="default, secrets (no personal data), or none.")] = "default",
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Receive spans of live agents over OTLP/HTTP, store them as traces of a run, and show them, until it is stopped.

    Point any OpenTelemetry exporter at the address that is printed; a browser there sees what `ethogram view` shows.
    What was acknowledged survives a crash of the server: it is on disk, redacted, before the answer goes out, and taken
    up again at the next start. To take spans from other machines, make a token with scope `ingest`; exporters send it
    in the Authorization header.

    Example: `ethogram serve --run production`
    """
    if not 0 <= store_after <= 3600:
        raise BadUsage("--store-after takes seconds from 0 to 3600")
    listen = ListenSettings(host=host, allow_hosts=tuple(allow_host or ()), require_token=require_token)
    settings = ServeSettings(port=port, listen=listen, run=run, settle=store_after, redact=redact)
    lake = home_of(home)
    ready = print_json if json else _ready
    result = serve_until_stopped(lake, settings, ready, _tell, lambda receiver, access: WebApp(lake, access, receiver))
    if not json:
        _print(result)
    return 0


def _ready(result: ServeResult) -> None:
    for problem in result.problems:
        _tell(problem)
    if result.recovered:
        _tell(f"{plural(result.recovered, 'span')} of an earlier process taken up from the spool")
    print(result.address, flush=True)
    _tell(
        f"traces go to run {result.run}; point OTEL_EXPORTER_OTLP_ENDPOINT at this address, or open it; Ctrl-C ends it"
    )


def _tell(words: str) -> None:
    say(f"ethogram serve: {words}")


def _print(result: ServeResult) -> None:
    _tell(f"{plural(result.spans, 'span')} in {plural(result.requests, 'request')}")
    for count, what in (
        (result.rejected, "rejected: without usable ids"),
        (result.malformed, "requests that were no OTLP"),
        (result.busy, "requests refused for now (retry later)"),
        (result.data_points, "data points of metrics, which are not kept"),
        (result.superseded, "traces stored again with spans that came later"),
    ):
        if count:
            _tell(f"{count:,} {what}")
    for skipped in result.skipped[:5]:
        _tell(f"not understood: {skipped.where}: {skipped.why}")
    if result.traces or result.superseded:
        _tell(f"{plural(result.traces, 'trace')} stored; next: ethogram show {result.run}")
