"""Access tokens of a home, with their scopes. Only hashes are stored.

A token is `ethogram_<id>_<secret>`. The id is public and names the file of its record; the secret has 256 bits from the
system's generator, so one round of a fast hash keeps it: nobody can try all of them.
"""

from __future__ import annotations

import hmac
import re
import secrets
import time
from collections.abc import Collection
from hashlib import blake2b
from typing import Literal, get_args

import msgspec

from ethogram.errors import BadInput, BadUsage, NotFound

from .files import Files

TokenScope = Literal["metadata", "payloads", "write", "ingest"]
"""What a token allows: `metadata` (names, numbers, times, labels), `payloads` (the words of traces), `write` (labels
and settings), `ingest` (sending spans). None includes another."""
SCOPES: tuple[TokenScope, ...] = get_args(TokenScope)
FOLDER = "tokens"
USED_EVERY_NS = 60 * 10**9
"""Of a token in use the time is written once a minute at most."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TOKEN = re.compile(r"ethogram_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


class AccessToken(msgspec.Struct, frozen=True, kw_only=True):
    """The stored record of a token: everything but its secret."""

    id: str
    name: str
    scopes: tuple[TokenScope, ...]
    digest: str
    created_ns: int
    expires_ns: int | None = None

    def expired(self, now_ns: int) -> bool:
        """Whether its time is over."""
        return self.expires_ns is not None and now_ns >= self.expires_ns


class Tokens:
    """The tokens of a home, one file each: making one and revoking another never touch the same file."""

    def __init__(self, files: Files) -> None:
        """Nothing is read before it is needed."""
        self._files = files
        self._noted: dict[str, int] = {}

    def create(
        self, name: str, scopes: Collection[TokenScope], *, lifetime_s: float | None = None
    ) -> tuple[AccessToken, str]:
        """Make a token; gives its record and the token itself, which is stored nowhere."""
        if not _NAME.fullmatch(name):
            raise BadUsage(f"{name!r} cannot name a token: use letters, digits, '.', '_' and '-', at most 64")
        if any(known.name == name for known in self.all()):
            raise BadUsage(f"a token named {name!r} exists already; choose another name, or revoke it first")
        if not scopes:
            raise BadUsage(f"a token needs a scope: {', '.join(SCOPES)}")
        identity, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        now = time.time_ns()
        record = AccessToken(
            id=identity,
            name=name,
            scopes=tuple(scope for scope in SCOPES if scope in scopes),
            digest=_digest(identity, secret),
            created_ns=now,
            expires_ns=None if lifetime_s is None else now + int(lifetime_s * 1e9),
        )
        self._files.create(_path(identity), msgspec.json.encode(record), private=True)
        return record, f"ethogram_{identity}_{secret}"

    def all(self) -> list[AccessToken]:
        """Every token that was not revoked, oldest first."""
        ids = [name.removesuffix(".json") for name in self._files.names(FOLDER) if name.endswith(".json")]
        found = [record for record in map(self._record, ids) if record is not None]
        return sorted(found, key=lambda record: (record.created_ns, record.id))

    def valid(self) -> list[AccessToken]:
        """Every token that can be used now."""
        now = time.time_ns()
        return [record for record in self.all() if not record.expired(now)]

    def revoke(self, wanted: str) -> AccessToken:
        """Remove a token by its id or its name; servers refuse it from then on."""
        known = self.all()
        record = next((r for r in known if wanted in (r.id, r.name)), None)
        if record is None:
            raise NotFound.named("token", wanted, [r.name for r in known])
        self._files.delete(_path(record.id))
        self._files.delete(_used_path(record.id))
        return record

    def find(self, token: str) -> AccessToken | None:
        """The record of a token that somebody presents, expired or not; None where it is no token of this home."""
        match = _TOKEN.fullmatch(token)
        record = self._record(match[1]) if match else None
        if match is None or record is None:
            return None
        return record if hmac.compare_digest(record.digest, _digest(match[1], match[2])) else None

    def note_use(self, record: AccessToken, now_ns: int) -> None:
        """Write down that a token was used."""
        if now_ns - self._noted.get(record.id, 0) >= USED_EVERY_NS:
            self._noted[record.id] = now_ns
            self._files.publish(_used_path(record.id), str(now_ns).encode())

    def last_used_ns(self, record: AccessToken) -> int | None:
        """When a token was used last, within a minute; None where it never was."""
        try:
            return int(self._files.read(_used_path(record.id)))
        except (NotFound, ValueError):
            return None

    def _record(self, identity: str) -> AccessToken | None:
        try:
            return msgspec.json.decode(self._files.read(_path(identity)), type=AccessToken)
        except NotFound:
            return None
        except (msgspec.MsgspecError, UnicodeDecodeError):
            where = _path(identity)
            raise BadInput(f"{where} in the home is not the record of a token; remove it", where=where) from None


def token_id(token: str) -> str | None:
    """The public part of a token; None where the words are no token."""
    match = _TOKEN.fullmatch(token)
    return match[1] if match else None


def _digest(identity: str, secret: str) -> str:
    return blake2b(secret.encode(), digest_size=32, key=identity.encode(), person=b"ethogram-token").hexdigest()


def _path(identity: str) -> str:
    return f"{FOLDER}/{identity}.json"


def _used_path(identity: str) -> str:
    return f"{FOLDER}/{identity}.used"
