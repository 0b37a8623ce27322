"""JSON and YAML in place: where each key, value and list item stands in the text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from .encoding import Encoded, decoded
from .operator import NotApplicable

LeafKind = Literal["text", "int", "float", "bool", "null", "other"]

_TOKEN = re.compile(
    r'[\s]*(?:([{}\[\],:])|("(?:[^"\\]|\\.)*")|(-?\d+(?:\.\d+)?(?:[eE][+\-]?\d+)?)|(true|false|null|NaN|-?Infinity))'
)


class Key(msgspec.Struct, frozen=True):
    """A key of a mapping."""

    name: str
    start: int
    end: int
    path: str


class Leaf(msgspec.Struct, frozen=True):
    """A value that holds no other values."""

    kind: LeafKind
    value: Any
    start: int
    end: int
    path: str


class Records(msgspec.Struct, frozen=True):
    """A list with the places of its items; `block` items are whole lines, others stand between commas."""

    path: str
    items: list[tuple[int, int]]
    block: bool = False
    nested: bool = False


class Structure(msgspec.Struct, frozen=True):
    """A document: its text and what stands where in it."""

    file: Encoded
    format: str
    keys: list[Key]
    leaves: list[Leaf]
    records: list[Records]

    @property
    def source(self) -> str:
        """The text."""
        return self.file.text

    def raw(self, found: Key | Leaf) -> str:
        """A key or a value as it is written."""
        return self.source[found.start : found.end]


def joined(path: str, key: str) -> str:
    """The path of what stands under a key."""
    return f"{path}.{key}" if path else key


# JSON


class _Frame(msgspec.Struct):
    path: str
    is_list: bool
    start: int = 0
    index: int = 0
    key: str | None = None
    items: list[tuple[int, int]] = []

    def below(self) -> str:
        return f"{self.path}[{self.index}]" if self.is_list else joined(self.path, self.key or "")


def load_json(content: bytes) -> Structure:
    """A JSON document."""
    file = decoded(content)
    try:
        json.loads(file.text)
    except json.JSONDecodeError as error:
        raise NotApplicable(f"the file cannot be read as JSON: {error.msg} at line {error.lineno}") from None
    except RecursionError:
        raise NotApplicable("the JSON is nested too deeply") from None
    keys: list[Key] = []
    leaves: list[Leaf] = []
    records: list[Records] = []
    stack: list[_Frame] = []

    def ended(start: int, end: int) -> None:
        if stack:
            stack[-1].items.append((start, end))

    for kind, raw, start, end in _tokens(file.text):
        top = stack[-1] if stack else None
        if kind == "mark":
            if raw in "{[":
                stack.append(_Frame(top.below() if top else "", raw == "[", start))
            elif raw in "}]":
                done = stack.pop()
                if done.is_list:
                    nested = any(file.text[at] in "{[" for at, _ in done.items)
                    records.append(Records(done.path, done.items, nested=nested))
                ended(done.start, end)
            elif raw == "," and top is not None:
                top.index, top.key = top.index + 1, None
            continue
        if top is not None and not top.is_list and top.key is None:
            top.key = json.loads(raw)
            keys.append(Key(top.key or "", start, end, top.below()))
            continue
        leaves.append(_json_leaf(kind, raw, start, end, top.below() if top else ""))
        ended(start, end)
    return Structure(file, "json", keys, leaves, records)


def _tokens(text: str) -> Iterator[tuple[str, str, int, int]]:
    at = 0
    while found := _TOKEN.match(text, at):
        at = found.end()
        group = found.lastindex or 1
        yield ("mark", "text", "number", "word")[group - 1], found[group], found.start(group), at


def _json_leaf(kind: str, raw: str, start: int, end: int, path: str) -> Leaf:
    value = json.loads(raw)
    leaf: LeafKind = "text"
    if kind == "number":
        leaf = "int" if isinstance(value, int) else "float"
    elif kind == "word":
        leaf = "bool" if isinstance(value, bool) else "null" if value is None else "other"
    return Leaf(leaf, value, start, end, path)


# YAML

_TAGS: dict[str, LeafKind] = {"str": "text", "int": "int", "float": "float", "bool": "bool", "null": "null"}


def load_yaml(content: bytes) -> Structure:
    """A YAML file of one document or several."""
    import yaml

    file = decoded(content)
    found = Structure(file, "yaml", [], [], [])
    try:
        documents = list(yaml.compose_all(file.text, Loader=yaml_loader()))
        for number, document in enumerate(documents):
            if document is not None:
                _Walk(found).visit(document, f"document {number + 1}: " if len(documents) > 1 else "")
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark is not None else ""
        raise NotApplicable(f"the file cannot be read as YAML: {getattr(error, 'problem', error)}{where}") from None
    except RecursionError:
        raise NotApplicable("the YAML is nested too deeply") from None
    if not found.keys and not found.records:
        raise NotApplicable("the file holds no mapping and no list, only a text")
    return found


def yaml_loader() -> Any:
    """The fast loader where there is one."""
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Walk:
    """Notes where the nodes of a YAML document stand; a node that others refer to is visited once."""

    def __init__(self, found: Structure) -> None:
        self._found = found
        self._text = found.source
        self._seen: set[int] = set()

    def visit(self, node: Any, path: str) -> None:
        if id(node) in self._seen:
            return
        self._seen.add(id(node))
        if node.id == "scalar":
            self._scalar(node, path)
        elif node.id == "sequence":
            spans = self._items(node)
            if spans:
                nested = any(item.id != "scalar" for item in node.value)
                self._found.records.append(Records(path, spans, not node.flow_style, nested))
            for i, item in enumerate(node.value):
                self.visit(item, f"{path}[{i}]")
        else:
            for key, value in node.value:
                name = str(key.value) if key.id == "scalar" else "?"
                below = f"{path}{name}" if not path or path.endswith(": ") else f"{path}.{name}"
                if key.id == "scalar" and key.tag.endswith(":str") and not self._dressed(key):
                    start, end = key.start_mark.index, key.end_mark.index
                    self._found.keys.append(Key(name, start, end, below))
                self.visit(value, below)

    def _dressed(self, node: Any) -> bool:
        """Whether a node carries an anchor or a tag, which must not be lost; or has no text of its own."""
        start = node.start_mark.index
        return bool(start == node.end_mark.index or self._text[start] in "&!*")

    def _scalar(self, node: Any, path: str) -> None:
        if self._dressed(node):
            return
        kind = _TAGS.get(node.tag.rpartition(":")[2], "other")
        self._found.leaves.append(Leaf(kind, node.value, node.start_mark.index, node.end_mark.index, path))

    def _items(self, node: Any) -> list[tuple[int, int]]:
        """The places of the items of a list, or none if it is written in a way that cannot be cut."""
        if node.flow_style:
            return [(item.start_mark.index, item.end_mark.index) for item in node.value]
        starts = []
        for item in node.value:
            dash = len(self._text[: item.start_mark.index].rstrip()) - 1
            line = self._text.rfind("\n", 0, dash + 1) + 1
            if self._text[dash : dash + 1] != "-" or self._text[line:dash].strip(" "):
                return []
            starts.append(line)
        end = node.end_mark.index
        while end and end < len(self._text) and self._text[end - 1] != "\n":
            end -= 1
        return list(zip(starts, [*starts[1:], self._trimmed(starts[-1], end)], strict=True)) if starts else []

    def _trimmed(self, start: int, end: int) -> int:
        """The end of the last item without the comments and blank lines that follow it."""
        lines = self._text[start:end].splitlines(keepends=True)
        while len(lines) > 1 and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
            end -= len(lines.pop())
        return end
