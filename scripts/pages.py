"""Run the code blocks of a page, in order, in a folder of its own; the output that a page shows is what they print.

- ```bash: a script; it must succeed.
- ```python: a program of its own; it must succeed.
- ```console: lines that begin with `$ ` are commands, the lines after each are what it prints on a terminal.
- A block after the comment `<!-- not run: reason -->` is left alone. Blocks of other languages are not code.
- After `<!-- needs: program -->` a block is left alone where that program is not installed, and the run says so.
- After `<!-- varies: reason -->` the commands must succeed, but what they print is not compared: it is that of one run,
  and is written anew only when more than its figures changed.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]
COLUMNS = 110
SECONDS = 120
RUN = ("bash", "python", "console")
_NOTE = re.compile(r"<!-- (not run|needs|varies): (.+?) -->")
_FIGURES = re.compile(r"[·━●]+|[-+−]?\$?\d[\d.,]*|[0-9a-f]{8,}|\s+|–")
_VARIES = (
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d"), "DATE"),  # when a run was made
    (re.compile(r"\b\d+(\.\d)? (B|KB|MB|GB|GiB)\b"), "SIZE"),  # compressed sizes move with the libraries
)


class Block(NamedTuple):
    """A fenced block: its language, its lines, where the first of them stands, and what the page notes before it."""

    language: str
    lines: list[str]
    at: int
    not_run: str | None = None
    needs: str | None = None
    varies: str | None = None

    def why_not(self, path: str | None = None) -> str | None:
        """Why the block is left alone here, or None; `path` is where programs are looked for."""
        if self.needs and shutil.which(self.needs, path=path) is None:
            return f"{self.needs} is not installed"
        return self.not_run


class Problem(NamedTuple):
    """A block that does not do what the page says."""

    line: int
    what: str


def blocks(text: str) -> list[Block]:
    """All fenced blocks of a page."""
    found: list[Block] = []
    lines = text.splitlines()
    at = 0
    notes: dict[str, str] = {}
    while at < len(lines):
        line = lines[at]
        if line.startswith("```"):
            end = next((i for i in range(at + 1, len(lines)) if lines[i].startswith("```")), len(lines))
            found.append(Block(line[3:].strip(), lines[at + 1 : end], at + 1, **notes))
            at = end
        if line.strip():
            notes = {name.replace(" ", "_"): text for name, text in _NOTE.findall(line)}
        at += 1
    return found


def run_page(page: Path, variables: Mapping[str, str] | None = None) -> tuple[list[Problem], str]:
    """Run a page: what went wrong, and the page with the output that its commands really print.

    `variables` are added to the environment of its processes.
    """
    text = page.read_text(encoding="utf-8")
    lines = text.splitlines()
    problems: list[Problem] = []
    replaced: list[tuple[int, int, list[str]]] = []
    with tempfile.TemporaryDirectory(prefix="page-") as folder:
        place = Path(folder).resolve() / "work"
        place.mkdir()
        env = environment(place) | dict(variables or {})
        for block in blocks(text):
            if block.language not in RUN:
                continue
            if why := block.why_not(env["PATH"]):
                if block.needs:
                    print(f"{page.name}:{block.at}: not run, {why}", file=sys.stderr)
                continue
            if block.language != "console":
                problems += run_script(block, place, env)
                continue
            told, shown = run_console(block, place, env)
            problems += told
            replaced.append((block.at, block.at + len(block.lines), shown))
    for start, end, shown in reversed(replaced):
        lines[start:end] = shown
    return problems, "\n".join(lines) + "\n"


def rewrite(page: Path, variables: Mapping[str, str] | None = None) -> bool:
    """Write the real output into a page; says whether anything changed."""
    problems, text = run_page(page, variables)
    failed = [p for p in problems if not p.what.startswith("prints")]
    if failed:
        raise SystemExit("\n".join(f"{page.name}:{p.line}: {p.what}" for p in failed))
    changed = text != page.read_text(encoding="utf-8")
    if changed:
        page.write_text(text, encoding="utf-8")
    return changed


def run_script(block: Block, place: Path, env: Mapping[str, str]) -> list[Problem]:
    """Run a bash or python block; it must succeed."""
    script = "\n".join(block.lines)
    starts = {"bash": ["bash", "-euo", "pipefail", "-c"], "python": [sys.executable, "-W", "error", "-c"]}
    done = subprocess.run(
        [*starts[block.language], script],
        cwd=place,
        env=env,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode == 0:
        return []
    return [Problem(block.at + 1, f"fails with {done.returncode}:\n{done.stdout[-1500:]}{done.stderr[-3000:]}")]


def run_console(block: Block, place: Path, env: Mapping[str, str]) -> tuple[list[Problem], list[str]]:
    """Run the commands of a console block one by one; output that differs only in dates and sizes is left alone."""
    problems: list[Problem] = []
    shown: list[str] = []
    for offset, command, told in commands(block.lines):
        code, output = on_terminal("\n".join(command)[2:], place, env)
        if code != 0:
            problems.append(Problem(block.at + offset + 1, f"fails with {code}:\n" + "\n".join(output)))
        if block.varies:
            output = told if without_figures(output) == without_figures(told) else output
        elif mask(output) != mask(told):
            problems.append(Problem(block.at + offset + 1, "prints something else:\n" + "\n".join(output)))
        else:
            output = told
        shown += [*command, *output]
    return problems, shown


def commands(lines: list[str]) -> list[tuple[int, list[str], list[str]]]:
    """Commands with their place and the output under each; a command goes on while a quote is open."""
    found: list[tuple[int, list[str], list[str]]] = []
    for i, line in enumerate(lines):
        if line.startswith("$ "):
            found.append((i, [line], []))
        elif found and not found[-1][2] and is_open("\n".join(found[-1][1])):
            found[-1][1].append(line)
        elif found:
            found[-1][2].append(line)
    return found


def is_open(command: str) -> bool:
    """Whether a command ends inside a quotation, or with a backslash."""
    try:
        shlex.split(command)
    except ValueError:
        return True
    return False


def mask(lines: list[str]) -> list[str]:
    """Lines without what varies from run to run."""
    masked = []
    for line in lines:
        for pattern, word in _VARIES:
            line = pattern.sub(word, line)
        masked.append(line.rstrip())
    return masked


def without_figures(lines: list[str]) -> list[str]:
    """Lines without numbers, bars, ids and the width of columns."""
    return [_FIGURES.sub("", line) for line in mask(lines)]


def on_terminal(command: str, place: Path, env: Mapping[str, str]) -> tuple[int, list[str]]:
    """Run a command with a terminal as its standard output; gives its exit code and the lines it printed."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    notes = place.parent / "stderr.txt"  # what goes to stderr is not shown, unless the command fails
    started = subprocess.Popen(
        ["bash", "-c", f"( {command}\n) 2>{shlex.quote(str(notes))}"],
        cwd=place,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    data, until = b"", time.monotonic() + SECONDS
    while True:
        if not select.select([ours], [], [], max(0.0, until - time.monotonic()))[0]:
            os.killpg(started.pid, signal.SIGKILL)
            raise TimeoutError(f"{command!r} did not end within {SECONDS} s")
        try:
            chunk = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not chunk:
            break
        data += chunk
    os.close(ours)
    code = started.wait(timeout=SECONDS)
    data += notes.read_bytes() if code else b""
    text = data.decode().replace("\r\n", "\n").replace(str(place), "/home/you")
    return code, [line.rstrip() for line in text.rstrip("\n").split("\n")] if text.strip() else []


def environment(place: Path) -> dict[str, str]:
    """A newcomer's machine: no settings, an empty home folder, marks that are the same every time."""
    unset = ("ETHOGRAM_", "XDG_", "PYTHONDONTWRITEBYTECODE")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(unset) and k != "CI"}
    here = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}",
        "HOME": str(place.parent),
        "ETHOGRAM_REDACTION_KEY": "documentation",
        "TERM": "dumb",
        "COLUMNS": str(COLUMNS),
        "LINES": "50",
        "PYTEST_ADDOPTS": "-p no:langsmith_plugin -p no:anyio -p no:hypothesispytest",  # they come with our own tests
    }
    return {**kept, **here}
