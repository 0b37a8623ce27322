"""Hashes of files that no ledger names: the home's own, and those that an exploration keeps beside its ledger.

`hashes.json` of a folder lists files below it, each with the hash of its bytes. It is published before the files are,
and keeps the hash of what stood there before: whenever a writer is killed, every file is one of the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from ethogram.errors import Damaged, EthogramError, NotFound

from . import ledger_file
from .files import Files

NAME = "hashes.json"
ABSENT = "absent"
"""Stands for the hash of a file that was not there before."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Which hashes each file may have; `digest` is the hash of the list itself."""

    schema_version: int = 1
    files: dict[str, list[str]] = {}
    digest: str = ""

    def hashed(self) -> Manifest:
        """The same list, with its own hash."""
        bare = msgspec.structs.replace(self, digest="")
        return msgspec.structs.replace(
            bare, digest=ledger_file.hash_of(msgspec.json.encode(bare, order="deterministic"))
        )

    def lists(self, name: str, data: bytes | memoryview) -> bool:
        """Whether these bytes of a file are as they were published."""
        return ledger_file.hash_of(data) in self.files.get(name, [])


def read_manifest(files: Files, folder: str) -> Manifest:
    """The list of a folder; an empty one if it has none."""
    path = _below(folder, NAME)
    try:
        found = msgspec.json.decode(files.read(path), type=Manifest)
    except NotFound:
        return Manifest()
    except (msgspec.MsgspecError, UnicodeDecodeError):
        found = None
    if found is None or found != found.hashed():
        raise Damaged(
            f"{path} does not match its own hash; restore it, or remove it to continue without it", where=path
        )
    return found


def record(files: Files, folder: str, contents: Mapping[str, bytes | memoryview]) -> None:
    """Note the hashes of files that are about to be published, or that have just been."""
    listed = _settled(files, folder, read_manifest(files, folder).files)
    for name, data in contents.items():
        there = files.exists(_below(folder, name))
        before = listed.get(name, [])[-1:] if there else [ABSENT]
        listed[name] = list(dict.fromkeys([*before, ledger_file.hash_of(data)]))
    _write(files, folder, listed)


def settle_manifest(files: Files, folder: str) -> None:
    """Note that the files that are there were published: from now on one that is not is missing."""
    listed = read_manifest(files, folder).files
    settled = _settled(files, folder, listed)
    if settled != listed:
        _write(files, folder, settled)


def publish(files: Files, folder: str, contents: Mapping[str, bytes]) -> None:
    """Publish files of a folder in this order, under the hashes of its list."""
    record(files, folder, contents)
    for name, data in contents.items():
        files.publish(_below(folder, name), data)


def forget(files: Files, folder: str, names: set[str]) -> None:
    """Take files off the list, for they go."""
    listed = read_manifest(files, folder).files
    if names & set(listed):
        _write(files, folder, {n: h for n, h in listed.items() if n not in names})


def problems(files: Files, folder: str) -> Iterator[tuple[str, str]]:
    """Each listed file that is not as it was written, and what is wrong with it."""
    try:
        listed = read_manifest(files, folder).files
    except EthogramError as error:
        yield NAME, str(error)
        return
    for name, hashes in listed.items():
        try:
            data = files.read(_below(folder, name))
        except NotFound:
            if ABSENT not in hashes:
                yield name, "the file is missing"
        except EthogramError as error:
            yield name, str(error)
        else:
            if ledger_file.hash_of(data) not in hashes:
                yield name, f"the bytes do not match the hash in {NAME}"


def _settled(files: Files, folder: str, listed: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """The list, without the word that a file may be absent where the file is there."""
    return {
        name: hashes[1:] if hashes[0] == ABSENT and files.exists(_below(folder, name)) else hashes
        for name, hashes in listed.items()
    }


def _write(files: Files, folder: str, listed: dict[str, list[str]]) -> None:
    manifest = Manifest(files=listed).hashed()
    files.publish(_below(folder, NAME), msgspec.json.format(msgspec.json.encode(manifest)))


def _below(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
