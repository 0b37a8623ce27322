"""Files of a suite: YAML and JSON lines, hashed files, code that a suite brings, and never a path that leads out."""

from __future__ import annotations

import math
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from ethogram.checks.settings import bad_name, nearest
from ethogram.errors import BadInput, first_line
from ethogram.loading import code_digest
from ethogram.plans import FileRef, Repository
from ethogram.traces import digest

FILES = "files"
MAX_NODES = 2_000_000
_JUNK = frozenset({"__pycache__", ".git", ".pytest_cache", ".DS_Store"})
_SHA = re.compile(r"[0-9a-f]{40}")


class _Loader(yaml.SafeLoader):
    """Safe YAML by the rules of version 1.2: `no`, `12:30`, `007` and dates are texts; a repeated key is a mistake."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A mapping whose keys are all different."""
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} is repeated", key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_text(self, node: yaml.ScalarNode) -> str:
        """A text; characters that JSON writes as two escapes become one."""
        text = str(self.construct_scalar(node))
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16") if not text.isascii() else text
        except UnicodeDecodeError:
            raise yaml.constructor.ConstructorError(None, None, "half a character", node.start_mark) from None


_PLAIN = {
    "tag:yaml.org,2002:bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "tag:yaml.org,2002:int": (r"[-+]?(?:0|[1-9][0-9_]*)", "-+0123456789"),
    "tag:yaml.org,2002:float": (
        r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+|[-+]?\.inf|\.nan",
        "-+0123456789.",
    ),
    "tag:yaml.org,2002:null": (r"~|null|Null|NULL|", "~nN\0"),
    "tag:yaml.org,2002:merge": (r"<<", "<"),
}
_Loader.add_constructor("tag:yaml.org,2002:str", _Loader.construct_text)
_Loader.yaml_implicit_resolvers = {}
for _tag, (_pattern, _first) in _PLAIN.items():
    _Loader.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), [c if c != "\0" else "" for c in _first])


def read_yaml(path: Path, name: str) -> Any:
    """The value of a YAML file, made of plain things only."""
    try:
        value = yaml.load(_text(path, name), Loader=_Loader)  # noqa: S506 - a safe loader, stricter than safe_load's
    except yaml.MarkedYAMLError as error:
        line = f" line {error.problem_mark.line + 1}" if error.problem_mark is not None else ""
        raise BadInput(
            f"{name}{line} is not valid YAML: {error.problem or error.context}", where=f"{name}{line}"
        ) from None
    except yaml.YAMLError as error:
        raise BadInput(f"{name} is not valid YAML: {first_line(error)}", where=name) from None
    except RecursionError:
        raise BadInput(f"{name} is nested too deeply", where=name) from None
    return checked(value, name)


def read_lines(path: Path, name: str) -> Iterator[tuple[str, Any]]:
    """Each line of a JSON lines file with its place; empty lines do not count."""
    for number, line in enumerate(_text(path, name).splitlines(), 1):
        if not line.strip():
            continue
        try:
            value = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            raise BadInput(f"{name} line {number} is not JSON: {error}", where=f"{name} line {number}") from None
        yield f"{name} line {number}", checked(value, f"{name} line {number}")


def _text(path: Path, name: str) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise BadInput(f"{name} cannot be read: {error.strerror}", where=name) from None
    except UnicodeDecodeError:
        raise BadInput(f"{name} is not UTF-8 text", where=name) from None


def checked(value: Any, name: str) -> Any:
    """Refuse what has no one spelling (NaN, infinities, loops) or no end (a text that unfolds to millions)."""
    count = 0
    stack = [value]
    while stack:
        count += 1
        if count > MAX_NODES:
            raise BadInput(f"{name} unfolds to more than {MAX_NODES:,} values", where=name)
        item = stack.pop()
        if isinstance(item, dict):
            wrong = next((k for k in item if not isinstance(k, str)), None)
            if wrong is not None:
                raise BadInput(f"{name} has the key {wrong!r}, which is not text; put it in quotes", where=name)
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, float) and not math.isfinite(item):
            raise BadInput(f"{name} has a number that is not finite", where=name)
        elif not isinstance(item, str | int | float | bool | None):
            raise BadInput(
                f"{name} has a value of kind {type(item).__name__!r}; use texts, numbers, lists and mappings",
                where=name,
            )
    return value


class SuiteFolder:
    """The folder of a suite; hashes of files are remembered while it is being loaded."""

    def __init__(self, root: Path) -> None:
        """`root` exists."""
        self.root = root.resolve()
        self._known: dict[Path, str] = {}

    def inside(self, name: str, where: str) -> Path:
        """A path below the suite; one that leads out, also through a link, is refused."""
        path = (self.root / name).resolve()
        if not name or "\0" in name or os.path.isabs(name) or not path.is_relative_to(self.root):
            raise BadInput.at(where, f"{name!r} leads out of the suite's folder")
        return path

    def digest(self, path: Path) -> str:
        """The hash of a file's bytes."""
        if path not in self._known:
            self._known[path] = digest("file", path.read_bytes())
        return self._known[path]

    def ref(self, path: Path, where: str) -> FileRef:
        """A file of the suite, hashed."""
        target = self.inside(path.relative_to(self.root).as_posix(), where)
        try:
            return FileRef(path.relative_to(self.root).as_posix(), self.digest(target))
        except OSError as error:
            raise BadInput.at(where, f"the file {path.name!r} cannot be read: {error.strerror}") from None

    def fixture(self, given: Any, where: str) -> FileRef:
        """The file of recorded observations that a task names, hashed."""
        if not isinstance(given, str):
            raise BadInput.at(where, f"'fixture' names a file of the suite, not {given!r}")
        path = self.inside(given, where)
        if not path.is_file():
            raise BadInput.at(where, f"there is no file {given!r} in the suite")
        return self.ref(self.root / given, where)

    def pinned(self, name: str, where: str) -> str:
        """The hash of a file that a check leans on; of code with all code of the suite that it imports."""
        path = self.inside(name, where)
        if not path.is_file():
            raise BadInput.at(where, f"there is no file {name!r} in the suite")
        return code_digest(path) if path.suffix == ".py" else self.digest(path)

    def files(self, given: Any, where: str) -> dict[str, FileRef]:
        """Files of a task: names or globs below `files/` (or the suite), or a mapping from names to those."""
        found: dict[str, FileRef] = {}
        if isinstance(given, dict):
            pairs = [(target, target if path is None else path) for target, path in given.items()]
        elif isinstance(given, list):
            pairs = [(None, path) for path in given]
        else:
            raise BadInput.at(where, "'files' is a list of names, or a mapping from names to paths")
        for target, path in pairs:
            if not isinstance(path, str):
                raise BadInput.at(where, f"{path!r} does not name a file")
            for name, file in self._expanded(target, path, where):
                if bad_name(name):
                    raise BadInput.at(where, f"{name!r} cannot be a name in the workspace")
                if name in found:
                    raise BadInput.at(where, f"two files would be named {name!r} in the workspace")
                found[name] = self.ref(file, where)
        clash = next((n for n in found if any(m.startswith(n + "/") for m in found)), None)
        if clash is not None:
            raise BadInput.at(where, f"{clash!r} would be a file and a folder in the workspace")
        return dict(sorted(found.items()))

    def _expanded(self, target: str | None, path: str, where: str) -> Iterator[tuple[str, Path]]:
        """(name in the workspace, file) of one entry; folders and globs give many."""
        if os.path.isabs(path) or ".." in path.split("/") or path.startswith("~"):
            raise BadInput.at(where, f"{path!r} leads out of the suite's folder")
        any_found = False
        for base in (self.root / FILES, self.root):
            for found in self._matches(base, path, target is None):
                any_found = True
                if found.is_dir():
                    top = "" if target in (".", "./") else f"{(target or _below(found, base)).rstrip('/')}/"
                    yield from ((top + _below(f, found), f) for f in _walk(found))
                else:
                    yield target or _below(found, base), found
            if any_found:
                return
        raise BadInput.at(where, f"there is no file {path!r} below {FILES}/ or in the suite's folder")

    def _matches(self, base: Path, path: str, globs: bool) -> list[Path]:
        if (base / path).exists():
            return [base / path]
        if not globs or not re.search(r"[*?\[]", path) or not base.is_dir():
            return []
        matched = sorted(p for p in base.glob(path) if p.is_file())
        return [p for p in matched if not _is_junk(p.relative_to(base))]

    def repository(self, given: Any, where: str) -> Repository:
        """A git repository below the suite, pinned to a commit; a branch or a tag becomes the commit it names now."""
        try:
            wanted = msgspec.convert(given, Repository)
        except msgspec.ValidationError as error:
            raise BadInput.at(where, f"'repository' needs a path and a commit: {error}") from None
        path = self.inside(wanted.path, where)
        if not path.exists():
            raise BadInput.at(where, f"there is no repository {wanted.path!r} in the suite")
        if path.is_file():
            if not _SHA.fullmatch(wanted.commit):
                raise BadInput.at(where, f"a bundle needs the full hash of the commit, not {wanted.commit!r}")
            return wanted
        return Repository(wanted.path, _commit(path, wanted, where))


def _commit(path: Path, wanted: Repository, where: str) -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    command = ["git", "-c", "safe.directory=*", "rev-parse", "--verify", "--quiet", f"{wanted.commit}^{{commit}}"]
    try:
        asked = subprocess.run(  # noqa: S603 - no shell
            command, cwd=path, env=env, capture_output=True, encoding="utf-8", errors="replace", timeout=60, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise BadInput.at(where, f"git is needed to look at {wanted.path!r}: {error}") from None
    if asked.returncode != 0:
        raise BadInput.at(where, f"the repository {wanted.path!r} has no commit {wanted.commit!r}")
    return asked.stdout.strip()


def _below(path: Path, base: Path) -> str:
    return path.relative_to(base).as_posix()


def _walk(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file() and not _is_junk(p.relative_to(folder)))


def _is_junk(path: Path) -> bool:
    """What machines leave lying about, which would make hashes differ from one to the next."""
    return not _JUNK.isdisjoint(path.parts) or path.suffix == ".pyc"


def unknown_field(name: str, known: list[str], what: str, where: str) -> BadInput:
    """One sentence about a field that does not exist."""
    return BadInput.at(where, f"{what} has no field {name!r}; {nearest(name, known)}")
