"""One suite for folders and object stores: what is published is whole, durable and listed in order."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ethogram.errors import BadUsage, EthogramError, NotFound
from ethogram.store.files import Files, LocalFiles, ObjectFiles, files_at

pytestmark = pytest.mark.xdist_group("s3")


@pytest.fixture(params=["local", "s3"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    if request.param == "local":
        return LocalFiles(tmp_path / "root")
    return files_at(request.getfixturevalue("s3_address"))


def test_what_is_published_is_read_back(files: Files) -> None:
    for data in (b"", b"x", bytes(range(256)) * 1000):
        files.publish("a/b/c.bin", data)
        assert files.read("a/b/c.bin") == data
        assert files.size("a/b/c.bin") == len(data)
    files.publish("a/b/view.bin", memoryview(b"12345")[1:4])
    assert files.read("a/b/view.bin") == b"234"


def test_more_than_one_part_of_an_upload(files: Files) -> None:
    data = os.urandom(1 << 20) * 12
    files.publish("big.bin", data)
    assert files.read("big.bin") == data


def test_names_are_sorted_and_hidden_ones_left_out(files: Files) -> None:
    for name in ("b.txt", "a.txt", "c/d.txt", "B.txt", ".hidden"):
        files.publish(f"folder/{name}", b"1")
    assert files.names("folder") == ["B.txt", "a.txt", "b.txt", "c"]
    assert files.names("") == ["folder"]
    assert files.names("nowhere") == []
    assert files.names("folder/a.txt") == []


def test_existence_of_files_and_folders(files: Files) -> None:
    files.publish("x/y.txt", b"1")
    assert files.exists("x/y.txt")
    assert files.exists("x")
    assert not files.exists("x/z.txt")
    assert not files.exists("y" * 5000)


def test_what_is_not_there_is_named(files: Files) -> None:
    for ask in (files.read, files.open, files.size):
        with pytest.raises(NotFound, match=r"no file at .*gone\.txt"):
            ask("gone.txt")
    files.delete("gone.txt")


def test_deleting_files_and_folders(files: Files) -> None:
    for name in ("a/1", "a/b/2", "a/b/c/3", "d"):
        files.publish(name, b"1")
    files.delete("a/b/2")
    assert files.names("a/b") == ["c"]
    files.delete("a")
    assert not files.exists("a/b/c/3")
    assert not files.exists("a/1")
    assert files.names("a") == []
    assert files.exists("d")


def test_arrow_reads_at_random(files: Files) -> None:
    files.publish("r.bin", b"0123456789")
    with files.open("r.bin") as file:
        file.seek(4)
        assert file.read(3) == b"456"
        assert file.size() == 10


def test_only_one_of_those_who_create_wins(files: Files) -> None:
    assert files.create("k/key", b"first", private=True)
    assert not files.create("k/key", b"second", private=True)
    assert files.read("k/key") == b"first"


def test_duckdb_reads_the_address(files: Files) -> None:
    import duckdb
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": [1, 2, 3]}), out)
    files.publish("t/x.parquet", memoryview(out.getvalue()))
    with duckdb.connect() as connection:
        if isinstance(files, ObjectFiles):
            connection.register_filesystem(files.fsspec_system())
        query = "SELECT sum(a), any_value(filename) FROM read_parquet(?, filename=true)"
        assert connection.execute(query, [files.url("t/x.parquet")]).fetchall() == [(6, files.url("t/x.parquet"))]


def test_a_reader_never_sees_half_a_file(files: Files) -> None:
    """While one file is replaced again and again, every reader sees one version or the other."""
    versions = [bytes([n]) * (1 << 18) for n in range(4)]
    files.publish("f", versions[0])
    stop = threading.Event()

    def replace() -> None:
        for n in range(1, 400):
            if stop.is_set():
                return
            files.publish("f", versions[n % 4])

    writer = threading.Thread(target=replace, daemon=True)
    writer.start()
    try:
        until = time.monotonic() + 0.7
        seen = set()
        while time.monotonic() < until:
            data = files.read("f")
            assert data in versions
            seen.add(data[0])
    finally:
        stop.set()
        writer.join(timeout=60)
    assert len(seen) > 1


# -- folders only --------------------------------------------------------------------------------------------------


def test_drafts_are_invisible_and_found(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    files.publish("d/a.txt", b"1")
    (tmp_path / "d" / ".b.txt.0123abcd.tmp").write_bytes(b"half")
    assert files.names("d") == ["a.txt"]
    assert files.drafts("d") == [".b.txt.0123abcd.tmp"]
    assert files.drafts("d", older_s=60) == []
    os.utime(tmp_path / "d" / ".b.txt.0123abcd.tmp", (1, 1))
    assert files.drafts("d", older_s=60) == [".b.txt.0123abcd.tmp"]


_TRACED = """
import sys
from pathlib import Path
from ethogram.store.files import LocalFiles
calls = []
def watch(event, args):
    if event in ("open", "os.rename", "os.link") and "runs" in str(args[0]):
        calls.append((event, str(args[0])))
sys.addaudithook(watch)
import os
sync = os.fsync
def fsync(descriptor):
    calls.append(("fsync", os.readlink(f"/proc/self/fd/{descriptor}")))
    sync(descriptor)
os.fsync = fsync
LocalFiles(Path(sys.argv[1])).publish("runs/r/f.txt", b"data")
for call in calls:
    print(*call)
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc to name what is synced")
def test_publishing_syncs_the_file_then_renames_then_syncs_every_folder_that_changed(tmp_path: Path) -> None:
    out = subprocess.run(
        [sys.executable, "-c", _TRACED, str(tmp_path)], capture_output=True, text=True, check=True, timeout=120
    )
    calls = [line.split(" ", 1) for line in out.stdout.splitlines()]
    synced = [i for i, (call, _) in enumerate(calls) if call == "fsync"]
    renamed = next(i for i, (call, _) in enumerate(calls) if call == "os.rename")
    draft = next(i for i in synced if calls[i][1].endswith(".tmp"))
    assert draft < renamed
    after = [calls[i][1] for i in synced if i > renamed]
    assert after == [str(tmp_path / "runs" / "r")]
    before = {calls[i][1] for i in synced if i < renamed}
    assert {str(tmp_path), str(tmp_path / "runs")} <= before


def test_a_failed_write_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    files.publish("a", b"old")
    (tmp_path / "folder").mkdir()
    with pytest.raises(EthogramError, match=r"cannot write .*folder: .*; everything committed before is safe") as told:
        files.publish("folder", b"new")
    assert isinstance(told.value.__cause__, OSError)
    with pytest.raises(EthogramError, match="cannot write"):
        files.publish("a/b", b"below a file")
    assert files.read("a") == b"old"
    assert sorted(os.listdir(tmp_path)) == ["a", "folder"]


_FULL = """
import resource, sys
from pathlib import Path
from ethogram.errors import EthogramError
from ethogram.store.files import LocalFiles
files = LocalFiles(Path(sys.argv[1]))
files.publish("a", b"x" * 1000)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
try:
    files.publish("a", b"y" * 10000)
except EthogramError as error:
    print(error.__cause__.errno, error)
"""


def test_a_file_that_does_not_fit(tmp_path: Path) -> None:
    out = subprocess.run(
        [sys.executable, "-c", _FULL, str(tmp_path)], capture_output=True, text=True, check=True, timeout=120
    )
    assert out.stdout.startswith(f"{errno.EFBIG} cannot write {tmp_path / 'a'}: File too large;")
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"x" * 1000


def test_private_files_are_for_the_owner_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)  # a folder that others may read, made by the user
    files = LocalFiles(tmp_path)
    before = os.umask(0)
    try:
        assert files.create("secret", b"1", private=True)
        assert files.create("open", b"1")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "open").stat().st_mode) == 0o644


def test_many_create_at_once_and_one_wins(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    won: list[int] = []
    start = threading.Barrier(8)

    def create(n: int) -> None:
        start.wait(timeout=60)
        if files.create("key", str(n).encode()):
            won.append(n)

    threads = [threading.Thread(target=create, args=(n,), daemon=True) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert [str(n).encode() for n in won] == [files.read("key")]
    assert os.listdir(tmp_path) == ["key"]


def test_a_folder_is_named_in_several_ways(tmp_path: Path) -> None:
    for address in (str(tmp_path), f"file://{tmp_path}"):
        files = files_at(address)
        assert isinstance(files, LocalFiles)
        assert files.root == tmp_path


# -- object stores only --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("s3://KEY-X:SECRET-X@bucket/p?nonsense=1", "nonsense"),
        ("s3://KEY-X:SECRET-X@not a bucket/p", "cannot use"),
        ("s3://", "name a bucket"),
        ("carrier-pigeon://KEY-X:SECRET-X@coop/7", "cannot use carrier-pigeon://coop/7"),
    ],
)
def test_a_bad_address_is_refused_without_telling_its_secrets(address: str, told: str) -> None:
    with pytest.raises(BadUsage, match=told) as error:
        files_at(address)
    assert "SECRET-X" not in str(error.value)
    assert "KEY-X" not in str(error.value)


def test_an_address_is_shown_without_its_secrets(s3_address: str) -> None:
    files = files_at(s3_address)
    assert files.address.startswith("s3://lake/")
    assert "OF-TEST" not in files.address
    assert "endpoint" not in files.address


def test_a_bucket_that_does_not_exist(s3_address: str) -> None:
    files = files_at(s3_address.replace("@lake/", "@nobody/"))
    with pytest.raises(EthogramError, match=r"cannot write s3://nobody/.*: .*; everything committed before is safe"):
        files.publish("a", b"1")
    with pytest.raises(NotFound):
        files.read("a")


def test_keys_may_come_from_the_environment(s3_address: str, tmp_path: Path) -> None:
    bare = s3_address.replace("KEY-OF-TEST:SECRET-OF-TEST@", "")
    script = (
        "import sys; from ethogram.store.files import files_at; f = files_at(sys.argv[1]);"
        "f.publish('a/b', b'from the environment'); print(f.read('a/b'), f.names('a'))"
    )
    environment: dict[str, Any] = {**os.environ, "AWS_ACCESS_KEY_ID": "K", "AWS_SECRET_ACCESS_KEY": "S"}
    started = time.monotonic()
    out = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, bare], capture_output=True, text=True, env=environment, timeout=60
    )
    assert (out.returncode, out.stderr) == (0, "")  # no warning and no hang when the process ends
    assert out.stdout == "b'from the environment' ['b']\n"
    assert time.monotonic() - started < 30
    assert files_at(s3_address).read("a/b") == b"from the environment"
