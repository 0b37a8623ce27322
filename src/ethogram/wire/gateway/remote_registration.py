"""Register episodes at a gateway in another process: the calls of a service that the user started belong to them.

An agent behind an address calls its models through a gateway of the user's. A run registers each of its episodes there,
`PUT /_ethogram/routes/TOKEN` with base URLs of its own gateway by provider, and the service passes on the header
`x-ethogram-episode` that it was called with. Such calls are forwarded to the run, which records and meters them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import msgspec

from ethogram.errors import BadUsage

from .client import ClientSide
from .upstreams import Upstream

CONTROL = b"/_ethogram/"
ROUTES = CONTROL + b"routes/"
UPSTREAMS = CONTROL + b"upstreams"
_MOST_BYTES = 1 << 16
_REMEMBERED = 10_000


class Elsewhere:
    """The episodes that runs registered at one gateway."""

    def __init__(self, upstreams: Mapping[str, Upstream]) -> None:
        """`upstreams` are the gateway's own."""
        self._upstreams = upstreams
        self._routes: dict[str, dict[str, Upstream]] = {}
        self._past: deque[str] = deque(maxlen=_REMEMBERED)

    def knows(self, episode: str | None) -> bool:
        """Whether a run registered this episode, now or lately: calls of one that is over belong nowhere."""
        return episode is not None and (episode in self._routes or episode in self._past)

    def target(self, episode: str | None, provider: str, path: bytes) -> tuple[Upstream, bytes] | None:
        """Where a call of an episode goes, if a run registered it: a run's gateway, and the path there."""
        upstream = self._routes.get(episode or "", {}).get(provider)
        return None if upstream is None else (upstream, upstream.path.encode() + path)

    async def answer(self, client: ClientSide) -> None:
        """Answer a run that registers an episode, takes one back, or asks for the upstreams."""
        if client.method == "GET" and client.path == UPSTREAMS:
            known = {name: upstream.origin + upstream.path for name, upstream in self._upstreams.items()}
            await client.answer(200, msgspec.json.encode(known))
            return
        token = client.path.removeprefix(ROUTES).decode("latin-1")
        if not client.path.startswith(ROUTES) or not token:
            await client.answer(404, _problem("there is no such address here"))
        elif client.method == "PUT":
            await self._register(client, token)
        elif client.method == "DELETE":
            if self._routes.pop(token, None) is not None:
                self._past.append(token)
            await client.answer(200, b"{}")
        else:
            await client.answer(405, _problem("use PUT or DELETE"))

    async def _register(self, client: ClientSide, token: str) -> None:
        body = await client.body(_MOST_BYTES)
        try:
            given = msgspec.json.decode(body if isinstance(body, bytes) else b"", type=dict[str, str])
            self._routes[token] = {name: Upstream.at(name, address) for name, address in given.items()}
        except (msgspec.MsgspecError, BadUsage) as error:
            await client.answer(400, _problem(f"give base URLs by provider: {error}"))
            return
        await client.answer(200, b"{}")


def _problem(message: str) -> bytes:
    return msgspec.json.encode({"error": {"type": "ethogram_route", "message": message}})
