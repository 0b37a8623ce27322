"""Whose frames a crash tells, and whose accident it was: by the folder of the code that raised."""

from __future__ import annotations

from pathlib import Path

import pytest

import ethogram
from ethogram.harness import crashes
from ethogram.harness.crashes import crash_of, is_of_recorder

HOUSE = Path(ethogram.__file__).parent


def raised_in(file: Path, error: str = "TypeError('x')") -> BaseException:
    """An exception that a file raised, as if a function of it had been called here."""
    try:
        exec(compile(f"raise {error}", str(file), "exec"))
    except Exception as caught:
        return caught
    raise AssertionError


@pytest.mark.parametrize("folder", ["capture/chat.py", "store/sink.py", "traces/span.py", "wire/gateway/gateway.py"])
def test_an_accident_of_what_records_is_not_the_agents(folder: str) -> None:
    file = HOUSE / folder
    assert file.is_file()
    assert is_of_recorder(raised_in(file))
    assert not is_of_recorder(raised_in(file, "RuntimeError('said on purpose')"))


@pytest.mark.parametrize("folder", ["worlds/practice.py", "checks/text.py", "harness/handle.py"])
def test_an_accident_elsewhere_is(folder: str, tmp_path: Path) -> None:
    assert (HOUSE / folder).is_file()
    assert not is_of_recorder(raised_in(HOUSE / folder))
    assert not is_of_recorder(raised_in(tmp_path / "agent.py"))


def outermost_frames(*files: Path) -> tuple[str, ...]:
    """The frames that a crash tells where each file calls the next and the last one raises."""
    code = "raise KeyError('order')"
    for file in reversed(files):
        code = f"exec(compile({code!r}, {str(file)!r}, 'exec'))"
    try:
        exec(code)
    except KeyError as error:
        return crash_of(error).frames
    raise AssertionError


def test_frames_between_the_agent_and_us_are_left_out(tmp_path: Path) -> None:
    agent = tmp_path / "agent.py"
    between = [HOUSE / f / "x.py" for f in ("harness", "harness/engines", "capture", "wire/otel", "questions/fork")]
    frames = outermost_frames(*between, agent)
    assert [f for f in frames if str(HOUSE) in f] == []
    assert any(str(agent) in f for f in frames)


def test_every_folder_that_is_named_exists() -> None:
    """A folder that was renamed would be told apart no more, and nothing else would notice."""
    named = [Path(f) for f in (*crashes.RECORDERS, *crashes.BETWEEN) if f.startswith(str(HOUSE))]
    assert len(named) > 5
    assert [f for f in named if not f.is_dir()] == []
