"""Tokens by which other people, programs and machines use the servers of a home."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

import msgspec

from ethogram.display import Presentation
from ethogram.errors import BadUsage
from ethogram.result import Result
from ethogram.store import Home, age_seconds, home_of
from ethogram.store.tokens import SCOPES, AccessToken, Tokens, TokenScope


class TokenInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a token; times are nanoseconds since 1970."""

    id: str
    name: str
    scopes: tuple[TokenScope, ...]
    created_ns: int
    expires_ns: int | None
    last_used_ns: int | None


class TokenList(Result, kw_only=True):
    """The tokens of a home; after `create` also the new one itself, which is shown this once."""

    presentation: ClassVar[Presentation] = Presentation(hidden=("token",))  # a notebook keeps what it shows

    tokens: list[TokenInfo]
    token: str | None = None
    revoked: str | None = None

    def rows(self) -> list[dict[str, Any]]:
        """One row per token."""
        return [msgspec.to_builtins(token) for token in self.tokens]


def list_tokens(*, home: Home | str | None = None) -> TokenList:
    """The tokens that were not revoked, with when each was used last."""
    tokens = Tokens(home_of(home).files)
    return TokenList(tokens=[_info(tokens, record) for record in tokens.all()])


def create_token(
    name: str, scopes: Sequence[str] = ("metadata",), *, expires: str | None = None, home: Home | str | None = None
) -> TokenList:
    """Make a token; `expires` is an age such as `30d`. The result holds the token itself, which is stored nowhere.

    Raises `BadUsage` for a name that is taken or cannot be one, and for a scope that does not exist.

    Example: `create_token("build-server", ["ingest"], expires="30d").token`
    """
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown:
        raise BadUsage(f"there is no scope {unknown[0]!r}; choose from {', '.join(SCOPES)}")
    lifetime = None if expires is None else age_seconds(expires)
    lake = home_of(home)
    _, token = Tokens(lake.files).create(name, cast("Sequence[TokenScope]", scopes), lifetime_s=lifetime)
    result = list_tokens(home=lake)
    result.token = token
    return result


def revoke_token(wanted: str, *, home: Home | str | None = None) -> TokenList:
    """Remove a token by its name or id; servers that run refuse it within seconds."""
    lake = home_of(home)
    record = Tokens(lake.files).revoke(wanted)
    result = list_tokens(home=lake)
    result.revoked = record.name
    return result


def _info(tokens: Tokens, record: AccessToken) -> TokenInfo:
    return TokenInfo(
        id=record.id,
        name=record.name,
        scopes=record.scopes,
        created_ns=record.created_ns,
        expires_ns=record.expires_ns,
        last_used_ns=tokens.last_used_ns(record),
    )
