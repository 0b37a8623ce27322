"""What was asked: tasks, suites, episodes, conditions, seeds. Inert: nothing here executes."""

from .episode import Condition, Episode, plan_episodes
from .seeds import derived_seed, episode_seed, hashed_seeds
from .task import Blame, Check, FileRef, Repository, Suite, Task

__all__ = [
    "Blame",
    "Check",
    "Condition",
    "Episode",
    "FileRef",
    "Repository",
    "Suite",
    "Task",
    "derived_seed",
    "episode_seed",
    "hashed_seeds",
    "plan_episodes",
]
