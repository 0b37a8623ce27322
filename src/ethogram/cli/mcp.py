"""`ethogram mcp`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ethogram.errors import BadUsage, NotFound
from ethogram.store import home_of
from ethogram.store.shown_texts import shown_json
from ethogram.wire.mcp.proxy import ProxyResult, ProxySettings, run_proxy
from ethogram.wire.mcp.sessions import CallPlan

from .printing import HomeOption, JsonOption, plural, print_json, say
from .running import DisturbSeedOption, IntensityOption, ToolOption


def command(
    server: Annotated[
        list[str] | None, typer.Argument(help="The command of a server that speaks over stdio, after --.")
    ] = None,
    url: Annotated[str | None, typer.Option(help="A server that speaks over HTTP, instead of a command.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen with --url; 0 takes a free port.")] = 0,
    run: Annotated[
        str | None, typer.Option(help="Store sessions that belong to no episode in this run, one trace each.")
    ] = None,
    operator: Annotated[
        str | None, typer.Option(help="Disturb results of tools: a tool operator of `ethogram operators`.")
    ] = None,
    tool: ToolOption = None,
    intensity: IntensityOption = 1.0,
    seed: DisturbSeedOption = 0,
    replay: Annotated[
        str | None, typer.Option(help="Answer from this trace, or from a run that has only one; no server is started.")
    ] = None,
    lenient: Annotated[
        bool, typer.Option("--lenient", help="With --replay: ask the server once something was not recorded.")
    ] = False,
    redact: Annotated[str, typer.Option(help="default, secrets (no personal data), or none.")] = "default",
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Run a proxy between an MCP client and its server: tool calls are recorded, disturbed, or answered from a trace.

    Put it in front of the server's command in the client's settings. In an episode of `ethogram run` calls become steps
    of that episode. Messages pass unchanged. With a command stdout belongs to the client: --json then goes to stderr.

    Example: `ethogram mcp --run tools -- python server.py`
    """
    if (url is None) == (not server) and not (replay and not lenient):
        raise BadUsage("name one server: its command after --, or its address with --url")
    if lenient and replay is None:
        raise BadUsage("--lenient belongs to --replay TRACE")
    plan = CallPlan(operator=operator, seed=seed, intensity=intensity, tools=tuple(tool or ()), lenient=lenient)
    settings = ProxySettings(
        command=tuple(server or ()),
        url=url,
        port=port,
        run=run,
        plan=plan if replay is None else _replayed(plan, replay, home),
        redact=redact,
    )
    result = run_proxy(settings, lambda: home_of(home), ready=print_json if json else _ready)
    if url is None and json:
        print(shown_json(result.to_json()), file=sys.stderr)
    elif not json:
        _print(result)
    return result.exit_code


def _replayed(plan: CallPlan, trace: str, home: str | None) -> CallPlan:
    """The plan with the trace that answers, and how it was redacted."""
    from msgspec.structs import replace

    from ethogram.reading.traces import find_trace
    from ethogram.store.redact import policy_from

    if plan.operator is not None:
        raise BadUsage("--operator changes what a server answers; with --replay no server does")
    lake = home_of(home)
    try:
        run, entry = find_trace(trace, home=lake)
    except NotFound:
        if trace != "latest" and trace not in lake.names():
            raise
        run = lake.resolve(trace)
        if len(run.entries) != 1:
            raise BadUsage(
                f"run {run.name!r} has {len(run.entries)} traces; name one: ethogram show {run.name}"
            ) from None
        entry = run.entries[0]
    redactor = lake.redactor(policy_from(run.info.redaction))
    return replace(plan, trace=run.trace(entry), redact=lambda value, field: redactor.redact(value, field).text)


def _ready(result: ProxyResult) -> None:
    print(result.address, flush=True)


def _print(result: ProxyResult) -> None:
    if result.deviation is not None:
        say(f"ethogram mcp: not as recorded: {result.deviation}")
    if result.unreadable:
        say(f"ethogram mcp: {plural(result.unreadable, 'message')} could not be read and passed as they were")
    if result.run is not None:
        counts = f"{plural(result.calls, 'call')} in {plural(result.sessions, 'session')}"
        say(f"ethogram mcp: {counts} stored; next: ethogram show {result.run}")
    elif not result.episode and result.calls is None:
        say("ethogram mcp: nothing was recorded: there is no episode around it, and no --run NAME")
