"""Operators on JSON and YAML: changes that a producer of data may make."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Collection
from typing import Any

from .operator import Change, Dice, FileOperator, NotApplicable, Notes, count_of, splice
from .structure import Key, Leaf, Records, Structure, load_json, load_yaml, yaml_loader
from .words import corrupted, digit_changed

LOADERS: dict[str, Callable[[bytes], Structure]] = {"json": load_json, "yaml": load_yaml}


def _finished(document: Structure, edits: list[tuple[int, int, str]], notes: Notes, summary: str) -> Change:
    """The document with its edits, if it is still one."""
    text = splice(document.source, edits)
    if document.format == "yaml":
        import yaml

        try:
            for _ in yaml.compose_all(text, Loader=yaml_loader()):
                pass
        except yaml.YAMLError:
            raise NotApplicable("the YAML is written in a way that cannot be changed in place") from None
    return notes.change(document.file.encode(text), summary)


def _written(document: Structure, text: str, raw: str) -> str:
    """A text in the style of the one that it replaces."""
    if document.format == "json" or raw.startswith('"'):
        return json.dumps(text, ensure_ascii=raw.isascii())
    if raw.startswith("'"):
        return "'" + text.replace("'", "''") + "'"
    return text if _is_plain(text) else json.dumps(text, ensure_ascii=raw.isascii())


def _is_plain(text: str) -> bool:
    """Whether YAML reads a bare text as that text."""
    import yaml

    try:
        return bool(yaml.load(f"[{text}]", Loader=yaml_loader()) == [text]) and ": " not in text and "\n" not in text  # noqa: S506
    except (yaml.YAMLError, ValueError):
        return False


# key_rename


def _find_keys(document: Structure) -> dict[str, list[Key]]:
    found: dict[str, list[Key]] = {}
    for key in document.keys:
        if key.name and key.name != "<<":
            found.setdefault(key.name, []).append(key)
    if not found:
        raise NotApplicable("the document has no keys")
    return found


def renamed(name: str, rng: random.Random, taken: Collection[str]) -> str:
    """Another name for the same thing, as a new version of a schema might have."""
    words = [w for w in re.split(r"[_\-\s]+|(?<=[a-z])(?=[A-Z])", name) if w]
    first = "".join(w if i == 0 else w[:1].upper() + w[1:] for i, w in enumerate(words))
    ways = [
        first,
        "_".join(w.lower() for w in words),
        re.sub(r"(?<=\w)[aeiou]", "", name),
        f"{name}_value",
        f"new_{name}",
        f"{name}_v2",
    ]
    ways = [way for way in ways if way and way != name and way not in taken and len(way) > 1]
    return rng.choice(ways) if ways else corrupted(name, rng, taken)


def _key_rename(document: Structure, found: dict[str, list[Key]], dice: Dice) -> Change:
    names, notes, edits = list(found), Notes(), []
    taken = set(names)
    picks = dice.picks(len(names), 0.25)
    for pick in picks:
        name = names[pick]
        new = renamed(name, dice.rng(f"key {name}"), taken)
        taken.add(new)
        for key in found[name]:
            edits.append((key.start, key.end, _written(document, new, document.raw(key))))
            notes.add(key.path, name, new)
    return _finished(
        document, edits, notes, f"{count_of(len(picks), 'key')} renamed, {count_of(notes.places, 'place')}"
    )


# value_corrupt


def _find_values(document: Structure) -> list[Leaf]:
    found = [leaf for leaf in document.leaves if _corruptible(document, leaf)]
    if not found:
        raise NotApplicable("the document has no value that could be corrupted")
    return found


def _corruptible(document: Structure, leaf: Leaf) -> bool:
    raw = document.raw(leaf)
    if leaf.kind in ("int", "float"):
        return re.fullmatch(r"[+\-]?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+\-]?\d+)?", raw) is not None
    if leaf.kind == "bool":
        return raw.lower() in ("true", "false")
    return leaf.kind == "text" and bool(leaf.value.strip()) and "\n" not in raw


def corrupted_value(document: Structure, leaf: Leaf, rng: random.Random) -> str:
    """Another value of the same type, as it is written."""
    raw = document.raw(leaf)
    if leaf.kind in ("int", "float"):
        digits = re.match(r"[+\-]?[\d.]+", raw)
        assert digits is not None
        return digit_changed(digits[0], rng) + raw[digits.end() :]
    if leaf.kind == "bool":
        new = "false" if raw.lower() == "true" else "true"
        return new.upper() if raw.isupper() else new.capitalize() if raw[0].isupper() else new
    text = leaf.value
    numbers = any("0" <= c <= "9" for c in text)
    new = digit_changed(text, rng) if numbers and not any(c.isalpha() for c in text) else corrupted(text, rng)
    return _written(document, new, raw)


def _value_corrupt(document: Structure, leaves: list[Leaf], dice: Dice) -> Change:
    notes, edits = Notes(), []
    for pick in dice.picks(len(leaves), 0.25):
        leaf = leaves[pick]
        new = corrupted_value(document, leaf, dice.rng(f"value {pick}"))
        edits.append((leaf.start, leaf.end, new))
        notes.add(leaf.path or "the document", document.raw(leaf), new)
    return _finished(document, edits, notes, f"{count_of(notes.places, 'value')} corrupted")


# record_drop


def _find_records(document: Structure) -> Records:
    lists = [records for records in document.records if len(records.items) > 1]
    if not lists:
        raise NotApplicable("the document has no list of two records or more")
    return max(lists, key=lambda records: (records.nested, len(records.items)))


def _record_drop(document: Structure, records: Records, dice: Dice) -> Change:
    items, source, notes = records.items, document.source, Notes()
    gone = dice.chosen(len(items), 1 / 3, most=len(items) - 1)
    for i, (start, end) in enumerate(items):
        if gone[i]:
            notes.add(f"{records.path}[{i}]", source[start:end], "")
    if records.block:
        edits = [(start, end, "") for i, (start, end) in enumerate(items) if gone[i]]
    else:
        kept = [i for i in range(len(items)) if not gone[i]]
        # what stands between two items (a comma, a new line) goes with the second of them
        parts = [source[slice(*items[kept[0]])]]
        parts += [source[items[i - 1][1] : items[i][1]] for i in kept[1:]]
        edits = [(items[0][0], items[-1][1], "".join(parts))]
    where = f" of {records.path}" if records.path else ""
    return _finished(document, edits, notes, f"{count_of(notes.places, 'record')}{where} dropped")


# null_content


def _find_filled(document: Structure) -> list[Leaf]:
    found = [leaf for leaf in document.leaves if leaf.kind != "null"]
    if not found:
        raise NotApplicable("the document has no values")
    return found


def _null_content(document: Structure, leaves: list[Leaf], dice: Dice) -> Change:
    notes, edits = Notes(), []
    for pick in dice.picks(len(leaves)):
        leaf = leaves[pick]
        raw = document.raw(leaf)
        edits.append((leaf.start, leaf.end, "null\n" if raw.endswith("\n") else "null"))
        notes.add(leaf.path or "the document", raw, "null")
    return _finished(document, edits, notes, f"{count_of(notes.places, 'value')} set to null")


def _operator(
    name: str, does: str, dose: str, find: Callable[[Structure], Any], edit: Any
) -> FileOperator[Structure, Any]:
    return FileOperator(name, "data", does, dose, LOADERS, find, edit)


OPERATORS: tuple[FileOperator[Structure, Any], ...] = (
    _operator(
        "key_rename", "keys have another name, wherever they appear", "a quarter of the names", _find_keys, _key_rename
    ),
    _operator(
        "value_corrupt",
        "values are wrong but of the same type",
        "a quarter of the values",
        _find_values,
        _value_corrupt,
    ),
    _operator(
        "record_drop",
        "items of the longest list of records are missing",
        "a third of them",
        _find_records,
        _record_drop,
    ),
    _operator("null_content", "values are null", "every value", _find_filled, _null_content),
)
