"""Seeds by name: hashing what an episode is, so that order, engine and concurrency change nothing."""

from __future__ import annotations

from hashlib import blake2b


def episode_seed(base: int | str, task: str, attempt: int) -> int:
    """The seed of an attempt. Agent and condition are left out, so that versions and conditions are paired."""
    return int.from_bytes(blake2b(f"{base}:{task}:{attempt}".encode(), digest_size=8).digest(), "little")


def derived_seed(seed: int, purpose: str) -> int:
    """A seed for one purpose inside an episode (the world, the user simulator, …)."""
    return int.from_bytes(blake2b(f"{seed}:{purpose}".encode(), digest_size=8).digest(), "little")
