"""Changes to other libraries that can be undone, also to libraries that are not imported yet."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class Patches:
    """Methods that were replaced, and what they were."""

    def __init__(self) -> None:
        """Nothing is changed yet."""
        self._done: list[tuple[type, str, Any, Any]] = []

    def wrap(self, owner: type, name: str, wrapper: Callable[[Any], Any]) -> None:
        """Replace a method by what `wrapper` makes of it."""
        before = owner.__dict__[name]
        after = wrapper(before)
        setattr(owner, name, after)
        self._done.append((owner, name, before, after))

    def undo(self) -> None:
        """Put everything back; a method that somebody else has wrapped meanwhile is left to them."""
        for owner, name, before, after in reversed(self._done):
            if owner.__dict__.get(name) is after:
                setattr(owner, name, before)
        self._done.clear()


Patch = Callable[[ModuleType, Patches], None]


class LateImports(MetaPathFinder):
    """Changes libraries where they are imported already, and others as soon as they are."""

    def __init__(self, libraries: Mapping[str, Patch]) -> None:
        """`libraries` are modules by name with what changes them."""
        self._libraries = libraries
        self._patches: Patches | None = None

    def install(self, patches: Patches) -> None:
        """Begin; changes are noted in `patches`."""
        self._patches = patches
        for name, patch in self._libraries.items():
            module = sys.modules.get(name)
            if module is not None and not _is_importing(module):
                patch(module, patches)
        sys.meta_path.insert(0, self)

    def uninstall(self) -> None:
        """No further library is changed."""
        self._patches = None
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module as others find it, with a loader that changes it at the end."""
        patch = self._libraries.get(fullname)
        if patch is None:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _PatchingLoader(spec.loader, lambda module: self._patch(module, patch))
                return spec
        return None

    def _patch(self, module: ModuleType, patch: Patch) -> None:
        if self._patches is not None:
            patch(module, self._patches)


def _is_importing(module: ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


class _PatchingLoader(Loader):
    """Loads a module as its own loader does, then changes it."""

    def __init__(self, loader: Loader, patch: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._patch = patch

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._patch(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
