"""Every code block of the README and the guides runs, in order, in an empty folder, and prints what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_a_page_runs(pages, page):
    problems, _ = pages.run_page(page)
    assert not problems, (
        "\n\n".join(f"{page.name}:{p.line}: {p.what}" for p in problems) + "\n(make docs renews output)"
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_most_blocks_are_run(pages, page):
    code = [b for b in pages.blocks(page.read_text(encoding="utf-8")) if b.language in pages.RUN]
    assert sum(b.not_run is None for b in code) >= 3
    for block in code:
        assert block.not_run is None or len(block.not_run.split()) >= 3, "say why it is not run"


def test_every_block_has_a_language_that_is_known(pages):
    for page in PAGES:
        for block in pages.blocks(page.read_text(encoding="utf-8")):
            assert block.language in (*pages.RUN, "text"), f"{page.name}:{block.at}: {block.language!r}"


PAGE = """# A page

```bash
echo one > file
```

<!-- not run: a reason that is given -->
```bash
exit 7
```

```console
$ cat file
{said}
$ printf 'made 2026-01-02 03:04, 5.1 KB\\n'
made 1999-12-31 23:59, 77.0 KB
```

```python
assert open("file").read() == "{held}\\n"
```
"""


def write(tmp_path: Path, said: str = "one", held: str = "one") -> Path:
    page = tmp_path / "page.md"
    page.write_text(PAGE.format(said=said, held=held))
    return page


def test_a_good_page_has_no_problem_and_stays_as_it_is(pages, tmp_path):
    page = write(tmp_path)
    problems, text = pages.run_page(page)
    assert problems == []
    assert text == page.read_text()
    assert pages.rewrite(page) is False


def test_stale_output_is_found_and_renewed(pages, tmp_path):
    page = write(tmp_path, said="two")
    problems, _ = pages.run_page(page)
    assert [p.line for p in problems] == [13]
    assert "prints something else:\none" in problems[0].what
    assert pages.rewrite(page) is True
    assert pages.run_page(page)[0] == []
    assert page.read_text() == write(tmp_path).read_text()


def test_a_block_that_fails_is_found_and_never_written_over(pages, tmp_path):
    page = write(tmp_path, held="two")
    before = page.read_text()
    problems, _ = pages.run_page(page)
    assert len(problems) == 1
    assert "AssertionError" in problems[0].what
    with pytest.raises(SystemExit, match="AssertionError"):
        pages.rewrite(page)
    assert page.read_text() == before


def test_blocks_know_where_they_stand(pages):
    found = pages.blocks("x\n\n<!-- not run: because of that -->\n\n```bash\na\nb\n```\n\n```console\n$ c\n```\n")
    assert [(b.language, b.lines, b.at, b.not_run) for b in found] == [
        ("bash", ["a", "b"], 5, "because of that"),
        ("console", ["$ c"], 10, None),
    ]


def test_what_varies_is_run_but_not_compared(pages, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- varies: the shell draws -->\n```console\n$ echo drew $RANDOM\ndrew 7\n$ echo new\nold\n```\n")
    problems, text = pages.run_page(page)
    assert problems == []
    assert text == page.read_text().replace("old", "new")
    page.write_text("<!-- varies: it fails all the same -->\n```console\n$ false\n```\n")
    assert len(pages.run_page(page)[0]) == 1


def test_a_program_that_is_not_installed_is_named(pages, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- needs: no-such-program -->\n```bash\nexit 7\n```\n\n<!-- needs: sh -->\n```bash\nexit 8\n```\n"
    )
    assert ["fails with 8" in p.what for p in pages.run_page(page)[0]] == [True]
    assert capsys.readouterr().err == "page.md:2: not run, no-such-program is not installed\n"


def test_commands_go_on_while_a_quote_is_open(pages):
    lines = ['$ echo "a', 'b"', "a", "b", "$ true"]
    assert pages.commands(lines) == [(0, ['$ echo "a', 'b"'], ["a", "b"]), (4, ["$ true"], [])]
