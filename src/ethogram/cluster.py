"""Run work on this machine or on a Ray cluster: connect once, wait for it, disconnect."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any, Self, TypeVar

from ethogram.errors import BadInput, EthogramError, MachineFailure, MissingExtra, NotFound, first_line

ENGINES = ("local", "ray")
CONNECT_SECONDS = 20
PATIENCE_SECONDS = 600
"""A cluster that grows on demand may need minutes for its first worker; after so long none will come."""

T = TypeVar("T")


def check_engine(name: str) -> None:
    """Refuse a name that is no engine's, and an engine that is not installed."""
    if name not in ENGINES:
        raise NotFound.named("engine", name, list(ENGINES))
    if name == "ray" and find_spec("ray") is None:
        raise MissingExtra.needed("ray", "the engine 'ray'")


class Cluster:
    """The cluster at `RAY_ADDRESS` or, without one, a new one on this machine; one that is joined already is used."""

    def __init__(self, patience: float = PATIENCE_SECONDS) -> None:
        """`patience` is how long to wait in seconds while nothing happens."""
        try:
            import ray
        except ImportError:
            check_engine("ray")
            raise
        self.ray: Any = ray
        self.patience = patience
        self._own = not ray.is_initialized()
        if self._own:
            _join(ray)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Hand out calls, each of which takes a CPU; a call whose worker is lost is made again. A handle for each."""
        task = self.ray.remote(num_cpus=1, max_retries=-1)(function)
        return [task.remote(*call) for call in calls]

    def results(self, handles: Sequence[Any]) -> Iterator[Any]:
        """What the calls return, as they end."""
        waiting = list(handles)
        while waiting:
            ready, waiting = self.ray.wait(waiting, timeout=self.patience)
            if not ready:
                gone = f"the cluster has ended no task for {self.patience:.0f} s"
                raise MachineFailure(f"{gone}; free a CPU of it, then repeat the command")
            for handle in ready:
                yield self._result(handle)

    def map(self, function: Callable[..., T], calls: Sequence[tuple[Any, ...]]) -> list[T]:
        """What a function returns for each call, in the order of the calls."""
        numbered = [(function, number, call) for number, call in enumerate(calls)]
        found = dict(self.results(self.begin(_numbered, numbered)))
        return [found[number] for number in range(len(calls))]

    def close(self) -> None:
        """Leave it, if it was joined here."""
        if self._own:
            self.ray.shutdown()

    def _result(self, handle: Any) -> Any:
        try:
            return self.ray.get(handle, timeout=self.patience)
        except self.ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, EthogramError):
                raise error.cause from None
            raise


def _numbered(function: Callable[..., T], number: int, call: tuple[Any, ...]) -> tuple[int, T]:
    return number, function(*call)


def _join(ray: Any) -> None:
    # without an address ray would look for one that an earlier cluster may have left behind, and wait for it
    address = os.environ.get("RAY_ADDRESS") or "local"
    try:
        _knock(address)
        ray.init(address=address, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    except (OSError, RuntimeError, ValueError) as error:
        told = getattr(error, "strerror", None) or first_line(error)
        raise BadInput(
            f"no Ray cluster answers at {address!r} ({told}); start one there, or unset RAY_ADDRESS for a local one",
            where=address,
        ) from None


def _knock(address: str) -> None:
    """Whether somebody listens there: ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdigit():
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
