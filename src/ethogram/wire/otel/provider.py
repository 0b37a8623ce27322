"""A provider for instrumentors whose agent sets none: it exports nothing, but its spans are watched (`watching.py`)."""

from __future__ import annotations

import sys
import threading
from typing import Any

_provider: Any = None
_lock = threading.Lock()


def lend_provider() -> None:
    """Have a provider where instrumentors ask for one and nobody has set it; one that is set later takes its place."""
    global _provider
    api: Any = sys.modules.get("opentelemetry.trace")
    if api is None or getattr(api, "_TRACER_PROVIDER", 0) is not None:
        return
    try:
        from opentelemetry.sdk.trace import TracerProvider
    except ImportError:  # without the SDK there are no spans
        return
    with _lock:
        if api._TRACER_PROVIDER is None:
            _provider = _provider or TracerProvider(shutdown_on_exit=False)
            api._TRACER_PROVIDER = _provider  # not by set_tracer_provider, which the agent may still want to call


def take_provider_back() -> None:
    """Take the provider back."""
    api: Any = sys.modules.get("opentelemetry.trace")
    with _lock:
        if _provider is not None and api is not None and api._TRACER_PROVIDER is _provider:
            api._TRACER_PROVIDER = None
