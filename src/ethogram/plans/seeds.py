"""Seeds by name: hashing what an episode is, so that order, engine and concurrency change nothing."""

from __future__ import annotations

from hashlib import blake2b


def episode_seed(base: int | str, task: str, attempt: int) -> int:
    """The seed of an attempt. Agent and condition are left out, so that versions and conditions are paired."""
    return int.from_bytes(blake2b(f"{base}:{task}:{attempt}".encode(), digest_size=8).digest(), "little")


def hashed_seeds(recipe: str, count: int) -> list[int]:
    """The first seeds of a recipe: the hash of `{recipe}:0`, of `{recipe}:1` and so on."""
    start = f"{recipe}:"
    return [int.from_bytes(blake2b(f"{start}{i}".encode(), digest_size=8).digest(), "little") for i in range(count)]


def derived_seed(seed: int, purpose: str) -> int:
    """A seed for one purpose inside an episode (the world, the user simulator, …)."""
    return int.from_bytes(blake2b(f"{seed}:{purpose}".encode(), digest_size=8).digest(), "little")
