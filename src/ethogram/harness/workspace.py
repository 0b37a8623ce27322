"""Workspaces: a fresh folder per episode, with the task's files under their own names, or a checkout of a commit."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, Literal, NamedTuple, get_args

from ethogram.checks import KINDS
from ethogram.errors import BadUsage
from ethogram.plans import FileRef, Task
from ethogram.traces import digest

from .checkout import check_out
from .faults import SandboxFault, is_machine_failure
from .scratch import kept_folder, new_folder, remove

KeepWorkspace = Literal["never", "failure", "always"]
Isolation = Literal["none", "bwrap", "bwrap+network"]
KEEPS, ISOLATIONS = get_args(KeepWorkspace), get_args(Isolation)
FORWARDER = Path(__file__).with_name("forwarder.py")
MOST_READ = 256 << 20
"""Bytes up to which the end state of a folder is hashed."""
_LEFT_BY_MACHINES = frozenset({".git", "__pycache__", ".pytest_cache"})
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix", "/run/systemd/resolve")
"""What programs need of a machine to run at all; of everything else the isolated see nothing."""
CERTIFICATES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")


class Door(NamedTuple):
    """A way out of isolation to a server of this machine: the socket at `path`, seen inside as a port of loopback."""

    path: Path
    port: int


class Workspace:
    """The folder of one episode. Use with `with` or `async with`; set `failed` before it ends to keep a failure's."""

    def __init__(
        self,
        task: Task,
        root: Path,
        *,
        keep: str = "never",
        isolation: str = "none",
        base: Path | None = None,
        hide: Sequence[Path] = (),
    ) -> None:
        """`root` is the suite's folder, `base` where workspaces are made, `hide` what isolated agents must not see."""
        if keep not in KEEPS:
            raise BadUsage(f"workspaces cannot be kept {keep!r}; choose never, failure or always")
        check_isolation(isolation)
        self.task = task
        self.root = root
        self.keep = keep
        self.isolation = isolation
        self.hide = tuple(hide)
        self.failed = False
        self.kept: Path | None = None
        self._base = base
        self._path: Path | None = None
        self.looked_at = any(KINDS[c.kind].layer == "L3" for c in task.checks if c.kind in KINDS)
        """Whether checks look at what the agent leaves in it."""
        self.needed = bool(task.files or task.repository or self.looked_at or task.meta.get("workspace"))
        """Whether the task has files, a repository, or checks that look at what the agent leaves."""

    @property
    def path(self) -> Path:
        """The folder, while the workspace is open."""
        if self._path is None:
            raise RuntimeError("the workspace is not open")
        return self._path

    def __enter__(self) -> Workspace:
        if self.needed:
            self._guarded(self._fill)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        if self._path is None:
            return
        if self.keep == "always" or (self.keep == "failure" and (self.failed or kind is not None)):
            self.kept = kept_folder(self._path) if self._base is None else self._path
        else:
            remove(self._path)
        self._path = None

    async def __aenter__(self) -> Workspace:
        return await asyncio.to_thread(self.__enter__) if self.needed else self

    async def __aexit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        if self._path is not None:
            await asyncio.to_thread(self.__exit__, kind, error, trace)

    def end_state(self) -> str | None:
        """The hash of all files as they are now, but for what machines leave; None for folders too large to read."""
        parts: list[str | bytes] = []
        size = 0
        for path in sorted(p for p in self.path.rglob("*") if p.is_file() and not p.is_symlink()):
            name = path.relative_to(self.path)
            if not _LEFT_BY_MACHINES.isdisjoint(name.parts) or path.suffix == ".pyc":
                continue
            size += path.stat().st_size
            if size > MOST_READ:
                return None
            parts += (name.as_posix(), path.read_bytes())
        return digest("end state", *parts)

    def _guarded(self, act: Callable[[], None]) -> None:
        """The machine's own failures travel up; anything else that prevents a workspace is the sandbox's fault."""
        try:
            act()
        except BaseException as error:
            if self._path is not None:
                remove(self._path)
                self._path = None
            if isinstance(error, OSError) and not is_machine_failure(error):
                raise SandboxFault(f"the workspace of task {self.task.id!r} cannot be made: {error}") from error
            raise

    def _fill(self) -> None:
        if self._base is None:
            self._path = new_folder("ws")
        else:
            self._base.mkdir(parents=True, exist_ok=True)
            self._path = Path(tempfile.mkdtemp(prefix="ws-", dir=self._base)).resolve()
        if self.task.repository is not None:
            check_out(self.task.repository, self.root, self._path)
        for name, ref in self.task.files.items():
            put(self._path, name, original(self.root, ref, self.task.id), _is_program(self.root / ref.path))

    def wrap(
        self, argv: Sequence[str], folder: Path | None = None, start: Path | None = None, show: Sequence[Path] = ()
    ) -> list[str]:
        """A command that runs isolated, if isolation was asked for.

        It may write in `folder`, starts in `start`, and may read `show` besides what every program needs.
        """
        if self.isolation == "none":
            return list(argv)
        network = self.isolation.endswith("+network")
        return bubble(argv, [folder or self.path], start=start, network=network, show=show)

    def wrap_agent(
        self,
        argv: Sequence[str],
        folders: Sequence[Path],
        programs: Sequence[Path] = (),
        door: Callable[[], Door] | None = None,
    ) -> list[str]:
        """The command of an agent, isolated if that was asked for: it may write in `folders` and starts in the first.

        It sees the files of its command (`programs`) and what lies beside them, but neither the suite nor the home.
        Where it has no network, `door` gives the one server that it may reach.
        """
        if self.isolation == "none":
            return list(argv)
        hide = [self.root.resolve(), *self.hide]
        beside = [p.parent for p in programs if not any(p.is_relative_to(h) for h in hide)]
        network = self.isolation.endswith("+network")
        if door is not None and not network:
            opened = door()
            argv = [sys.executable, "-I", "-S", str(FORWARDER), str(opened.path), str(opened.port), *argv]
            folders = [*folders, opened.path]
        return bubble(argv, folders, network=network, show=beside, hide=hide, then_show=programs)


def check_isolation(isolation: str) -> None:
    """Refuse an isolation that does not exist, or not on this machine."""
    if isolation not in ISOLATIONS:
        raise BadUsage(f"there is no isolation {isolation!r}; choose none, bwrap or bwrap+network")
    if isolation != "none" and shutil.which("bwrap") is None:
        raise BadUsage("isolation with bubblewrap was asked for, but there is no 'bwrap' here; install bubblewrap")


def bubble(
    argv: Sequence[str],
    folders: Sequence[Path],
    *,
    start: Path | None = None,
    network: bool = False,
    show: Sequence[Path] = (),
    hide: Sequence[Path] = (),
    then_show: Sequence[Path] = (),
) -> list[str]:
    """A command inside bubblewrap: system and Python read-only, `folders` writable, nothing else, and no network.

    `show` is read-only too; `hide` is empty even where it lies in what is shown; `then_show` is seen all the same.
    """
    words = ["bwrap", "--tmpfs", "/tmp", "--dev", "/dev", "--proc", "/proc"]  # noqa: S108
    python = [sys.prefix, sys.base_prefix, str(Path(__file__).parents[1])]
    for place in dict.fromkeys([*SYSTEM, *python, *map(str, show)]):
        words += ["--ro-bind-try", place, place]
    for hidden in hide:
        if any(hidden.is_relative_to(place) for place in (*map(Path, SYSTEM), *map(Path, python), *show)):
            words += ["--tmpfs", str(hidden)]
    for file in [*then_show, *_certificates()]:
        words += ["--ro-bind-try", str(file), str(file)]
    for folder in folders:
        words += ["--bind", str(folder), str(folder)]
    words += ["--chdir", str(start or folders[0]), "--setenv", "HOME", "/tmp", "--setenv", "TMPDIR", "/tmp"]  # noqa: S108
    words += ["--unshare-all", *(["--share-net"] if network else []), "--die-with-parent", "--new-session"]
    return [*words, "--", *argv]


def _certificates() -> list[Path]:
    """The files of trusted authorities that the environment names: clients of HTTP fail where they cannot read them."""
    named = (Path(os.environ.get(name, "")) for name in CERTIFICATES)
    return [file for file in named if file.is_absolute() and file.is_file()]


def original(root: Path, ref: FileRef, task: str) -> bytes:
    """The bytes of a suite's file, if they are still the ones that were hashed when the suite was loaded."""
    try:
        data = (root / ref.path).read_bytes()
    except OSError as error:
        if is_machine_failure(error):
            raise
        raise SandboxFault(
            f"task {task!r}: the file {ref.path!r} of the suite cannot be read: {error.strerror}"
        ) from error
    if ref.digest and digest("file", data) != ref.digest:
        raise SandboxFault(f"task {task!r}: the file {ref.path!r} has changed since the suite was loaded")
    return data


def put(folder: Path, name: str, data: bytes, program: bool = False) -> None:
    """Write a file inside a folder, and nowhere else: links on the way are replaced by real folders."""
    parts = PurePosixPath(name).parts
    if not parts or PurePosixPath(name).is_absolute() or ".." in parts:
        raise SandboxFault(f"{name!r} does not lie inside the workspace")
    place = folder
    for part in parts[:-1]:
        place = place / part
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            place.unlink()
        place.mkdir(exist_ok=True)
    target = place / parts[-1]
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        target.unlink()
    elif target.is_dir():
        remove(target)
    target.write_bytes(data)
    target.chmod(0o755 if program else 0o644)


def _is_program(path: Path) -> bool:
    return os.access(path, os.X_OK)


def clean_copy(folder: Path, target: Path) -> None:
    """A copy of a workspace: links stay links, caches of compiled code and special files stay behind."""

    def left_behind(place: str, names: list[str]) -> set[str]:
        gone = {n for n in names if n in ("__pycache__", ".pytest_cache") or n.endswith(".pyc")}
        for name in set(names) - gone:
            mode = os.lstat(os.path.join(place, name)).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
                gone.add(name)
        return gone

    shutil.copytree(folder, target, symlinks=True, ignore=left_behind, dirs_exist_ok=True)
