"""Operators on PDF: digits, words, sections and pages; whatever is not changed is extracted as before."""

from __future__ import annotations

import io
import random
import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from ethogram.errors import MissingExtra

from .figures import NUMBERS
from .operator import Change, Dice, FileOperator, NotApplicable, Notes, count_of
from .pdf_text import SHOW, Glyph, PdfLine, TextStream, read_streams
from .text import WORDS

_HEADING = re.compile(r"\s*(?:\d+(?:\.\d+)*\.?|[IVX]+\.|Chapter|Section|Appendix|Part)\s+[A-Z]")
MARKS = ("█", "■", "X", "x", "*", "-", " ")


class PdfFile:
    """A PDF that is being changed; its text is read when it is needed."""

    def __init__(self, content: bytes) -> None:
        """Raises `NotApplicable` if it cannot be read or is protected."""
        try:
            import pikepdf
        except ImportError:
            raise MissingExtra.needed("files", "changing a PDF") from None
        try:
            self.pdf = pikepdf.open(io.BytesIO(content))
            self.pages = len(self.pdf.pages)
        except pikepdf.PasswordError:
            raise NotApplicable("the PDF is password-protected") from None
        except (pikepdf.PdfError, RuntimeError, ValueError) as error:
            said = str(error).rpartition(": ")[2].strip()  # what stands before is the address of a buffer
            raise NotApplicable(f"the file cannot be read as PDF: {said or 'it is damaged'}") from None
        if self.pdf.is_encrypted:
            raise NotApplicable("the PDF is encrypted; remove the protection first")
        if not self.pages:
            raise NotApplicable("the PDF has no pages")
        self._streams: list[TextStream] | None = None

    @property
    def streams(self) -> list[TextStream]:
        """What the pages write."""
        if self._streams is None:
            import pikepdf

            try:
                self._streams = read_streams(self.pdf)
            except (pikepdf.PdfError, pikepdf.models.PdfParsingError, RuntimeError, ValueError, TypeError) as error:
                raise NotApplicable(f"the pages of the PDF cannot be read: {error}") from None
        return self._streams

    @property
    def lines(self) -> list[PdfLine]:
        """All lines with text."""
        found = [line for stream in self.streams for line in stream.lines if line.glyphs or line.instructions]
        if not found:
            raise NotApplicable(f"the PDF has no text on its {count_of(self.pages, 'page')}: it looks like a scan")
        return found

    @property
    def readable(self) -> list[PdfLine]:
        """The lines whose characters are known."""
        found = [line for line in self.lines if any(g is not None and g.char != "\ufffd" for g in line.glyphs)]
        if not found:
            raise NotApplicable("the fonts of the PDF do not say which characters they show")
        return found

    def where(self, line: PdfLine) -> str:
        """Where a line is."""
        return f"page {self.streams[line.stream].page + 1}"

    def replace(self, codes: dict[tuple[int, int, int, int], tuple[Glyph, int]]) -> None:
        """Show other codes in some places; every string keeps its length."""
        import pikepdf

        by_piece: dict[tuple[int, int, int], list[tuple[Glyph, int]]] = {}
        for (stream, instruction, piece, _), new in codes.items():
            by_piece.setdefault((stream, instruction, piece), []).append(new)
        for (stream, instruction, piece), changes in by_piece.items():
            found = self.streams[stream].instructions[instruction]
            operands = list(found.operands)
            is_array = str(found.operator) == "TJ"
            holder = list(operands[0]) if is_array else operands
            at = piece if is_array else len(holder) - 1
            font = changes[0][0].font
            assert font is not None
            decoded = [code for code, _ in font.decode(bytes(holder[at]))]
            for glyph, code in changes:
                decoded[glyph.place] = code
            holder[at] = pikepdf.String(font.encode(decoded))
            new_operands = [pikepdf.Array(holder)] if is_array else holder
            self.streams[stream].instructions[instruction] = pikepdf.ContentStreamInstruction(
                new_operands, found.operator
            )
        self._write({stream for stream, *_ in codes})

    def silence(self, shown: dict[int, set[int]]) -> None:
        """Write nothing where these instructions wrote; what moves to the next line still does."""
        for stream, numbers in shown.items():
            instructions = self.streams[stream].instructions
            kept: list[Any] = []
            for i, found in enumerate(instructions):
                if i in numbers:
                    kept += _movement(found)
                else:
                    kept.append(found)
            self.streams[stream].instructions = kept
        self._write(set(shown))

    def _write(self, numbers: set[int]) -> None:
        import pikepdf

        for number in sorted(numbers):
            stream = self.streams[number]
            data = pikepdf.unparse_content_stream(stream.instructions)
            if stream.is_page:
                stream.holder.obj.Contents = self.pdf.make_stream(data)
            else:
                stream.holder.write(data)

    def save(self) -> bytes:
        """The file; the same content gives the same bytes."""
        out = io.BytesIO()
        self.pdf.save(out, deterministic_id=True, fix_metadata_version=False)
        return out.getvalue()


def _movement(instruction: Any) -> list[Any]:
    """What is left of an instruction that writes, when it writes nothing."""
    import pikepdf

    name = str(instruction.operator)
    made = pikepdf.ContentStreamInstruction
    if name == '"':
        word, char, _ = instruction.operands
        return [
            made([word], pikepdf.Operator("Tw")),
            made([char], pikepdf.Operator("Tc")),
            made([], pikepdf.Operator("T*")),
        ]
    return [made([], pikepdf.Operator("T*"))] if name == "'" else []


Site = tuple[PdfLine, int, int]
"""A piece of a line: from which character to which."""


def _sites(pdf: PdfFile, pattern: re.Pattern[str], usable: Callable[[Glyph], bool]) -> list[Site]:
    found = []
    for line in pdf.readable:
        for match in pattern.finditer(line.text):
            glyphs = line.glyphs[match.start() : match.end()]
            if any(g is not None and usable(g) for g in glyphs):
                found.append((line, match.start(), match.end()))
    return found


def _replaced(pdf: PdfFile, sites: list[Site], dice: Dice, full: float, new: Any, done: str) -> Change:
    notes = Notes()
    codes: dict[tuple[int, int, int, int], tuple[Glyph, int]] = {}
    for pick in dice.picks(len(sites), full):
        line, start, end = sites[pick]
        put = new(line.glyphs[start:end], dice.rng(f"site {pick}"))
        text = list(line.text[start:end])
        for offset, char, code in put:
            glyph = line.glyphs[start + offset]
            assert glyph is not None
            codes[line.stream, glyph.instruction, glyph.piece, glyph.place] = (glyph, code)
            text[offset] = char
        notes.add(pdf.where(line), line.text[start:end], "".join(text))
    pdf.replace(codes)
    noun, _, did = done.partition(" ")
    return notes.change(pdf.save(), f"{count_of(notes.places, noun)} {did}")


# number_corruption


def _others(glyph: Glyph) -> list[tuple[str, int]]:
    """Other digits that the font of a digit can show."""
    if glyph.font is None or not "0" <= glyph.char <= "9":
        return []
    pairs = [(d, glyph.font.code(d)) for d in "0123456789" if d != glyph.char]
    return [(d, code) for d, code in pairs if code is not None]


def _find_numbers(pdf: PdfFile) -> list[Site]:
    sites = _sites(pdf, NUMBERS, lambda glyph: bool(_others(glyph)))
    if not sites:
        some = any(NUMBERS.search(line.text) for line in pdf.readable)
        raise NotApplicable(
            "the fonts of the PDF have no other digits than those in use"
            if some
            else "the text of the PDF has no numbers"
        )
    return sites


def _digit(glyphs: list[Glyph | None], rng: random.Random) -> list[tuple[int, str, int]]:
    places = [(i, _others(g)) for i, g in enumerate(glyphs) if g is not None and _others(g)]
    first = next(i for i, g in enumerate(glyphs) if g is not None)
    at, others = rng.choice(places)
    if at == first and len(glyphs) > 1:
        others = [pair for pair in others if pair[0] != "0"] or others
    char, code = rng.choice(others)
    return [(at, char, code)]


def _number_corruption(pdf: PdfFile, sites: list[Site], dice: Dice) -> Change:
    return _replaced(pdf, sites, dice, 0.5, _digit, "number changed by a digit")


# text_redaction


def _mark(glyph: Glyph) -> tuple[str, int] | None:
    """The darkest thing that the font of a letter can show in its place."""
    if glyph.font is None:
        return None
    for mark in MARKS:
        code = glyph.font.code(mark)
        if code is not None and mark != glyph.char:
            return mark, code
    return None


def _find_words(pdf: PdfFile) -> list[Site]:
    sites = [
        (line, start, end)
        for line, start, end in _sites(pdf, WORDS, lambda glyph: True)
        if all(g is not None and _mark(g) for g in line.glyphs[start:end])
    ]
    if not sites:
        raise NotApplicable("the text of the PDF has no word that its fonts could black out")
    return sites


def _blackout(glyphs: list[Glyph | None], rng: random.Random) -> list[tuple[int, str, int]]:
    marks = [(i, _mark(g)) for i, g in enumerate(glyphs) if g is not None]
    return [(i, found[0], found[1]) for i, found in marks if found is not None]


def _text_redaction(pdf: PdfFile, sites: list[Site], dice: Dice) -> Change:
    return _replaced(pdf, sites, dice, 0.2, _blackout, "word blacked out")


# section_removal


def _find_sections(pdf: PdfFile) -> list[list[PdfLine]]:
    lines = [line for line in pdf.readable if line.text.strip()]
    weights: Counter[float] = Counter()
    for line in lines:
        weights[line.size] += len(line.text)
    body = weights.most_common(1)[0][0]
    blocks: list[list[PdfLine]] = []
    for line in lines:
        larger = line.size > 1.15 * body and len(line.text) < 100
        if larger or (len(line.text) < 80 and _HEADING.match(line.text)):
            blocks.append([line])
        elif blocks:
            blocks[-1].append(line)
    if len(blocks) < 2:
        blocks = _by_gaps(lines)
    if len(blocks) < 2:
        raise NotApplicable("the text of the PDF is a single section, and removing it would leave nothing")
    return blocks


def _by_gaps(lines: list[PdfLine]) -> list[list[PdfLine]]:
    """Blocks of lines with more room between them than inside; a new page begins a new block."""
    gaps = sorted(a.y - b.y for a, b in pairwise(lines) if a.stream == b.stream and a.y > b.y)
    usual = gaps[len(gaps) // 4] if gaps else 0.0
    blocks: list[list[PdfLine]] = []
    for i, line in enumerate(lines):
        before = lines[i - 1] if i else None
        if before is None or before.stream != line.stream or before.y - line.y > 1.3 * usual:
            blocks.append([])
        blocks[-1].append(line)
    return blocks


def _section_removal(pdf: PdfFile, blocks: list[list[PdfLine]], dice: Dice) -> Change:
    notes = Notes()
    shown: dict[int, set[int]] = {}
    for pick in dice.picks(len(blocks), 1 / 3, most=len(blocks) - 1):
        for line in blocks[pick]:
            shown.setdefault(line.stream, set()).update(line.instructions)
        text = " ".join(line.text.strip() for line in blocks[pick])
        notes.add(f"{pdf.where(blocks[pick][0])}, section {pick + 1}", text, "")
    pdf.silence(shown)
    return notes.change(pdf.save(), f"{count_of(notes.places, 'section')} removed")


# pages


def _find_pages(pdf: PdfFile) -> int:
    if pdf.pages < 2:
        raise NotApplicable("the PDF has a single page")
    return pdf.pages


def _page_removal(pdf: PdfFile, pages: int, dice: Dice) -> Change:
    notes = Notes()
    gone = dice.picks(pages, 1 / 3, most=pages - 1)
    for page in gone:
        notes.add(f"page {page + 1}", f"page {page + 1} of {pages}", "")
    lost = {pdf.pdf.pages[page].obj.objgen for page in gone}
    for page in reversed(gone):
        del pdf.pdf.pages[page]
    _forget_links(pdf.pdf, lost)
    return notes.change(pdf.save(), f"{count_of(len(gone), 'page')} removed")


def _forget_links(pdf: Any, lost: set[tuple[int, int]]) -> None:
    """Bookmarks and links to pages that are gone lead nowhere; left as they were, they would keep the pages alive."""
    import pikepdf

    def leads_nowhere(holder: Any) -> bool:
        target = holder.get("/Dest", holder.get("/D"))
        return isinstance(target, pikepdf.Array) and len(target) > 0 and target[0].objgen in lost

    for found in pdf.objects:
        if isinstance(found, pikepdf.Dictionary) and ("/Title" in found or found.get("/Subtype") == "/Link"):
            if leads_nowhere(found):
                del found["/Dest"]
            action = found.get("/A")
            if isinstance(action, pikepdf.Dictionary) and leads_nowhere(action):
                del found["/A"]


def _page_shuffle(pdf: PdfFile, pages: int, dice: Dice) -> Change:
    import pikepdf

    moved = dice.picks(pages, 1.0, least=2)
    order = list(moved)
    rng = dice.rng("order")
    while order == moved:
        rng.shuffle(order)
    sequence = list(range(pages))
    notes = Notes()
    for place, origin in zip(moved, order, strict=True):
        sequence[place] = origin
        if place != origin:
            notes.add(f"page {place + 1}", f"page {place + 1} of {pages}", f"page {origin + 1} of {pages}")
    held = [pdf.pdf.pages[i].obj for i in sequence]
    del pdf.pdf.pages[:]
    for page in held:
        pdf.pdf.pages.append(pikepdf.Page(page))
    return notes.change(pdf.save(), f"{count_of(notes.places, 'page')} out of order")


# null_content


def _find_written(pdf: PdfFile) -> list[int]:
    _ = pdf.lines
    return sorted({stream.page for stream in pdf.streams if stream.shows_text})


def _null_content(pdf: PdfFile, pages: list[int], dice: Dice) -> Change:
    notes = Notes()
    picked = {pages[pick] for pick in dice.picks(len(pages))}
    shown: dict[int, set[int]] = {}
    for number, stream in enumerate(pdf.streams):
        if stream.page in picked:
            written = {i for i, found in enumerate(stream.instructions) if str(found.operator) in SHOW}
            if written:
                shown[number] = written
    for page in sorted(picked):
        text = " ".join(line.text for s in pdf.streams if s.page == page for line in s.lines)
        notes.add(f"page {page + 1}", text, "")
    pdf.silence(shown)
    return notes.change(pdf.save(), f"{count_of(notes.places, 'page')} without text")


def _operator(name: str, does: str, dose: str, find: Callable[[PdfFile], Any], edit: Any) -> FileOperator[PdfFile, Any]:
    return FileOperator(name, "pdf", does, dose, {"pdf": PdfFile}, find, edit)


OPERATORS: tuple[FileOperator[PdfFile, Any], ...] = (
    _operator(
        "number_corruption", "a digit of a number is changed", "half of the numbers", _find_numbers, _number_corruption
    ),
    _operator("text_redaction", "words are blacked out", "a fifth of the words", _find_words, _text_redaction),
    _operator("section_removal", "sections are missing", "a third of them", _find_sections, _section_removal),
    _operator("page_removal", "pages are missing", "a third of them", _find_pages, _page_removal),
    _operator("page_shuffle", "pages change places", "all pages", _find_pages, _page_shuffle),
    _operator("null_content", "pages have lost their text", "every page", _find_written, _null_content),
)
