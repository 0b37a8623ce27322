"""Sealing: payloads are unreadable without their key, readable with it, and forgotten when it is dropped."""

from __future__ import annotations

import base64
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ethogram.errors import BadInput, BadUsage, NotFound, Sealed
from ethogram.questions.home.maintenance import drop_key, list_keys, new_key, rotate_keys
from ethogram.store import Home, Keyring, Lake, Redactor, RetentionRule, Run, retain_run, rewrite, verify_run
from ethogram.store.ledger_file import unpack
from ethogram.store.seal import KEY_BYTES, key_id

WORDS = "the quick brown fox jumps over the lazy dog"


def grep(home: Home, words: str) -> list[str]:
    """Names of files whose bytes hold the words, compressed or not, or whose Parquet columns do without a key."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    found = []
    for file in sorted(p for p in Path(home.files.address).rglob("*") if p.is_file()):
        if words.encode() in unpack(file.name, file.read_bytes()):
            found.append(file.name)
        elif file.suffix == ".parquet":
            try:
                table = pq.read_table(file)
            except (OSError, pa.ArrowException):
                continue
            if any(words in str(v) for column in table.columns for v in column.to_pylist()):
                found.append(file.name)
    return found


@pytest.fixture
def sealed(home: Home, keys: Keyring, plain: Redactor, write_trace: Any) -> Run:
    keys.new()
    run = home.create("run", "import")
    with run.writer(plain, window=None) as writer:
        for n in range(3):
            write_trace(writer, f"t{n}", words=f"{WORDS} {n}", label=f"because {WORDS}")
    return home.run("run")


def test_no_payload_is_readable_without_the_key(home: Home, sealed: Run) -> None:
    assert grep(home, WORDS) == []
    assert grep(home, "You are an agent") == []
    assert len(grep(home, "search")) >= 1  # names of tools are metadata, and stay open
    found = verify_run(sealed)
    assert (found.damaged, found.sealed_away, found.texts > 20) == ([], 0, True)


def test_without_sealing_the_same_words_are_found(home: Home, plain: Redactor, write_trace: Any) -> None:
    """So the search above would have found them."""
    run = home.create("run", "import")
    with run.writer(plain, window=None) as writer:
        write_trace(writer, "t", words=WORDS)
    assert [name.split("-")[0] for name in grep(home, WORDS)] == ["texts"]


def test_with_the_key_everything_reads(sealed: Run) -> None:
    trace = next(sealed.traces())
    assert WORDS in trace.messages[1].text
    assert WORDS in (trace.answer or "")
    lake = Lake([sealed])
    queries = {
        f"SELECT count(*) AS n FROM texts WHERE body LIKE '%{WORDS}%'": 30,
        f"SELECT count(*) AS n FROM texts WHERE ref = '{trace.head.answer}'": 1,
        "SELECT count(*) AS n FROM spans s JOIN texts t ON t.ref = s.result AND t.run = s.run": 9,
        "SELECT count(*) AS n FROM messages WHERE role = 'assistant'": 9,
        "SELECT count(*) AS n FROM (SELECT body FROM texts ORDER BY ref LIMIT 3)": 3,
    }
    for query, n in queries.items():
        (found,) = lake.sql(query).to_pylist()
        assert found["n"] == n if "LIKE" not in query else found["n"] > 20, query


def test_duckdb_alone_reads_a_segment_with_the_key(sealed: Run, keys: Keyring) -> None:
    """Readable without us: Parquet's own encryption, and any DuckDB that is given the key."""
    import duckdb

    (file,) = sealed.standing.named("texts-")
    assert file.key is not None
    with duckdb.connect() as connection:
        key = base64.b64encode(keys.get(file.key)).decode()
        connection.execute(f"PRAGMA add_parquet_key('k', '{key}')")
        path = sealed.files.url(f"{sealed.path}/{file.name}")
        query = f"SELECT body FROM read_parquet('{path}', encryption_config={{footer_key: 'k'}})"
        bodies = [row[0] for row in connection.execute(query).fetchall()]
    assert len(bodies) == file.rows
    assert any(WORDS in body for body in bodies)


def test_rotation_leaves_nothing_under_the_old_key(home: Home, sealed: Run, keys: Keyring) -> None:
    old = keys.active()
    before = [dict(t.texts) for t in sealed.traces()]
    listed = rotate_keys(home=home)
    assert listed.active != old
    assert listed.sealed_runs == {listed.active: ["run"]}
    drop_key(str(old), home=home)
    run = home.run("run")
    assert [dict(t.texts) for t in run.traces()] == before
    assert verify_run(run).ok
    assert grep(home, WORDS) == []


def test_dropping_a_key_is_forgetting(home: Home, sealed: Run, keys: Keyring, tmp_path: Path) -> None:
    key = str(keys.active())
    copy = keys.path.read_bytes()
    drop_key(key, home=home)
    run = home.run("run")
    entry = run.entries[0]
    trace = run.trace(entry)  # what is not a payload stays
    assert len(trace.steps) == 6
    assert entry.totals.model_calls == 3
    for ask in (lambda: trace.messages, lambda: trace.answer, lambda: dict(trace.texts)):
        with pytest.raises(Sealed, match=rf"sealed with key {key}, which is not in .*keys\.json nor in ETHOGRAM_KEY; "):
            ask()
    with pytest.raises(Sealed, match=rf"run 'run': the payloads are sealed with key {key}"):
        Lake([run]).sql("SELECT * FROM texts")
    assert Lake([run]).sql("SELECT count(*) AS n FROM spans").to_pylist() == [{"n": 21}]
    found = verify_run(run)
    assert (found.ok, found.sealed_away, found.texts, found.spans) == (True, 1, 0, 21)
    (file,) = run.standing.named("texts-")
    path = Path(home.files.address, run.path, file.name)
    data = path.read_bytes()
    path.write_bytes(data[:100] + bytes([data[100] ^ 1]) + data[101:])
    assert [p.where for p in verify_run(run).damaged] == [file.name]  # hashes are checked all the same
    path.write_bytes(data)
    keys.path.write_bytes(copy)  # the key comes back, and with it the words
    assert WORDS in next(home.run("run").traces()).messages[1].text


def test_a_run_without_its_key_can_still_be_cared_for(
    home: Home, sealed: Run, keys: Keyring, plain: Redactor, write_trace: Any
) -> None:
    """Retention and rotation keep what they cannot read as it is."""
    key, copy = str(keys.active()), keys.path.read_bytes()
    keys.drop(key)
    fresh = keys.new()
    with home.run("run").writer(plain, window=None) as writer:
        write_trace(writer, "late", words="fresh words")
    rewrite(home.run("run"))
    found = verify_run(home.run("run"))
    assert (found.damaged, found.leftovers, found.sealed_away, found.episodes) == ([], [], 1, 4)
    assert {f.key for f in home.run("run").standing.named("texts-")} == {key, fresh}
    now = home.run("run").entries[0].at_ns + 10**12
    done = retain_run(home.run("run"), RetentionRule(keep_all_s=1, sample=0.0), dry_run=False, now_ns=now)
    assert len(done.forgotten) == 4
    assert verify_run(home.run("run")).damaged == []
    assert home.run("run").standing.named("texts-") == []
    keys.path.write_bytes(copy)


def test_a_sealed_run_never_becomes_unsealed_by_the_way(home: Home, sealed: Run, keys: Keyring) -> None:
    """The active key was dropped, an older one is at hand: what it sealed is sealed again with it."""
    old = keys.active()
    keys.drop(keys.new())
    assert keys.active() is None
    rewrite(home.run("run"))
    assert grep(home, WORDS) == []
    assert {f.key for f in home.run("run").standing.named("texts-")} == {old}


def test_sealing_may_be_demanded_or_declined(home: Home, keys: Keyring, plain: Redactor, write_trace: Any) -> None:
    run = home.create("run", "import")
    with pytest.raises(BadUsage, match="there is no key to seal with; make one with: ethogram keys new"):
        run.writer(plain, seal=True)
    keys.new()
    with run.writer(plain, seal=False, window=None) as writer:
        write_trace(writer, "open", words=WORDS)
    assert grep(home, WORDS)
    assert {f.key for f in home.run("run").standing.files} == {None}


# -- keys ------------------------------------------------------------------------------------------------------------


def test_the_key_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "keys.json"
    before = os.umask(0)
    try:
        ring = Keyring(path, {})
        ring.new()
        path.chmod(0o644)
        ring.new()  # whatever it was before
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(ring.ids()) == 2
    assert [p.name for p in (tmp_path / "deep").glob("*.tmp")] == []


def test_keys_from_file_and_environment(tmp_path: Path, home: Home) -> None:
    path = tmp_path / "k.json"
    kept = Keyring(path, {}).new()
    key = os.urandom(KEY_BYTES)
    given = base64.b64encode(key).decode()
    ring = Keyring(path, {"ETHOGRAM_KEY": given + "\n"})
    assert ring.active() == key_id(key)  # the environment wins
    assert ring.ids() == sorted([kept, key_id(key)])
    assert ring.get(key_id(key)) == key
    assert len(ring.get(kept)) == KEY_BYTES
    assert Keyring(None, {"ETHOGRAM_KEYS": str(path)}).active() == kept
    assert Keyring(None, {"XDG_CONFIG_HOME": str(tmp_path)}).path == tmp_path / "ethogram" / "keys.json"


@pytest.mark.parametrize("text", ["x", "not base64!", base64.b64encode(b"short").decode(), "a" * 43, "é" * 44])
def test_a_malformed_key_in_the_environment(tmp_path: Path, text: str, plain: Redactor) -> None:
    ring = Keyring(tmp_path / "k.json", {"ETHOGRAM_KEY": text})
    for ask in (ring.active, ring.ids, lambda: ring.get("k-1")):
        with pytest.raises(BadInput, match="the key in ETHOGRAM_KEY is not base64 of 32 bytes; make one with") as told:
            ask()
        assert text not in str(told.value) or len(text) == 1


def test_a_wrong_key_opens_nothing(home: Home, sealed: Run, tmp_path: Path) -> None:
    other = base64.b64encode(b"w" * 32).decode()
    run = Home(home.files, Keyring(tmp_path / "none.json", {"ETHOGRAM_KEY": other})).run("run")
    with pytest.raises(Sealed, match="nor in ETHOGRAM_KEY"):
        next(run.traces()).messages  # noqa: B018
    # nor does it pass under the right name
    (file,) = sealed.standing.named("texts-")
    forged = tmp_path / "forged.json"
    forged.write_bytes(msgspec.json.encode({"keys": {file.key: other}, "active": file.key}))
    run = Home(home.files, Keyring(forged, {})).run("run")
    with pytest.raises(BadInput, match="holds another key under the name"):
        next(run.traces()).messages  # noqa: B018


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"keys": {"a": 1}}', b"\xff\xfe", b'{"keys": {"k-1": "zz"}}'])
def test_a_damaged_key_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "k.json"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"k\.json"):
        Keyring(path, {}).get("k-1")
    path.unlink()
    path.mkdir()
    with pytest.raises(BadInput, match=r"k\.json cannot be read: Is a directory"):
        Keyring(path, {}).ids()


def test_dropping_what_is_not_there(keys: Keyring) -> None:
    with pytest.raises(NotFound, match="no key named 'k-0'"):
        keys.drop("k-0")


def test_keys_made_at_once_are_all_kept(tmp_path: Path) -> None:
    """A key that is lost on the way takes the payloads that it sealed with it."""
    path = tmp_path / "k.json"
    made: list[str] = []
    threads = [threading.Thread(target=lambda: made.append(Keyring(path, {}).new()), daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    script = (
        "import sys; from pathlib import Path; from ethogram.store import Keyring;"
        "print(Keyring(Path(sys.argv[1]), {}).new())"
    )
    process = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True, timeout=120
    )
    for thread in threads:
        thread.join(timeout=60)
    assert Keyring(path, {}).ids() == sorted([*made, process.stdout.strip()])


def test_keys_are_listed_with_the_runs_they_seal(home: Home, sealed: Run, keys: Keyring) -> None:
    first = keys.active()
    listed = new_key(home=home)
    assert listed.sealed_runs == {first: ["run"]}
    assert len(listed.keys) == 2
    assert list_keys(home=home).active == keys.active() != first
