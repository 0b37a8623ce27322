"""The home: a directory of runs, and how a name becomes one of them."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ethogram.arguments import address_of
from ethogram.errors import BadInput, BadUsage, NotFound
from ethogram.traces import Param

from . import manifest
from .detectors import SECRET_KINDS
from .files import Files, LocalFiles, files_at
from .redact import Policy, Redactor, policy_from
from .seal import Keyring
from .stored_run import Run, RunInfo, info_digest

SCHEMA_VERSION = 1
DEFAULT_HOME = ".ethogram"
DERIVED = "derived"
"""Figures that were computed from traces and are kept to save time; nothing needs them."""
REDACTION_KEY = "redaction.key"
METERS = "meters"
"""Where the plan of a live run keeps what its agent records all its use of."""
SOURCES = "sources"
"""Notes on log files that were imported: what was read, skipped and lost in each."""
CONFIRMATIONS = "confirmations"
"""Notes on tasks that a gate attempted again: from which attempt on they are fresh."""
GOLDEN = "golden"
"""Where the plan of a run keeps the version of the golden set that it ran."""
TASK_DIGESTS = "task_digests"
"""Where the plan of a run keeps the hash of every task of its suite."""
REPLAY = "replay"
"""The kind of a run whose answers came from a record: its episodes are no samples."""
REPLAYED = "replays"
"""Where the plan of a replay keeps the name of the run that it repeats."""
FORK = "fork"
"""The kind of a run whose episodes go on from a step of a recorded trace, and where its plan says from which."""
GATEWAY = "gateway"
"""The kind of a run whose calls passed a gateway: a longer version of a trace replaces it while its agent works."""
EXPLORED = "batches"
"""Notes in which earlier versions kept what explorations bought."""
DOCUMENTS = "documents"
"""Notes on what an exploration is, and on what each of its rounds planned and found: JSON documents by name."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Home:
    """The lake: a folder or an object-store address with all runs in it."""

    def __init__(self, files: Files, keys: Keyring | None = None) -> None:
        """Use `open_home` unless you have files of your own."""
        self.files = files
        self.keys = keys or Keyring()

    def __repr__(self) -> str:
        return f"Home({self.files.address!r})"

    def names(self) -> list[str]:
        """Names of all runs."""
        return self.files.names("runs")

    def runs(self) -> Iterator[Run]:
        """All runs, oldest first; a directory without a readable `run.json` is not a run."""
        found = []
        for name in self.names():
            run = self.run(name)
            try:
                found.append((run.info.created_ns, name, run))
            except BadInput:
                continue
        yield from (run for _, _, run in sorted(found, key=lambda f: f[:2]))

    def folders(self) -> list[Run]:
        """Every directory that should be a run, whether or not its `run.json` can be read: what `verify` looks at."""
        return [self.run(n) for n in self.names() if self.files.names(f"runs/{n}")]

    def run(self, name: str) -> Run:
        """A run by its name."""
        return Run(self.files, f"runs/{name}", self.keys)

    def resolve(self, wanted: str) -> Run:
        """A run directory, the name of a run in this home, or `latest`."""
        if wanted == "latest":
            runs = list(self.runs())
            if not runs:
                raise NotFound(
                    f"there are no runs in {self.files.address}; begin with: ethogram import PATH",
                    where=self.files.address,
                    what="run",
                )
            return runs[-1]
        if _NAME.fullmatch(wanted) and self.files.exists(f"runs/{wanted}/run.json"):
            return self.run(wanted)
        path = Path(wanted).absolute()
        if wanted and LocalFiles(path).exists("run.json"):
            return Run(LocalFiles(path.parent), path.name, self.keys)
        raise NotFound.named("run", wanted, self.names(), where=f"{self.files.address}")

    def create(
        self,
        name: str,
        kind: str,
        *,
        tags: Sequence[str] = (),
        redaction: str = "default",
        meta: Mapping[str, Param] | None = None,
        plan: Mapping[str, Any] | None = None,
    ) -> Run:
        """A new run with these facts of `RunInfo`; an existing name is refused."""
        if not _NAME.fullmatch(name):
            raise BadUsage(f"{name!r} cannot name a run: use letters, digits, '.', '_' and '-', at most 100")
        if name == "latest":
            raise BadUsage("'latest' cannot name a run: it always means the newest one")
        data = self.describe(name, kind, tags=tags, redaction=redaction, meta=meta, plan=plan)
        if not self.files.create(f"runs/{name}/run.json", data):
            raise BadUsage(f"a run named {name!r} exists already in {self.files.address}; choose another name")
        return self.run(name)

    def run_of_kind(
        self,
        name: str,
        kind: str,
        *,
        tags: Sequence[str] = (),
        redaction: str = "default",
        meta: Mapping[str, Param] | None = None,
        plan: Mapping[str, Any] | None = None,
    ) -> tuple[Run, bool]:
        """The run of that name to add to, and whether it was made now, with these facts of `RunInfo`.

        Another process may make it at the same time: one of the two does. Raises `BadUsage` for a run of another kind.
        """
        try:
            run = self.resolve(name)
        except NotFound:
            try:
                return self.create(name, kind, tags=tags, redaction=redaction, meta=meta, plan=plan), True
            except BadUsage:
                if name not in self.names():
                    raise
                run = self.resolve(name)  # made in the meantime
        if run.info.kind != kind:
            raise BadUsage(f"{name!r} is a {run.info.kind} run; choose another name with --run")
        return run, False

    def describe(
        self,
        name: str,
        kind: str,
        *,
        tags: Sequence[str] = (),
        redaction: str = "default",
        meta: Mapping[str, Param] | None = None,
        plan: Mapping[str, Any] | None = None,
    ) -> bytes:
        """The `run.json` of a new run, its words redacted: an agent's address, a tag or a fact may hold a secret."""
        from ethogram import __version__

        if self.as_stored(name, redaction) != name:
            raise BadUsage("the name of the run holds a secret or personal data; choose another name")
        known = {"schema_version": SCHEMA_VERSION, "name": name, "kind": kind, "version": __version__}
        details = {
            "tags": self.as_stored(tuple(tags), redaction),
            "redaction": redaction,
            "meta": self.as_stored(dict(meta or {}), redaction, "meta"),
            "plan": self.as_stored(dict(plan or {}), redaction),
        }
        info = msgspec.convert(known | {"created_ns": time.time_ns()} | details, RunInfo)
        info = msgspec.structs.replace(info, digest=info_digest(msgspec.json.encode(info)))
        return msgspec.json.format(msgspec.json.encode(info))

    def as_stored(self, setting: Any, redaction: str = "default", field: str = "") -> Any:
        """A setting of a run as `run.json` has it: redacted under the run's policy, and of secrets even where that
        says `none`, for settings are no public data."""
        policy = policy_from(redaction)
        if policy.kinds is not None:
            policy = msgspec.structs.replace(policy, kinds=tuple(dict.fromkeys((*policy.kinds, *SECRET_KINDS))))
        return self.redactor(policy).redact_all(msgspec.to_builtins(setting), field)

    def redaction_key(self) -> bytes:
        """The secret behind redaction marks: equal secrets get equal marks within one home."""
        given = os.environ.get("ETHOGRAM_REDACTION_KEY")
        if given:
            return given.encode()
        if not self.files.exists(REDACTION_KEY):
            key = os.urandom(32).hex().encode()
            if self.files.create(REDACTION_KEY, key, private=True):
                manifest.record(self.files, "", {REDACTION_KEY: key})
        return self.files.read(REDACTION_KEY).strip()

    def redactor(self, policy: Policy) -> Redactor:
        """A redactor with this home's key."""
        return Redactor(self.redaction_key(), policy)


def open_home(address: str | None = None, keys: Keyring | None = None) -> Home:
    """The home at an address: a folder or `s3://…`; by default `ETHOGRAM_HOME`, else `.ethogram` in this folder.

    It is created by the first run that is stored. `keys` open sealed payloads; by default those of the key folder.

    Example: `open_home("lab").resolve("latest").name`
    """
    return Home(files_at(address or os.environ.get("ETHOGRAM_HOME") or DEFAULT_HOME), keys)


def home_of(home: Home | str | None = None) -> Home:
    """The home that is meant: one that is open already, or the one at an address (None: the default)."""
    if isinstance(home, Home):
        return home
    return open_home(None if home is None else address_of("home", home, "an address or an open Home"))


def run_of(run: Run | str, home: Home | str | None = None) -> Run:
    """The run that is meant: one that is open already, or the one with this name, directory or `latest` in a home."""
    if isinstance(run, Run):
        return run
    return home_of(home).resolve(address_of("run", run, "a name, a directory or an open Run"))


def redactor_of(run: Run, home: Home) -> Redactor:
    """The redactor that a run's texts passed through: its policy, and the key of the home that it lies in."""
    policy = policy_from(run.info.redaction)
    if run.files is not home.files and "/" in run.path:  # opened in another home
        home = Home(run.files, run.keys)
    elif run.files is not home.files and isinstance(run.files, LocalFiles):  # opened as a folder
        own = Home(LocalFiles(run.files.root.parent), run.keys)
        home = own if own.files.exists("redaction.key") else home
    return home.redactor(policy)
