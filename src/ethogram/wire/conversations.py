"""Match a request to its conversation where nothing names it: agents send the whole context at each turn.

A request whose messages begin with all those of an earlier request belongs to the same conversation; so does one that
goes on from a response kept by the provider, and one that repeats a request that failed. System prompts are left out:
some clients write the time into them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Generic, TypeVar

import msgspec

from ethogram.traces import Message

from .gateway.call import ModelReply, ModelRequest

T = TypeVar("T")
_SYSTEM = frozenset({"system", "developer"})


class _Turn(Generic[T]):
    """One request of a conversation: whose it is, and what the model answered, as far as it did."""

    __slots__ = ("failed", "owner", "said")

    def __init__(self, owner: T) -> None:
        self.owner = owner
        self.said: str | None = None
        self.failed = False


class Conversations(Generic[T]):
    """Conversations by their requests; `T` is whatever the caller keeps for one. Used from one thread."""

    def __init__(self, stopped: Callable[[T], bool]) -> None:
        """`stopped` says whether requests of a conversation are refused: their repetitions belong to it too."""
        self._stopped = stopped
        self._turns: dict[bytes, list[_Turn[T]]] = {}
        self._responses: dict[str, T] = {}
        self._of: dict[int, list[bytes]] = {}

    def find(self, request: ModelRequest) -> T | None:
        """The conversation that a request goes on with; None where it begins a new one."""
        if request.continues is not None and request.continues in self._responses:
            return self._responses[request.continues]
        messages, keys = _spoken(request), list(_keys(request))
        if not keys:
            return None
        again = next((t for t in self._turns.get(keys[-1], ()) if t.failed or self._stopped(t.owner)), None)
        if again is not None:
            return again.owner
        for at in reversed(range(len(keys) - 1)):
            turns = self._turns.get(keys[at])
            if turns:
                answer = messages[at + 1].text
                return next((t for t in reversed(turns) if t.said == answer), turns[-1]).owner
        return None

    def asked(self, request: ModelRequest, owner: T) -> None:
        """A request belongs to this conversation."""
        key = next(reversed(list(_keys(request))), b"")
        turns = self._turns.setdefault(key, [])
        for turn in [t for t in turns if t.owner is owner]:
            turns.remove(turn)
        turns.append(_Turn(owner))
        self._of.setdefault(id(owner), []).append(key)

    def answered(self, request: ModelRequest, reply: ModelReply | None, owner: T) -> None:
        """What came of a request: its words tell conversations apart that began alike."""
        key = next(reversed(list(_keys(request))), b"")
        for turn in self._turns.get(key, ()):
            if turn.owner is owner:
                turn.failed = reply is None or not reply.complete or reply.error is not None
                turn.said = None if reply is None else reply.message.text
        if reply is not None and reply.response_id is not None:
            self._responses[reply.response_id] = owner

    def forget(self, owner: T) -> None:
        """A conversation is over."""
        for key in self._of.pop(id(owner), ()):
            left = [t for t in self._turns.get(key, ()) if t.owner is not owner]
            if left:
                self._turns[key] = left
            else:
                self._turns.pop(key, None)
        self._responses = {name: kept for name, kept in self._responses.items() if kept is not owner}


def _spoken(request: ModelRequest) -> list[Message]:
    return [m for m in request.messages if m.role not in _SYSTEM]


def _keys(request: ModelRequest) -> Iterator[bytes]:
    """One key per message: of all messages up to it."""
    key = request.protocol.encode()
    for message in _spoken(request):
        key = blake2b(key + msgspec.msgpack.encode(message), digest_size=16).digest()
        yield key
