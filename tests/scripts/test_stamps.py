"""`make docs` runs a page again when its code, or a file that the page reads, is not what it was; and only then."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PAGE = """# A page

Prose of the page.

```bash
python -c "import package.used"
```

```console
$ python -c "import package.used; print(package.used.WORD)"
one
```
"""


class Site:
    """A page, the package that it uses, and the stamp of the page."""

    def __init__(self, stamps: ModuleType, folder: Path) -> None:
        self.stamps, self.folder = stamps, folder
        self.page, self.package = folder / "page.md", folder / "src" / "package"
        self.package.mkdir(parents=True)
        self.page.write_text(PAGE)
        for name, text in (("__init__", ""), ("used", "WORD = 'one'"), ("other", "WORD = 'other'")):
            (self.package / f"{name}.py").write_text(text)

    def stamp(self) -> Any:
        return self.stamps.Stamp(self.page, self.package, self.folder / "stamps")

    def run(self) -> None:
        stamp = self.stamp()
        variables = stamp.watch()
        assert self.stamps.rewrite(self.page, variables) is False
        stamp.write()


@pytest.fixture
def site(stamps: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "src"))
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    site = Site(stamps, tmp_path)
    site.run()
    return site


def test_a_page_that_ran_is_fresh_until_something_changes(site: Site) -> None:
    assert site.stamp().is_fresh()
    site.page.write_text(PAGE.replace("Prose", "Other prose"))
    assert site.stamp().is_fresh()


@pytest.mark.parametrize(
    "change",
    [
        lambda site: site.page.write_text(PAGE.replace("\none\n", "\ntwo\n")),
        lambda site: (site.package / "used.py").write_text("WORD = 'two'"),
        lambda site: (site.package / "__init__.py").write_text("# changed"),
        lambda site: (site.package / "new.py").write_text(""),
        lambda site: (site.package / "used.py").unlink(),
        lambda site: shutil.rmtree(site.folder / "stamps"),
    ],
    ids=["shown output", "a module it imports", "a package it imports", "a new file", "a lost file", "no stamp"],
)
def test_a_change_makes_it_run_again(site: Site, change: Callable[[Site], object]) -> None:
    change(site)
    assert not site.stamp().is_fresh()


def test_a_module_that_it_does_not_import_is_nothing_to_it(site: Site) -> None:
    (site.package / "other.py").write_text("WORD = 'changed'")
    assert site.stamp().is_fresh()


def test_compiled_modules_count_as_their_source(site: Site) -> None:
    """The second run reads only what the first compiled."""
    assert list(site.package.rglob("used.*.pyc"))
    site.run()
    assert site.stamp().is_fresh()
    (site.package / "used.py").write_text("WORD = 'two'")
    assert not site.stamp().is_fresh()


def test_a_file_edited_while_the_page_ran_leaves_no_stamp(site: Site) -> None:
    stamp = site.stamp()
    variables = stamp.watch()
    site.stamps.rewrite(site.page, variables)
    (site.package / "used.py").write_text("WORD = 'two'")
    stamp.write()
    assert not site.stamp().is_fresh()


def test_a_page_that_fails_leaves_no_stamp(site: Site) -> None:
    (site.package / "used.py").write_text("WORD")
    stamp = site.stamp()
    with pytest.raises(SystemExit, match="NameError"):
        site.stamps.rewrite(site.page, stamp.watch())
    assert not site.stamp().is_fresh()


@pytest.mark.parametrize(
    "name",
    ["x.cpython-311.pyc", "x.cpython-311.pyc.140213", "x.cpython-311-pytest-9.2.0.pyc", "x.cpython-311.opt-1.pyc"],
)
def test_a_compiled_file_leads_to_its_source(stamps: ModuleType, name: str) -> None:
    assert stamps.source_of(Path("package", "__pycache__", name)) == Path("package", "x.py")
    assert stamps.source_of(Path("package", "x.json")) == Path("package", "x.json")
