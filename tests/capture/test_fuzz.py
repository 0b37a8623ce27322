"""Every reader survives anything: nothing is raised, nothing hangs, and what comes out is a trace one can rely on.

Three kinds of food: JSON values that hypothesis makes up out of the words of all formats, broken copies of the
small samples, and broken copies of real logs where they are at hand. `ETHOGRAM_LONG=1` tries twenty times as many.
"""

from __future__ import annotations

import gzip
import importlib.util
import io
import json
import math
import os
import random
import signal
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ethogram.capture.builder import MAX_NS
from ethogram.capture.intake import SourceReport
from ethogram.capture.memory import read_traces
from ethogram.capture.readers import MODULES
from ethogram.capture.source import bytes_source
from ethogram.capture.writers import atif as atif_writer
from ethogram.capture.writers import inspect as inspect_writer
from ethogram.questions.home.exports import export
from ethogram.questions.home.maintenance import verify
from ethogram.questions.home.queries import sql
from ethogram.questions.logs.imports import import_logs
from ethogram.store import VIEWS, Home
from ethogram.traces import TOKEN_FIELDS, Missing, Trace, detached_refs, is_outcome_only, text_ref
from ethogram.traces.codec import encode

LONG = os.environ.get("ETHOGRAM_LONG") == "1"
TIMES = 20 if LONG else 1
SECONDS = 10.0
DATA = Path(__file__).parents[3] / "shared" / "data"
NOT_TRACES = ("alpaca_eval", "human_eval")
FORMATS = sorted(MODULES)


def _samples() -> dict[str, bytes]:
    place = Path(__file__).parent / "readers" / "samples.py"
    spec = importlib.util.spec_from_file_location("fuzz_samples", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, bytes] = module.SAMPLES
    return found


SAMPLES = _samples()


class Hangs(BaseException):
    """Not an `Exception`: no reader may swallow it."""


@contextmanager
def bounded(what: str) -> Iterator[None]:
    """A reader that needs more than some seconds hangs; the clock counts work, so a busy machine is no fault."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Hangs(f"{what} took more than {SECONDS:.0f} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def check(data: bytes, format: str | None, what: str) -> tuple[list[Trace], SourceReport]:
    """Read, and hold what came out to all that later readers rely on."""
    with bounded(what):
        traces, report = read_traces(bytes_source("fuzz", data), format)
        assert report.traces == len(traces), what
        assert report.spans == sum(len(t.spans) for t in traces), what
        assert traces or report.skipped, f"{what}: nothing came out and nothing was reported"
        assert all(s.where and s.why and "\n" not in s.why for s in report.skipped), what
        assert all(count > 0 for count in report.lost.values()), what
        assert len({t.head.trace_id for t in traces}) == len(traces), f"{what}: two traces share an id"
        for trace in traces:
            consistent(trace, what)
        again(traces, what)
    return traces, report


def consistent(trace: Trace, what: str) -> None:
    """One trace: addresses, order, sums and times."""
    ids = [s.span_id for s in trace.spans]
    assert len(set(ids)) == len(ids), f"{what}: span ids repeat"
    assert sorted(s.span_id for _, s in trace.walk()) == sorted(ids), f"{what}: the walk misses or repeats spans"
    assert all(text_ref(body) == ref for ref, body in trace.texts.items()), what
    for span in trace.spans:
        for ref in span.refs:
            assert ref in trace.texts, f"{what}: a text is missing"
            assert all(inner in trace.texts for inner in detached_refs(trace.text(ref))), what
        for when in (span.start_ns, span.end_ns):
            assert when is None or 0 < when < MAX_NS, what
        assert span.start_ns is None or span.end_ns is None or span.start_ns <= span.end_ns, what
        assert span.continues is None or span.continues in trace.by_id, what
        assert 0 <= span.seq < 1 << 31, what
        assert 0 <= span.keep < 1 << 31, what
        trace.conversation(span) if len(trace.spans) < 200 else None
    assert len({s.span_id for s in trace.steps}) == len(trace.steps), what
    known = None if is_outcome_only(trace.head) else len(trace.steps)  # a row of a table says nothing of steps
    assert trace.totals.steps == known, what
    assert len(trace.signatures()) == len(trace.steps), what
    assert all(m.role for m in trace.messages), what
    for field in ("spans", "model_calls", "tool_calls", "errors", *TOKEN_FIELDS):
        assert (getattr(trace.totals, field) or 0) >= 0, f"{what}: {field} is negative"
    assert trace.totals.cost_usd is None or 0 <= trace.totals.cost_usd < math.inf, what
    assert trace.head.attempt >= 0, what
    assert isinstance(trace.outcome, Missing) or math.isfinite(trace.outcome.value), what
    assert trace.answer is None or isinstance(trace.answer, str), what
    assert all(not isinstance(x.value, float) or math.isfinite(x.value) for x in trace.labels), what


def again(traces: list[Trace], what: str) -> None:
    """Written in our own lines and read back, every trace says the same."""
    if not traces:
        return
    lines = b"".join(line + b"\n" for trace in traces for line in encode(trace))
    back, report = read_traces(bytes_source("again", lines), "jsonl")
    assert not report.skipped, f"{what}: {report.skipped[:3]}"
    assert len(back) == len(traces), what
    for one, two in zip(traces, back, strict=True):
        assert [s.span_id for s in one.spans] == [s.span_id for s in two.spans], what
        assert one.signatures() == two.signatures(), what
        assert one.messages == two.messages, what
        assert one.totals == two.totals, what
        assert one.outcome == two.outcome, what
        assert (one.head.task, one.head.attempt, one.head.seed) == (two.head.task, two.head.attempt, two.head.seed)
        assert (one.answer, one.head.meta) == (two.answer, two.head.meta), what
        assert [(x.name, x.value) for x in one.labels] == [(x.name, x.value) for x in two.labels], what
        assert (one.head.start_ns, one.head.end_ns) == (two.head.start_ns, two.head.end_ns), what


# --- JSON made up out of the words of all formats ---------------------------------------------------------------


def _words(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, child in value.items():
            yield key
            yield from _words(child)
    elif isinstance(value, list):
        for child in value:
            yield from _words(child)
    elif isinstance(value, str) and len(value) < 60:
        yield value


def _documents(sample: bytes) -> list[Any]:
    return [json.loads(x) for x in sample.splitlines()] if b"\n{" in sample else [json.loads(sample)]


WORDS = sorted({w for sample in SAMPLES.values() for document in _documents(sample) for w in _words(document)})
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**53, 2**63, 2**64, -(2**63), 10**30, 1.5, -0.0, 1e300, 1e-300),
    *(math.nan, math.inf, -math.inf, "", " ", "x", "0", "-7", "+-5", "²", "1e400", "nan", "9" * 400, "9" * 5000),
    *("2026-01-02T03:04:05Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "PT1.2.3S", "P9999999999D"),
    *("\x00", "\ud800", "🜍", "a" * 5000, "=1+1", "../../etc", "b2:3", "s0", "{", "[", '{"a": 1}', "[1, null]"),
    *([], {}, [[]], [None], [{}], {"": None}, [1, "x", {}], {"text": ["a", 1]}, [["role", "user"]]),
)
leaves = st.one_of(
    st.sampled_from(ODD),
    st.sampled_from(WORDS),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.text(st.characters(codec=None), max_size=5),
)
keys = st.one_of(st.sampled_from(WORDS), st.text(max_size=8))
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=6), max_leaves=25
)


@settings(
    max_examples=80 * TIMES,
    deadline=None,
    derandomize=not LONG,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(records=st.lists(values, min_size=1, max_size=3), by_line=st.booleans())
def test_made_up_json_breaks_no_reader(records: list[Any], by_line: bool) -> None:
    one = records[0] if len(records) == 1 else records
    data = b"\n".join(_dumps(r) for r in records) if by_line else _dumps(one)
    for format in (*FORMATS, None):
        check(data, format, f"{format} reading {data[:200]!r}")


@settings(
    max_examples=10 * TIMES,
    deadline=None,
    derandomize=not LONG,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
@pytest.mark.parametrize("format", FORMATS)
def test_made_up_values_in_real_places_break_no_reader(format: str, data: st.DataObject) -> None:
    documents = deepcopy(_documents(SAMPLES[format]))
    for _ in range(data.draw(st.integers(1, 4))):
        path = data.draw(st.sampled_from(list(_places(documents))))
        _put(documents, path, data.draw(values))
    check(_write(documents, SAMPLES[format]), format, f"{format} with {documents!r:.2000}")


@pytest.mark.parametrize("format", FORMATS)
def test_half_characters_in_any_place_break_no_reader(format: str) -> None:
    """Half of a surrogate pair is JSON to foreign tools, and cannot be encoded again."""
    for path in _places(_documents(SAMPLES[format])):
        documents = _documents(SAMPLES[format])
        _put(documents, path, {"\ud800": ["\udfff"]})
        check(_write(documents, SAMPLES[format]), format, f"{format} with half a character at {path}")


# --- broken copies ----------------------------------------------------------------------------------------------


def _dumps(value: Any) -> bytes:
    """Python's JSON: it writes NaN, numbers of any length and half characters, as foreign tools do."""
    return json.dumps(value).encode()


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from _places(child, (*path, key))


def _at(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        document = document[key]
    return document


def _put(document: Any, path: tuple[Any, ...], value: Any) -> None:
    """Replace a value, if the place is still there."""
    with suppress(KeyError, IndexError, TypeError):
        _at(document, path[:-1])[path[-1]] = deepcopy(value)


def _write(documents: list[Any], like: bytes) -> bytes:
    if b"\n{" in like or len(documents) != 1:
        return b"".join(_dumps(d) + b"\n" for d in documents)
    return _dumps(documents[0])


def flip(data: bytes, rng: random.Random) -> bytes:
    """A few bytes change."""
    broken = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8, 40))):
        broken[rng.randrange(len(broken))] = rng.choice((0, 0x22, 0x2C, 0x5B, 0x7B, 0x80, 0xFF, rng.randrange(256)))
    return bytes(broken)


def cut(data: bytes, rng: random.Random) -> bytes:
    """The end is missing, or the start."""
    at = rng.randrange(len(data))
    return data[:at] if rng.random() < 0.8 else data[at:]


def splice(data: bytes, rng: random.Random) -> bytes:
    """A stretch is missing, repeated, or replaced by junk."""
    start = rng.randrange(len(data))
    end = min(len(data), start + rng.choice((1, 5, 50, 500)))
    junk = (b"", data[start:end] * 2, b"\x00" * 8, b"\xff\xfe\xfd", b"\xed\xa0\x80", b"[" * 3000, b'{"a":' * 3000)
    return data[:start] + rng.choice(junk) + data[end:]


def shuffle(data: bytes, rng: random.Random) -> bytes:
    """Lines come twice, in another order, or not at all."""
    lines = data.splitlines(keepends=True)
    return b"".join(rng.choice(lines) for _ in range(len(lines) + rng.randrange(4)))


def retype(data: bytes, rng: random.Random) -> bytes:
    """Values of another type, keys of another name, members that move or vanish."""
    try:
        documents = _documents(data)
    except (ValueError, RecursionError):
        return flip(data, rng)
    every = list(_places(documents))
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        path = rng.choice(every)
        try:
            holder = _at(documents, path[:-1])
            old = holder[path[-1]]
        except (KeyError, IndexError, TypeError):
            continue
        if isinstance(holder, str):
            continue
        deed = rng.randrange(6)
        if deed == 0 and isinstance(holder, dict):
            holder[rng.choice(WORDS)] = holder.pop(path[-1])
        elif deed == 1:
            holder.pop(path[-1])
        elif deed == 2:
            with suppress(KeyError, IndexError, TypeError):
                holder[path[-1]] = deepcopy(_at(documents, rng.choice(every)))
        elif deed == 3 and isinstance(old, str | int | float) and not isinstance(old, bool):
            holder[path[-1]] = rng.choice((str(old), [old], {"value": old}, {"a": {"b": old}}, [[old]], old * 2))
        else:
            holder[path[-1]] = deepcopy(rng.choice(ODD))
    if rng.random() < 0.05:
        deep: Any = 1
        for _ in range(400):
            deep = [deep] if rng.random() < 0.5 else {"content": deep}
        _put(documents, rng.choice(every), deep)
    return _write(documents, data)


def encoded(data: bytes, rng: random.Random) -> bytes:
    """The same words in another encoding, or with marks in front."""
    text = data.decode("utf-8", "replace")
    return rng.choice(
        (
            text.encode("utf-16"),
            text.encode("utf-16-le"),
            text.encode("utf-32"),
            text.encode("latin-1", "replace"),
            b"\xef\xbb\xbf" + data,
            data.replace(b"\n", b"\r\n"),
            data.replace(b"\n", b"\r"),
            b"\n\n  " + data,
            data + b"\x00",
        )
    )


def packed(data: bytes, rng: random.Random) -> bytes:
    """Compressed, and damaged after that."""
    return rng.choice((flip, cut, splice))(gzip.compress(data, 1, mtime=0), rng)


Break = Callable[[bytes, random.Random], bytes]
BREAKS: tuple[Break, ...] = (flip, cut, splice, shuffle, retype, retype, retype, retype, encoded, packed)


def broken_copies(name: str, data: bytes, count: int, breaks: Sequence[Break] = BREAKS) -> Iterator[tuple[str, bytes]]:
    """Broken copies, each named by what it takes to make it again."""
    seeds = [random.SystemRandom().getrandbits(32) for _ in range(count)] if LONG else list(range(count))
    for position, seed in enumerate(seeds):
        deed = breaks[position % len(breaks)]
        yield f"{deed.__name__}({name}, seed {seed})", deed(data, random.Random(f"{name}:{seed}"))


@pytest.mark.parametrize("format", FORMATS)
def test_broken_samples(format: str) -> None:
    for what, data in broken_copies(format, SAMPLES[format], 150 * TIMES):
        check(data, format, what)
        check(data, None, f"{what}, format unknown")


# --- packages, wires, real logs, and the store ------------------------------------------------------------------


def repacked(data: bytes, rng: random.Random) -> bytes:
    """A zip whose members are broken one by one."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            member, chance = old.read(name), rng.random()
            if chance < 0.1 or not member:
                continue
            new.writestr(name, rng.choice(BREAKS[:7])(member, rng) if chance < 0.5 else member)
    return out.getvalue()


def _eval_log(tmp_path: Path) -> bytes:
    """Two of the samples as an Inspect `.eval`, so that a zip can be broken without any foreign file."""
    traces = [t for f in ("tau-bench", "openai-chat") for t in check(SAMPLES[f], f, f)[0]]
    inspect_writer.write(traces, tmp_path / "log.eval")
    return (tmp_path / "log.eval").read_bytes()


def test_broken_eval_packages(tmp_path: Path) -> None:
    whole = _eval_log(tmp_path)
    assert check(whole, None, "the whole log")[1].format == "inspect"
    for what, data in broken_copies("log.eval", whole, 60 * TIMES, (flip, cut, splice, repacked, repacked, repacked)):
        check(data, "inspect", what)
        check(data, None, f"{what}, format unknown")


def test_broken_protobuf() -> None:
    json_format = pytest.importorskip("google.protobuf.json_format", reason="protobuf is not installed")
    from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

    message = json_format.Parse(SAMPLES["otlp"], TracesData())
    span = message.resource_spans[0].scope_spans[0].spans[0]
    span.trace_id, span.span_id = bytes(range(1, 17)), bytes(range(1, 9))  # in JSON they are hex, which is not base64
    whole = message.SerializeToString()
    traces, report = check(whole, "otlp", "the whole message")
    assert (len(traces), report.skipped) == (1, [])
    for what, data in broken_copies("otlp.pb", whole, 100 * TIMES, (flip, cut, splice)):
        check(data, "otlp", what)


def _real() -> list[Path]:
    files = sorted(p for p in DATA.glob("*/**/*") if p.is_file()) if DATA.is_dir() else []
    return [p for p in files if p.relative_to(DATA).parts[0] not in NOT_TRACES]


@pytest.mark.skipif(not DATA.is_dir(), reason="../shared/data is not here")
@pytest.mark.parametrize("path", [pytest.param(p, id=p.relative_to(DATA).as_posix()[:60]) for p in _real()])
def test_broken_real_logs(path: Path) -> None:
    data = path.read_bytes()
    data = gzip.decompress(data) if path.suffix == ".gz" else data
    count = max(2, min(20, 400_000 // len(data)))
    breaks = (flip, cut, repacked, repacked) if data.startswith(b"PK") else (retype, flip, cut, retype, splice, retype)
    format = check(data, None, path.name)[1].format
    for what, broken in broken_copies(path.name, data, count * TIMES, breaks):
        check(broken, format, what)


def _own_atif() -> bytes:
    """A trace with labels as our ATIF writer writes it: with notes that the reader restores as they are."""
    (trace,) = check(SAMPLES["jsonl"], "jsonl", "jsonl")[0]
    written = io.BytesIO()
    atif_writer.write([trace], written)
    return written.getvalue()


def holds(home: Home, run: str, tmp_path: Path) -> None:
    """Whatever was stored verifies, answers a query over every view, and comes back from a copy as it was."""
    assert verify([run], home=home).ok
    for view in VIEWS:
        assert sql(f"SELECT * FROM {view}", runs=[run], home=home) is not None
    if not home.resolve(run).entries:
        return
    export(run, "jsonl", out=tmp_path / f"{run}.jsonl", home=home)
    import_logs(tmp_path / f"{run}.jsonl", home=home, run=f"{run}-again", redact="none")
    one, two = ({t.head.episode: t for t in home.resolve(name).traces()} for name in (run, f"{run}-again"))
    assert len(one) == len(two)
    signatures = [sorted(t.signatures() for t in found.values()) for found in (one, two)]
    assert signatures[0] == signatures[1]
    said = [sorted((x.name, str(x.value)) for t in found.values() for x in t.labels) for found in (one, two)]
    assert said[0] == said[1]
    assert verify([f"{run}-again"], home=home).ok


@pytest.mark.parametrize("field", ["name", "value", "by", "source", "why", "span_id"])
@pytest.mark.parametrize("wrong", [{"a": 1}, [1, 2], 7, "nobody", None, True])
def test_a_label_of_a_wrong_type_is_skipped_and_leaves_the_run_whole(
    home: Home, tmp_path: Path, field: str, wrong: Any
) -> None:
    log = json.loads(_own_atif())
    notes = log["extra"]["ethogram"]
    before = len(notes["labels"])
    assert before
    notes["labels"][0][field] = wrong
    (tmp_path / "log.json").write_text(json.dumps(log))
    result = import_logs(tmp_path / "log.json", home=home, run="r", redact="none")
    assert result.traces == 1  # the trace itself is good
    kept = len(list(home.resolve("r").labels()))
    assert kept == before - len(result.files[0].skipped)
    holds(home, "r", tmp_path)


def test_what_survives_is_kept_by_the_store_and_verifies(home: Home, tmp_path: Path) -> None:
    """The same food through a real import: every file is reported, nothing breaks the lake."""
    folder = tmp_path / "logs"
    folder.mkdir()
    count = 0
    for format, sample in [*SAMPLES.items(), ("own atif", _own_atif())]:
        for _, data in broken_copies(format, sample, 12 * TIMES, (retype, retype, flip, splice)):
            (folder / f"{count:05d}.log").write_bytes(data)
            count += 1
    with bounded("the import"):
        result = import_logs(folder, home=home, run="fuzz", redact="none")
    assert {f.source.split("/")[0] for f in result.files} == {f"{n:05d}.log" for n in range(count)}
    assert all(f.traces or f.unchanged or f.skipped for f in result.files)
    run = home.resolve("fuzz")
    assert 0 < len(run.entries) <= result.traces
    for trace in run.traces():
        assert len(list(trace.walk())) == len(trace.spans) == trace.totals.spans
        assert all(m.role for m in trace.messages)
    holds(home, "fuzz", tmp_path)
    repeated = import_logs(folder, home=home, run="fuzz", redact="none")
    assert repeated.traces == 0
