"""The site of `make site`: it builds without a warning, asks nobody for anything, and can be searched from a folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from math import comb
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
LOADED = re.compile(r'<(?:script|img|link|source|iframe)\b[^>]*?(?:src|href|srcset)="?(https?:)?//', re.IGNORECASE)
QUESTIONS = ("reliability", "gate", "explore", "why", "cost", "calibrate")
LOGS = ("inspect", "claude-code", "opentelemetry", "tau-bench")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder


def test_every_page_is_there_and_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 60
    for page in pages:
        assert LOADED.search(page.read_text(encoding="utf-8")) is None, page.name
    for style in site.rglob("*.css"):
        assert "url(http" not in style.read_text(encoding="utf-8"), style.name
    assert (site / "index.html").read_text(encoding="utf-8").count("REGRESSION") == 1


def test_it_is_searched_without_a_server(site: Path, open_page: Callable[..., Any]) -> None:
    page = open_page((site / "index.html").as_uri(), offline=True)
    page.locator(".md-search__input").click()
    page.keyboard.type("noise floor")
    page.wait_for_selector(".md-search-result__item")
    assert "Glossary" in page.locator(".md-search-result__item h1").all_inner_texts()


def test_a_phone_shows_it_without_scrolling_sideways(site: Path, open_page: Callable[..., Any]) -> None:
    for name in ("index.html", "peers.html", "reference/metrics/cost.html", "guide/gate.html"):
        page = open_page((site / name).as_uri(), viewport={"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, name


def test_every_tutorial_ends_in_a_decision() -> None:
    for name in (*QUESTIONS, *LOGS):
        text = (ROOT / "docs" / "guide" / f"{name}.md").read_text(encoding="utf-8")
        after = text.partition("\n## The decision\n")[2]
        assert after, name
        assert re.findall(r"^## (?!From Python|In Python|Logs without scores)", after, re.MULTILINE) == [], name


def test_questions_come_first_in_the_navigation() -> None:
    shape = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    questions, logs = shape["nav"][1]["Questions"], shape["nav"][2]["You have logs"]
    assert [next(iter(e.values())) for e in questions[:6]] == [
        f"guide/{name}.md" for name in ("reliability", "gate", "why", "explore", "cost", "calibrate")
    ]
    assert {f"guide/{name}.md" for name in LOGS} <= {next(iter(e.values())) for e in logs}


def test_figures_in_the_captions_of_metrics_are_those_of_their_pictures() -> None:
    import tomllib

    about = tomllib.loads((ROOT / "scripts" / "metrics.toml").read_text(encoding="utf-8"))

    def all_of(k: int, values: list[int]) -> float:
        return comb(sum(values), k) / comb(len(values), k)

    half, nine = about["pass_at_k"]["groups"].values()
    assert min(1 - all_of(5, [1 - v for v in group]) for group in (half, nine)) >= 0.99
    assert [round(all_of(5, group), 3) for group in (half, nine)] == [0.004, 0.5]
    assert round(all_of(8, about["pass_hat_k"]["groups"]["nine of ten"]), 2) == 0.2
    resolved = about["cost_per_resolved"]
    sums = {name: round(sum(values), 2) for name, values in resolved["groups"].items()}
    each = {name: round(sums[name] / sum(resolved["passed"][name]), 2) for name in sums}
    assert (sums, each) == ({"before": 0.95, "after": 0.54}, {"before": 0.14, "after": 0.27})
    for figure in (*sums.values(), *each.values()):
        assert f"${figure}" in resolved["caption"]
    means = {name: sum(values) / len(values) for name, values in about["score"]["groups"].items()}
    assert means == {"half, always": 0.5, "all or nothing": 0.5}
