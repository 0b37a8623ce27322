"""The gateway under which a user started a service: a run registers its episodes there (`capture.wire.elsewhere`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ethogram.errors import BadUsage
from ethogram.wire.certificates import trusted
from ethogram.wire.gateway.upstreams import Upstream

SECONDS = 10.0


class UserGateway:
    """A gateway in another process of this machine."""

    def __init__(self, address: str) -> None:
        """`address` is the one that it printed."""
        self.address = address.rstrip("/")

    def upstreams(self) -> dict[str, Upstream]:
        """Where it forwards to, by provider; raises `BadUsage` if no gateway answers."""
        import httpx

        try:
            reply = httpx.get(f"{self.address}/_ethogram/upstreams", timeout=SECONDS, trust_env=False, verify=trusted())
            known = reply.raise_for_status().json()
            return {name: Upstream.at(name, address) for name, address in known.items()}
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, AttributeError) as error:
            raise BadUsage(
                f"no gateway answers at {self.address} ({type(error).__name__}); start the agent's service under "
                "'ethogram gateway' and give the address that it prints with --capture"
            ) from None

    async def register(self, token: str, bases: Mapping[str, str]) -> None:
        """Have calls of an episode forwarded to these base URLs, by provider; raises `BadUsage` if it is not done."""
        await self._ask("PUT", token, json=dict(bases))

    async def forget(self, token: str) -> None:
        """Undo `register`."""
        await self._ask("DELETE", token)

    async def _ask(self, method: str, token: str, **body: Any) -> None:
        import httpx

        try:
            # a client for each request: the next one may be in another event loop
            async with httpx.AsyncClient(timeout=SECONDS, trust_env=False, verify=trusted()) as client:
                reply = await client.request(method, f"{self.address}/_ethogram/routes/{token}", **body)
            reply.raise_for_status()
        except httpx.HTTPError as error:
            raise BadUsage(
                f"the gateway at {self.address} does not take episodes any more ({type(error).__name__}); start it "
                "again, then resume the run"
            ) from None
