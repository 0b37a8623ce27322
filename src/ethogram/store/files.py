"""Files of a home: a local folder or an object store behind the same few methods.

`publish` is the only way anything becomes visible: whole and durable, or not at all.
"""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from ethogram.errors import BadUsage, EthogramError, NotFound, first_line


class Files(Protocol):
    """The port. Paths are relative, with forward slashes."""

    address: str
    """For people to read."""
    reach: str
    """For other processes to open the same files; may hold credentials, so it is never printed."""

    def read(self, path: str) -> bytes:
        """All bytes of a file."""
        ...

    def publish(self, path: str, data: bytes | memoryview) -> None:
        """Make a file appear with all its bytes, durably; what stood there before is replaced."""
        ...

    def create(self, path: str, data: bytes, *, private: bool = False) -> bool:
        """Publish unless something stands there already; says whether it did. `private`: for the owner's eyes."""
        ...

    def names(self, folder: str) -> list[str]:
        """Names of files and folders in a folder, sorted; hidden ones left out; none if it does not exist."""
        ...

    def exists(self, path: str) -> bool:
        """Whether a file or a folder is there."""
        ...

    def size(self, path: str) -> int:
        """Bytes of a file."""
        ...

    def delete(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it; nothing happens if it is not there."""
        ...

    def drafts(self, folder: str, older_s: float = 0.0) -> list[str]:
        """Names of left-over drafts in a folder that nobody has touched for so long."""
        ...

    def open(self, path: str) -> Any:
        """A random-access Arrow input file."""
        ...

    def url(self, path: str) -> str:
        """The address under which DuckDB reads the file."""
        ...


PRIVATE = 0o700
"""Who may enter a home that we make: its owner, and nobody else."""


class LocalFiles:
    """A folder on this machine. What is made in it is as open as the folder is: to its owner alone if we made it."""

    def __init__(self, root: Path) -> None:
        """`root` need not exist yet."""
        self.root = root.absolute()
        self.address = self.reach = str(self.root)
        self._start = os.path.join(self.address, "")

    def read(self, path: str) -> bytes:
        """All bytes of a file."""
        # plain strings: a home of a thousand runs asks for thousands of files, and `Path` takes longer than reading
        with _reading(self._start + path), open(self._start + path, "rb") as file:
            return file.read()

    def publish(self, path: str, data: bytes | memoryview) -> None:
        """Write beside, sync, rename, sync the folder."""
        target = self.root / path
        with _writing(str(target)):
            open_to = self._make_folder(target.parent)
            draft = _write_draft(target, data, open_to & 0o666)
            try:
                os.replace(draft, target)
            except OSError:
                draft.unlink(missing_ok=True)
                raise
            sync_folder(target.parent)

    def create(self, path: str, data: bytes, *, private: bool = False) -> bool:
        """Write beside, sync, then link: of two that try, one wins."""
        target = self.root / path
        with _writing(str(target)):
            if target.exists():
                return False
            open_to = self._make_folder(target.parent)
            draft = _write_draft(target, data, 0o600 if private else open_to & 0o666)
            try:
                os.link(draft, target)
            except FileExistsError:
                return False
            except OSError:  # a file system without links
                os.replace(draft, target)
            finally:
                draft.unlink(missing_ok=True)
            sync_folder(target.parent)
            return True

    def names(self, folder: str) -> list[str]:
        """Names in a folder; hidden ones (drafts) are left out."""
        return [n for n in self._names(folder) if not n.startswith(".")]

    def drafts(self, folder: str, older_s: float = 0.0) -> list[str]:
        """Left-over drafts of writers that were killed."""
        found = [n for n in self._names(folder) if n.startswith(".") and n.endswith(".tmp")]
        return [n for n in found if older_s <= 0 or self._age(f"{folder}/{n}") >= older_s]

    def folder(self, name: str) -> Path:
        """A folder below the root for files that others write; made if it is not there."""
        self._make_folder(self.root / name)
        return self.root / name

    def adopt(self, folder: Path) -> None:
        """Make what others wrote below the root as open as the root is."""
        open_to = self._make_folder(folder)
        for path in (folder, *folder.rglob("*")):
            path.chmod(open_to if path.is_dir() else open_to & 0o666)

    def _make_folder(self, folder: Path) -> int:
        """Make a folder below the root, and the root itself if it is not there; gives who may enter it.

        Every folder that gained a name is synced: a file is no safer than the way to it.
        """
        if not self.root.is_dir():
            above = [f for f in self.root.parents if not f.is_dir()]
            self.root.mkdir(PRIVATE, parents=True, exist_ok=True)
            for made in (self.root, *above):
                sync_folder(made.parent)
        open_to = stat.S_IMODE(self.root.stat().st_mode) & 0o777
        if not folder.is_dir():
            missing = [f for f in (folder, *folder.parents) if not f.is_dir()]
            for made in reversed(missing):
                made.mkdir(open_to, exist_ok=True)
                sync_folder(made.parent)
        return open_to

    def _names(self, folder: str) -> list[str]:
        with _reading(self._start + folder):
            try:
                return sorted(os.listdir(self._start + folder))
            except (FileNotFoundError, NotADirectoryError):
                return []

    def _age(self, path: str) -> float:
        try:
            return time.time() - (self.root / path).stat().st_mtime
        except FileNotFoundError:
            return 0.0

    def exists(self, path: str) -> bool:
        """Whether a file or a folder is there."""
        try:
            return (self.root / path).exists()
        except OSError:  # a name that no file can have
            return False

    def size(self, path: str) -> int:
        """Bytes of a file."""
        with _reading(str(self.root / path)):
            return (self.root / path).stat().st_size

    def delete(self, path: str) -> None:
        """Remove a file or a folder."""
        import shutil

        target = self.root / path
        with _writing(str(target)):
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            else:
                target.unlink(missing_ok=True)

    def open(self, path: str) -> Any:
        """A random-access Arrow input file; not memory-mapped, so that pages do not count as resident."""
        import pyarrow as pa

        with _reading(self._start + path):
            return pa.OSFile(self._start + path, "rb")

    def url(self, path: str) -> str:
        """The plain path."""
        return self._start + path


class ObjectFiles:
    """A prefix in an object store, through pyarrow's file systems. A put is atomic there."""

    def __init__(self, address: str) -> None:
        """`address` as pyarrow understands it: `s3://bucket/prefix?region=…`; keys from it or the environment."""
        from pyarrow import ArrowException
        from pyarrow import fs as arrow_fs

        self.address = _hide(address)
        self.reach = address
        try:
            self.fs, base = arrow_fs.FileSystem.from_uri(_in_one_put(address))
        except (ArrowException, OSError, ValueError) as error:
            told = first_line(error).replace(_in_one_put(address), self.address).replace(address, self.address)
            raise BadUsage(f"cannot use {self.address} as a home: {told}") from None
        self.base = base.strip("/")
        if not self.base:
            raise BadUsage(f"cannot use {self.address} as a home: name a bucket, for example s3://bucket/lake")
        self.protocol = "lake" + secrets.token_hex(4)

    def _full(self, path: str) -> str:
        return f"{self.base}/{path}".rstrip("/")

    def _shown(self, path: str) -> str:
        return f"{self.address.rstrip('/')}/{path}"

    def read(self, path: str) -> bytes:
        """All bytes of an object."""
        with _reading(self._shown(path)), self.fs.open_input_file(self._full(path)) as file:
            data: bytes = file.read()
            return data

    def publish(self, path: str, data: bytes | memoryview) -> None:
        """One put."""
        # as it is: by default a name that ends with .zst makes Arrow compress once more
        with _writing(self._shown(path)), self.fs.open_output_stream(self._full(path), compression=None) as stream:
            stream.write(data)

    def create(self, path: str, data: bytes, *, private: bool = False) -> bool:
        """Look, then put: of two that try in the same moment, the later one wins."""
        if self.exists(path):
            return False
        self.publish(path, data)
        return True

    def names(self, folder: str) -> list[str]:
        """Names under a prefix."""
        from pyarrow import fs as arrow_fs

        with _reading(self._shown(folder)):
            found = self.fs.get_file_info(arrow_fs.FileSelector(self._full(folder), allow_not_found=True))
        return sorted(info.base_name for info in found if not info.base_name.startswith("."))

    def drafts(self, folder: str, older_s: float = 0.0) -> list[str]:
        """There are none: a put that fails leaves nothing."""
        return []

    def exists(self, path: str) -> bool:
        """Whether an object or a prefix is there."""
        return self._kind(path) != "NotFound"

    def size(self, path: str) -> int:
        """Bytes of an object."""
        with _reading(self._shown(path)):
            info = self.fs.get_file_info(self._full(path))
        if info.type.name == "NotFound":
            raise NotFound(f"no file at {self._shown(path)}", where=self._shown(path))
        return int(info.size or 0)

    def delete(self, path: str) -> None:
        """Remove an object or everything under a prefix."""
        kind = self._kind(path)
        with _writing(self._shown(path)):
            if kind == "Directory":
                self.fs.delete_dir(self._full(path))
            elif kind == "File":
                with suppress(FileNotFoundError):  # somebody else was faster
                    self.fs.delete_file(self._full(path))

    def _kind(self, path: str) -> str:
        with _reading(self._shown(path)):
            return str(self.fs.get_file_info(self._full(path)).type.name)

    def open(self, path: str) -> Any:
        """A random-access Arrow input file."""
        with _reading(self._shown(path)):
            return self.fs.open_input_file(self._full(path))

    def url(self, path: str) -> str:
        """An address under the protocol that `fsspec_system` registers."""
        return f"{self.protocol}://{self._full(path)}"

    def fsspec_system(self) -> Any:
        """The same store for DuckDB, which reads through fsspec."""
        from fsspec.implementations.arrow import ArrowFSWrapper

        protocol, inner = self.protocol, self.fs

        class _Lake(ArrowFSWrapper):  # type: ignore[misc]
            """A wrapper with a protocol of its own, so that DuckDB sends only our addresses here."""

            cachable = False  # fsspec would keep every instance, and with it the store's connections, for ever

            def __init__(self) -> None:
                super().__init__(inner)

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


def _in_one_put(address: str) -> str:
    """Ask Arrow for one request per object instead of a multi-part upload of one part."""
    if not address.startswith("s3://") or "allow_delayed_open=" in address:
        return address
    return f"{address}{'&' if '?' in address else '?'}allow_delayed_open=true"


def _hide(address: str) -> str:
    """An address without user, password and options: they may be secrets."""
    scheme, _, rest = address.partition("://")
    rest = rest.partition("?")[0]
    return f"{scheme}://{rest.rpartition('@')[2]}"


@contextmanager
def _reading(where: str) -> Iterator[None]:
    """One sentence for whatever goes wrong with reading."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"no file at {where}", where=where) from None
    except OSError as error:
        raise EthogramError(f"cannot read {where}: {error.strerror or first_line(error)}") from error


@contextmanager
def _writing(where: str) -> Iterator[None]:
    """One sentence for whatever goes wrong with writing."""
    try:
        yield
    except OSError as error:
        told = error.strerror or first_line(error)
        raise EthogramError(f"cannot write {where}: {told}; everything committed before is safe") from error


def _write_draft(target: Path, data: bytes | memoryview, mode: int) -> Path:
    """All bytes in a hidden file beside the target, synced; nothing is left if that fails."""
    draft = target.parent / f".{target.name}.{secrets.token_hex(4)}.tmp"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
    return draft


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte to a descriptor, which may take them in pieces."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:  # Windows opens no folder
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
