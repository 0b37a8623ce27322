"""Operators on tables: damage that happens between an export and its reader."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from decimal import Decimal
from itertools import combinations
from typing import Any

from .csvfile import CsvTable
from .figures import WrittenNumber
from .operator import Change, Dice, FileOperator, NotApplicable, Notes, count_of
from .sheet import Column, Edit, SheetRow, Table
from .words import corrupted
from .xlsx import XlsxTable

LOADERS: dict[str, Callable[[bytes], Table]] = {"csv": CsvTable, "xlsx": XlsxTable}

Pick = Callable[[SheetRow], bool]


def _picker(table: Table, dice: Dice, test: Pick, full: float = 1.0) -> Pick:
    """Whether a row is changed: a share of those that pass a test. Rows must be asked for once each, in order."""
    if full * dice.intensity >= 1:
        return test
    drawn = iter(dice.chosen(table.count(test), full))
    return lambda row: test(row) and bool(next(drawn))


def _where(table: Table, row: int, column: Column) -> str:
    return f"{table.place}{table.row_name(row)}, column {column.name}"


# column_swap


def _find_pairs(table: Table) -> list[tuple[Column, Column]]:
    if len(table.columns) < 2:
        raise NotApplicable("the table has a single column")
    pairs = [
        (a, b) for a, b in combinations(table.columns, 2) if any(_differ(table, row, a, b) for row in table.sample)
    ]
    if not pairs:
        raise NotApplicable("no two columns of the table differ in what they hold")
    return pairs


def _differ(table: Table, row: SheetRow, a: Column, b: Column) -> bool:
    if max(a.index, b.index) >= len(row):
        return False
    one, two = row[a.index], row[b.index]
    return not (table.fixed(one) or table.fixed(two)) and table.text(one) != table.text(two)


def _column_swap(table: Table, pairs: list[tuple[Column, Column]], dice: Dice) -> Change:
    alike = [(a, b) for a, b in pairs if a.numeric == b.numeric]
    a, b = dice.rng("columns").choice(alike or pairs)
    pick, notes = _picker(table, dice, lambda row: _differ(table, row, a, b)), Notes()

    def change(number: int, row: SheetRow) -> SheetRow:
        if pick(row):
            if notes.full:
                notes.count()
            else:
                old, new = table.text(row[a.index]), table.text(row[b.index])
                notes.add(f"{table.place}{table.row_name(number)}, columns {a.name} and {b.name}", old, new)
            row[a.index], row[b.index] = row[b.index], row[a.index]
        return row

    content = table.rewrite(Edit(row=change))
    return notes.change(content, f"columns {a.name} and {b.name} swapped in {count_of(notes.places, 'row')}")


# label_corrupt


def _find_labels(table: Table) -> list[Column]:
    if not table.header:
        raise NotApplicable("the table has no header row")
    return [column for column in table.columns if column.label]


def _label_corrupt(table: Table, columns: list[Column], dice: Dice) -> Change:
    notes = Notes()
    taken = {column.label for column in columns}
    new: dict[int, str] = {}
    for pick in dice.picks(len(columns), 0.5):
        column = columns[pick]
        new[column.index] = corrupted(column.label, dice.rng(f"label {column.index}"), taken)
        taken.add(new[column.index])
        notes.add(f"{table.place}header of column {column.name}", column.label, new[column.index])

    def change(row: SheetRow) -> SheetRow:
        return [table.written(cell, new[i]) if i in new else cell for i, cell in enumerate(row)]

    return notes.change(table.rewrite(Edit(header=change)), f"{count_of(len(new), 'label')} corrupted")


# data_type_corrupt

TYPE_FORMS = ("~{}", "{} (est.)", "about {}", "{}?", "<{}", "{} units")


def _find_numeric(table: Table) -> list[Column]:
    found = [column for column in table.columns if column.numeric]
    if not found:
        raise NotApplicable("no column of the table holds numbers")
    return found


def _holds_number(table: Table, column: Column) -> Pick:
    def test(row: SheetRow) -> bool:
        cell = row[column.index] if column.index < len(row) else None
        return cell is not None and not table.fixed(cell) and table.is_number(cell)

    return test


def _data_type_corrupt(table: Table, columns: list[Column], dice: Dice) -> Change:
    column = dice.rng("column").choice(columns)
    pick, notes = _picker(table, dice, _holds_number(table, column), 0.5), Notes()
    form = dice.rng("form").choice(TYPE_FORMS)

    def change(number: int, row: SheetRow) -> SheetRow:
        if pick(row):
            cell = row[column.index]
            old = table.text(cell)
            new = form.format(old.strip())
            row[column.index] = table.written(cell, new)
            notes.add("" if notes.full else _where(table, number, column), old, new)
        return row

    content = table.rewrite(Edit(row=change))
    return notes.change(content, f"{count_of(notes.places, 'number')} of column {column.name} turned into text")


# row_duplicate


def _find_rows(table: Table) -> int:
    return table.rows


def _row_duplicate(table: Table, rows: int, dice: Dice) -> Change:
    copied, notes = dice.chosen(rows, 0.25), Notes()

    def look(number: int, row: SheetRow) -> SheetRow:
        if copied[number]:
            if notes.full:
                notes.count()
            else:
                text = ", ".join(table.text(cell) for cell in row)
                notes.add(f"{table.place}{table.row_name(number)}", text, f"{text} (twice)")
        return row

    content = table.rewrite(Edit(row=look, copied=copied))
    return notes.change(content, f"{count_of(notes.places, 'row')} duplicated")


# irrelevant_columns

POOL = 500
"""At most this number of different values per column; drawing from them is fast."""

_NAMES = ("A. Novak", "J. Lind", "M. Costa", "P. Ito", "R. Osei", "S. Weber", "T. Kaya", "V. Duarte")
IRRELEVANT: dict[str, Callable[[random.Random], str]] = {
    "batch_ref": lambda rng: f"{rng.choice('KLMNPR')}{rng.choice('ABCDEF')}-{rng.randrange(1000, 10000)}",
    "entered_by": lambda rng: rng.choice(_NAMES),
    "shelf_colour": lambda rng: rng.choice(("amber", "blue", "green", "grey", "red", "white")),
    "sync_flag": lambda rng: rng.choice(("Y", "N")),
    "form_version": lambda rng: f"v{rng.randrange(1, 5)}.{rng.randrange(10)}",
    "queue_slot": lambda rng: f"{rng.choice('ABCD')}{rng.randrange(1, 40)}",
    "checksum": lambda rng: f"{rng.randrange(16**6):06x}",
}


def _irrelevant_columns(table: Table, _: int, dice: Dice) -> Change:
    used = {column.label for column in table.columns}
    names = [name for name in IRRELEVANT if name not in used] or ["extra_ref"]
    dice.rng("columns").shuffle(names)
    most = min(len(names), max(1, len(table.columns)), 5)
    names = names[: max(1, round(most * dice.intensity))]
    width, notes = len(table.columns), Notes()
    pools: list[tuple[SheetRow, Callable[[], float]]] = []
    size = min(POOL, 2 * table.rows)
    for name in names:
        make, rng = IRRELEVANT.get(name, IRRELEVANT["batch_ref"]), dice.rng(f"column {name}")
        pools.append(([table.written(table.blank(), make(rng)) for _ in range(size)], rng.random))

    def wider(row: SheetRow, cells: SheetRow) -> SheetRow:
        row += [table.blank()] * (width - len(row))
        return row + cells

    def head(row: SheetRow) -> SheetRow:
        return wider(row, [table.written(table.blank(), name) for name in names])

    def change(number: int, row: SheetRow) -> SheetRow:
        return wider(row, [pool[int(draw() * size)] for pool, draw in pools])

    for name in names:
        notes.add(f"{table.place}to the right of column {table.columns[-1].name}", "", f"column {name}")
    return notes.change(
        table.rewrite(Edit(header=head, row=change)),
        f"{count_of(len(names), 'irrelevant column')} added: {', '.join(names)}",
    )


# unit_change

UNITS: dict[str, tuple[tuple[str, str], ...]] = {
    "kg": (("g", "1000"), ("lb", "2.20462")),
    "g": (("kg", "0.001"), ("mg", "1000")),
    "lb": (("kg", "0.453592"),),
    "t": (("kg", "1000"),),
    "km": (("m", "1000"), ("mi", "0.621371")),
    "m": (("cm", "100"), ("ft", "3.28084")),
    "cm": (("m", "0.01"), ("mm", "10")),
    "mm": (("cm", "0.1"),),
    "mi": (("km", "1.60934"),),
    "l": (("ml", "1000"),),
    "ml": (("l", "0.001"),),
    "h": (("min", "60"),),
    "hours": (("min", "60"),),
    "min": (("s", "60"),),
    "minutes": (("s", "60"),),
    "s": (("ms", "1000"),),
    "seconds": (("ms", "1000"),),
    "ms": (("s", "0.001"),),
    "usd": (("cents", "100"), ("thousands of USD", "0.001")),
    "eur": (("cents", "100"), ("thousands of EUR", "0.001")),
    "gbp": (("pence", "100"), ("thousands of GBP", "0.001")),
    "price": (("cents", "100"), ("thousands", "0.001")),
    "%": (("fractions", "0.01"),),
    "percent": (("fractions", "0.01"),),
}
UNNAMED = (("thousandths", "1000"), ("thousands", "0.001"), ("hundredths", "100"))


def _find_measured(table: Table) -> list[Column]:
    numeric = _find_numeric(table)
    measured = [c for c in numeric if not c.identifies and any(_scalable(table, row, c) for row in table.sample)]
    if not measured:
        names = ", ".join(column.name for column in numeric)
        raise NotApplicable(f"no column of the table holds measured numbers ({names}: identifiers, dates or zeros)")
    return measured


def _scalable(table: Table, row: SheetRow, column: Column) -> WrittenNumber | None:
    cell = row[column.index] if column.index < len(row) else None
    number = None if cell is None or table.fixed(cell) else table.number(cell)
    return number if number is not None and number.value and not number.padded else None


def _units(column: Column) -> tuple[tuple[str, str], ...]:
    words = re.findall(r"%|[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", column.label).lower())
    return next((UNITS[word] for word in reversed(words) if word in UNITS), UNNAMED)


def rescaled(number: WrittenNumber, factor: Decimal) -> str:
    """A number in another unit, with as many decimals as tell the difference."""
    value = number.value * factor
    if len(factor.normalize().as_tuple().digits) > 1:  # a conversion, not a shift of the decimal point
        short = round(value, max(number.decimals, 2))
        value = short if short and short != number.value else value
    elif factor > 1:
        # with a decimal comma, 1.200 without decimals could be read either way
        places = number.decimals if number.comma else max(number.decimals - len(str(factor)) + 1, 0)
        value = round(value, places)
    return number.write(value)


def _unit_change(table: Table, columns: list[Column], dice: Dice) -> Change:
    column = dice.rng("column").choice(columns)
    unit, factor = dice.rng("unit").choice(_units(column))
    scale, notes = Decimal(factor), Notes()
    found: WrittenNumber | None = None

    def test(row: SheetRow) -> bool:
        nonlocal found
        found = _scalable(table, row, column)
        return found is not None

    pick = _picker(table, dice, test)

    def change(number: int, row: SheetRow) -> SheetRow:
        if pick(row):
            cell = row[column.index]
            assert found is not None
            new = rescaled(found, scale)
            notes.add("" if notes.full else _where(table, number, column), table.text(cell), new)
            row[column.index] = table.with_number(cell, new)
        return row

    content = table.rewrite(Edit(row=change))
    return notes.change(
        content, f"{count_of(notes.places, 'number')} of column {column.name} given in {unit} (× {factor})"
    )


# null_content


def _filled(table: Table) -> Pick:
    return lambda row: any(table.text(cell).strip() for cell in row)


def _find_filled(table: Table) -> int:
    if not any(_filled(table)(row) for row in table.sample):
        raise NotApplicable("the cells of the table are empty already")
    return table.rows


def _null_content(table: Table, _: int, dice: Dice) -> Change:
    pick, notes = _picker(table, dice, _filled(table)), Notes()

    def change(number: int, row: SheetRow) -> SheetRow:
        if not pick(row):
            return row
        if notes.full:
            notes.count()
        else:
            notes.add(f"{table.place}{table.row_name(number)}", ", ".join(map(table.text, row)), "")
        return [table.emptied(cell) for cell in row]

    content = table.rewrite(Edit(row=change))
    return notes.change(content, f"{count_of(notes.places, 'row')} emptied")


def _operator(name: str, does: str, dose: str, find: Callable[[Table], Any], edit: Any) -> FileOperator[Table, Any]:
    return FileOperator(name, "table", does, dose, LOADERS, find, edit)


OPERATORS: tuple[FileOperator[Table, Any], ...] = (
    _operator(
        "column_swap",
        "the cells of two columns change places; the header stays",
        "every row",
        _find_pairs,
        _column_swap,
    ),
    _operator("label_corrupt", "labels of the header are misspelt", "half of the labels", _find_labels, _label_corrupt),
    _operator(
        "data_type_corrupt",
        "numbers of one column become text",
        "half of the column's numbers",
        _find_numeric,
        _data_type_corrupt,
    ),
    _operator("row_duplicate", "rows are there twice", "a quarter of the rows", _find_rows, _row_duplicate),
    _operator(
        "irrelevant_columns",
        "columns that mean nothing are added at the right",
        "as many as there are, at most five",
        _find_rows,
        _irrelevant_columns,
    ),
    _operator(
        "unit_change",
        "numbers of one column are given in another unit; the header does not say so",
        "every number of the column",
        _find_measured,
        _unit_change,
    ),
    _operator("null_content", "cells are emptied; the header stays", "every row", _find_filled, _null_content),
)
