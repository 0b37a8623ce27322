"""A checkout of a commit with its history and without later commits.

Agents read history. A plain clone would show them the commit that mends what they are asked to mend, so each
commit is fetched once, alone, into a mirror, and workspaces are cloned from that.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from ethogram.plans import Repository
from ethogram.traces import cut_whole

from .faults import SandboxFault
from .scratch import new_folder

SECONDS = 600.0
BRANCH = "main"
_SERVE = "git -c uploadpack.allowAnySHA1InWant=true -c safe.directory='*' upload-pack"

_lock = threading.Lock()
_mirrors: dict[tuple[str, str], Path] = {}
_folder: list[Path] = []


def check_out(repository: Repository, root: Path, target: Path) -> None:
    """Fill an existing, empty folder with a checkout of the commit, on a branch of its own, with no remote."""
    mirror = _mirror((root / repository.path).resolve(), repository.commit)
    git(["clone", "-q", "--local", "--no-tags", "--template=", "--branch", BRANCH, str(mirror), str(target)])
    git(["remote", "remove", "origin"], target)
    for name, value in (("user.name", "agent"), ("user.email", "agent@localhost")):
        git(["config", name, value], target)


def committed_file(repository: Repository, root: Path, name: str) -> bytes | None:
    """A file as the commit has it; None if it has none."""
    mirror = _mirror((root / repository.path).resolve(), repository.commit)
    done = _run(["cat-file", "blob", f"{repository.commit}:{name}"], mirror)
    return done.stdout if done.returncode == 0 else None


def committed_names(repository: Repository, root: Path) -> list[str]:
    """The names of all files of the commit."""
    mirror = _mirror((root / repository.path).resolve(), repository.commit)
    listed = git(["ls-tree", "-r", "-z", "--name-only", repository.commit], mirror)
    return [n for n in listed.decode("utf-8", "replace").split("\0") if n]


def _mirror(source: Path, commit: str) -> Path:
    """The mirror of a commit, made when first asked for and gone with this process."""
    with _lock:
        place = (str(source), commit)
        known = _mirrors.get(place)
        if known is not None and known.is_dir():
            return known
        if not source.exists():
            raise SandboxFault(f"there is no repository at {source.name!r} in the suite")
        if not _folder:
            _folder.append(new_folder("mirrors"))
        mirror = Path(tempfile.mkdtemp(prefix="m-", dir=_folder[0]))
        if source.is_file():
            # a bundle serves no commit by its hash, a clone of it does
            whole = Path(tempfile.mkdtemp(prefix="b-", dir=_folder[0]))
            git(["clone", "-q", "--mirror", "--template=", str(source), str(whole)])
            source = whole
        git(["init", "-q", "--bare", "--template=", f"--initial-branch={BRANCH}", str(mirror)])
        wanted = f"+{commit}:refs/heads/{BRANCH}"
        git(["fetch", "-q", "--no-tags", f"--upload-pack={_SERVE}", str(source), wanted], mirror)
        _mirrors[place] = mirror
        return mirror


def git(words: Sequence[str], folder: Path | None = None) -> bytes:
    """Run git, quietly and without the user's own settings."""
    done = _run(words, folder)
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise SandboxFault(f"git {words[0]} failed: {cut_whole(said[-1], 300) if said else 'no message'}")
    return done.stdout


def _run(words: Sequence[str], folder: Path | None) -> subprocess.CompletedProcess[bytes]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    env |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        return subprocess.run(  # noqa: S603 - no shell, and the suite's author names the repository
            ["git", "-c", "safe.directory=*", *words],  # noqa: S607 - the user's own git
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise SandboxFault("a task needs git, and there is no 'git' on this machine") from None
    except subprocess.TimeoutExpired:
        raise SandboxFault(f"git {words[0]} did not end within {SECONDS:.0f} s") from None
