"""A reply on its way from the upstream to the client, with the copy that is read of it."""

from __future__ import annotations

from .call import WireProtocol
from .client import ClientSide
from .connections import UpstreamReply
from .deferred import Later
from .headers import for_client
from .reply_copy import ReplyCopy
from .upstream_http import UpstreamFailed


class ReplyPassage:
    """One reply: bytes go on as they arrive, and nothing is done with them before that."""

    def __init__(self, protocol: WireProtocol, later: Later | None = None) -> None:
        """`later` is told that bytes pass."""
        self.status: int | None = None
        """The status of the reply, or of the error in its place."""
        self.copy: ReplyCopy | None = None
        self._protocol = protocol
        self._later = later

    async def pass_on(self, client: ClientSide, response: UpstreamReply, cut_after: int | None = None) -> str | None:
        """Pass the reply on as it arrives; gives why it broke off, if it did."""
        headers = response.headers
        self.status = response.status
        copy = self.copy = ReplyCopy(self._protocol, headers)
        await client.start(response.status, for_client(headers))
        try:
            while chunk := await response.read():
                if self._later is not None:
                    self._later.busy()
                if cut_after is not None and copy.received + len(chunk) > cut_after:
                    rest = chunk[: cut_after - copy.received]
                    await client.send(rest)
                    copy.feed(rest)
                    return f"the reply was cut after {cut_after} bytes"
                if response.ended:  # the last bytes and the end of the reply go out together
                    copy.keep(chunk)
                    await client.finish(chunk)
                    return None
                await client.send(chunk)
                copy.feed(chunk)
        except UpstreamFailed as error:
            return f"the upstream failed in the middle of its reply: {error}"
        await client.finish()
        return None
