"""A chart as a Vega-Lite specification, which notebooks show, files hold and pages embed.

Colours are those of Okabe and Ito, which most eyes tell apart; series differ in dash and shape as well, so that a
picture survives black and white. Ink is a stand-in that becomes the page's own text colour, light or dark.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ethogram.errors import BadUsage, MissingExtra

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
INK = "#1b2a41"
"""The colour of words and lines; in a page it is replaced by `currentColor`."""
BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW, GREY = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#E69F00",
    "#7f7f7f",
)
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW)
FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif"

Spec = dict[str, Any]

CONFIG: Spec = {
    "background": "transparent",
    "font": FONT,
    "padding": {"left": 18, "right": 8, "top": 6, "bottom": 6},
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK,
        "titleColor": INK,
        "domainColor": INK,
        "tickColor": INK,
        "gridColor": INK,
        "gridOpacity": 0.12,
        "domainOpacity": 0.5,
        "labelFontSize": 11,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    },
    "legend": {"labelColor": INK, "titleColor": INK, "labelFontSize": 11, "titleFontSize": 11},
    "title": {"color": INK, "subtitleColor": INK, "anchor": "start", "fontSize": 13, "subtitleFontSize": 11},
    "header": {"labelColor": INK, "titleColor": INK},
    "text": {"color": INK},
    "range": {"category": list(PALETTE)},
}


_ROLES = re.compile(r' (?:role|aria-[a-z]+)="[^"]*"')
"""What tells screen readers about single marks: in a page the chart is one image with words of its own."""


class Chart:
    """A specification that shows itself in a notebook and saves itself as SVG, PNG, HTML or JSON."""

    def __init__(self, spec: Spec, words: str) -> None:
        """`words` say what the picture shows, for those who cannot see it."""
        self.spec = {"$schema": SCHEMA, "config": CONFIG, "description": words, **spec}
        self.words = words

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """Inline SVG, which has the ink of the notebook, light or dark; without the extra, what others can draw."""
        if can_draw():
            return {"text/html": self.svg(inline=True), "text/plain": self.words}
        hint = MissingExtra.needed("charts", "a picture in every notebook")
        return {"application/vnd.vegalite.v5+json": self.spec, "text/plain": f"{self.words} ({hint})"}

    def svg(self, *, inline: bool = False) -> str:
        """The picture as SVG; `inline` takes its ink from the page around it, and leaves its name to the page too."""
        drawn = str(_converter().vegalite_to_svg(self.spec))
        return _ROLES.sub("", drawn).replace(INK, "currentColor") if inline else drawn

    def png(self, scale: float = 2.0) -> bytes:
        """The picture as PNG on white."""
        spec = {**self.spec, "config": {**self.spec["config"], "background": "white"}}
        return bytes(_converter().vegalite_to_png(spec, scale=scale))

    def save(self, path: str | Path) -> Path:
        """Write a file; its suffix says which kind."""
        place = Path(path)
        if place.suffix == ".svg":
            place.write_text(self.svg(), encoding="utf-8")
        elif place.suffix == ".png":
            place.write_bytes(self.png())
        elif place.suffix == ".json":
            import msgspec

            place.write_bytes(msgspec.json.format(msgspec.json.encode(self.spec)))
        elif place.suffix == ".html":
            place.write_text(str(_converter().vegalite_to_html(self.spec, bundle=True)), encoding="utf-8")
        else:
            raise BadUsage(f"a chart is saved as .svg, .png, .html or .json, not as {place.suffix or place.name!r}")
        return place


def can_draw() -> bool:
    """Whether pictures can be made here."""
    from importlib.util import find_spec

    return find_spec("vl_convert") is not None


def _converter() -> Any:
    try:
        import vl_convert
    except ImportError:
        raise MissingExtra.needed("charts", "a picture") from None
    return vl_convert
