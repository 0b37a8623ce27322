"""A reply on its way from the upstream to the client, with the copy that is read of it."""

from __future__ import annotations

from ethogram.wire.asgi import Headers

from .call import ModelReply, WireProtocol
from .client import ClientSide
from .connections import UpstreamReply
from .deferred import Later
from .headers import for_client
from .protocols.document import split_error
from .refusals import ProviderRefusal, refusal_of
from .reply_copy import ReplyCopy
from .upstream_http import BROKE_OFF, UpstreamFailed
from .upstreams import Upstream


class ReplyPassage:
    """One reply: bytes go on as they arrive, and nothing is done with them before that."""

    def __init__(self, protocol: WireProtocol, later: Later | None = None) -> None:
        """`later` is told that bytes pass."""
        self.status: int | None = None
        """The status of the reply, or of the error in its place."""
        self.headers: Headers = []
        self.broke = False
        """Whether the upstream broke it off."""
        self.copy: ReplyCopy | None = None
        self._protocol = protocol
        self._later = later

    async def pass_on(self, client: ClientSide, response: UpstreamReply, cut_after: int | None = None) -> str | None:
        """Pass the reply on as it arrives; gives why it broke off, if it did."""
        headers = self.headers = response.headers
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
            self.broke = True
            return f"the upstream failed in the middle of its reply: {error}"
        await client.finish()
        return None

    def refusal(
        self, upstream: Upstream, reply: ModelReply | None, failed: UpstreamFailed | None
    ) -> ProviderRefusal | None:
        """Why no model answered, where the world is to blame; `reply` is what could be read, `failed` why none came."""
        empty = reply is not None and not reply.message.parts
        if failed is not None or (self.broke and empty):
            unsent = failed is not None and failed.unsent
            return refusal_of(upstream, None, [], b"", unsent=unsent, why=str(failed or BROKE_OFF))
        if self.copy is None or self.status is None or (self.status < 400 and not (reply and reply.error and empty)):
            return None
        body = self.copy.body
        if not body and reply is not None and reply.error:
            body = self._protocol.error_body(*split_error(reply.error))
        return refusal_of(upstream, self.status, self.headers, body)
