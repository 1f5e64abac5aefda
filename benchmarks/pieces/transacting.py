"""A producer that commits each transaction when its half message is answered."""

from struct import Struct
from typing import Final

from aerobee.remoting.codes import RequestCode
from aerobee.remoting.command import Command, Language
from aerobee.remoting.frame import LENGTH_BYTES, WORDS_BYTES, encode_frame
from aerobee.remoting.words import HALF_TOPIC
from benchmarks.pieces.messages import TOPIC, properties, send_command
from benchmarks.pieces.offline import OfflineConnection

WORDS: Final = Struct(">II")  # length of a frame, of its header
PRODUCER: Final = "ProducerGroupName"
NUMBER: Final = 10**11  # twelve digits that are different in each message's keys


def half_template(queue_id: int, body_bytes: int) -> bytes:
    """Return a half message as bytes, in which twelve digits of both of its keys are filled in."""
    text = properties(NUMBER) + f"TRAN_MSG\x01true\x02PGROUP\x01{PRODUCER}\x02"
    text = text.replace(f"{NUMBER:012X}", f"{NUMBER}")
    command = send_command(queue_id, body_bytes)
    ext = command.ext | {"f": "4", "i": text}
    frame = encode_frame(Command(command.code, ext, command.body, queue_id))
    digits = b"%d" % NUMBER
    assert frame.count(digits) == 2, "the message's key, and its unique one"
    return frame.replace(b"%", b"%%").replace(digits, b"%012d")


def end_template() -> bytes:
    """Return the header of an END that commits, as the Java client 5.5.0 writes it."""
    ext = {
        "topic": TOPIC,
        "producerGroup": PRODUCER,
        "tranStateTableOffset": "@",
        "commitLogOffset": "@",
        "commitOrRollback": "8",
        "fromTransactionCheck": "false",
        "bname": "broker-a",
    }
    code = RequestCode.END_TRANSACTION
    frame = encode_frame(Command(code, ext, b"", 7, flag=2, language=Language.JAVA))
    return frame[WORDS_BYTES:].replace(b"%", b"%%").replace(b"@", b"%d")


class Transacting:
    """Makes the reads of a broker: half messages, and ENDs of what the read before has brought."""

    def __init__(self, frames: int, body_bytes: int) -> None:
        self._templates = [half_template(number % 4, body_bytes) for number in range(frames)]
        self._end = end_template()
        self._number = 0
        self._ended = 0

    def next_data(self, connection: OfflineConnection) -> bytes:
        """Return what comes next."""
        halves = connection.entries(HALF_TOPIC, self._ended)
        self._ended += len(halves)
        parts: list[bytes] = []
        for place in halves:
            header = self._end % place
            parts += (WORDS.pack(len(header) + LENGTH_BYTES, len(header)), header)
        for template in self._templates:
            self._number += 1
            parts.append(template % (self._number, self._number))
        return b"".join(parts)
