"""Maintenance of a home: verify, sweep, retain, keys, and the check of this installation."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from ethogram.errors import BadUsage, EthogramError
from ethogram.plugins import installed_plugins
from ethogram.result import Result
from ethogram.store import (
    Home,
    IntegrityProblem,
    Retention,
    RetentionRule,
    Run,
    Verification,
    age_seconds,
    home_of,
    retain_run,
    rewrite,
    verify_home,
    verify_run,
)
from ethogram.store import (
    sweep as sweep_run,
)
from ethogram.store.files import LocalFiles


class VerifyResult(Result, kw_only=True):
    """What a check of some runs found."""

    ok: bool
    runs: list[Verification]
    swept: list[str] = []
    home: list[IntegrityProblem] = []
    """Damage to files of the home itself."""
    unproven: list[str] = []
    """Files of the home that no hash covers, for an earlier version wrote them."""

    def rows(self) -> list[dict[str, Any]]:
        """One row per run."""
        return [
            {
                "run": r.run,
                "episodes": r.episodes,
                "spans": r.spans,
                "texts": r.texts,
                "files": r.files,
                "damaged": len(r.damaged),
                "leftovers": len(r.leftovers),
            }
            for r in self.runs
        ]


def verify(
    runs: Sequence[str] = (),
    *,
    home: Home | str | None = None,
    sweep: bool = False,
    progress: Callable[[int], None] | None = None,
) -> VerifyResult:
    """Re-derive every hash of some runs (by default all), and name what is damaged."""
    lake = home_of(home)
    chosen = [lake.resolve(r) for r in runs] if runs else lake.folders()
    checked = [_advised(run, verify_run(run, progress)) for run in chosen]
    swept: list[str] = []
    for run, found in zip(chosen, checked, strict=True):
        if sweep and found.ok:  # what a damaged ledger names may be all that is left of it
            swept.extend(f"{run.name}/{path}" for path in sweep_run(run))
    problems, unproven = verify_home(lake) if not runs else ([], [])
    ok = all(v.ok for v in checked) and not problems
    return VerifyResult(ok=ok, runs=checked, swept=swept, home=problems, unproven=unproven)


def _advised(run: Run, found: Verification) -> Verification:
    """What a check found; where files of an exploration are damaged, with the command that writes them again."""
    if found.ok:
        return found
    with suppress(EthogramError):  # what is wrong with the run or its ledger is among what was found
        if run.info.kind == "explore":
            from ethogram.questions.explore.exploration import Rounds  # needs arrays

            rounds = Rounds(run)
            rebuilt, done = rounds.rebuilt(), len(rounds.committed())
            files = [problem.where for problem in found.damaged if problem.where in rebuilt]
            if files:
                kept = any(run.files.exists(f"{run.path}/{name}") for name in files)
                found.advice = (
                    f"{len(files)} of the damaged files can be written again from the ledger: "
                    f"{'move away those that are there, and ' if kept else ''}repeat the ethogram explore command that "
                    f"began the run{f', with --until-round {done} to buy nothing more' if done else ''}"
                )
    return found


class RetainResult(Result, kw_only=True):
    """What retention kept and forgot, or would."""

    dry_run: bool
    kept: int
    forgotten: int
    runs: list[Retention]

    def rows(self) -> list[dict[str, Any]]:
        """One row per forgotten trace."""
        return [{"run": r.run, **msgspec.to_builtins(d)} for r in self.runs for d in r.forgotten]


def retain(
    runs: Sequence[str] = (),
    *,
    keep_all: str = "14d",
    keep_failures: bool = True,
    sample: float = 0.05,
    apply: bool = False,
    home: Home | str | None = None,
) -> RetainResult:
    """Keep everything that is young, then all failures and a sample; forget the rest (after a dry run)."""
    if not 0 <= sample <= 1:
        raise BadUsage(f"a sample is a share from 0 to 1, or 0% to 100%, not {sample:g}")
    lake = home_of(home)
    chosen = [lake.resolve(r) for r in runs] if runs else list(lake.runs())
    rule = RetentionRule(keep_all_s=age_seconds(keep_all), keep_failures=keep_failures, sample=sample)
    done = [retain_run(run, rule, dry_run=not apply) for run in chosen]
    return RetainResult(
        dry_run=not apply, kept=sum(r.kept for r in done), forgotten=sum(len(r.forgotten) for r in done), runs=done
    )


class KeyList(Result, kw_only=True):
    """Keys at hand, and which runs they seal."""

    path: str
    active: str | None
    keys: list[str]
    sealed_runs: dict[str, list[str]] = {}


def list_keys(*, home: Home | str | None = None) -> KeyList:
    """Keys at hand, the active one, and the runs that each one seals."""
    lake = home_of(home)
    sealed: dict[str, list[str]] = {}
    for run in lake.runs():
        for key in {f.key for f in run.standing.files if f.key}:
            sealed.setdefault(key, []).append(run.name)
    return KeyList(path=str(lake.keys.path), active=lake.keys.active(), keys=lake.keys.ids(), sealed_runs=sealed)


def new_key(*, home: Home | str | None = None) -> KeyList:
    """Make a key; from now on new payloads are sealed with it."""
    lake = home_of(home)
    lake.keys.new()
    return list_keys(home=lake)


def drop_key(key: str, *, home: Home | str | None = None) -> KeyList:
    """Forget a key, and with it everything that only it can open."""
    lake = home_of(home)
    lake.keys.drop(key)
    return list_keys(home=lake)


def rotate_keys(runs: Sequence[str] = (), *, home: Home | str | None = None) -> KeyList:
    """Make a new key and seal runs (by default all sealed ones) with it; raises `BadUsage` where there is no key."""
    lake = home_of(home)
    if not lake.keys.ids():
        raise BadUsage(f"there is nothing to rotate: no key is in {lake.keys.path}; make one with: ethogram keys new")
    chosen = [lake.resolve(r) for r in runs] or [r for r in lake.runs() if any(f.key for f in r.standing.files)]
    fresh = lake.keys.new()
    for run in chosen:
        rewrite(run, key=fresh)
    return list_keys(home=lake)


class HealthCheck(msgspec.Struct, frozen=True):
    """One thing that was looked at; `ok` is None where it is neither good nor bad."""

    name: str
    ok: bool | None
    found: str
    advice: str | None = None


class Health(Result, kw_only=True):
    """Whether this machine is fit for work."""

    ok: bool
    checks: list[HealthCheck]

    def rows(self) -> list[dict[str, Any]]:
        """One row per check."""
        return [msgspec.to_builtins(c) for c in self.checks]


_DEPENDENCY = re.compile(r"(?P<package>[\w.-]+)[^;]*(;.*extra == ['\"](?P<extra>[\w-]+)['\"])?")
_FOR_DEVELOPERS = ("dev", "site")


def check_health(*, home: Home | str | None = None) -> Health:
    """Versions, extras, plug-ins, disk, home, keys."""
    from ethogram import __version__

    checks = [
        HealthCheck("ethogram", True, __version__),
        HealthCheck("python", sys.version_info >= (3, 11), platform.python_version(), "Python 3.11 or newer is needed"),
    ]
    extras: dict[str, list[str]] = {}
    for dependency in importlib.metadata.requires("ethogram") or ():
        found = _DEPENDENCY.match(dependency)
        assert found is not None
        package, extra = found["package"], found["extra"]
        if extra is not None:
            extras.setdefault(extra, []).append(package)
            continue
        version = _version(package)
        checks.append(HealthCheck(package, version is not None, version or "not installed", f"pip install {package}"))
    checks.extend(_extra_check(extra, extras[extra]) for extra in extras if extra not in _FOR_DEVELOPERS)
    checks.extend(_plugin_checks())
    checks.extend(_home_checks(home))
    return Health(ok=all(c.ok is not False for c in checks), checks=checks)


def _extra_check(extra: str, packages: list[str]) -> HealthCheck:
    """An extra is no duty: it is here, or the command that installs it is."""
    versions = {package: _version(package) for package in packages}
    if None in versions.values():
        return HealthCheck(f"extra {extra}", None, f"not installed: pip install 'ethogram[{extra}]'")
    return HealthCheck(f"extra {extra}", True, ", ".join(f"{package} {is_}" for package, is_ in versions.items()))


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _plugin_checks() -> list[HealthCheck]:
    """One line per extension point that is in use, and one per plug-in that cannot be used."""
    found = installed_plugins()
    checks = []
    for group, plugins in found.working.items():
        if plugins:
            names = ", ".join(f"{plugin.name} ({plugin.package})" for plugin in plugins)
            checks.append(HealthCheck(group, True, names))
    advice = "fix its package, or uninstall it"
    checks += [HealthCheck("plug-in", False, sentence, advice) for sentence in found.broken]
    return checks or [HealthCheck("plug-ins", None, "none installed")]


def _home_checks(home: Home | str | None) -> list[HealthCheck]:
    try:
        lake = home_of(home)
        names = lake.names()
    except (EthogramError, OSError) as error:
        return [HealthCheck("home", False, str(error), "set ETHOGRAM_HOME to a folder or an object-store address")]
    checks = [HealthCheck("home", True, f"{lake.files.address}, {len(names)} run{'' if len(names) == 1 else 's'}")]
    if isinstance(lake.files, LocalFiles):
        checks.append(_disk(lake.files.root))
    try:
        keys, active = lake.keys.ids(), lake.keys.active()
        found = f"{len(keys)} key(s) in {lake.keys.path}" if keys else "none: payloads are stored unsealed"
        checks.append(
            HealthCheck("keys", None if active is None else True, found, None if keys else "ethogram keys new")
        )
    except EthogramError as error:
        checks.append(HealthCheck("keys", False, error.cli_message))
    return checks


def _disk(root: Path) -> HealthCheck:
    existing = next(p for p in (root, *root.parents) if p.exists())
    free = shutil.disk_usage(existing).free
    writable = os.access(existing, os.W_OK)
    advice = "free some space, or set ETHOGRAM_HOME elsewhere"
    return HealthCheck(
        "disk",
        free > 1 << 30 and writable,
        f"{free / 2**30:.1f} GiB free{'' if writable else ', not writable'}",
        advice,
    )
