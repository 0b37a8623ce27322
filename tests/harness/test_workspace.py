"""Workspaces: fresh, complete, under the original names, and gone afterwards unless somebody wants to look."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ethogram.errors import BadUsage
from ethogram.harness.faults import SandboxFault
from ethogram.harness.scratch import remove
from ethogram.harness.workspace import Workspace, bubble, clean_copy, put
from ethogram.plans import Check, FileRef, Repository, Task
from ethogram.traces import digest


def with_file(root: Path, name: str = "data/in.csv", body: bytes = b"a,b\n1,2\n") -> Task:
    (root / "files").mkdir(exist_ok=True)
    (root / "files" / "in.csv").write_bytes(body)
    return Task(id="t", files={name: FileRef("files/in.csv", digest("file", body))})


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> tuple[Path, str, str]:
    """A suite with a repository of two commits: the bug, and then the mending of it."""
    root = tmp_path / "suite"
    repo = root / "repo"
    repo.mkdir(parents=True)
    git(repo, "init", "-q", "-b", "trunk")
    (repo / "first.txt").write_text("first")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "the beginning")
    (repo / "code.py").write_text("bug = True\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "the bug")
    bug = git(repo, "rev-parse", "HEAD")
    (repo / "code.py").write_text("bug = False\n")
    git(repo, "commit", "-q", "-a", "-m", "the mending")
    git(repo, "tag", "mended")
    return root, bug, git(repo, "rev-parse", "HEAD")


def test_each_episode_gets_its_own_copy(tmp_path: Path) -> None:
    task = with_file(tmp_path)
    with Workspace(task, tmp_path) as one, Workspace(task, tmp_path) as other:
        assert one.path != other.path
        (one.path / "data" / "in.csv").write_text("changed")
        (one.path / "more.txt").write_text("more")
        assert (other.path / "data" / "in.csv").read_bytes() == b"a,b\n1,2\n"
        folders = [one.path, other.path]
    assert (tmp_path / "files" / "in.csv").read_bytes() == b"a,b\n1,2\n"
    assert not any(f.exists() for f in folders)
    with pytest.raises(RuntimeError, match="not open"):
        _ = one.path


def test_a_file_that_changed_since_loading_is_the_sandboxs_fault(tmp_path: Path) -> None:
    task = with_file(tmp_path)
    (tmp_path / "files" / "in.csv").write_bytes(b"other")
    base = tmp_path / "base"
    with pytest.raises(SandboxFault, match=r"'files/in\.csv' has changed"), Workspace(task, tmp_path, base=base):
        pass
    (tmp_path / "files" / "in.csv").unlink()
    with pytest.raises(SandboxFault, match="cannot be read"), Workspace(task, tmp_path, base=base):
        pass
    assert list(base.iterdir()) == []


@pytest.mark.parametrize(
    ("keep", "failed", "crash", "kept"),
    [
        ("never", True, True, False),
        ("failure", False, False, False),
        ("failure", True, False, True),
        ("failure", False, True, True),
        ("always", False, False, True),
    ],
)
def test_what_is_kept(tmp_path: Path, keep: str, failed: bool, crash: bool, kept: bool) -> None:
    workspace = Workspace(with_file(tmp_path), tmp_path, keep=keep, base=tmp_path / "base")

    def episode() -> None:
        with workspace:
            workspace.failed = failed
            (workspace.path / "left.txt").write_text("left")
            if crash:
                raise ZeroDivisionError

    if crash:
        with pytest.raises(ZeroDivisionError):
            episode()
    else:
        episode()
    left = list((tmp_path / "base").iterdir())
    assert left == ([workspace.kept] if kept else [])
    assert not kept or (left[0] / "left.txt").exists()


def test_it_works_in_async_code_too(tmp_path: Path) -> None:
    async def episode() -> Path:
        async with Workspace(with_file(tmp_path), tmp_path) as workspace:
            assert (workspace.path / "data" / "in.csv").is_file()
            return workspace.path

    assert not asyncio.run(episode()).exists()


def test_a_task_that_needs_none_gets_none(tmp_path: Path) -> None:
    with Workspace(Task(id="t", checks=(Check(kind="contains"),)), tmp_path, base=tmp_path / "base") as workspace:
        assert not workspace.needed
    assert not (tmp_path / "base").exists()
    for task in (
        Task(id="t", checks=(Check(kind="files"),)),
        Task(id="t", meta={"workspace": True}),
        with_file(tmp_path),
    ):
        assert Workspace(task, tmp_path).needed


def test_programs_stay_programs(tmp_path: Path) -> None:
    task = with_file(tmp_path, "run.sh", b"#!/bin/sh\necho hello\n")
    (tmp_path / "files" / "in.csv").chmod(0o755)
    with Workspace(task, tmp_path) as workspace:
        said = subprocess.run(
            [workspace.path / "run.sh"], capture_output=True, text=True, check=True, timeout=120
        ).stdout
    assert said == "hello\n"


def test_no_name_leads_out(tmp_path: Path) -> None:
    for name in ("../out", "/tmp/out", "a/../../out", ""):
        with pytest.raises(SandboxFault):
            put(tmp_path, name, b"")
    outside = tmp_path / "outside"
    outside.mkdir()
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "tests").symlink_to(outside)
    put(inside, "tests/test_a.py", b"x")
    assert list(outside.iterdir()) == []
    assert (inside / "tests" / "test_a.py").read_bytes() == b"x"
    (inside / "file").symlink_to(outside / "target")
    put(inside, "file", b"y")
    assert not (outside / "target").exists()
    (inside / "tests" / "folder").mkdir()
    put(inside, "tests/folder", b"z")
    put(inside, "file/below", b"z")
    assert (inside / "file" / "below").read_bytes() == b"z"


def test_a_clean_copy_leaves_caches_and_pipes_behind(tmp_path: Path) -> None:
    one = tmp_path / "one"
    (one / "pkg" / "__pycache__").mkdir(parents=True)
    (one / "pkg" / "__pycache__" / "a.pyc").write_text("x")
    (one / "pkg" / "a.py").write_text("x")
    (one / "link").symlink_to("/etc")
    os.mkfifo(one / "pipe")
    clean_copy(one, tmp_path / "two")
    assert sorted(p.relative_to(tmp_path / "two").as_posix() for p in (tmp_path / "two").rglob("*")) == [
        "link",
        "pkg",
        "pkg/a.py",
    ]
    assert (tmp_path / "two" / "link").is_symlink()


def test_what_an_agent_locked_is_removed_all_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "ws"
    (folder / "deep" / "deeper").mkdir(parents=True)
    (folder / "deep" / "deeper" / "file").write_text("x")
    (folder / "deep" / "deeper").chmod(0o000)
    (folder / "deep").chmod(0o500)
    remove(folder)
    assert not folder.exists()


def test_a_checkout_has_its_past_and_not_its_future(repository: tuple[Path, str, str]) -> None:
    root, bug, mended = repository
    task = Task(id="t", repository=Repository("repo", bug))
    with Workspace(task, root) as one, Workspace(task, root) as other:
        assert (one.path / "code.py").read_text() == "bug = True\n"
        assert git(one.path, "rev-parse", "HEAD") == bug
        assert git(one.path, "log", "--all", "--format=%s").splitlines() == ["the bug", "the beginning"]
        objects = git(one.path, "cat-file", "--batch-all-objects", "--batch-check")
        assert mended not in objects
        assert git(one.path, "remote") == ""
        assert git(one.path, "tag") == ""
        (one.path / "code.py").write_text("bug = False\n")
        subprocess.run(["git", "commit", "-q", "-a", "-m", "mine"], cwd=one.path, check=True, timeout=120)
        assert (other.path / "code.py").read_text() == "bug = True\n"
        folders = [one.path, other.path]
    assert not any(f.exists() for f in folders)
    assert git(root / "repo", "rev-parse", "HEAD") == mended
    assert git(root / "repo", "status", "--porcelain") == ""


def test_a_bundle_is_a_repository_and_files_lie_over_it(repository: tuple[Path, str, str]) -> None:
    root, bug, _ = repository
    git(root / "repo", "bundle", "create", "-q", str(root / "repo.bundle"), "--all")
    shutil.rmtree(root / "repo")
    task = with_file(root, "first.txt", b"laid over")
    task = Task(id="t", files=task.files, repository=Repository("repo.bundle", bug))
    with Workspace(task, root, keep="always") as workspace:
        assert (workspace.path / "first.txt").read_text() == "laid over"
        assert (workspace.path / "code.py").read_text() == "bug = True\n"
    kept = workspace.kept
    assert kept is not None
    assert git(kept, "status", "--porcelain") == "M first.txt"
    assert git(kept, "fsck") == ""
    remove(kept)


def test_no_such_commit_is_the_sandboxs_fault(repository: tuple[Path, str, str], tmp_path: Path) -> None:
    root, _, _ = repository
    base = tmp_path / "base"
    for wrong in (Repository("repo", "0" * 40), Repository("nowhere", "0" * 40)):
        with pytest.raises(SandboxFault), Workspace(Task(id="t", repository=wrong), root, base=base):
            pass
    assert list(base.iterdir()) == []


def test_wishes_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match="never, failure or always"):
        Workspace(Task(id="t"), tmp_path, keep="sometimes")
    with pytest.raises(BadUsage, match=r"none, readonly, bwrap or bwrap\+network"):
        Workspace(Task(id="t"), tmp_path, isolation="docker")


def test_without_bubblewrap_isolation_is_refused_before_anything_runs(tmp_path: Path) -> None:
    if shutil.which("bwrap") is not None:
        pytest.skip("bubblewrap is installed here")
    with pytest.raises(BadUsage, match="install bubblewrap"):
        Workspace(Task(id="t"), tmp_path, isolation="bwrap")


def test_without_isolation_a_command_stays_as_it_is(tmp_path: Path) -> None:
    with Workspace(with_file(tmp_path), tmp_path) as workspace:
        assert workspace.wrap(["ls", "-l"]) == ["ls", "-l"]


def test_certificates_that_the_environment_names_are_seen_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = tmp_path / "authority.pem"
    authority.touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path))
    monkeypatch.setenv("CURL_CA_BUNDLE", "authority.pem")
    shown = bubble(["ls"], [tmp_path / "work"])
    assert shown.count(str(authority)) == 2, "as it is named outside"
    assert str(tmp_path) not in shown, "a folder is no certificate"
    assert "authority.pem" not in shown, "a relative name says nothing inside"


def test_the_bubble_is_closed_unless_opened(tmp_path: Path) -> None:
    words = bubble(["ls"], [tmp_path])
    assert words[-2:] == ["--", "ls"]
    assert "--unshare-all" in words
    assert "--share-net" not in words
    assert words.index("--tmpfs") < words.index("--bind"), "the workspace lies on top of the empty /tmp"
    assert "--share-net" in bubble(["ls"], [tmp_path], network=True)
