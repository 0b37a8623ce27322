"""The modules of AGENTS.md, installed as packages: what a newcomer copies from the page works as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ethogram.cli.main import run_verb
from ethogram.plugins import EXTENSION_POINTS, new_problems

PAGE = (Path(__file__).parents[2] / "AGENTS.md").read_text(encoding="utf-8")
CHAT = "user\thow much is 2 + 2?\nassistant\t4\n\nuser\tand 3 + 3?\nassistant\t6\n"

# the name of its entry point, the object behind it (a module, if none), and the command that shows what was added
ADDED: dict[str, tuple[str, str, list[str], str]] = {
    "reader": ("tabbed", "", ["show", "chats"], "2 episodes"),
    "writer": ("answers", "", ["export", "chats", "--to", "answers", "-o", "answers.txt"], "answers.txt"),
    "metric": (
        "failed_share",
        "FAILED_SHARE",
        ["compare", "chats", "again", "--metric", "failed_share"],
        "failed_share",
    ),
    "dimension": ("failed_tools", "FAILED_TOOLS", ["field", "--list"], "tool calls that ended in an error"),
    "kind of check": ("shorter", "SHORTER", ["run", "suite.yaml", "--agent", "a.py:agent", "--run", "r"], "1 passed"),
    "operator": ("reverse", "REVERSE", ["operators", "--format", "txt"], "every line is written backwards"),
    "report part": ("agents", "AGENTS", ["report", "chats", "-o", "report.html"], "report.html"),
}
TITLES = {"kind of check": "a check", "report part": "a part of the report"}


def module_of(noun: str) -> str:
    """The code block in the section on an extension point."""
    title = TITLES.get(noun, f"a{'n' if noun[0] in 'aeiou' else ''} {noun}")
    section = re.search(rf"^## Adding {title}$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert section is not None, f"AGENTS.md has no section on adding {title}"
    (code,) = re.findall(r"```python\n(.*?)```", section[1], re.DOTALL)
    return str(code)


def test_authors_import_from_one_module() -> None:
    imports = set(re.findall(r"^from (ethogram[\w.]*) import", PAGE, re.MULTILINE))
    assert imports == {"ethogram.extend"}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, install: Any) -> Path:
    """A folder with a home in which every module of the page is installed, and a log that its reader reads."""
    for group, (noun, _) in EXTENSION_POINTS.items():
        name, symbol, _, _ = ADDED[noun]
        package = f"my_{group.rpartition('.')[2]}"
        point = f"{package}:{symbol}" if symbol else package
        install(package, module_of(noun), f"[{group}]\n{name} = {point}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ETHOGRAM_HOME", str(tmp_path / "home"))
    Path("chats.log").write_text(CHAT)
    Path("a.py").write_text("def agent(task):\n    return 'few words'\n")
    Path("suite.yaml").write_text("name: s\ntasks: [{id: a, prompt: '?', checks: [{shorter: 20}]}]\n")
    assert run_verb(["import", "chats.log", "--run", "chats"]) == 0
    assert run_verb(["import", "chats.log", "--run", "again"]) == 0
    return tmp_path


def test_every_module_of_the_page_works(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for _, _, command, shown in ADDED.values():
        capfd.readouterr()
        code = run_verb(command)
        told = capfd.readouterr()
        assert shown in told.out + told.err, (command, code, told)
    assert "chat\t4" in Path("answers.txt").read_text()
    assert "Who ran?" in Path("report.html").read_text()
    assert new_problems() == []
