"""A small MCP client over stdio, with nothing but the standard library: it asks for the stock of a shop.

    python examples/mcp/shop_client.py ITEM COUNT COMMAND…

It starts the command as its server, sells some of an item, and prints what the tools answer.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

VERSION = "2025-11-25"


class Client:
    """One session with a server."""

    def __init__(self, command: list[str]) -> None:
        self.server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.asked = 0
        about = {"name": "shopper", "version": "1"}
        self.ask("initialize", {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": about})
        self.send({"method": "notifications/initialized"})

    def send(self, message: dict[str, Any]) -> None:
        assert self.server.stdin is not None
        self.server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.server.stdin.flush()

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and give its answer."""
        self.asked += 1
        self.send({"id": self.asked, "method": method, "params": params})
        assert self.server.stdout is not None
        reply: dict[str, Any] = json.loads(self.server.stdout.readline())
        return reply

    def tool(self, name: str, **arguments: Any) -> str:
        """What a tool answers, or the error."""
        reply = self.ask("tools/call", {"name": name, "arguments": arguments})
        if "error" in reply:
            return f"error: {reply['error']['message']}"
        return str(reply["result"]["content"][0]["text"])

    def close(self) -> int:
        """End the server and give its exit code."""
        assert self.server.stdin is not None
        self.server.stdin.close()
        return self.server.wait()


def main() -> int:
    item, count, *command = sys.argv[1:]
    client = Client(command)
    print("tools:", ", ".join(tool["name"] for tool in client.ask("tools/list", {})["result"]["tools"]))
    print("stock:", client.tool("stock", item=item))
    print("sold: ", client.tool("sell", item=item, count=int(count)))
    return client.close()


if __name__ == "__main__":
    sys.exit(main())
