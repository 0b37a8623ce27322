"""The documents of an exploration: what its ledger holds beside outcomes, and the files that are copies of them.

What cannot be computed from outcomes (what was begun, what each round planned and when, what was believed after it) is
committed to the ledger as notes, each a JSON document with the name of its file. Earlier versions kept these in files
only.
"""

from __future__ import annotations

import msgspec

from ethogram.errors import Damaged
from ethogram.store import Run
from ethogram.store.lake import DOCUMENTS

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
