"""Finding sources: a folder gives its files, an archive its members, and a link or a hidden file is reported, not read.

Limits hold against archives that expand without end, nest too deeply or have members that point outside.
"""

from __future__ import annotations

import os
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from ethogram.errors import NotFound, Unreadable, first_line

from .compressed import BROKEN, MAX_EXPANDED, MAX_RATIO
from .peek import peek_at
from .source import Source, file_source, spooled, stdin_source

MAX_MEMBERS = 200_000
MAX_NESTING = 3

_BROKEN_ARCHIVE = (*BROKEN, zipfile.BadZipFile, tarfile.TarError, RuntimeError)  # RuntimeError: encrypted, unsupported
_OFFICE = "[Content_Types].xml"
"""What every workbook and document of an office program has inside: such a zip is no archive of logs."""
_NEVER_LOGS = frozenset([".git", ".hg", ".svn", ".venv", ".DS_Store", "__MACOSX", "node_modules"])


def sources(
    path: str | Path,
    is_log: Callable[[Source], bool],
    report: Callable[[str, str], None],
    announce: Callable[[list[str]], None] | None = None,
) -> Iterator[Source]:
    """All sources behind a path: a file, a folder, an archive, or `-` for standard input.

    `is_log` says whether an archive is itself a log (an Inspect `.eval` is a zip) and must stay whole. `announce` is
    told the names of all files of a folder before the first of them is opened.
    """
    if str(path) == "-":
        yield from _expand(stdin_source(), is_log, report, 0)
        return
    root = Path(path)
    if not root.exists():
        raise NotFound(f"no file or folder at {str(path)!r}", where=str(path))
    if root.is_file():
        yield from _expand(file_source(root, root.name), is_log, report, 0)
        return
    real = os.path.realpath(root)
    files = _files_below(root, report)
    names = [file.path[len(str(root)) :].lstrip(os.sep).replace(os.sep, "/") for file in files]
    if announce is not None:
        announce(names)
    for file, name in zip(files, names, strict=True):
        try:
            source = file_source(file.path, name, file.stat().st_size)
        except OSError as error:
            report(name, f"cannot be read: {error.strerror or error}")
            continue
        if not file.is_symlink():
            source.place = os.path.join(real, name)  # links among its folders are not followed
        yield from _expand(source, is_log, report, 0)


def _files_below(root: Path, report: Callable[[str, str], None]) -> list[os.DirEntry[str]]:
    """All files in a folder and the folders below; what is passed over is reported.

    Hidden files and folders are read only where nothing else is there, or where they are named themselves.
    """
    found, hidden = _walk(root, report, hidden=False)
    if not found and hidden:
        found, hidden = _walk(root, report, hidden=True)
    for path in map(Path, hidden):
        kind = "folder" if path.is_dir() else "file"
        report(path.relative_to(root).as_posix(), f"a hidden {kind}; name it to have it read")
    return found


def _walk(root: Path, report: Callable[[str, str], None], *, hidden: bool) -> tuple[list[os.DirEntry[str]], list[str]]:
    """Files in the order of their names, and what was passed over because it is hidden.

    The folder itself says which of its entries are files, so that none of them is asked.
    """

    def closed(error: OSError) -> None:
        name = Path(error.filename or root).relative_to(root).as_posix()
        report(root.name if name == "." else name, f"the folder cannot be read: {error.strerror or error}")

    found: list[os.DirEntry[str]] = []
    passed: list[str] = []
    waiting = [str(root)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as listing:
                entries = list(listing)
        except OSError as error:
            closed(error)
            continue
        for entry in entries:
            if entry.name in _NEVER_LOGS:
                continue
            if entry.name.startswith(".") and not hidden:
                passed.append(entry.path)
            elif _is(entry.is_file):
                found.append(entry)
            elif _is(entry.is_dir) and not entry.is_symlink():
                waiting.append(entry.path)
    return sorted(found, key=lambda entry: _by_parts(entry.path)), sorted(passed, key=_by_parts)


def _is(kind: Callable[[], bool]) -> bool:
    """Whether an entry is a file or a folder; a link that leads round in a circle is neither."""
    try:
        return kind()
    except OSError:
        return False


def _by_parts(path: str) -> list[str]:
    """Folder by folder, as paths are ordered: `a/b` before `a-b`."""
    return path.split(os.sep)


def _expand(
    source: Source, is_log: Callable[[Source], bool], report: Callable[[str, str], None], depth: int
) -> Iterator[Source]:
    """The source itself, or its members if it is an archive that is not a log."""
    try:
        start = source.peek[:512]
        archive = "zip" if start.startswith(b"PK\x03\x04") else "tar" if start[257:262] == b"ustar" else ""
        whole = not archive or is_log(source)
    except Unreadable as error:
        report(source.name, error.cli_message)
        return
    except OSError as error:
        report(source.name, f"cannot be read: {error.strerror or error}")
        return
    if whole:
        yield source
    elif archive == "zip" and _OFFICE in peek_at(source).members:
        report(source.name, "a workbook or another office document; save its table as CSV and import that")
    elif depth >= MAX_NESTING:
        report(source.name, f"archives nested more than {MAX_NESTING} deep are not opened")
    else:
        members = _zip_members(source) if archive == "zip" else _tar_members(source)
        try:
            for member in _unpacked(source, members, report):
                yield from _expand(member, is_log, report, depth + 1)
        except Unreadable as error:
            report(source.name, error.cli_message)
        except _BROKEN_ARCHIVE as error:
            report(source.name, f"the archive is damaged or not supported ({first_line(error, 200)})")


Members = Iterator[tuple[str, int, IO[bytes] | str]]
"""Name, size and content of each member; a string says why it has no content."""


def _unpacked(source: Source, members: Members, report: Callable[[str, str], None]) -> Iterator[Source]:
    """The members that may be opened, one temporary file at a time; together they may not expand without end."""
    left = min(MAX_EXPANDED, max(source.size * MAX_RATIO, 64 << 20))
    for count, (name, size, stream) in enumerate(members):
        place = f"{source.name}/{name}"
        if count >= MAX_MEMBERS:
            report(source.name, f"only the first {MAX_MEMBERS} members are read")
            return
        if (why := _unsafe(name)) or isinstance(stream, str):
            report(place, why or str(stream))
        elif size > left:
            report(place, f"expands to {size >> 20} MiB where {left >> 20} are left for this archive; refused")
        else:
            try:
                member = spooled(place, stream, left)
            except _BROKEN_ARCHIVE as error:
                report(place, f"cannot be unpacked: damaged or not supported ({first_line(error, 200)})")
                continue
            left -= member.size
            member.place = f"{source.place}/{name}" if source.place else ""
            yield member


def _unsafe(name: str) -> str:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if name.startswith(("/", "\\")) or ".." in parts or (parts and ":" in parts[0]):
        return "the member's name points outside the archive"
    return ""


def _zip_members(source: Source) -> Members:
    with source.open_packed() as raw, zipfile.ZipFile(raw) as archive:
        for info in sorted(archive.infolist(), key=lambda i: i.filename):
            if info.is_dir():
                continue
            if stat.S_ISLNK(info.external_attr >> 16):
                yield info.filename, 0, _LINK
                continue
            try:
                member = archive.open(info)
            except (RuntimeError, zipfile.BadZipFile) as error:  # encrypted, an unknown compression, a broken header
                yield info.filename, 0, first_line(error, 200)
                continue
            with member as stream:
                yield info.filename, info.file_size, stream


def _tar_members(source: Source) -> Members:
    with source.open() as raw, tarfile.open(fileobj=raw, mode="r|") as archive:
        for info in archive:
            stream = archive.extractfile(info) if info.isreg() else None
            if stream is not None:
                yield info.name, info.size, stream
            elif not info.isdir():
                yield info.name, 0, _LINK if info.issym() or info.islnk() else "not a file"


_LINK = "a link; links in archives are not followed"
