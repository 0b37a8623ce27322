"""Work spread over a Ray cluster: a function and what to call it with; answers come back in the order of the calls."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeVar

from ethogram.errors import BadInput, EthogramError, MissingExtra

CONNECT_SECONDS = 20
PATIENCE_SECONDS = 600
"""A cluster that grows on demand may need minutes for its first worker; after so long none will come."""

T = TypeVar("T")


class Cluster:
    """A Ray cluster that is connected."""

    def __init__(self, ray: Any, patience: float) -> None:
        """`patience` is how long to wait in seconds while no call ends."""
        self._ray = ray
        self._patience = patience

    def map(self, function: Callable[..., T], calls: Sequence[tuple[Any, ...]]) -> list[T]:
        """What the function returns for each call; a call whose worker is lost is made again."""
        task = self._ray.remote(num_cpus=1, max_retries=-1)(function)
        answers = [task.remote(*call) for call in calls]
        waiting = answers
        while waiting:
            ready, waiting = self._ray.wait(waiting, timeout=self._patience)
            if not ready:
                raise BadInput(
                    f"the cluster has ended no task for {self._patience:.0f} s; free a CPU of it, or leave out "
                    "--engine ray"
                )
        try:
            return self._ray.get(answers, timeout=self._patience)  # type: ignore[no-any-return]
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, EthogramError):
                raise error.cause from None
            raise


@contextmanager
def ray_cluster(patience: float = PATIENCE_SECONDS) -> Iterator[Cluster]:
    """The cluster that is connected already, else the one at `RAY_ADDRESS`, else a new one on this machine."""
    try:
        ray: Any = import_module("ray")
    except ImportError:
        raise MissingExtra.needed("ray", "the engine 'ray'") from None
    if ray.is_initialized():
        yield Cluster(ray, patience)
        return
    # without an address ray would look for one that an earlier cluster may have left behind, and wait for it
    address = os.environ.get("RAY_ADDRESS") or "local"
    try:
        _knock(address)
        ray.init(address=address, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    except (OSError, RuntimeError, ValueError) as error:
        said = getattr(error, "strerror", None) or str(error)
        told = (said.strip().splitlines() or [type(error).__name__])[0]
        raise BadInput(
            f"no Ray cluster answers at {address!r} ({told}); start one there, or unset RAY_ADDRESS for a local one"
        ) from None
    try:
        yield Cluster(ray, patience)
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Whether somebody listens there: ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdigit():
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
