"""Arrow arrays from plain lists, by their buffers.

`pyarrow.array` imports pandas, if it is installed, to see whether a list is one of its objects; that costs a second
at every start. Columns here are lists of known types, so nothing needs to be guessed. numpy is imported on
use: a ledger is read without arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any


def column(values: Sequence[Any], kind: Any) -> Any:
    """An Arrow array of a type: strings, numbers, booleans, bytes of one length, or lists of these; None is null."""
    import numpy as np
    import pyarrow as pa

    flat = pa.types.is_primitive(kind) or pa.types.is_string(kind)
    if values and flat and values[0] == values[-1] and values.count(values[0]) == len(values):
        return _repeated(values[0], len(values), kind)
    missing = 0 if all(values) else values.count(None)  # the former is far faster, and often true
    if missing == len(values):
        return pa.nulls(len(values), kind)
    mask = None
    if missing:
        valid = np.array([v is not None for v in values])
        mask = pa.py_buffer(np.packbits(valid, bitorder="little"))
    if pa.types.is_string(kind):
        buffers = _strings(values)
    elif pa.types.is_fixed_size_binary(kind):
        empty = bytes(kind.byte_width)
        buffers = [pa.py_buffer(b"".join(empty if v is None else v for v in values))]
    elif pa.types.is_list(kind):
        inner = column(list(chain.from_iterable(filter(None, values))), kind.value_type)
        offsets = _offsets([0 if v is None else len(v) for v in values])
        return pa.Array.from_buffers(kind, len(values), [mask, pa.py_buffer(offsets)], children=[inner])
    elif pa.types.is_boolean(kind):
        bits = np.array([bool(v) for v in values])
        buffers = [pa.py_buffer(np.packbits(bits, bitorder="little"))]
    else:
        numbers = np.array([0 if v is None else v for v in values] if missing else values, _dtype(kind))
        buffers = [pa.py_buffer(numbers)]
    return pa.Array.from_buffers(kind, len(values), [mask, *buffers])


def plain_numbers(numbers: Any, absent: float) -> Any:
    """An Arrow column of numbers for numpy, with a number where it has none.

    Without `pa.scalar` and `to_numpy`, which import pandas where that is installed.
    """
    import numpy as np
    import pyarrow as pa

    whole = numbers.combine_chunks() if isinstance(numbers, pa.ChunkedArray) else numbers
    return np.from_dlpack(whole.fill_null(column([absent], whole.type)[0]) if whole.null_count else whole)


def text_scalar(text: str) -> Any:
    """A text as Arrow's functions take one; given a plain string, they import pandas."""
    import pyarrow as pa

    return column([text], pa.string())[0]


def indices(numbers: Any) -> Any:
    """Row numbers as Arrow takes them; `pyarrow.array` would import pandas."""
    import numpy as np
    import pyarrow as pa

    held = np.ascontiguousarray(numbers, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), held.size, [None, pa.py_buffer(held)])


def _repeated(value: Any, count: int, kind: Any) -> Any:
    """A column of one value, as many columns of a run are."""
    import numpy as np
    import pyarrow as pa

    if value is None:
        return pa.nulls(count, kind)
    if pa.types.is_string(kind):
        word = value.encode()
        buffers = [pa.py_buffer(_offsets([len(word)] * count)), pa.py_buffer(word * count)]
    elif pa.types.is_boolean(kind):
        buffers = [pa.py_buffer(np.packbits(np.full(count, value, dtype=bool), bitorder="little"))]
    else:
        buffers = [pa.py_buffer(np.full(count, value, dtype=_dtype(kind)))]
    return pa.Array.from_buffers(kind, count, [None, *buffers])


def _dtype(kind: Any) -> Any:
    import numpy as np

    return np.dtype(str(kind).replace("double", "float64"))


def arrow_table(columns: Mapping[str, Sequence[Any]], schema: Any) -> Any:
    """An Arrow table of columns by name."""
    import pyarrow as pa

    return pa.Table.from_arrays([column(columns[f.name], f.type) for f in schema], schema=schema)


def rows_table(rows: Sequence[dict[str, Any]], schema: Any) -> Any:
    """An Arrow table of rows."""
    return arrow_table({f.name: [row.get(f.name) for row in rows] for f in schema}, schema)


def _strings(values: Sequence[str | None]) -> list[Any]:
    import pyarrow as pa

    plain: Sequence[str] = values if all(values) else [v or "" for v in values]  # type: ignore[assignment]
    whole = "".join(plain)
    lengths = map(len, plain) if whole.isascii() else (len(v.encode()) for v in plain)
    return [pa.py_buffer(_offsets(list(lengths))), pa.py_buffer(whole.encode())]


def _offsets(lengths: Sequence[int]) -> Any:
    import numpy as np

    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(np.asarray(lengths, dtype=np.int64), out=offsets[1:])
    if offsets[-1] > np.iinfo(np.int32).max:
        raise OverflowError("a column of more than 2 GiB cannot be one Arrow array")
    return offsets.astype(np.int32)
