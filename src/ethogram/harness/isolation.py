"""Isolation of commands with bubblewrap: what they see of this machine, and where they may write.

`readonly`, the default where bubblewrap works, shows the machine as it is, so that ordinary agents find their programs,
packages and settings: read-only, without other processes, with a temporary folder of the attempt's own. `bwrap` shows
what programs need to run at all, and nothing else.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from ethogram.errors import BadUsage
from ethogram.store.seal import Keyring

from .scratch import PREFIX

Isolation = Literal["auto", "none", "readonly", "bwrap", "bwrap+network"]
ISOLATIONS = get_args(Isolation)
AUTO, READONLY = "auto", "readonly"
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix", "/run/systemd/resolve")
"""What programs need of a machine to run at all; of everything else the closely isolated see nothing."""
CERTIFICATES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
STATE = (".cache", ".npm", ".local/share", ".local/state", ".claude", ".claude.json", ".codex", ".gemini")
"""What programs of agents write below the user's folder: caches, sessions and logins that they renew."""
GRAPHICS = ("/dev/dri", "/dev/kfd", "/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm")
IN_MEMORY = 1 << 30
"""Bytes of files in memory that isolated programs may write, such as shared memory."""
SHARED_MEMORY = "/dev/shm"  # noqa: S108
TEMPORARY = ("/tmp", "/var/tmp", SHARED_MEMORY)  # noqa: S108
TRIAL_SECONDS = 10


class Door(NamedTuple):
    """A way out of isolation to a server of this machine: the socket at `path`, seen inside as a port of loopback."""

    path: Path
    port: int


@lru_cache(maxsize=8)
def _bubblewrap(path: str | None) -> str | None:
    """Where bubblewrap is, for a search path: every attempt asks."""
    return shutil.which("bwrap", path=path)


def check_isolation(isolation: str) -> None:
    """Refuse an isolation that does not exist, or not on this machine."""
    if isolation not in ISOLATIONS:
        raise BadUsage(f"there is no isolation {isolation!r}; choose auto, none, readonly, bwrap or bwrap+network")
    if isolation not in (AUTO, "none") and _bubblewrap(os.environ.get("PATH")) is None:
        raise BadUsage("isolation with bubblewrap was asked for, but there is no 'bwrap' here; install bubblewrap")


def isolation_here(isolation: str) -> str:
    """The isolation of a run: `auto` is `readonly` where bubblewrap works, else `none`. Raises `BadUsage`."""
    check_isolation(isolation)
    return isolation if isolation != AUTO else "none" if why_not_isolated() else READONLY


@cache
def why_not_isolated() -> str | None:
    """What keeps bubblewrap from working on this machine, if anything does."""
    if _bubblewrap(os.environ.get("PATH")) is None:
        return "bubblewrap is not installed"
    try:
        tried = subprocess.run(  # noqa: S603
            readonly(["true"], [], None, [], start=Path("/")), capture_output=True, timeout=TRIAL_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"bubblewrap does not work here: {error}"
    said = tried.stderr.decode("utf-8", "replace").strip().splitlines()
    return (
        None if tried.returncode == 0 else f"bubblewrap does not work here: {said[-1][:200] if said else 'no message'}"
    )


def readonly(
    argv: Sequence[str],
    folders: Sequence[Path],
    own: Path | None,
    hide: Sequence[Path],
    programs: Sequence[Path] = (),
    start: Path | None = None,
) -> list[str]:
    """A command that sees this machine read-only, less what is in `hide`, and has the network.

    It may write in `folders`, in the usual caches, and in temporary folders, which lie in `own` in truth, or in memory;
    it starts in `start` or the first of the folders. Of other temporary files it sees the folders of its `programs` and
    what its environment names.
    """
    words = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    words += ["--tmpfs", "/run/user"] if os.path.isdir("/run/user") else []
    words += [word for device in GRAPHICS for word in ("--dev-bind-try", device, device)]
    if own is not None:
        own = own / "tmp"
        own.mkdir(exist_ok=True)
    temps = sorted({os.path.realpath(place) for place in (*TEMPORARY, tempfile.gettempdir()) if os.path.isdir(place)})
    for place in temps:
        words += (
            ["--size", str(IN_MEMORY), "--tmpfs", place]
            if own is None or place == SHARED_MEMORY
            else ["--bind", str(own), place]
        )
    for seen in _needed(programs, [Path(t) for t in temps]):
        words += ["--ro-bind-try", str(seen), str(seen)]
    for name in STATE:
        words += ["--bind-try", str(Path.home() / name), str(Path.home() / name)]
    closed = {*hide, Keyring().path}
    for hidden in sorted(place for place in closed if not closed.intersection(place.parents)):
        if hidden.is_dir():
            words += ["--tmpfs", str(hidden), "--remount-ro", str(hidden)]
        elif hidden.exists():
            words += ["--ro-bind", os.devnull, str(hidden)]
    for folder in folders:
        words += ["--bind", str(folder), str(folder)]
    words += ["--chdir", str(start or folders[0]), "--setenv", "TMPDIR", "/tmp"]  # noqa: S108
    words += ["--unshare-all", "--share-net", "--die-with-parent", "--new-session"]
    return [*words, "--", *argv]


def _needed(programs: Sequence[Path], temps: Sequence[Path]) -> list[Path]:
    """What of temporary folders programs need all the same: where Ethogram was started, Python, and what lies beside.

    Folders in which Ethogram works, those of other attempts among them, are not shown.
    """
    named = [Path(word) for value in os.environ.values() for word in value.split(os.pathsep) if word.startswith("/")]
    wanted = [Path.cwd(), Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[1], Path.home()]
    wanted += [*(p.parent for p in programs), *named]
    inside = dict.fromkeys(p for p in wanted if any(p.is_relative_to(t) and p != t for t in temps))
    return sorted(p for p in inside if p.exists() and not any(part.startswith(PREFIX) for part in p.parts))


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
