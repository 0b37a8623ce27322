"""Fixtures that tests of several folders share."""

from scene_fixtures import scene  # noqa: F401
