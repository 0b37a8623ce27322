"""Attributes of one span, in one spelling: flat dotted keys. What is taken out is consumed, the rest remains."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ethogram.capture.parse import as_float, as_int

_ROOTS = frozenset(
    [
        "agent",
        "ai",
        "annotations",
        "embedding",
        "evaluations",
        "exception",
        "gen_ai",
        "graph",
        "input",
        "llm",
        "openinference",
        "output",
        "reranker",
        "retrieval",
        "session",
        "tool",
        "tool_call",
        "traceloop",
        "user",
    ]
)
_WHOLE = frozenset(
    ["arguments", "invocation_parameters", "json_schema", "metadata", "parameters", "value", "variables", "vector"]
)
"""Keys whose value is data of the user, never a level of the key."""


REMEMBERED_SHAPES = 1000
_DIGIT = re.compile(r"\.[0-9]")
_NUMBERED = re.compile(r"(.+?)\.([0-9]+)(?:\.|$)", re.DOTALL)


class Shape(dict[str | frozenset[str], bool]):
    """What the names of some attributes tell: asked once for all spans that have the same names.

    `has` says whether one of some names is among them, or any that begins with a prefix; a dozen times for each span,
    which is why it is the look into a dictionary itself.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        """`names` are those of one span, flat, in their order."""
        super().__init__()
        self.names = frozenset(names)
        self.lists = _lists(names)

    has = dict.__getitem__

    def __missing__(self, what: str | frozenset[str]) -> bool:
        under = isinstance(what, str) and any(name.startswith(what) for name in self.names)
        found = self[what] = under if isinstance(what, str) else not what.isdisjoint(self.names)
        return found


class _Shapes(dict[tuple[str, ...], Shape]):
    """Shapes by their names; a source has a few, and one that has very many gains nothing by them."""

    def __missing__(self, names: tuple[str, ...]) -> Shape:
        if len(self) >= REMEMBERED_SHAPES:
            self.clear()
        self[names] = shape = Shape(names)
        return shape


_shapes = _Shapes()


class Bag:
    """Takes attributes out by any of their names. `shape` tells which came with the span, taken ones included."""

    def __init__(self, attributes: dict[str, Any]) -> None:
        """Nested attributes are flattened."""
        self.rest = flat(attributes)
        self.shape = _shapes[tuple(self.rest)]

    def __contains__(self, key: str) -> bool:
        return self.rest.get(key) is not None

    def add(self, attributes: dict[str, Any]) -> None:
        """More attributes, from beside the span; its own win."""
        self.rest = {**attributes, **self.rest}
        self.shape = _shapes[tuple(self.rest)]

    def take(self, *keys: str) -> Any:
        """The value of the first name that has one; other names are consumed too if they say the same."""
        found: Any = None
        if self.rest.keys().isdisjoint(keys):  # as it is for most names of most spans
            return found
        for key in keys:
            value = self.rest.get(key)
            if value is None or value == "":
                continue
            if found is None:
                found = value
            if value == found:
                del self.rest[key]
        return found

    def take_int(self, *keys: str) -> int | None:
        """A count; what is no number stays where it was."""
        found: int | None = None
        for key in keys:
            value = as_int(self.rest[key]) if key in self.rest else None
            if value is not None and (found is None or value == found):
                found = value
                del self.rest[key]
        return found

    def take_float(self, *keys: str) -> float | None:
        """A number; what is none stays where it was."""
        found: float | None = None
        if self.rest.keys().isdisjoint(keys):
            return found
        for key in keys:
            value = as_float(self.rest[key]) if key in self.rest else None
            if value is not None and (found is None or value == found):
                found = value
                del self.rest[key]
        return found

    def under(self, prefix: str) -> dict[str, Any]:
        """All attributes below a prefix, by the rest of their key."""
        if not self.shape.has(prefix):
            return {}
        keys = [k for k in self.rest if k.startswith(prefix)]
        return {key[len(prefix) :]: self.rest.pop(key) for key in keys}

    def indexed(self, prefix: str) -> list[Any]:
        """`prefix.0.…`, `prefix.1.…` as a list of nested values, in the order of the numbers."""
        if prefix not in self.shape.lists:
            return []
        found: dict[int, dict[str, Any]] = {}
        for key, number, tail in self.shape.lists[prefix]:
            if key in self.rest:
                found.setdefault(number, {})[tail] = self.rest.pop(key)
        return [nest(found[i].items()) for i in sorted(found)]


def _lists(keys: Iterable[str]) -> dict[str, list[tuple[str, int, str]]]:
    """Keys with a number in them, by what stands before it, each with the number and what stands behind it.

    Most spans have none, and a dozen prefixes are asked for: one look serves all of them.
    """
    found: dict[str, list[tuple[str, int, str]]] = {}
    for key in keys:
        if _DIGIT.search(key) is not None and (match := _NUMBERED.match(key)) is not None:
            found.setdefault(match[1], []).append((key, int(match[2]), key[match.end() :]))
    return found


def flat(attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes with dotted keys, whether they came nested (`{"llm": {"model_name": …}}`) or flat."""
    if _ROOTS.isdisjoint(attributes):
        return attributes.copy()
    result: dict[str, Any] = {}
    for key, value in attributes.items():
        if key in _ROOTS and isinstance(value, dict | list):
            _flatten(key, value, result, lists=key != "gen_ai")
        else:
            result[key] = value
    return result


def _flatten(prefix: str, value: Any, result: dict[str, Any], *, lists: bool) -> None:
    if isinstance(value, dict) and value and prefix.rpartition(".")[2] not in _WHOLE:
        for key, inner in value.items():
            _flatten(f"{prefix}.{key}", inner, result, lists=lists)
    elif lists and isinstance(value, list) and value and all(isinstance(v, dict) for v in value):
        for i, inner in enumerate(value):
            _flatten(f"{prefix}.{i}", inner, result, lists=lists)
    else:
        result[prefix] = value


def nest(pairs: Iterable[tuple[str, Any]]) -> Any:
    """Dotted keys as nested objects; objects whose keys are all numbers become lists."""
    tree: dict[str, Any] = {}
    for key, value in pairs:
        if key == "":
            return value
        node = tree
        *above, last = key.split(".")
        for part in above:
            inner = node.get(part)
            if not isinstance(inner, dict):
                inner = node[part] = {}
            node = inner
        node[last] = value
    return _as_lists(tree)


def _as_lists(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    if node and all(k.isascii() and k.isdigit() for k in node):
        return [_as_lists(node[k]) for k in sorted(node, key=int)]
    return {k: _as_lists(v) for k, v in node.items()}
