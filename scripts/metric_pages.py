"""A page per metric, with its formula, a picture and when it misleads, from the catalogue and scripts/metrics.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "reference" / "metrics"
LEVEL = 0.95
WIDTH, LEFT, RIGHT, ROW, TOP = 640, 130, 24, 64, 14
INK, FAINT, POINT, MEAN = "#6e7781", "#9aa4ae", "#3b82c4", "#d9730d"
"""Colours that can be read on white and on black: a picture does not know the page around it."""


def metric_files(note: str) -> Iterator[tuple[Path, str]]:
    """Every page and picture of a metric, and the page that lists them; `note` stands at the top of each page."""
    from ethogram.measures.metrics import METRICS
    from ethogram.measures.standard import DIMENSIONS

    about = tomllib.loads((ROOT / "scripts" / "metrics.toml").read_text(encoding="utf-8"))
    odd = METRICS.keys() - about.keys() | {
        name for name in about.keys() - METRICS.keys() if "formula" not in about[name]
    }
    if odd:
        raise SystemExit(f"scripts/metrics.toml and the catalogue of metrics disagree about: {', '.join(sorted(odd))}")
    for name, entry in about.items():
        yield FOLDER / f"{name}.md", _page(note, name, entry, METRICS.get(name))
        yield FOLDER / f"{name}.svg", picture(entry)
    yield FOLDER / "index.md", _index(note, about, DIMENSIONS)


def _index(note: str, about: dict[str, Any], dimensions: Sequence[Any]) -> str:
    lines = [
        note,
        "# Metrics\n",
        "What `compare`, `gate --metric`, `stats` and `cost` measure. Each page has the formula, and a picture of",
        "made-up attempts in which the metric misleads.\n",
        "| metric | question |\n|---|---|",
        *(f"| [{entry['title']}]({name}.md) | {entry['asks']} |" for name, entry in about.items()),
        "\n## Dimensions\n",
        "What `field`, `divergence` and `compare` know of one trace (`ethogram field --list`). You can add your own in",
        "Python: see [behaviour fields](../../guide/field.md).\n",
        "| dimension | unit | formula |\n|---|---|---|",
        *(f"| `{d.name}` | {d.unit} | {d.formula} |" for d in dimensions),
    ]
    return "\n".join(lines) + "\n"


def _page(note: str, name: str, entry: dict[str, Any], metric: Any) -> str:
    facts = [("formula", entry["formula"])] if metric is None else _facts(metric)
    lines = [note, f"# {entry['title']}\n", f"{entry['asks']}\n", "| | |\n|---|---|"]
    lines += [f"| {key} | {value} |" for key, value in facts]
    lines += [f"\n![{entry['caption']}]({name}.svg)\n", f"{entry['caption']} {_legend(entry)}\n"]
    lines += ["## When it misleads\n", *(f"- {text}" for text in entry["misleads"])]
    lines += ["\n## Read beside it\n", entry["beside"]]
    if metric is not None:
        lines += ["\n```text", f"ethogram compare BASE CANDIDATE --metric {name}", "```"]
    return "\n".join(lines) + "\n"


def _facts(metric: Any) -> list[tuple[str, str]]:
    return [
        ("formula", metric.formula),
        ("unit", metric.unit),
        ("better", metric.better),
        ("needs", ", ".join(f"`{column}`" for column in metric.needs)),
        ("version", str(metric.version)),
    ]


def _legend(entry: dict[str, Any]) -> str:
    if entry.get("rate"):
        return "(The bar is the rate with its 95 % interval, Wilson's.)"
    filled = "a filled one succeeded, an empty one failed; " if "passed" in entry else ""
    return f"(A blue dot is one attempt; {filled}the bar is the mean with its 95 % interval, Student's.)"


def interval(values: Sequence[float], *, rate: bool) -> tuple[float, float]:
    """A 95 % interval of a mean: Wilson's of a rate, Student's of anything else."""
    from ethogram.statistics.interval import wilson

    n = len(values)
    if rate:
        ends = wilson(sum(values), n, LEVEL)
        return float(ends.low), float(ends.high)
    half = float(stdtrit(n - 1, 0.5 + LEVEL / 2)) * float(np.std(values, ddof=1)) / n**0.5
    return max(0.0, float(np.mean(values)) - half), float(np.mean(values)) + half  # nothing here is below 0


def picture(entry: dict[str, Any]) -> str:
    """Attempts of each group as dots in a row, with their mean and its interval above."""
    groups: dict[str, list[float]] = entry["groups"]
    rate = bool(entry.get("rate"))
    ends = {name: interval(values, rate=rate) for name, values in groups.items()}
    least = 0.0
    most = max(*(high for _, high in ends.values()), *(max(v) for v in groups.values()))

    def at(value: float) -> float:
        return round(LEFT + (value - least) / (most - least) * (WIDTH - LEFT - RIGHT), 1)

    height = TOP + ROW * len(groups) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" font-family="system-ui, sans-serif" font-size="13" fill="{INK}">',
        f"<title>{escape(entry['caption'])}</title>",
    ]
    for row, (name, values) in enumerate(groups.items()):
        y = TOP + ROW * row + 18
        low, high = ends[name]
        parts += [
            f'<text x="{LEFT - 14}" y="{y + 12}" text-anchor="end">{escape(name)}</text>',
            f'<line x1="{at(low)}" x2="{at(high)}" y1="{y}" y2="{y}" stroke="{MEAN}" stroke-width="4"/>',
            f'<circle cx="{at(float(np.mean(values)))}" cy="{y}" r="6" fill="{MEAN}"/>',
            *(_count(values, at, y + 22) if rate else _dots(values, entry.get("passed", {}).get(name), at, y + 14)),
        ]
    bottom = TOP + ROW * len(groups)
    parts.append(f'<line x1="{at(least)}" x2="{at(most)}" y1="{bottom}" y2="{bottom}" stroke="{FAINT}"/>')
    for value in (least, (least + most) / 2, most):
        parts.append(f'<text x="{at(value)}" y="{bottom + 16}" text-anchor="middle" font-size="11">{value:.3g}</text>')
    parts.append(
        f'<text x="{at((least + most) / 2)}" y="{bottom + 33}" text-anchor="middle">{escape(entry["axis"])}</text>'
    )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _count(values: Sequence[float], at: Any, y: float) -> Iterator[str]:
    """A rate in words: dots at 0 and at 1 say nothing."""
    words = f"{sum(values):.0f} of {len(values)}"
    yield f'<text x="{at(float(np.mean(values)))}" y="{y}" text-anchor="end" font-size="11">{words}</text>'


def _dots(values: Sequence[float], passed: Sequence[int] | None, at: Any, y: float) -> Iterator[str]:
    """One dot per attempt; equal ones hang below each other."""
    seen: dict[float, int] = {}
    for number, value in enumerate(values):
        nth = seen[value] = seen.get(value, -1) + 1
        fill = "none" if passed is not None and not passed[number] else POINT
        yield (
            f'<circle cx="{at(value)}" cy="{y + 4.5 * nth}" r="4" fill="{fill}" fill-opacity="0.7" stroke="{POINT}" '
            'stroke-width="1.2"/>'
        )
