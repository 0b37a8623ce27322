"""The text of a PDF where it stands: glyph by glyph in the streams of each page, in lines, with size and height."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from .pdf_fonts import Font, read_font

SHOW = frozenset(["Tj", "TJ", "'", '"'])
SPACE_BETWEEN = -200
"""A jump of a fifth of the font's size inside a line is a space to the eye."""
DEEPEST = 8
LIGATURES = {"fi": "ﬁ", "fl": "ﬂ", "ff": "ﬀ", "ffi": "ﬃ", "ffl": "ﬄ"}

Matrix = tuple[float, float, float, float, float, float]
UNIT: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


class Glyph(msgspec.Struct, frozen=True):
    """One code: the instruction, which of its strings, which place there, and what it shows."""

    instruction: int
    piece: int
    place: int
    font: Font | None
    code: int
    char: str


class PdfLine(msgspec.Struct):
    """Glyphs that stand on one line; a space that is only a jump has no glyph."""

    stream: int
    size: float
    y: float
    text: str = ""
    glyphs: list[Glyph | None] = []
    instructions: set[int] = set()


class TextStream(msgspec.Struct):
    """The instructions of a page, or of a form that a page draws."""

    page: int
    holder: Any
    instructions: list[Any]
    is_page: bool
    lines: list[PdfLine] = []

    @property
    def shows_text(self) -> bool:
        """Whether any instruction writes."""
        return any(line.instructions for line in self.lines)


def _times(a: Matrix, b: Matrix) -> Matrix:
    return (
        a[0] * b[0] + a[1] * b[2],
        a[0] * b[1] + a[1] * b[3],
        a[2] * b[0] + a[3] * b[2],
        a[2] * b[1] + a[3] * b[3],
        a[4] * b[0] + a[5] * b[2] + b[4],
        a[4] * b[1] + a[5] * b[3] + b[5],
    )


def read_streams(pdf: Any) -> list[TextStream]:
    """Every stream of every page that can hold text; a form that several pages draw is read once."""
    import pikepdf

    found: list[TextStream] = []
    fonts: dict[tuple[int, int], Font] = {}
    seen: set[tuple[int, int]] = set()

    def forms(resources: Any, page: int, depth: int) -> None:
        drawn: Any = resources.get("/XObject", {}) if resources is not None else {}
        for name in sorted(drawn.keys()):
            form = drawn[name]
            if str(form.get("/Subtype", "")) != "/Form" or form.objgen in seen or depth > DEEPEST:
                continue
            seen.add(form.objgen)
            own = form.get("/Resources", resources)
            instructions = list(pikepdf.parse_content_stream(form))
            stream = TextStream(page, form, instructions, False)
            stream.lines = list(_Walk(len(found), instructions, own, fonts).lines())
            found.append(stream)
            forms(own, page, depth + 1)

    for number, page in enumerate(pdf.pages):
        resources = _inherited(page.obj, "/Resources")
        instructions = list(pikepdf.parse_content_stream(page)) if "/Contents" in page.obj else []
        stream = TextStream(number, page, instructions, True)
        stream.lines = list(_Walk(len(found), instructions, resources, fonts).lines())
        found.append(stream)
        forms(resources, number, 0)
    return found


def _inherited(page: Any, name: str) -> Any:
    for _ in range(50):
        if name in page:
            return page[name]
        if "/Parent" not in page:
            return None
        page = page["/Parent"]
    return None


def _jump(line: PdfLine) -> None:
    """A space that nobody wrote: writing goes on further to the right."""
    if line.text and not line.text.endswith(" "):
        line.text += " "
        line.glyphs.append(None)


class _Walk:
    """Follows the instructions of a stream as a viewer would, as far as text is concerned."""

    def __init__(
        self, number: int, instructions: list[Any], resources: Any, fonts: dict[tuple[int, int], Font]
    ) -> None:
        self._number = number
        self._instructions = instructions
        self._resources = resources
        self._fonts = fonts
        self._named: dict[str, Font | None] = {}
        self._font: Font | None = None
        self._size = 1.0
        self._leading = 0.0
        self._ctm: Matrix = UNIT
        self._line_matrix: Matrix = UNIT
        self._stack: list[tuple[Matrix, Font | None, float, float]] = []

    def lines(self) -> Iterator[PdfLine]:
        """The lines in the order in which they are written."""
        line: PdfLine | None = None
        for i, instruction in enumerate(self._instructions):
            name = str(instruction.operator)
            operands = instruction.operands
            if name in ("'", '"'):
                self._move(0.0, -self._leading)
            elif name not in SHOW:
                if self._follow(name, operands) and line is not None:
                    if self._same_line(line):
                        _jump(line)
                    else:
                        yield line
                        line = None
                continue
            if name in ("'", '"') and line is not None:
                yield line
                line = None
            if line is None:
                line = self._new_line()
            self._show(line, i, name, operands)
        if line is not None:
            yield line

    def _new_line(self) -> PdfLine:
        whole = _times(self._line_matrix, self._ctm)
        return PdfLine(self._number, round(abs(self._size * (whole[3] or whole[1])), 2), whole[5])

    def _same_line(self, line: PdfLine) -> bool:
        """Whether writing goes on at the same height."""
        return abs(_times(self._line_matrix, self._ctm)[5] - line.y) < 0.3 * max(line.size, 1.0)

    def _follow(self, name: str, operands: Any) -> bool:
        """Keep track of one instruction; says whether it may have begun another line."""
        if name == "Tf" and len(operands) == 2:
            self._font, self._size = self._font_named(str(operands[0])), float(operands[1])
        elif name == "TL":
            self._leading = float(operands[0])
        elif name in ("Td", "TD"):
            if name == "TD":
                self._leading = -float(operands[1])
            self._move(float(operands[0]), float(operands[1]))
            return True
        elif name == "T*":
            self._move(0.0, -self._leading)
            return True
        elif name == "Tm" and len(operands) == 6:
            a, b, c, d, e, f = (float(v) for v in operands)
            self._line_matrix = (a, b, c, d, e, f)
            return True
        elif name == "BT":
            self._line_matrix = UNIT
        elif name == "cm" and len(operands) == 6:
            a, b, c, d, e, f = (float(v) for v in operands)
            self._ctm = _times((a, b, c, d, e, f), self._ctm)
        elif name == "q":
            self._stack.append((self._ctm, self._font, self._size, self._leading))
        elif name == "Q" and self._stack:
            self._ctm, self._font, self._size, self._leading = self._stack.pop()
        return False

    def _move(self, x: float, y: float) -> None:
        self._line_matrix = _times((1.0, 0.0, 0.0, 1.0, x, y), self._line_matrix)

    def _font_named(self, name: str) -> Font | None:
        if name not in self._named:
            fonts = self._resources.get("/Font") if self._resources is not None else None
            font = fonts.get(name) if fonts is not None else None
            if font is None:
                self._named[name] = None
            else:
                key = font.objgen if font.objgen != (0, 0) else (-1, id(font))
                self._named[name] = self._fonts.setdefault(key, read_font(font)) if key[0] > 0 else read_font(font)
        return self._named[name]

    def _show(self, line: PdfLine, number: int, name: str, operands: Any) -> None:
        import pikepdf

        line.instructions.add(number)
        pieces = list(operands[0]) if name == "TJ" else [operands[-1]]
        for i, piece in enumerate(pieces):
            if not isinstance(piece, pikepdf.String):
                if float(piece) < SPACE_BETWEEN:
                    _jump(line)
                continue
            if self._font is None:
                continue
            for place, (code, char) in enumerate(self._font.decode(bytes(piece))):
                # one character for one glyph, so that places in the text are places among the glyphs
                shown = LIGATURES.get(char or "", char or "")
                shown = shown if len(shown) == 1 else "\ufffd"
                line.text += shown
                line.glyphs.append(Glyph(number, i, place, self._font, code, shown))
