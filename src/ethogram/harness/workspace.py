"""Workspaces: a fresh folder per episode, with the task's files under their own names, or a checkout of a commit."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, Literal, get_args

from ethogram.checks import KINDS
from ethogram.errors import BadUsage
from ethogram.plans import FileRef, Task
from ethogram.traces import digest

from .checkout import check_out
from .faults import SandboxFault, is_machine_failure
from .isolation import READONLY, Door, bubble, isolation_here, readonly
from .scratch import kept_folder, new_folder, remove

KeepWorkspace = Literal["never", "failure", "always"]
KEEPS = get_args(KeepWorkspace)
FORWARDER = Path(__file__).with_name("forwarder.py")
MOST_READ = 256 << 20
"""Bytes up to which the end state of a folder is hashed."""
_PLACE = re.compile(r"/[^\s'\";|&<>()$]+")
"""What may be a file in a word of a command, which may be a line of a shell."""
_LEFT_BY_MACHINES = frozenset({".git", "__pycache__", ".pytest_cache"})


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
        suite_files: Sequence[Path] = (),
    ) -> None:
        """`root` is the suite's folder, `base` where workspaces are made, `hide` what isolated agents must not see.

        `suite_files` are hidden one by one where the folder of the suite holds the agent too.
        """
        if keep not in KEEPS:
            raise BadUsage(f"workspaces cannot be kept {keep!r}; choose never, failure or always")
        self.task = task
        self.root = root
        self.keep = keep
        self.isolation = isolation_here(isolation)
        self.hide = tuple(hide)
        self.suite_files = tuple(suite_files)
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

    def _of_suite(self, programs: Sequence[Path]) -> list[Path]:
        """What a program that sees the rest of the machine must not see of the suite, which knows what is expected."""
        root = self.root.resolve()
        history = next((f / ".git" for f in (root, *root.parents) if (f / ".git").exists()), None)
        past = [] if history is None else [history]
        if any(p.is_relative_to(root) for p in (Path.cwd(), *programs)):
            return [*past, *(f for f in self.suite_files if f not in programs)]
        return [*past, root]

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
        if self.isolation == READONLY:
            hide = [*self.hide, *([] if self.root.resolve() in show else self._of_suite(()))]
            return readonly(argv, [folder or self.path], None, hide, _places_in(argv), start)
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
        if self.isolation == READONLY:
            programs = [*programs, *_places_in(argv)]
            return readonly(argv, folders, folders[-1], [*self.hide, *self._of_suite(programs)], programs)
        hide = [self.root.resolve(), *self.hide]
        beside = [p.parent for p in programs if not any(p.is_relative_to(h) for h in hide)]
        network = self.isolation.endswith("+network")
        if door is not None and not network:
            opened = door()
            argv = [sys.executable, "-I", "-S", str(FORWARDER), str(opened.path), str(opened.port), *argv]
            folders = [*folders, opened.path]
        return bubble(argv, folders, network=network, show=beside, hide=hide, then_show=programs)


def _places_in(argv: Sequence[str]) -> list[Path]:
    """Files that a command names in full."""
    named = (Path(place) for word in argv for place in _PLACE.findall(word))
    return [path for path in named if path.exists()]


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
