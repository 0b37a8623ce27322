"""`ethogram gateway`."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated

import typer

from ethogram.errors import BadUsage
from ethogram.harness.options import parse_caps
from ethogram.harness.serving import GatewayResult, GatewaySettings, parse_upstreams, run_gateway, shown_variables
from ethogram.store import home_of
from ethogram.store.shown_texts import shown_json

from .printing import HomeOption, JsonOption, plural, print_json, say, spent, stdout
from .running import (
    AllowUnmeteredOption,
    DisturbSeedOption,
    IntensityOption,
    PriceOption,
    PricesOption,
    ToolOption,
    metering,
)

PERS = ("conversation", "process")


def command(
    program: Annotated[list[str] | None, typer.Argument(help="A command to start under the gateway, after --.")] = None,
    upstream: Annotated[
        list[str] | None,
        typer.Option(
            help="Where calls go: ADDRESS or PROVIDER=ADDRESS; may be repeated. By default the address in the "
            "environment, else the provider."
        ),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen; 0 takes a free port.")] = 0,
    run: Annotated[str | None, typer.Option(help="Name of the run; one of a gateway is continued.")] = None,
    per: Annotated[
        str, typer.Option(help="Calls that name no episode: a trace per conversation, or one for the process.")
    ] = "conversation",
    max_usd: Annotated[float | None, typer.Option(help="Maximum dollars of the whole experiment: a hard stop.")] = None,
    price: PriceOption = None,
    prices: PricesOption = None,
    allow_unmetered: AllowUnmeteredOption = False,
    max_steps: Annotated[int | None, typer.Option(help="Maximum steps of one episode.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Maximum tokens of one episode.")] = None,
    cap: Annotated[
        list[str] | None, typer.Option(help="Any other cap, LEVEL.RESOURCE=VALUE, e.g. task.usd=1; may be repeated.")
    ] = None,
    operator: Annotated[
        str | None, typer.Option(help="Disturb calls: an operator on tools, prompts or models of `ethogram operators`.")
    ] = None,
    tool: ToolOption = None,
    intensity: IntensityOption = 1.0,
    seed: DisturbSeedOption = 0,
    redact: Annotated[str, typer.Option(help="default, secrets (no personal data), or none.")] = "default",
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Run a local proxy for model calls: calls are recorded, priced and capped.

    Bytes pass unchanged. Around a command it sets the variables that lead there; alone it prints them, and serves until
    Ctrl-C. `ethogram kill RUN` has further calls refused. A call names its episode by the header x-ethogram-episode or
    in its path; else its conversation is its episode. With a command stdout belongs to that: --json goes to stderr.

    Example: `ethogram gateway --run service --max-usd 5 -- python my_service.py`
    """
    if per not in PERS:
        raise BadUsage(f"there is no --per {per!r}; choose {' or '.join(PERS)}")
    named = {
        "experiment.usd": max_usd,
        "episode.steps": float(max_steps) if max_steps is not None else None,
        "episode.tokens": float(max_tokens) if max_tokens is not None else None,
    }
    settings = GatewaySettings(
        upstreams=parse_upstreams(upstream or ()),
        command=tuple(program or ()),
        port=port,
        run=run,
        per="process" if per == "process" else "conversation",
        caps=parse_caps(named, tuple(cap or ())),
        metering=metering(price, prices, allow_unmetered),
        redact=redact,
        operator=operator,
        intensity=intensity,
        seed=seed,
        tools=tuple(tool or ()),
    )
    if program:
        result = run_gateway(settings, home_of(home), ready=_around)
    else:
        result = run_gateway(settings, home_of(home), ready=print_json if json else _alone)
    if program and json:
        print(shown_json(result.to_json()), file=sys.stderr)
    elif not json:
        _summary(result)
    return result.exit_code


def _around(result: GatewayResult) -> None:
    say(f"ethogram gateway: {result.address} records into run {result.run}")


def _alone(result: GatewayResult) -> None:
    out = stdout()
    out.print(f"gateway at {result.address}, recording into run {result.run}; stop it with Ctrl-C", markup=False)
    for name, value in shown_variables(result.variables).items():
        out.print(f"export {name}={shlex.quote(value)}", markup=False, soft_wrap=True)
    sys.stdout.flush()


def _summary(result: GatewayResult) -> None:
    money = spent(result.cost_usd, result.at_least_usd, result.tokens, result.at_least_tokens)
    counts = f"{plural(result.calls, 'call')} in {plural(result.traces, 'trace')}"
    if result.unread:
        counts += f", {plural(result.unread, 'call')} forwarded that cannot be read"
    if result.killed:
        say("ethogram gateway: the kill switch is on; let calls pass again with: ethogram kill --undo")
    say(f"ethogram gateway: {counts}; the run so far: {money}; next: ethogram show {result.run}")
