"""`ethogram view`."""

from __future__ import annotations

from typing import Annotated

import typer

from ethogram.store import home_of
from ethogram.viewer.viewing import VIEW_PORT, ViewResult, ViewSettings, view_until_stopped
from ethogram.wire.access import ListenSettings

from .listening import LOOPBACK_HOST, AllowHostOption, ListenHostOption, RequireTokenOption
from .printing import HomeOption, JsonOption, print_json, say


def command(
    run: Annotated[str | None, typer.Argument(help="Open this run; by default the list of all runs.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 takes a free one.")] = VIEW_PORT,
    host: ListenHostOption = LOOPBACK_HOST,
    allow_host: AllowHostOption = None,
    require_token: RequireTokenOption = False,
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open it in a browser.")] = True,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Look at runs and traces in a browser, live, until it is stopped.

    Prints its address. Only programs of this machine can reach it, unless --host says otherwise: then people sign in
    with a token of `ethogram token create`.

    Example: `ethogram view latest --no-open`
    """
    listen = ListenSettings(host=host, allow_hosts=tuple(allow_host or ()), require_token=require_token)
    settings = ViewSettings(run=run, port=port, listen=listen)
    view_until_stopped(home_of(home), settings, print_json if json else _ready, open_browser=open_ and not json)
    return 0


def _ready(result: ViewResult) -> None:
    print(result.address, flush=True)
    if result.taken is not None:
        say(f"port {result.taken} is taken, perhaps by another viewer, so this one has a free port")
    say("ethogram view: Ctrl-C ends it")
