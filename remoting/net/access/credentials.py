"""Who a client, or a server that calls others, is: what its requests are signed with."""

import msgspec
from msgspec.structs import replace

from aerobee.remoting.command import Command
from aerobee.remoting.frame import LENGTH_BYTES, decode_payload, encode_frame


class SessionCredentials(msgspec.Struct, frozen=True, rename="camel"):
    """A user's name and secret, as brokers know them (SessionCredentials.java).

        settings = ClientSettings(credentials=SessionCredentials("ann", "her secret"))

    Without TLS whoever can read the network can send what it has read once more.
    """

    access_key: str
    secret_key: str
    security_token: str | None = None

    def __repr__(self) -> str:
        return f"SessionCredentials(access_key={self.access_key!r})"

    def sign(self, command: Command) -> Command:
        """Return a request as this user sends it."""
        # who signs nothing need not wait for hmac, and hashlib with it
        from aerobee.remoting.net.access.signature import (
            ACCESS_KEY,
            SECURITY_TOKEN,
            SIGNATURE,
            signature,
        )

        ext = command.ext | {ACCESS_KEY: self.access_key}
        if self.security_token is not None:
            ext[SECURITY_TOKEN] = self.security_token
        ext[SIGNATURE] = signature(self.secret_key.encode(), ext, command.body)
        return replace(command, ext=ext)

    def sign_frames(self, data: bytes) -> bytes:
        """Return whole frames with the requests among them signed; replies are not."""
        frames: list[bytes] = []
        at = 0
        while at < len(data):
            end = at + LENGTH_BYTES + int.from_bytes(data[at : at + LENGTH_BYTES], "big")
            command = decode_payload(data[at + LENGTH_BYTES : end])
            frames.append(data[at:end] if command.is_response else encode_frame(self.sign(command)))
            at = end
        return b"".join(frames)
