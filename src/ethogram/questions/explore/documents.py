"""The documents of an exploration: what its ledger holds beside outcomes, and the files that are copies of them.

What cannot be computed from outcomes (what was begun, what each round planned and when, what was believed after it) is
committed to the ledger as notes, each a JSON document with the name of its file. Earlier versions kept these in files
only.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from ethogram.errors import BadInput, Damaged, first_line
from ethogram.store import Run
from ethogram.store.lake import DOCUMENTS

from .grid import Grid, grid_from_columns

METADATA = "run_metadata.json"
PRE, PLAN, RESULTS, METRICS, POST = ROUND_FILES = (
    "round_pre.json",
    "active_sampling_plan.json",
    "agent_results.csv",
    "metrics.json",
    "round_post.json",
)
"""The files of a round in the order in which they are written; all but the results are documents."""
GRID, POSTERIORS, SUMMARY_CSV = TABLES = ("grid.npz", "beta_posteriors.npz", "summary.csv")
"""Files beside the rounds that are derived: from the metadata, from all outcomes, from all metrics."""


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A JSON document under the name of its file."""

    name: str
    content: msgspec.Raw


def held_documents(run: Run) -> dict[str, bytes]:
    """Documents that the ledger holds, compact, by name; of several with one name the last counts."""
    decoder = msgspec.json.Decoder(Document)
    found = {}
    for name, line in run.notes(DOCUMENTS):
        try:
            document = decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise Damaged(
                f"{name} of run {run.name!r} cannot be read; run: ethogram verify", where=f"{run.path}/{name}"
            ) from None
        found[document.name] = bytes(document.content)
    return found


def document_line(name: str, content: bytes) -> bytes:
    """A document as a line of a note."""
    return msgspec.json.encode(Document(name=name, content=msgspec.Raw(content)))


def compact_json(data: bytes) -> bytes | None:
    """JSON without spaces between its parts; None if it is none."""
    try:
        return msgspec.json.format(data, indent=-1)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def file_bytes(document: bytes) -> bytes:
    """A document as its file has it."""
    return msgspec.json.format(document) + b"\n"


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
