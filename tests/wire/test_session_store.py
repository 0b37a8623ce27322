"""Sessions that grow while they are stored: the last version says all that was known at the end."""

from __future__ import annotations

from pathlib import Path

from ethogram.store import open_home
from ethogram.wire.session_store import SessionStore


def test_what_is_known_only_after_the_last_span_is_stored(tmp_path: Path) -> None:
    """The thread of the store may have written every span before the session ends."""
    home = open_home(str(tmp_path))
    store = SessionStore(home, "sessions", "mcp")
    session = store.session("shop")
    session.record.tool("stock", lambda item: "12", item="pear")
    assert session.store()
    assert not session.store(), "nothing is new"
    session.trace.agent, session.trace.answer = "shopper", "12 pears"
    session.trace.meta["deviation"] = "none"
    store.end(session)
    store.close()
    (trace,) = home.run("sessions").traces()
    assert (trace.head.agent, trace.answer, trace.head.meta["deviation"]) == ("shopper", "12 pears", "none")
    assert [span.name for span in trace.steps] == ["stock"]
