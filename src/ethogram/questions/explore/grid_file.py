"""`grid.npz`: a grid as arrays, an entry per point; ours, the first version's, or a user's own."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from ethogram.errors import BadInput, first_line

from .grid import Grid, grid_from_columns

GRID_JSON = "grid_json"
"""The entry of `grid.npz` that holds the grid with its constraints; files of other programs have none."""
ABOUT_GRID = ("grid_version", "n_points", "grid_digest", GRID_JSON)
"""Entries of `grid.npz` that are no parameters."""


def grid_of_file(data: bytes, where: str) -> Grid:
    """The grid of a `grid.npz`."""
    help_ = "write one array per parameter with numpy.savez, an entry per point"
    stored = arrays_of(data, where, help_)
    values = {name: array.tolist() for name, array in stored.items() if name not in ABOUT_GRID}
    if not values or any(stored[name].ndim != 1 or stored[name].dtype.kind not in "bifU" for name in values):
        raise BadInput(f"{where} is not a grid; {help_}", where=where)
    if GRID_JSON not in stored:
        return grid_from_columns(values, where)
    try:
        found = msgspec.json.decode(str(stored[GRID_JSON]), type=Grid)
    except msgspec.MsgspecError as error:
        raise BadInput(
            f"{GRID_JSON} of {where} cannot be read: {error}; remove the entry, or restore the file", where=where
        ) from None
    if not same_grid(stored, found):
        raise BadInput(
            f"the arrays of {where} are not the grid that its {GRID_JSON} describes; restore the file", where=where
        )
    return found


def same_grid(stored: Mapping[str, Any], grid: Grid) -> bool:
    """Whether a `grid.npz` holds this grid; one without a digest of ours is compared value by value."""
    levels = grid.levels()
    if any(p.name not in stored for p in grid.parameters):
        return False
    for d, p in enumerate(grid.parameters):
        mine, theirs = np.asarray(p.values)[levels[:, d]], np.asarray(stored[p.name])
        if mine.shape != theirs.shape:
            return False
        if mine.dtype.kind in "if" and theirs.dtype.kind in "if":
            if not np.allclose(mine, theirs, rtol=1e-6, atol=0):
                return False
        elif not np.array_equal(mine, theirs):
            return False
    return True


def arrays_of(data: bytes, where: str, help_: str) -> dict[str, Any]:
    """The arrays of a file of numpy's."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as found:
            return {key: found[key] for key in found.files}
    except Exception as error:  # zip and numpy raise many kinds
        told = first_line(error)
        raise BadInput(f"{where} cannot be read ({told}); {help_}", where=where) from None
