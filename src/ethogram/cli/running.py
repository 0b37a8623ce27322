"""Options that every verb shares which runs agents: what they inherit, and how their use becomes dollars."""

from __future__ import annotations

from typing import Annotated

import typer

EnvOption = Annotated[
    list[str] | None,
    typer.Option("--env", help="Pass this variable, NAME or NAME=VALUE, to a 'cmd:' agent; may be repeated."),
]
CleanEnvOption = Annotated[
    bool, typer.Option("--clean-env", help="A 'cmd:' agent inherits only PATH, HOME and the like, and --env.")
]
