"""Requests for messages as bytes: a header made ready once, filled in with three numbers.

Headers are JSON whatever else is spoken on a connection: brokers know a pull that comes again by
the rest of its header, which is the same to the byte.
"""

from typing import Final

from aerobee.remoting.command import Command
from aerobee.remoting.frame import WORD_BYTES
from aerobee.remoting.json_header import encode_header_bytes
from aerobee.remoting.message.layout import FRAME_FIELDS

_NUMBERS: Final = ('"commitOffset":"0"', '"queueOffset":"0"', '"opaque":0')
"""As a header has them; nothing that is quoted within it looks so."""

_pack_words: Final = FRAME_FIELDS.run().pack


def pull_template(code: int, ext: dict[str, str], flag: int = 0) -> bytes:
    """Return what `pull_frame` fills in; `ext` has the fields but for the two offsets."""
    fields = {"commitOffset": "0", "queueOffset": "0"} | ext
    text = (
        encode_header_bytes(Command(code, fields, opaque=0, flag=flag)).decode().replace("%", "%%")
    )
    for number in _NUMBERS:
        text = text.replace(number, number.replace("0", "%d"), 1)
    return text.encode()


def pull_frame(template: bytes, offset: int, commit_offset: int, opaque: int) -> bytes:
    """Write the request for what stands from `offset` on, which commits an offset if it says so."""
    header = template % (commit_offset, offset, opaque)
    return _pack_words(WORD_BYTES + len(header), len(header)) + header
