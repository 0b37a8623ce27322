"""Numbers are computed by pure functions: `statistics`, and every file of a question that touches no run and no log.

Such a file reads no clock, no file and no context, takes nothing but special functions from scipy, and draws from the
generator that it is given.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from imports_of import house_imports, outside_imports

if TYPE_CHECKING:
    from conftest import Module

pytestmark = pytest.mark.xdist_group("architecture")  # every module is parsed once

EDGES_OF_A_QUESTION = {"question", "page", "records", "buying"}
"""Files of a question that read, buy or keep: the store, clocks and files are theirs."""
TOUCHES = {"store", "reading", "capture", "suites", "wire", "harness"}
"""Packages of runs and logs: a file that imports one of them is not pure."""
QUIET = {
    *("os", "pathlib", "logging", "random", "time", "subprocess", "contextvars", "tempfile", "shutil"),
    *("socket", "asyncio", "secrets"),
}
OUTWARD = {
    "questions.cost.assumptions": "answers of itself, without a run: the prices are those of today",
    "questions.experiment.operators": "an operator may be named by its file",
    "questions.gate.quarantine": "a quarantine is a file of the user, and ends on a day",
    "questions.home.starter": "writes the first suite",
    "questions.judging.rubric_files": "a rubric is a file of the user",
}
SEEDED = {
    "questions.explore.race": "seeds of a race are its design",
    "questions.field.fieldtests": "seeded by the data, so that a field answers alike each time",
    "questions.gate.allocation": "seeded by the plan that was promised",
    "questions.gate.plan": "seeded by the plan that was promised",
    "questions.golden.task_health": "seeded by the data, so that a set answers alike each time",
    "questions.judging.bias": "seeded by the data, so that a judge's bias answers alike each time",
}
"""What makes its own generator from a seed, and why; each answers the same for the same input."""
OPTIMIZES = {
    "questions.field.rate_contrasts": "profile likelihoods have no closed form",
    "questions.explore.surface": "names the libraries whose threads it counts",
}


def pure(modules: dict[str, Module]) -> list[Module]:
    """All of `statistics`, and files of questions that are neither an edge nor touch runs or logs."""
    chosen = [m for m in modules.values() if m.package == "statistics"]
    for module in modules.values():
        words = module.name.split(".")
        if words[0] != "questions" or module.is_package or EDGES_OF_A_QUESTION & set(words):
            continue
        if not {target.partition(".")[0] for target, _ in house_imports(module, modules)} & TOUCHES:
            chosen.append(module)
    return chosen


def test_there_is_much_to_look_at(modules: dict[str, Module]) -> None:
    names = {m.name for m in pure(modules)}
    assert {"statistics.beta", "questions.gate.sequential", "questions.explore.surface"} <= names
    assert len(names) > 80
    exceptions = OUTWARD.keys() | SEEDED.keys() | OPTIMIZES.keys()
    assert exceptions <= names, f"no longer needed: {sorted(exceptions - names)}"


def test_no_clock_no_file_no_context(modules: dict[str, Module]) -> None:
    broken = [
        f"{module.name} imports {name} ({where})"
        for module in pure(modules)
        if module.name not in OUTWARD
        for name, where in outside_imports(module)
        if name in QUIET
    ]
    clocks = [
        f"{module.name}:{node.lineno}"
        for module in pure(modules)
        if module.name not in OUTWARD
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and node.attr in ("now", "today", "utcnow")
    ]
    assert not broken + clocks, "\n".join(broken + clocks)


def test_only_special_functions_are_taken_from_scipy(modules: dict[str, Module]) -> None:
    broken = []
    for module in pure(modules):
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("scipy"):
                taken = (node.module, [a.name for a in node.names]) == ("scipy", ["special"])
            elif isinstance(node, ast.Import):
                taken = not any(a.name.startswith("scipy") for a in node.names)
            else:
                continue
            if not taken and module.name not in OPTIMIZES:
                broken.append(f"{module.name}:{node.lineno}")
    assert not broken, "\n".join(broken)


def test_what_draws_takes_a_generator(modules: dict[str, Module]) -> None:
    broken = []
    for module in pure(modules):
        text = module.path.read_text(encoding="utf-8")
        if "np.random." in text.replace("np.random.Generator", "").replace("np.random.default_rng", ""):
            broken.append(f"{module.name} draws from numpy's own generator")
        if "default_rng" in text and module.name not in SEEDED:
            broken.append(f"{module.name} makes a generator")
    assert not broken, "\n".join(broken)


def test_scipy_is_loaded_on_use(modules: dict[str, Module]) -> None:
    names = [f"ethogram.{m.name}" for m in pure(modules) if m.package == "statistics"]
    code = f"import sys, importlib\nfor n in {names!r}: importlib.import_module(n)\n"
    code += "print(any(m.startswith('scipy') for m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "False"
