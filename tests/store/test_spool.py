"""Groups of lines that survive a crash: whole or not at all, in order, until they are released."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ethogram.errors import BadUsage
from ethogram.store.spool import Spool

GROUPS = [[b'["span","a",{}]\n', b'["span","b",{"x":1}]\n'], [b'["event","a","",{}]\n']]


def kept(folder: Path, *groups: list[bytes], **settings: int) -> list[int]:
    spool = Spool(folder, **settings)
    positions = [spool.add(group) for group in groups]
    spool.close()
    return positions


def test_lines_come_back_where_they_were_put(tmp_path: Path) -> None:
    positions = kept(tmp_path / "s", *GROUPS)
    spool = Spool(tmp_path / "s")
    lines = list(spool.lines())
    assert [line.data for line in lines] == [line for group in GROUPS for line in group]
    assert [lines[0].position, lines[2].position] == positions
    assert spool.read(lines[1].position, len(GROUPS[0][1])) == GROUPS[0][1]
    assert spool.add([b"[]\n"]) > lines[2].position, "positions only grow"
    spool.close()


def test_a_group_is_there_whole_or_not_at_all_wherever_the_file_is_cut(tmp_path: Path) -> None:
    kept(tmp_path / "s", *GROUPS)
    (path,) = (tmp_path / "s").glob("*.jsonl")
    data = path.read_bytes()
    first = len(b"".join(GROUPS[0])) + len(b'["end",36,"00000000"]\n')
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        spool = Spool(tmp_path / "s")
        assert [line.data for line in spool.lines()] == (GROUPS[0] if cut >= first else []), cut
        assert spool.problems == []
        spool.close()


def test_a_damaged_group_is_named_and_the_others_are_kept(tmp_path: Path) -> None:
    kept(tmp_path / "s", *GROUPS)
    (path,) = (tmp_path / "s").glob("*.jsonl")
    path.write_bytes(path.read_bytes().replace(b'"x":1', b'"x":2'))
    spool = Spool(tmp_path / "s")
    assert [line.data for line in spool.lines()] == GROUPS[1]
    (problem,) = spool.problems
    assert "2 lines" in problem
    assert path.name in problem
    spool.release(spool.position)
    spool.close()
    assert [p.suffix for p in (tmp_path / "s").iterdir() if p.name != ".lock"] == [".damaged"], "it is not deleted"


def test_segments_go_once_they_are_released(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "s", segment_bytes=40)
    positions = [spool.add([b'["span","%d",{}]\n' % i]) for i in range(6)]
    assert len(list((tmp_path / "s").glob("*.jsonl"))) > 2
    spool.release(positions[3])
    assert spool.read(positions[3], 5) == b'["spa'
    with pytest.raises(ValueError, match="no longer"):
        spool.read(0, 5)
    spool.release(spool.position)
    assert spool.held == 0
    spool.close()
    assert not (tmp_path / "s").exists()


def test_a_second_process_is_refused_and_a_dead_one_is_not(tmp_path: Path) -> None:
    code = f"from ethogram.store.spool import Spool; s = Spool(__import__('pathlib').Path({str(tmp_path / 's')!r}))"
    held = subprocess.Popen([sys.executable, "-c", f"{code}; print(1, flush=True); input()"], stdin=-1, stdout=-1)
    assert held.stdout is not None
    held.stdout.readline()
    with pytest.raises(BadUsage, match="another process holds the spool"):
        Spool(tmp_path / "s")
    held.kill()
    held.wait()
    held.communicate()
    Spool(tmp_path / "s").close()


FULL = """
import resource, signal, sys
from pathlib import Path
from ethogram.store.spool import Spool
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
spool = Spool(Path(sys.argv[1]))
spool.add([b"[1]\\n"])
resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))
try:
    spool.add([b"[" + b"2" * 1000 + b"]\\n"])
except OSError as error:
    print("refused:", error.strerror)
spool.add([b"[3]\\n"])
"""


def test_what_could_not_be_written_is_not_there_and_the_next_group_is(tmp_path: Path) -> None:
    """A limit on the size of files stands for a full disk."""
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path / "s")], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("refused:")
    spool = Spool(tmp_path / "s")
    assert [line.data for line in spool.lines()] == [b"[1]\n", b"[3]\n"]
    spool.close()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.binary(max_size=40), min_size=1, max_size=5), max_size=6))
def test_any_groups_come_back(tmp_path_factory: pytest.TempPathFactory, groups: list[list[bytes]]) -> None:
    folder = tmp_path_factory.mktemp("spool") / "s"
    lines = [[b"[" + line.hex().encode() + b"]\n" for line in group] for group in groups]
    kept(folder, *lines, segment_bytes=64)
    spool = Spool(folder)
    assert [line.data for line in spool.lines()] == [line for group in lines for line in group]
    spool.close()
