"""The APIs of models that are understood: each turns bytes into records and records into bytes."""

from __future__ import annotations

from ethogram.wire.gateway.call import ProtocolName, WireProtocol

from .anthropic_messages import AnthropicMessages
from .estimate import estimated_usage, settled_usage
from .openai_chat import OpenAIChat
from .openai_responses import OpenAIResponses

PROTOCOLS: dict[ProtocolName, WireProtocol] = {
    protocol.name: protocol for protocol in (OpenAIChat(), OpenAIResponses(), AnthropicMessages())
}
"""Every API by its name."""


def protocol_for(method: str, path: str) -> WireProtocol | None:
    """The API that a request to this address calls; None for any other address (embeddings, files, lists of models).

    A prefix before the API's own path is fine, and so are a query and a slash at the end:
    `/proxy/v1/chat/completions`, `/openai/deployments/NAME/chat/completions?api-version=…` (Azure).
    """
    plain = path.partition("?")[0].rstrip("/")
    return next((p for p in PROTOCOLS.values() if p.serves(method.upper(), plain)), None)


__all__ = ["PROTOCOLS", "estimated_usage", "protocol_for", "settled_usage"]
