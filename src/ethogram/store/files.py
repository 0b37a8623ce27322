"""Files of a home: a local folder or an object store behind the same few methods.

`publish` is the only way anything becomes visible: whole and durable, or not at all.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from ethogram.errors import BadUsage, EthogramError, NotFound


class Files(Protocol):
    """The port. Paths are relative, with forward slashes."""

    address: str

    def read(self, path: str) -> bytes:
        """All bytes of a file."""
        ...

    def publish(self, path: str, data: bytes | memoryview) -> None:
        """Make a file appear with all its bytes, durably."""
        ...

    def names(self, folder: str) -> list[str]:
        """Names of files and folders in a folder, sorted; none if it does not exist."""
        ...

    def exists(self, path: str) -> bool:
        """Whether a file or a folder is there."""
        ...

    def size(self, path: str) -> int:
        """Bytes of a file."""
        ...

    def delete(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it."""
        ...

    def open(self, path: str) -> Any:
        """A random-access Arrow input file."""
        ...

    def url(self, path: str) -> str:
        """The address under which DuckDB reads the file."""
        ...


class LocalFiles:
    """A folder on this machine."""

    def __init__(self, root: Path) -> None:
        """`root` need not exist yet."""
        self.root = root.absolute()
        self.address = str(self.root)

    def read(self, path: str) -> bytes:
        """All bytes of a file."""
        try:
            return (self.root / path).read_bytes()
        except FileNotFoundError:
            raise NotFound(f"no file at {self.root / path}") from None

    def publish(self, path: str, data: bytes | memoryview) -> None:
        """Write beside, sync, rename, sync the folder."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.parent / f".{target.name}.{secrets.token_hex(4)}.tmp"
        try:
            with open(draft, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, target)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise EthogramError(
                f"cannot write {target}: {error.strerror or error}; everything committed before is safe"
            ) from error
        _sync_folder(target.parent)

    def names(self, folder: str) -> list[str]:
        """Names in a folder; hidden ones (drafts) are left out."""
        try:
            with os.scandir(self.root / folder) as found:
                return sorted(e.name for e in found if not e.name.startswith("."))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def drafts(self, folder: str) -> list[str]:
        """Left-over drafts of writers that were killed."""
        try:
            with os.scandir(self.root / folder) as found:
                return sorted(e.name for e in found if e.name.startswith(".") and e.name.endswith(".tmp"))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def exists(self, path: str) -> bool:
        """Whether a file or a folder is there."""
        return (self.root / path).exists()

    def size(self, path: str) -> int:
        """Bytes of a file."""
        return (self.root / path).stat().st_size

    def delete(self, path: str) -> None:
        """Remove a file or a folder."""
        import shutil

        target = self.root / path
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)

    def open(self, path: str) -> Any:
        """A random-access Arrow input file; not memory-mapped, so that pages do not count as resident."""
        import pyarrow as pa

        return pa.OSFile(str(self.root / path), "rb")

    def url(self, path: str) -> str:
        """The plain path."""
        return str(self.root / path)


class ObjectFiles:
    """A prefix in an object store, through pyarrow's file systems. A put is atomic there."""

    def __init__(self, address: str) -> None:
        """`address` as pyarrow understands it, e.g. `s3://bucket/prefix?region=…`."""
        from pyarrow import ArrowInvalid
        from pyarrow import fs as arrow_fs

        try:
            self.fs, base = arrow_fs.FileSystem.from_uri(address)
        except (ArrowInvalid, OSError) as error:
            raise BadUsage(f"cannot use {_hide(address)} as a home: {str(error).splitlines()[0]}") from None
        self.base = base.rstrip("/")
        self.address = _hide(address)
        self.protocol = "lake" + secrets.token_hex(4)

    def _full(self, path: str) -> str:
        return f"{self.base}/{path}".rstrip("/")

    def read(self, path: str) -> bytes:
        """All bytes of an object."""
        try:
            with self.fs.open_input_file(self._full(path)) as file:
                data: bytes = file.read()
                return data
        except FileNotFoundError:
            raise NotFound(f"no file at {self.address}/{path}") from None

    def publish(self, path: str, data: bytes | memoryview) -> None:
        """One put."""
        try:
            with self.fs.open_output_stream(self._full(path)) as stream:
                stream.write(data)
        except OSError as error:
            raise EthogramError(
                f"cannot write {self.address}/{path}: {str(error).splitlines()[0]}; everything committed before is safe"
            ) from error

    def names(self, folder: str) -> list[str]:
        """Names under a prefix."""
        from pyarrow import fs as arrow_fs

        found = self.fs.get_file_info(arrow_fs.FileSelector(self._full(folder), allow_not_found=True))
        return sorted(info.base_name for info in found)

    def exists(self, path: str) -> bool:
        """Whether an object or a prefix is there."""
        from pyarrow import fs as arrow_fs

        return bool(self.fs.get_file_info(self._full(path)).type != arrow_fs.FileType.NotFound)

    def size(self, path: str) -> int:
        """Bytes of an object."""
        return int(self.fs.get_file_info(self._full(path)).size or 0)

    def delete(self, path: str) -> None:
        """Remove an object or everything under a prefix."""
        from pyarrow import fs as arrow_fs

        kind = self.fs.get_file_info(self._full(path)).type
        if kind == arrow_fs.FileType.Directory:
            self.fs.delete_dir(self._full(path))
        elif kind == arrow_fs.FileType.File:
            self.fs.delete_file(self._full(path))

    def open(self, path: str) -> Any:
        """A random-access Arrow input file."""
        return self.fs.open_input_file(self._full(path))

    def url(self, path: str) -> str:
        """An address under the protocol that `fsspec_system` registers."""
        return f"{self.protocol}://{self._full(path)}"

    def fsspec_system(self) -> Any:
        """The same store for DuckDB, which reads through fsspec."""
        from fsspec.implementations.arrow import ArrowFSWrapper

        wrapped = ArrowFSWrapper(self.fs)
        protocol = self.protocol

        class _Lake(ArrowFSWrapper):  # type: ignore[misc]
            """A wrapper with a protocol of its own, so that DuckDB sends only our addresses here."""

            def __init__(self) -> None:
                super().__init__(wrapped.fs)

            @classmethod
            def _strip_protocol(cls, path: str) -> str:
                return str(path).removeprefix(f"{protocol}://")

        _Lake.protocol = protocol
        return _Lake()


def files_at(address: str) -> Files:
    """The files behind a home's address."""
    if "://" in address and not address.startswith("file://"):
        return ObjectFiles(address)
    return LocalFiles(Path(address.removeprefix("file://")))


def _hide(address: str) -> str:
    """An address without user, password and options: they may be secrets."""
    scheme, _, rest = address.partition("://")
    rest = rest.partition("?")[0]
    return f"{scheme}://{rest.rpartition('@')[2]}"


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def walk(files: Files, folder: str) -> Iterator[str]:
    """All file paths below a folder."""
    for name in files.names(folder):
        path = f"{folder}/{name}" if folder else name
        below = files.names(path)
        if below:
            yield from walk(files, path)
        else:
            yield path
