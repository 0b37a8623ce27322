"""The runs of a home as a server reads them: opened once for each state of their ledger, answers kept with it.

Reading is shared by many threads. A `Run` keeps open files, so each is used by one thread at a time; an answer that
several readers ask for at once is computed once.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TypeVar

from ethogram.errors import EthogramError, NotFound
from ethogram.questions.explore.exploration import ROUNDS
from ethogram.store import Home, Run
from ethogram.store.lease import FOLDER as WRITERS
from ethogram.store.ledger import FOLDER as LEDGER
from ethogram.traces.ids import digest

KEPT_ANSWERS = 512
KEPT_OPENED = 256
KEPT_OPENED_BYTES = 256 << 20
"""What opened traces may take; the last one is kept however large it is."""
KEPT_RUNS = 8
WATCH_SECONDS = 0.5
"""How old the answer to "which runs changed" may be; several readers share it."""

T = TypeVar("T")


class Weighed(Protocol):
    """What is kept as long as it is small enough."""

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes; more may be read of it later."""


Kept = TypeVar("Kept", bound=Weighed)


class _Held:
    """Something that one thread uses at a time; None until it is made."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.value: Any = None
        self.nbytes = 0


class Library:
    """What the views read: runs by name, and answers that hold as long as a ledger does not change."""

    def __init__(self, home: Home) -> None:
        """Nothing is read yet."""
        self.home = home
        self._lock = threading.Lock()
        self._answers: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._runs: OrderedDict[tuple[str, str], _Held] = OrderedDict()
        self._opened: OrderedDict[tuple[Any, ...], _Held] = OrderedDict()
        self._pending: dict[tuple[Any, ...], threading.Lock] = {}
        self._states: tuple[float, dict[str, str]] = (0.0, {})

    def run(self, name: str) -> Run:
        """A run of the home, opened anew; raises `NotFound`. Unlike the command line it takes no directory: readers
        must not look outside the home."""
        run = self.home.resolve(name)
        if run.files is not self.home.files:
            raise NotFound.named("run", name, self.home.names(), where=f"{self.home.files.address}")
        return run

    def _shared(self, name: str) -> _Held:
        """A run as its ledger stands now, opened once for all readers; who uses it holds its lock."""
        run = self.run(name)
        place = (run.path, self.state(name))
        with self._lock:
            held = self._runs.setdefault(place, _Held())
            self._runs.move_to_end(place)
            while len(self._runs) > KEPT_RUNS:
                self._runs.popitem(last=False)
        if held.value is None:  # who finds it opened waits for nobody who reads from it
            with held.lock:
                if held.value is None:
                    run.standing  # noqa: B018 - read here, shared by all that are opened from it
                    held.value = run
        return held

    def _reading(self, name: str) -> Run:
        """The same for one thread, with files of its own: a long answer holds up no other reader."""
        opened: Run = self._shared(name).value.reopened()  # of what is known, which only grows: no lock
        return opened

    def state(self, name: str) -> str:
        """What a run stands at: changes whenever something is committed, a writer comes or goes, or a round of an
        exploration is complete."""
        run = self.run(name)
        names = [*run.files.names(f"{run.path}/{LEDGER}"), "", *run.files.names(f"{run.path}/{WRITERS}")]
        if rounds := run.files.names(f"{run.path}/{ROUNDS}"):
            # a round is committed by a file in its folder, after its outcomes
            names += ["", rounds[-1], *run.files.names(f"{run.path}/{ROUNDS}/{rounds[-1]}")]
        return digest(run.path, *names).rpartition(":")[2][:16]

    def states(self) -> dict[str, str]:
        """The state of every run of the home."""
        with self._lock:
            at, known = self._states
        if time.monotonic() - at < WATCH_SECONDS:
            return known
        found = {}
        for name in self.home.names():
            with suppress(EthogramError):  # removed in this moment, or no run
                found[name] = self.state(name)
        with self._lock:
            self._states = (time.monotonic(), found)
        return found

    def answer(self, name: str, key: tuple[Any, ...], compute: Callable[[Run], T]) -> T:
        """What `compute` says of a run, computed once for each state of its ledger.

        `compute` gets a run of its own, so that a long answer holds up no other reader.
        """
        place = (name, self.state(name), *key)
        with self._lock:
            if place in self._answers:
                self._answers.move_to_end(place)
                kept: T = self._answers[place]
                return kept
            pending = self._pending.setdefault(place, threading.Lock())
        # before the wait, not during it: who holds the run may wait for this very answer
        own = self._reading(name)
        with pending:
            with self._lock:
                if place in self._answers:
                    kept = self._answers[place]
                    return kept
            try:
                found = compute(own)
            finally:
                with self._lock:
                    self._pending.pop(place, None)
            with self._lock:
                self._answers[place] = found
                while len(self._answers) > KEPT_ANSWERS:
                    self._answers.popitem(last=False)
        return found

    def earlier(self, name: str, key: tuple[Any, ...]) -> Any:
        """The newest answer about a run in any state of its ledger, while somebody computes that of this state; else
        None. For those who would rather show what is known than wait."""
        place = (name, self.state(name), *key)
        with self._lock:
            if place in self._answers or place not in self._pending:
                return None
            known = (one for one in reversed(self._answers) if one[0] == name and one[2:] == key)
            return self._answers.get(next(known, ()))

    @contextmanager
    def alone(self, name: str, key: tuple[Any, ...], compute: Callable[[Run], Kept]) -> Iterator[Kept]:
        """Something large about a run, such as an opened trace, for this thread alone; the last ones are kept."""
        shared = self._shared(name)
        place = (name, self.state(name), *key)
        with self._lock:
            held = self._opened.setdefault(place, _Held())
            self._opened.move_to_end(place)
        # many small traces lie in one piece of a file: unpacked once, it serves all of them
        with shared.lock:
            if held.value is None:
                held.value = compute(shared.value)
            yield held.value
            held.nbytes = held.value.nbytes
        with self._lock:
            total = sum(one.nbytes for one in self._opened.values())
            while len(self._opened) > 1 and (total > KEPT_OPENED_BYTES or len(self._opened) > KEPT_OPENED):
                total -= self._opened.popitem(last=False)[1].nbytes

    def known(self, name: str, key: tuple[Any, ...]) -> bool:
        """Whether an answer is there already."""
        with self._lock:
            return (name, self.state(name), *key) in self._answers
