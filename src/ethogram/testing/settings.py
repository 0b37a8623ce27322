"""Settings of the plug-in: options of the session, and the mark of a test. Imports nothing heavy."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

MARK = "ethogram"
TASK_CAPS = {"max_steps": "steps", "max_tokens": "tokens", "max_usd": "usd"}
"""Keywords of the mark that cap one attempt, and the resource that each caps."""
USUAL_ATTEMPTS = 5
INI = {
    "ethogram_home": "The home of Ethogram; by default ETHOGRAM_HOME, else .ethogram in the root folder.",
    "ethogram_baseline": "The baseline that marked tests are compared with; 'pytest' by default.",
    "ethogram_margin": "The drop of the mean pass rate that must not slip through; 0.05 by default.",
}


class PluginSettings(NamedTuple):
    """How marked tests are carried out and judged in this session."""

    home: str
    baseline: str = "pytest"
    margin: float = 0.05
    live: bool = True
    strict: bool = False
    update: bool = False
    k: int | None = None
    run: str | None = None
    max_usd: float | None = None
    markdown: str | None = None


class Marked(NamedTuple):
    """What the mark of a test says: how many attempts, the caps of each, and whether no attempt need pass yet."""

    k: int
    caps: dict[str, float]
    fails: bool = False


def add_options(parser: pytest.Parser) -> None:
    """The options of the plug-in."""
    group = parser.getgroup("ethogram", "repeated tests of agents, with one verdict (@pytest.mark.ethogram)")
    add = group.addoption
    add("--ethogram-live", action="store_true", help="Call the models, also in CI: only this gives a verdict.")
    add("--ethogram-replay", action="store_true", help="Answer from the baseline: no key, no cost; the default in CI.")
    add("--ethogram-strict", action="store_true", help="Fail where the verdict is undecided.")
    add("--ethogram-update", action="store_true", help="Record this session as the new baseline.")
    add("--ethogram-baseline", metavar="NAME", help=INI["ethogram_baseline"])
    add("--ethogram-margin", metavar="DROP", type=float, help=INI["ethogram_margin"])
    add("--ethogram-k", metavar="K", type=int, help="Attempts of every marked test; overrides its mark.")
    add("--ethogram-max-usd", metavar="USD", type=float, help="Dollars of the whole session: a hard stop.")
    add("--ethogram-run", metavar="NAME", help="Name of the run that keeps the traces.")
    add("--ethogram-home", metavar="HOME", help=INI["ethogram_home"])
    add("--ethogram-markdown", metavar="FILE", help="Write the verdict as a comment for a pull request.")
    for name, words in INI.items():
        parser.addini(name, words)


def read_settings(config: pytest.Config, environment: Mapping[str, str] = os.environ) -> PluginSettings:
    """The settings of a session; raises `pytest.UsageError` with one sentence for what makes no sense."""

    def said(name: str) -> Any:
        return config.getoption(f"ethogram_{name}", None)

    live, replay, update = bool(said("live")), bool(said("replay")), bool(said("update"))
    if replay and (live or update):
        other = "--ethogram-live" if live else "--ethogram-update"
        raise pytest.UsageError(f"--ethogram-replay answers from the baseline and {other} calls models; give one")
    for name, value in (("k", said("k")), ("max-usd", said("max_usd"))):
        if value is not None and not value > 0:
            raise pytest.UsageError(f"--ethogram-{name} must be more than 0, not {value:g}")
    home = said("home") or config.getini("ethogram_home") or environment.get("ETHOGRAM_HOME")
    return PluginSettings(
        home=str(home or config.rootpath / ".ethogram"),
        baseline=said("baseline") or config.getini("ethogram_baseline") or "pytest",
        margin=_margin(said("margin"), config.getini("ethogram_margin")),
        live=live or update or not (replay or _in_ci(environment)),
        strict=bool(said("strict")),
        update=update,
        k=said("k"),
        run=said("run"),
        max_usd=said("max_usd"),
        markdown=said("markdown"),
    )


def read_mark(item: pytest.Item) -> Marked | None:
    """The mark of a test; None without one. Raises `pytest.UsageError` with one sentence for a mark nobody can obey."""
    mark = item.get_closest_marker(MARK)
    if mark is None:
        return None
    known = ("k", *TASK_CAPS, "expect")
    if mark.args or not set(mark.kwargs) <= set(known):
        strange = next(iter([*mark.args, *(n for n in mark.kwargs if n not in known)]))
        raise pytest.UsageError(f"@pytest.mark.ethogram takes {', '.join(known)} by name, and not {strange!r}")
    if item.get_closest_marker("xfail") is not None:
        raise pytest.UsageError(
            "a test has both the marks ethogram and xfail; attempts that fail are counted already, so remove xfail"
        )
    expect = mark.kwargs.get("expect", "fails")
    if expect != "fails":
        raise pytest.UsageError(f"expect of @pytest.mark.ethogram must be 'fails', or be left out, not {expect!r}")
    for name, value in mark.kwargs.items():
        if name == "expect":
            continue
        whole = name in ("k", "max_steps", "max_tokens")
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or not value > 0:
            kind = "a whole number" if whole else "a number"
            raise pytest.UsageError(f"{name} of @pytest.mark.ethogram must be {kind} above 0, not {value!r}")
    caps = {resource: float(mark.kwargs[name]) for name, resource in TASK_CAPS.items() if name in mark.kwargs}
    return Marked(mark.kwargs.get("k", USUAL_ATTEMPTS), caps, "expect" in mark.kwargs)


def task_of_item(item: pytest.Item) -> str:
    """The task of a test: its node id, without the group that `--dist loadgroup` appends."""
    groups = [str((*m.args, m.kwargs.get("name", "default"))[0]) for m in item.iter_markers("xdist_group")]
    ending = "@" + "_".join(sorted(set(groups)))
    return item.nodeid.removesuffix(ending) if groups else item.nodeid


def _margin(given: float | None, configured: str) -> float:
    try:
        margin = given if given is not None else float(configured or 0.05)
    except ValueError:
        margin = 0.0
    if not margin > 0:
        raise pytest.UsageError(f"the margin of ethogram must be a number above 0, not {given or configured!r}")
    return margin


def _in_ci(environment: Mapping[str, str]) -> bool:
    return environment.get("CI", "").lower() not in ("", "0", "false")
