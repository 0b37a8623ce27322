"""Where calls go: the providers, and the variables that name them to clients."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

import msgspec

from ethogram.errors import BadUsage
from ethogram.prices.prices import provider_at
from ethogram.wire.asgi import LOOPBACK

NO_KEY = "no-key-needed-for-a-replay"


class Provider(msgspec.Struct, frozen=True):
    """A provider: the address that its clients use by themselves, None if there is none, and their variables."""

    address: str | None
    variables: tuple[str, ...]
    keys: tuple[str, ...]
    """The variables in which clients look for a key, the commonest first."""


PROVIDERS: dict[str, Provider] = {
    "openai": Provider("https://api.openai.com/v1", ("OPENAI_BASE_URL", "OPENAI_API_BASE"), ("OPENAI_API_KEY",)),
    "anthropic": Provider(
        "https://api.anthropic.com",
        ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_URL"),
        ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    ),
    "groq": Provider("https://api.groq.com", ("GROQ_BASE_URL",), ("GROQ_API_KEY",)),
    "cerebras": Provider("https://api.cerebras.ai", ("CEREBRAS_BASE_URL",), ("CEREBRAS_API_KEY",)),
    "together": Provider("https://api.together.xyz/v1", ("TOGETHER_BASE_URL",), ("TOGETHER_API_KEY",)),
    "gemini": Provider(
        "https://generativelanguage.googleapis.com", ("GOOGLE_GEMINI_BASE_URL",), ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    ),
    "azure": Provider(None, ("AZURE_OPENAI_ENDPOINT",), ("AZURE_OPENAI_API_KEY",)),
}
"""Clients of Amazon sign the host that they call, so their calls cannot be passed on under another one."""


class Upstream(msgspec.Struct, frozen=True):
    """One server that calls are forwarded to; `path` is the part of its address that clients put before theirs."""

    name: str
    origin: str
    path: str = ""

    @classmethod
    def at(cls, name: str, address: str) -> Upstream:
        """The server at an address; raises `BadUsage` if it is none of HTTP."""
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
            raise BadUsage(f"the upstream of {name!r} is not an address: give one such as http://127.0.0.1:8000/v1")
        origin = f"{parts.scheme}://{parts.netloc}"
        return cls(name, origin, parts.path.rstrip("/"))

    @property
    def provider(self) -> str | None:
        """Whose prices hold there; None where the address does not tell."""
        return provider_at(self.origin + self.path)


def upstreams_of(environment: Mapping[str, str], given: Mapping[str, str] = {}) -> dict[str, Upstream]:
    """The upstream of every provider: one that is given, else the variable's present value, else the provider's own.

    A variable may be empty, which clients read as not set. Raises `BadUsage` for addresses that are none.
    """
    upstreams = {}
    for name, provider in PROVIDERS.items():
        present = next((value for v in provider.variables if (value := environment.get(v))), None)
        address = given.get(name) or present or provider.address
        if address is not None:
            upstreams[name] = Upstream.at(name, address)
    others = {name: Upstream.at(name, address) for name, address in given.items() if name not in PROVIDERS}
    return {**upstreams, **others}


def variables_of(address: str, upstreams: Mapping[str, Upstream], environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that lead clients to a gateway at `address`, and keep them from asking a proxy for it.

    `upstreams` are by the names that paths of the gateway have for them.
    """
    variables = {}
    for route, upstream in upstreams.items():
        known = PROVIDERS.get(upstream.name)
        for variable in known.variables if known else ():
            variables[variable] = f"{address}/{route}{upstream.path}"
    for variable in ("NO_PROXY", "no_proxy"):
        hosts = [host.strip() for host in environment.get(variable, "").split(",") if host.strip()]
        variables[variable] = ",".join([*hosts, *(host for host in LOOPBACK if host not in hosts)])
    return variables


def missing_keys(environment: Mapping[str, str], providers: Collection[str]) -> dict[str, str]:
    """Variables of keys of these providers that are not set, with a word that is none: clients want one to start."""
    known = [provider for name, provider in PROVIDERS.items() if name in providers]
    return {p.keys[0]: NO_KEY for p in known if not any(environment.get(key) for key in p.keys)}


def is_address(host: str) -> bool:
    """Whether a host is given as an address instead of a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
