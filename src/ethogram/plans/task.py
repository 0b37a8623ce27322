"""Tasks and suites: what is asked, and how the answer will be verified. Inert."""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

from ethogram.arguments import choice_of
from ethogram.traces import digest


class Check(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One verifier of a task by name, with its settings; `required` ones decide the outcome together."""

    kind: str
    name: str = ""
    required: bool = True
    settings: dict[str, Any] = {}


class FileRef(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file that an episode gets a fresh copy of: where it lies below the suite, and the hash of its bytes."""

    path: str
    digest: str


class Repository(msgspec.Struct, frozen=True, omit_defaults=True):
    """A git repository, pinned to a commit, that an episode gets a fresh checkout of."""

    path: str
    commit: str


class Task(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is asked of an agent.

    `outcome` names the check that alone decides; without it all required checks decide together.
    `caps` limit one episode (steps, tokens, usd, seconds). `simulator` is the agent that plays the user. `fixture` is a
    file of recorded observations: the tools of the task answer from it.
    """

    id: str
    prompt: str = ""
    inputs: dict[str, Any] = {}
    files: dict[str, FileRef] = {}
    repository: Repository | None = None
    tools: tuple[str, ...] = ()
    expected: Any = None
    checks: tuple[Check, ...] = ()
    outcome: str | None = None
    caps: dict[str, float] = {}
    simulator: str | None = None
    fixture: FileRef | None = None
    meta: dict[str, Any] = {}

    def for_agent(self) -> Task:
        """The task as an agent may see it: without what is expected and how that is checked."""
        return msgspec.structs.replace(self, expected=None, checks=(), outcome=None, fixture=None)


Blame = Literal["verify", "zero", "missing"]
BLAMES: tuple[str, ...] = get_args(Blame)
"""What becomes of an episode that the agent spoiled itself: what the checks say of what it left, 0, or no outcome."""


class Suite(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A frozen, versioned set of tasks.

    A score of `success_at` or more is a success. `on_crash` and `on_cap` say whether an episode that crashed or reached
    a cap is scored by its checks (`verify`), scored 0 (`zero`), or has no outcome (`missing`). Tools that are
    `read_only` change nothing: where a trace is continued, their recorded results are used instead of
    calling them again.
    """

    name: str
    tasks: tuple[Task, ...]
    version: str = "1"
    success_at: float = 0.5
    on_crash: Blame = "verify"
    on_cap: Blame = "verify"
    read_only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse rules that do not exist."""
        choice_of("on_crash", self.on_crash, BLAMES)
        choice_of("on_cap", self.on_cap, BLAMES)

    def task(self, wanted: str) -> Task:
        """A task by its id."""
        return next(t for t in self.tasks if t.id == wanted)

    @property
    def digest(self) -> str:
        """The hash of everything that is asked: scores of different digests are never mixed."""
        return digest("suite", msgspec.json.encode(self, order="deterministic"))

    def task_digest(self, task: Task) -> str:
        """The hash of one task and of the rules by which the suite scores it: equal ones may be compared."""
        rules = (self.success_at, self.on_crash, self.on_cap, sorted(self.read_only))
        return digest("task", msgspec.json.encode((task, rules), order="deterministic"))

    def task_digests(self) -> dict[str, str]:
        """The hash of every task, by id."""
        return {task.id: self.task_digest(task) for task in self.tasks}
