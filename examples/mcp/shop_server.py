"""A small MCP server over stdio, with nothing but the standard library: the stock of a shop.

    python examples/mcp/shop_server.py

It reads one JSON-RPC message per line and writes one per line. `ethogram mcp -- python examples/mcp/shop_server.py` stands
between it and any client. Servers of your own are shorter with the official package `mcp`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

STOCK = {"apple": 40, "pear": 12}
TOOLS = [
    {
        "name": "stock",
        "description": "How many of an item there are.",
        "inputSchema": {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]},
    },
    {
        "name": "sell",
        "description": "Take some of an item out of the stock.",
        "inputSchema": {
            "type": "object",
            "properties": {"item": {"type": "string"}, "count": {"type": "integer"}},
            "required": ["item", "count"],
        },
    },
]


def call(name: str, arguments: dict[str, Any]) -> str:
    """Carry out a tool; raises `LookupError` for an item that there is none of."""
    if name not in ("stock", "sell"):
        raise LookupError(f"no tool named {name}")
    item = arguments["item"]
    if item not in STOCK:
        raise LookupError(f"no item named {item}; there are {', '.join(STOCK)}")
    if name == "sell":
        STOCK[item] -= arguments["count"]
    return f"{STOCK[item]} of {item}"


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """The result of a request; raises `KeyError` for a method that is not known."""
    if method == "initialize":
        about = {"name": "shop", "version": "1"}
        version = params.get("protocolVersion", "2025-11-25")
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method != "tools/call":
        raise KeyError(method)
    try:
        return {"content": [{"type": "text", "text": call(params["name"], params.get("arguments") or {})}]}
    except LookupError as error:
        return {"content": [{"type": "text", "text": str(error)}], "isError": True}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "method" not in message or "id" not in message:
            continue
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            reply["result"] = answer(message["method"], message.get("params") or {})
        except KeyError as error:
            reply["error"] = {"code": -32601, "message": f"no method {error}"}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
