"""Options shared by verbs that serve: address, port and access."""

from __future__ import annotations

from typing import Annotated

import typer

LOOPBACK_HOST = "127.0.0.1"
ListenHostOption = Annotated[
    str, typer.Option("--host", help="The address to listen on; any but this machine's own needs a token.")
]
AllowHostOption = Annotated[
    list[str] | None,
    typer.Option("--allow-host", help="A name that others call this server by, e.g. a proxy's; may be repeated."),
]
RequireTokenOption = Annotated[
    bool, typer.Option("--require-token", help="Require a token on this machine too, e.g. where others have accounts.")
]
