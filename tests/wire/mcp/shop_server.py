"""A server written with the official package, over stdio or (with a port) over streamable HTTP."""

from __future__ import annotations

import os
import sys

import anyio
from mcp.server.mcpserver import Context, MCPServer

shop = MCPServer("shop")


@shop.tool()
def add(a: int, b: int) -> int:
    """The sum."""
    return a + b


@shop.tool()
def repeat(word: str, times: int) -> str:
    """A word, many times."""
    return word * times


@shop.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("on purpose")


@shop.tool()
def end(code: int) -> str:
    """Ends the server in the middle of the call."""
    os._exit(code)


@shop.tool()
async def count(ctx: Context, to: int) -> int:
    """Counts, and tells how far it is."""
    for number in range(to):
        await ctx.report_progress(number + 1, to)
        await anyio.sleep(0)
    return to


if __name__ == "__main__":
    if marker := os.environ.get("SHOP_STARTED"):
        with open(marker, "a") as file:
            file.write("started\n")
    print("the shop is open", file=sys.stderr)
    shop.run("stdio")
