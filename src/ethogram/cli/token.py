"""`ethogram token`."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from ethogram.errors import BadUsage
from ethogram.questions.home.tokens import TokenList, create_token, list_tokens, revoke_token

from .printing import HomeOption, JsonOption, say, stdout, table, when


def command(
    action: Annotated[str, typer.Argument(help="list, create or revoke.")] = "list",
    name: Annotated[str | None, typer.Argument(help="The name of the token, or its id, to revoke it.")] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            help="metadata (names, numbers, labels), payloads (the words of traces), write (label), ingest (send "
            "spans); may be repeated. By default metadata."
        ),
    ] = None,
    expires: Annotated[str | None, typer.Option(help="Expiry, e.g. 30d; by default never.")] = None,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Tokens for servers that others can reach. A token is shown once, when it is created; only its hash is stored.

    Example: `ethogram token create build-server --scope ingest --expires 90d`
    """
    if action == "list" and name is None:
        result = list_tokens(home=home)
    elif action == "create" and name:
        result = create_token(name, scope or ("metadata",), expires=expires, home=home)
    elif action == "revoke" and name:
        result = revoke_token(name, home=home)
    else:
        raise BadUsage("say: token list, token create NAME, or token revoke NAME")
    _print_json(result) if json else _print(result)
    return 0


def _print_json(result: TokenList) -> None:
    """Not by `print_json`: that would hide the token, and there is no other moment to show it."""
    sys.stdout.write(result.to_json() + "\n")


def _print(result: TokenList) -> None:
    if result.token is not None:
        say("this token is shown once; send it as: Authorization: Bearer TOKEN, or type it where a browser asks for it")
        sys.stdout.write(result.token + "\n")
        return
    if result.revoked is not None:
        stdout().print(f"revoked {result.revoked}; servers refuse it within seconds", markup=False)
        return
    if not result.tokens:
        stdout().print("no tokens; make one with: ethogram token create NAME --scope metadata", markup=False)
        return
    now = time.time_ns()
    rows = [
        [
            token.name,
            token.id,
            token.scopes,
            when(token.created_ns),
            _expiry(token.expires_ns, now),
            "never" if token.last_used_ns is None else when(token.last_used_ns),
        ]
        for token in result.tokens
    ]
    stdout().print(table(["token", "id", "scopes", "made", "expires", "last used"], rows))


def _expiry(expires_ns: int | None, now_ns: int) -> str:
    if expires_ns is None:
        return "never"
    return f"{'expired ' if now_ns >= expires_ns else ''}{when(expires_ns)}"
