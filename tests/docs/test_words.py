"""Whatever exists is documented, and whatever is documented exists."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ethogram.capture.readers import MODULES
from ethogram.cli.main import VERBS, verb_paths
from ethogram.questions.home.exports import FORMATS

ROOT = Path(__file__).parents[2]
VERB_NAMES = [v.name for v in VERBS]


def text(*paths: Path) -> str:
    return "\n".join(p.read_text(encoding="utf-8") for p in paths)


GUIDES = (ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md")))
WRITTEN = (
    *GUIDES,
    *(ROOT / n for n in ("AGENTS.md", "VISION.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs" / "design").glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
)


def test_every_command_is_in_the_reference():
    page = text(ROOT / "docs" / "reference" / "cli.md")
    for path in (path for verb in VERBS for path in verb_paths(verb)):
        assert f"# ethogram {path}\n" in page


@pytest.mark.parametrize("verb", [v for v in VERB_NAMES if v not in ("completion", "doctor")])
def test_every_verb_is_shown_at_work(verb):
    shown = re.search(rf"\bethogram {verb}\b", text(*GUIDES)) is not None
    assert shown, f"show `ethogram {verb}` in README.md or in a page of docs/guide"


def test_every_verb_in_the_documents_exists():
    named = {(v, p.name) for p in WRITTEN for v in re.findall(r"(?:^\$ |`|^)ethogram ([a-z]+)\b", text(p), re.M)}
    assert len(named) > len(VERB_NAMES)
    assert {(v, page) for v, page in named if v not in VERB_NAMES} == set()


@pytest.mark.parametrize("name", list(MODULES))
def test_every_format_is_in_the_table(name):
    table = text(ROOT / "README.md").partition("## Formats")[2].partition("## Status")[0]
    assert f"`{name}`" in table
    assert f"| `{name}` |" in text(ROOT / "docs" / "reference" / "formats.md")


def test_formats_in_the_table_exist():
    table = text(ROOT / "README.md").partition("## Formats")[2].partition("\n\nWritten")[0]
    named = {
        n
        for row in table.splitlines()
        if row.startswith("| `")
        for n in re.findall(r"`([a-z0-9-]+)`", row[: row.index("|", 2)])
    }
    assert named == set(MODULES)


@pytest.mark.parametrize("name", FORMATS)
def test_every_export_is_in_the_guide(name):
    assert f"`{name}`" in text(ROOT / "docs" / "guide" / "export.md")


@pytest.mark.parametrize("page", WRITTEN, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", text(page)):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_the_map_names_folders_that_exist():
    """The first two columns are names of folders, and no folder of the package is left out."""
    chart = text(ROOT / "AGENTS.md").partition("```text\n")[2].partition("```")[0]
    package = ROOT / "src" / "ethogram"
    named = set()
    for line in chart.splitlines():
        inside = package / "questions" if line.startswith("    ") else package if line.startswith("  ") else ROOT
        names = re.findall(r"[a-z_/]+/", line[:32])
        assert names, line
        for name in names:
            assert (inside / name).is_dir(), name
        named |= {name.strip("/") for name in re.findall(r"[a-z_]+/", line)}
    folders = {p.name for p in (*package.iterdir(), *(package / "questions").iterdir()) if p.is_dir()} - {"__pycache__"}
    assert folders <= named
    assert len(chart.strip().splitlines()) <= 20


def test_design_notes_open_with_the_invariant():
    notes = sorted((ROOT / "docs" / "design").glob("*.md"))
    assert [n.name[:4] for n in notes[:5]] == ["0001", "0002", "0003", "0004", "0005"]
    for note in notes:
        title, _, rest = text(note).partition("\n\n")
        assert title.startswith(f"# {note.name[:4]} ")
        assert rest.startswith("**Invariant.** "), note.name
        assert "\n## Rejected\n" in rest, note.name


def test_no_place_of_ours_is_in_the_documents():
    for page in WRITTEN:
        assert not re.search(r"(?<![\w.~])/(?:work|root|tmp)/", text(page)), page.name


def test_generated_files_are_fresh(install):
    """Whatever is installed beside Ethogram."""
    made = "Metric(name='extra', unit='s', better='less', formula='', needs=('steps',))"
    code = f"from ethogram.measures.metrics import Metric\nEXTRA = {made}\n"
    install("meters", code, "[ethogram.metrics]\nextra = meters:EXTRA\n")
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "generate.py"), "--check"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr


def test_a_stale_file_is_shown_as_a_difference(tmp_path, monkeypatch, capsys):
    import importlib.util

    spec = importlib.util.spec_from_file_location("generate", ROOT / "scripts" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    with monkeypatch.context() as patched:
        for name in ("TYPER_USE_RICH", "COLUMNS", "TERMINAL_WIDTH", "NO_COLOR", "TERM"):
            patched.setenv(name, "")  # put back afterwards: the script sets them for itself
        spec.loader.exec_module(generate)
    reference = ROOT / "docs" / "reference"
    pages = {reference / "errors.md": generate.errors_page()}
    monkeypatch.setattr(generate, "stray", lambda made: [])
    assert generate.check(pages) == 0
    assert generate.check({reference / "errors.md": "something else\n"}) == 1
    said = capsys.readouterr()
    assert "+something else" in said.out
    assert "-# Errors" in said.out
    assert "make docs" in said.err


def test_schemas_close_their_sets():
    from ethogram.traces import KINDS, REASONS

    folder = ROOT / "src" / "ethogram" / "schemas"
    assert {p.stem for p in folder.iterdir()} == set(VERB_NAMES) | {"error"}
    tree = json.loads((folder / "trace.json").read_text())["$defs"]
    assert tree["SpanRow"]["properties"]["kind"] == {"enum": list(KINDS)}
    assert tree["TraceTree"]["properties"]["missing"]["anyOf"][0] == {"enum": list(REASONS)}
    show = json.loads((folder / "show.json").read_text())["$defs"]
    assert show["TaskRow"]["properties"]["missing"]["propertyNames"] == {"enum": list(REASONS)}
    for file in folder.iterdir():
        schema = json.loads(file.read_text())
        roots = [r["$ref"].rpartition("/")[2] for r in schema.get("anyOf", [schema])]
        for root in roots:
            assert schema["$defs"][root]["properties"]["schema_version"] == {"const": 1}
            assert "schema_version" in schema["$defs"][root]["required"]


PRIVATE = (
    r"scions?",
    r"\w*keepers?",
    r"restless\w*",
    r"other weather",
    r"(?:cried|cries|crying) wolf",
    r"collector[ _]at[ _]rest",
    r"so many",
    r"whoever",
    r"(?:of|in|with|this|the) (?:the )?house(?:'s)?(?! *[-/_])",
    r"read aloud",
    r"may it ship",
    r"behaves? otherwise",
    r"hang together",
    r"have a rest",
    r"flattery",
    r"has seen enough",
    r"paper (?:\(report\) )?and (?:on )?glass",
    r"dealt anew within tasks",
)
"""Private language, idioms and metaphors: the reader is an engineer whose first language may not be English."""

HELD = [
    path
    for folder in ("src", "docs", "tests", "bench", "scripts", "examples", "web/src")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".py", ".md", ".ts", ".tsx") and path != Path(__file__)
]


def test_no_private_language():
    # a name such as WORD_SECONDS holds its words without the boundary that `\b` looks for
    banned = re.compile(rf"(?<![a-z])(?:{'|'.join(PRIVATE)})(?![a-z])", re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in (*HELD, *(ROOT / name for name in ("README.md", "AGENTS.md", "VISION.md")))
        for number, line in enumerate(text(path).splitlines(), 1)
        if (match := banned.search(line))
    ]
    assert not found
