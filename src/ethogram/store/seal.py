"""Keys for payloads at rest. Text segments use Parquet's own encryption; without its key a text cannot be read.

Keys come from a file (`ETHOGRAM_KEYS`, by default in the user's configuration folder, never in the home)
or from the environment (`ETHOGRAM_KEY`, base64 of 32 bytes). An active key means that new payloads are sealed.
"""

from __future__ import annotations

import base64
import binascii
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

import msgspec

from ethogram.errors import BadInput, NotFound, Sealed

from .files import sync_folder

KEY_BYTES = 32


class KeyFile(msgspec.Struct):
    """The key file: base64 of 32 bytes by key id, and the id that seals new payloads."""

    keys: dict[str, str] = {}
    active: str | None = None


def key_id(key: bytes) -> str:
    """A key is named by a hash of itself, so that a wrong key cannot pass under a right name."""
    return "k-" + blake2b(key, digest_size=6, person=b"ethogram-key").hexdigest()


class Keyring:
    """Keys at hand."""

    def __init__(self, path: Path | None = None, environment: Mapping[str, str] | None = None) -> None:
        """Look up keys lazily: nothing is read before it is needed."""
        env = os.environ if environment is None else environment
        self.path = path or Path(env.get("ETHOGRAM_KEYS") or _default_path(env))
        self._env_key = env.get("ETHOGRAM_KEY")

    def _file(self) -> KeyFile:
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=KeyFile)
        except FileNotFoundError:
            return KeyFile()
        except OSError as error:
            raise BadInput(
                f"the key file {self.path} cannot be read: {error.strerror or error}", where=str(self.path)
            ) from None
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise BadInput(
                f"the key file {self.path} is not valid; restore it from a copy", where=str(self.path)
            ) from None

    def ids(self) -> list[str]:
        """Ids of all keys at hand."""
        found = set(self._file().keys)
        if self._env_key:
            found.add(key_id(_decode(self._env_key, "ETHOGRAM_KEY")))
        return sorted(found)

    def active(self) -> str | None:
        """The id of the key that seals new payloads; the environment wins over the file."""
        return key_id(_decode(self._env_key, "ETHOGRAM_KEY")) if self._env_key else self._file().active

    def get(self, wanted: str) -> bytes:
        """The key of an id."""
        if self._env_key:
            key = _decode(self._env_key, "ETHOGRAM_KEY")
            if key_id(key) == wanted:
                return key
        text = self._file().keys.get(wanted)
        if text is None:
            raise Sealed(
                f"the payloads are sealed with key {wanted}, which is not in {self.path} nor in ETHOGRAM_KEY; "
                "bring the key, or accept that what it sealed is forgotten",
                key=wanted,
            )
        key = _decode(text, str(self.path))
        if key_id(key) != wanted:
            raise BadInput(
                f"the key file {self.path} holds another key under the name {wanted}; restore it from a copy",
                where=str(self.path),
            )
        return key

    def new(self) -> str:
        """Make a key, store it and seal new payloads with it."""
        key = secrets.token_bytes(KEY_BYTES)
        name = key_id(key)
        with self._changing() as file:
            file.keys[name] = base64.b64encode(key).decode()
            file.active = name
        return name

    def drop(self, wanted: str) -> None:
        """Forget a key, and with it everything that only it can open."""
        with self._changing() as file:
            if wanted not in file.keys:
                raise NotFound.named("key", wanted, list(file.keys))
            del file.keys[wanted]
            if file.active == wanted:
                file.active = None

    @contextmanager
    def _changing(self) -> Iterator[KeyFile]:
        """Change the key file, one process at a time: a key that is lost on the way takes its payloads with it."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with open(self.path.with_name(self.path.name + ".lock"), "w") as lock:
                _lock(lock.fileno())
                file = self._file()
                yield file
                self._save(file)
        except OSError as error:
            raise BadInput(
                f"the key file {self.path} cannot be written: {error.strerror or error}", where=str(self.path)
            ) from None

    def _save(self, file: KeyFile) -> None:
        draft = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}.tmp")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as out:
                out.write(msgspec.json.format(msgspec.json.encode(file)))
                out.flush()
                os.fsync(out.fileno())
            os.replace(draft, self.path)
        finally:
            draft.unlink(missing_ok=True)
        sync_folder(self.path.parent)


def _lock(descriptor: int) -> None:
    """Wait for the lock; it ends with the file, or with the process."""
    try:
        import fcntl
    except ImportError:  # no such lock on this system: keys are made by hand, rarely twice at once
        return
    fcntl.flock(descriptor, fcntl.LOCK_EX)


def _default_path(env: Mapping[str, str]) -> str:
    base = env.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return str(Path(base) / "ethogram" / "keys.json")


def _decode(text: str, where: str) -> bytes:
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise BadInput(
            f"the key in {where} is not base64 of {KEY_BYTES} bytes; make one with: ethogram keys new", where=where
        )
    return key
