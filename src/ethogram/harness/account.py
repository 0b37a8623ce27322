"""The account of a capped run: what it spent and what its open calls may spend, for all processes on this machine.

One small file beside the run, locked for each reservation and each settlement, some tens of microseconds. Where a
process is killed, what it had reserved counts as spent from then on: nobody knows whether its calls were answered.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

import msgspec

from ethogram.errors import MachineFailure
from ethogram.prices import NOTHING, Amounts, Budget, CapReached, Caps
from ethogram.prices.budget import RESOURCES
from ethogram.store import Run
from ethogram.store.files import LocalFiles
from ethogram.store.lease import Lease, is_alive, own_lease

try:
    import fcntl
except ImportError:  # not a Unix: every process counts alone
    fcntl = None  # type: ignore[assignment]

LOCK_SECONDS = 5.0
"""How long a process waits for another one, which holds the lock for microseconds unless it was stopped."""
PAUSE_SECONDS = 0.0002
BLOCK = 4096
"""The file is a multiple of this size, so that a disk that is full later takes no reservation away."""


class _Holder(msgspec.Struct):
    lease: Lease
    open: Amounts


class _Books(msgspec.Struct):
    used: Amounts = msgspec.field(default_factory=Amounts)
    holders: dict[str, _Holder] = {}


_decoder = msgspec.json.Decoder(_Books)


@contextmanager
def experiment_budget(run: Run, caps: Caps, spent: Amounts) -> Iterator[Budget]:
    """The budget of a run while the block runs; with caps, one for all processes of this machine.

    `spent` is what the ledger says; the account may know more, such as what calls that were cut off may have cost.
    """
    if fcntl is None or not caps.named():
        yield Budget("experiment", caps, spent=spent)
        return
    budget = SharedBudget(caps, spent, _account_of(run))
    try:
        yield budget
    finally:
        budget.close()


def _account_of(run: Run) -> Path:
    """The file of a run; beside it, or on this machine where its home is elsewhere."""
    if isinstance(run.files, LocalFiles):
        return run.files.root / run.path / "account.json"
    name = blake2b(f"{os.getuid()} {run.files.reach} {run.path}".encode(), digest_size=12).hexdigest()
    return Path(tempfile.gettempdir()) / f"ethogram-account-{name}.json"


class SharedBudget(Budget):
    """The budget of an experiment, kept in a file; `used` and `reserved` are what the file held last."""

    def __init__(self, caps: Caps, spent: Amounts, path: Path) -> None:
        """Raises `MachineFailure` where the file cannot be opened or locked."""
        super().__init__("experiment", caps, spent=spent)
        self._name = secrets.token_hex(5)
        self._own = _Holder(own_lease(), Amounts())
        self._path = path
        try:
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            self._handle = os.open(path, flags, 0o600)
        except OSError as error:
            raise MachineFailure(
                f"the account of the run, {path}, cannot be opened: {error.strerror}; its cap cannot be kept"
            ) from None
        with self._lock, self._books() as books:
            _bury(books)
            for name in RESOURCES:
                setattr(books.used, name, max(getattr(books.used, name), getattr(spent, name)))
            self._write(books)

    def close(self) -> None:
        """Give the file up; what is still reserved counts as spent once this process is gone."""
        os.close(self._handle)

    def take(self, want: Amounts) -> None:
        """Set aside in the account."""
        with self._books() as books:
            try:
                self._check(want)
            except CapReached:
                if not _bury(books):
                    raise
                self._write(books)
                self._check(want)
            if want is not NOTHING:
                self._own.open.add(want)
                self._write(books)

    def give_back(self, want: Amounts) -> None:
        """Undo `take`."""
        if want is not NOTHING:
            self.spend(want, NOTHING)

    def spend(self, want: Amounts, used: Amounts) -> None:
        """Settle in the account."""
        with self._books() as books:
            self._own.open.add(want, -1)
            books.used.add(used)
            self._write(books)

    @contextmanager
    def _books(self) -> Iterator[_Books]:
        """The account, locked while the block runs."""
        until = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise MachineFailure(
                        f"another process has held the account of the run, {self._path}, for {LOCK_SECONDS:g} s; end it"
                    ) from None
                time.sleep(PAUSE_SECONDS)
        try:
            books = self._read()
            self._mirror(books)
            yield books
        finally:
            fcntl.flock(self._handle, fcntl.LOCK_UN)

    def _read(self) -> _Books:
        """What the file holds; one that a crash of the machine has torn is begun anew by what the ledger says."""
        raw = os.pread(self._handle, os.fstat(self._handle).st_size, 0)
        try:
            books = _decoder.decode(raw)
        except msgspec.MsgspecError:
            books = _Books(msgspec.structs.replace(self.used))
        books.holders[self._name] = self._own
        return books

    def _write(self, books: _Books) -> None:
        raw = msgspec.json.encode(books)
        size = max(-(-len(raw) // BLOCK) * BLOCK, os.fstat(self._handle).st_size)
        os.pwrite(self._handle, raw.ljust(size), 0)
        self._mirror(books)

    def _mirror(self, books: _Books) -> None:
        self.used = books.used
        self.reserved = Amounts()
        for holder in books.holders.values():
            self.reserved.add(holder.open)


def _bury(books: _Books) -> bool:
    """Count what processes that are gone had reserved as spent; says whether there were any."""
    gone = [name for name, holder in books.holders.items() if not is_alive(holder.lease)]
    for name in gone:
        books.used.add(books.holders.pop(name).open)
    return bool(gone)
