"""The home and its runs: found by name, path or `latest`; read in bounded memory; odd things in it harm nobody."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ethogram.errors import BadInput, BadUsage, Damaged, NotFound
from ethogram.store import Home, Limits, Policy, Redactor, open_home, rewrite, verify_run
from ethogram.store.files import LocalFiles
from ethogram.traces import Scored, Text, text_ref


def place(home: Home, run: str, *parts: str) -> Path:
    return Path(home.files.address, "runs", run, *parts)


def test_a_run_is_found_by_name_by_path_and_as_the_latest(home: Home, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"there are no runs in .*; begin with: ethogram import"):
        home.resolve("latest")
    first, second = home.create("night", "import"), home.create("day", "run", tags=("a",), meta={"x": 1})
    assert home.resolve("night").info == first.info
    assert home.resolve("latest").name == "day"
    assert [r.name for r in home.runs()] == ["night", "day"]
    assert home.resolve(str(place(home, "day"))).info == second.info
    assert (second.info.tags, second.info.meta, second.info.kind) == (("a",), {"x": 1}, "run")
    with pytest.raises(NotFound, match="did you mean 'night'"):
        home.resolve("nigth")


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "a b", "-a", "a\n", "ä", "x" * 101, "latest", "a\0b", "*"]
)
def test_names_that_cannot_be(home: Home, name: str) -> None:
    with pytest.raises(BadUsage, match="cannot name a run"):
        home.create(name, "import")
    if name != "latest":
        with pytest.raises(NotFound):
            home.resolve(name)
    assert home.names() == []


def test_of_many_that_want_a_run_of_one_name_one_makes_it(home: Home) -> None:
    start = threading.Barrier(6)
    given = []

    def want() -> None:
        start.wait(timeout=60)
        given.append(home.run_of_kind("one", "serve", redaction="none"))

    threads = [threading.Thread(target=want) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [run.name for run, _ in given] == ["one"] * 6
    assert sorted(created for _, created in given) == [False] * 5 + [True]
    with pytest.raises(BadUsage, match="'one' is a serve run; choose another name"):
        home.run_of_kind("one", "import")
    with pytest.raises(BadUsage, match="cannot name a run"):
        home.run_of_kind("a b", "import")


def test_a_name_is_given_once(home: Home) -> None:
    made, refused = [], []
    start = threading.Barrier(6)

    def create() -> None:
        start.wait(timeout=60)
        try:
            made.append(home.create("one", "import"))
        except BadUsage as error:
            refused.append(str(error))

    threads = [threading.Thread(target=create, daemon=True) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert (len(made), len(refused)) == (1, 5)
    assert "a run named 'one' exists already" in refused[0]


def test_strays_are_not_runs(home: Home) -> None:
    home.create("good", "import")
    place(home, "empty").mkdir()
    place(home, "text").write_text("not a folder")
    place(home, "broken").mkdir()
    place(home, "broken", "run.json").write_text('{"schema_version": 1')
    place(home, "binary").mkdir()
    place(home, "binary", "run.json").write_bytes(b'{"name": "\xff\xfe"}')
    assert [r.name for r in home.runs()] == ["good"]
    assert home.resolve("latest").name == "good"
    with pytest.raises(BadInput, match=r"run\.json of 'broken' cannot be read"):
        home.resolve("broken").info  # noqa: B018
    assert {r.name for r in home.folders()} == {"good", "broken", "binary"}


def test_a_long_or_odd_wish_is_no_traceback(home: Home) -> None:
    for wanted in ("x" * 5000, "a\0b", "", "/", "~", "s3://x"):
        with pytest.raises(NotFound):
            home.resolve(wanted)


def test_a_trace_is_found_by_the_start_of_its_id(home: Home, plain: Redactor, write_trace: Any) -> None:
    run = home.create("run", "import")
    with run.writer(plain, window=None) as writer:
        ids = [write_trace(writer, str(n), steps=0) for n in range(40)]
    run = home.run("run")
    assert run.find(ids[7]).head.trace_id == ids[7]
    assert run.find(ids[7].removeprefix("b2:")[:12]).head.trace_id == ids[7]
    with pytest.raises(BadUsage, match="40 traces of 'run' begin with ''; give more digits"):
        run.find("")
    with pytest.raises(NotFound, match="no trace 'zz' in run 'run'"):
        run.find("zz")


def test_a_trace_is_found_by_its_task_and_attempt(home: Home, plain: Redactor, write_trace: Any) -> None:
    run = home.create("run", "import")
    with run.writer(plain, window=None) as writer:
        ids = [write_trace(writer, str(n), task="suite/bell", attempt=n, steps=0) for n in (0, 1)]
        write_trace(writer, "again", task="suite/bell", attempt=1, steps=0)
    run = home.run("run")
    assert run.find("suite/bell/0").head.trace_id == ids[0]
    with pytest.raises(BadUsage, match="2 traces of 'run' are attempt 'suite/bell/1'; give one's id: "):
        run.find("suite/bell/1")
    for wanted in ("suite/bell/2", "bell/0", "/0", "suite/bell"):
        with pytest.raises(NotFound, match="no trace"):
            run.find(wanted)


class Counting(LocalFiles):
    """A folder that counts how often a file is opened."""

    opened = 0

    def open(self, path: str) -> Any:
        self.opened += 1
        return super().open(path)


def test_many_small_traces_of_one_file_are_read_in_one_go(home: Home, plain: Redactor, write_trace: Any) -> None:
    """They share a row group; opening and unpacking it once per trace would make a run's reading quadratic."""
    run = home.create("run", "import")
    with run.writer(plain, window=None) as writer:
        for n in range(150):
            write_trace(writer, str(n), steps=2, words="the same")
    files = Counting(Path(home.files.address))
    run = Home(files).run("run")
    assert len(run.standing.named("spans-")) == 1
    assert sum(len(t.spans) for t in run.traces()) == 150 * 5
    assert files.opened == 3  # the spans, once more for what lies elsewhere, and the addresses of the texts
    assert all(t.answer for t in run.traces())
    assert files.opened == 4  # and the texts


def test_spans_across_row_groups_and_files(home: Home, plain: Redactor, write_trace: Any, monkeypatch: Any) -> None:
    import ethogram.store.segment as segment

    monkeypatch.setattr(segment, "SPAN_ROWS", 7)
    run = home.create("run", "import")
    limits = Limits(spill_spans=11)
    with run.writer(plain, window=None) as whole, run.writer(plain, window=None, limits=limits) as spilled:
        for n, steps in enumerate((0, 1, 3, 8, 20)):
            write_trace(whole, f"w{n}", steps=steps)
            write_trace(spilled, f"s{n}", steps=steps)
    run = home.run("run")
    got = sorted((t.head.origin.name, [s.seq for s in t.spans]) for t in run.traces())  # type: ignore[union-attr]
    assert got == sorted((f"{k}{n}", list(range(1 + 2 * s))) for k in "ws" for n, s in enumerate((0, 1, 3, 8, 20)))
    interleaved = [run.spans(e) for e in run.entries]
    assert [next(spans).seq for spans in interleaved] == [0] * 10
    assert sum(1 for spans in interleaved for _ in spans) == sum(1 + 2 * s for s in (0, 1, 3, 8, 20)) * 2 - 10


def test_texts_that_look_like_stored_messages_lean_on_nothing(home: Home, plain: Redactor, write_trace: Any) -> None:
    """A tool that prints our own storage format must not make a trace look damaged."""
    ghost = text_ref("nobody stored this")
    fake = f'{{"role":"user","parts":[{{"type":"tool_result_ref","content":"{ghost}"}}]}}'
    run = home.create("run", "import")
    with run.writer(plain, window=None) as writer:
        sink = writer.trace("b2:x")  # type: ignore[arg-type]
        from ethogram.traces import Head, Span

        ref = sink.text(fake, "result")
        sink.span(Span(trace_id="b2:x", span_id="a", seq=0, kind="tool", name="cat", result=ref))  # type: ignore[arg-type]
        sink.finish(Head(trace_id="b2:x", episode="b2:e", task="t"), ())  # type: ignore[arg-type]
    run = home.run("run")
    assert verify_run(run).damaged == []
    (trace,) = run.traces()
    assert dict(trace.texts) == {ref: fake}
    rewrite(run)
    assert verify_run(run).damaged == []


def test_texts_of_a_trace_include_what_labels_say(home: Home, plain: Redactor, write_trace: Any) -> None:
    run = home.create("run", "import")
    with run.writer(plain, window=None) as writer:
        write_trace(writer, "one", label="because the judge said so")
    (trace,) = home.run("run").traces()
    assert "because the judge said so" in trace.texts.values()
    assert trace.text(trace.labels[0].why) == "because the judge said so"  # type: ignore[arg-type]
    assert len(trace.texts) == len(set(trace.texts))
    assert (trace.texts.get(None), trace.texts.get(None, "-"), None in trace.texts) == (None, "-", False)
    rewrite(home.run("run"))
    (again,) = home.run("run").traces()
    assert dict(again.texts) == dict(trace.texts)
    assert again.labels == trace.labels


def test_a_trace_reads_as_it_was_written(home: Home, plain: Redactor, write_trace: Any) -> None:
    run = home.create("run", "import")
    with run.writer(plain, window=None) as writer:
        write_trace(writer, "one", steps=3, words="hello", outcome=Scored(0.5, "x"), meta={"k": [1, {"a": "b"}]})
    (trace,) = home.run("run").traces()
    assert trace.head.meta == {"k": '[1,{"a":"b"}]'}
    assert [s.kind for s in trace.steps] == ["model", "tool"] * 3
    last = trace.steps[4]
    talk = trace.conversation(last)
    assert [m.role for m in talk] == ["system", "user", "assistant", "tool", "assistant", "tool"]
    assert talk[1].parts == (Text("please do it, hello"),)
    assert trace.answer == "the answer of hello"
    assert trace.totals.cost_usd == pytest.approx(0.006)
    assert [m.role for m in trace.messages] == ["system", "user", *["assistant", "tool"] * 3]


def test_a_short_or_missing_file_is_named(home: Home, plain: Redactor, write_trace: Any) -> None:
    run = home.create("run", "import")
    with run.writer(plain, window=None) as writer:
        write_trace(writer, "one")
    (spans,) = place(home, "run").glob("spans-*")
    (texts,) = place(home, "run").glob("texts-*")
    whole = texts.read_bytes()
    texts.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Damaged, match=r"texts-.* cannot be read .*ethogram verify"):
        next(home.run("run").traces()).messages  # noqa: B018
    texts.unlink()
    with pytest.raises(NotFound, match=r"no file at .*texts-"):
        next(home.run("run").traces()).messages  # noqa: B018
    spans.write_bytes(b"PAR1 nonsense PAR1")
    with pytest.raises(Damaged, match=r"spans-.* cannot be read"):
        next(home.run("run").traces())


def test_the_redaction_key_is_made_once_and_kept_private(home: Home) -> None:
    found: list[bytes] = []
    start = threading.Barrier(8)

    def ask() -> None:
        start.wait(timeout=60)
        found.append(home.redaction_key())

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(set(found)) == 1
    assert len(found[0]) == 64
    file = Path(home.files.address, "redaction.key")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    secret = "ada@example.org"
    marks = {Home(home.files).redactor(Policy()).redact(secret).text for _ in range(2)}
    assert len(marks) == 1


def test_the_environment_may_give_the_redaction_key(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETHOGRAM_REDACTION_KEY", "shared by a cluster")
    assert home.redaction_key() == b"shared by a cluster"
    assert not home.files.exists("redaction.key")


def test_the_home_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETHOGRAM_HOME", str(tmp_path / "there"))
    assert open_home().files.address == str(tmp_path / "there")
    monkeypatch.delenv("ETHOGRAM_HOME")
    monkeypatch.chdir(tmp_path)
    assert open_home().files.address == str(tmp_path / ".ethogram")


def test_a_home_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    script = (
        "import sys; from ethogram.store import open_home; from ethogram.errors import EthogramError\n"
        "try: open_home(sys.argv[1]).create('run', 'import')\n"
        "except EthogramError as error: print(error)"
    )
    out = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "file" / "home")],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert out.stdout.startswith("cannot write ")
    assert out.stdout.count("\n") == 1


def test_run_json_is_plain_and_proves_itself(home: Home) -> None:
    home.create("run", "import", meta={"b": 1, "a": 2.5}, plan={"z": [1, {"y": None}]})
    file = place(home, "run", "run.json")
    content = msgspec.json.decode(file.read_bytes())
    assert content["name"] == "run"
    assert verify_run(home.run("run")).ok
    content["meta"]["b"] = 2
    file.write_bytes(msgspec.json.encode(content))
    assert [p.where for p in verify_run(home.run("run")).damaged] == ["run.json"]


def test_umask_is_respected(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        (tmp_path / "h").mkdir(0o777)
        home = Home(LocalFiles(tmp_path / "h"))
        home.create("run", "import")
    finally:
        os.umask(before)
    assert stat.S_IMODE(place(home, "run", "run.json").stat().st_mode) == 0o640
