"""One thread for small matrices: a BLAS that wakes every core for them spends its time waiting, above all where cores
are shared. Only OpenBLAS, which the wheels of numpy and scipy carry, needs to be told."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module

PREFIXES = ("scipy_openblas", "openblas")
SUFFIXES = ("64_", "")

Control = tuple[Callable[[], int], Callable[[int], None]]


@cache
def _controls() -> tuple[Control, ...]:
    """How to read and set the number of threads of each BLAS that is loaded; none if there is no OpenBLAS."""
    found = []
    for name in ("numpy.linalg._umath_linalg", "scipy.linalg._fblas"):
        with suppress(ImportError, OSError, TypeError):
            library = ctypes.CDLL(import_module(name).__file__ or "")
            for prefix, suffix in ((p, s) for p in PREFIXES for s in SUFFIXES):
                with suppress(AttributeError):
                    found.append(
                        (
                            getattr(library, f"{prefix}_get_num_threads{suffix}"),
                            getattr(library, f"{prefix}_set_num_threads{suffix}"),
                        )
                    )
    return tuple(found)


@contextmanager
def one_thread() -> Iterator[None]:
    """Linear algebra on one thread within this block."""
    before = [read() for read, _ in _controls()]
    for _, write in _controls():
        write(1)
    try:
        yield
    finally:
        for (_, write), count in zip(_controls(), before, strict=True):
            write(count)
