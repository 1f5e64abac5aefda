"""Micro-benchmark of the codecs: headers, frames, records, properties, per message of 1 KiB.

Run `python -m benchmarks.pieces.bench_codec`.
"""

from collections.abc import Callable
from functools import partial

from aerobee.remoting.command import Codec
from aerobee.remoting.frame import decode_payload, encode_frame
from aerobee.remoting.headers.send import SendMessageRequestV2
from aerobee.remoting.headers.typed import decode_header
from aerobee.remoting.message.batch import BatchedMessage, encode_batch, split_batch
from aerobee.remoting.message.properties import parse_properties
from aerobee.remoting.message.record import Record, decode_record, encode_record
from aerobee.remoting.message.tags import java_string_hash
from benchmarks.pieces.messages import properties, send_command
from benchmarks.reports.timing import Case, best, print_best

TIMES = 2000
BODY = bytes(1024)


def repeated(work: Callable[[], object], items: int = 1) -> Case:
    """Return a case that does the work many times; it handles `items` each time."""

    def case() -> int:
        for _ in range(TIMES // items):
            work()
        return TIMES // items * items

    return case


def cases() -> dict[str, Case]:
    """Return every case by its name."""
    found: dict[str, Case] = {}
    for name, codec in (
        ("JSON", Codec.JSON),
        ("binary", Codec.ROCKETMQ),
        ("msgpack", Codec.MSGPACK),
    ):
        command = send_command(1, len(BODY), codec)
        payload = encode_frame(command)[4:]
        assert decode_payload(payload).ext == command.ext
        found[f"encode a frame, {name} header"] = repeated(partial(encode_frame, command))
        found[f"decode a frame, {name} header"] = repeated(partial(decode_payload, payload))
    ext = send_command(1, 0).ext
    text = properties(1)
    record = Record(topic="BenchTopic", body=BODY, properties=text.encode())
    stored = encode_record(record)
    batched = [BatchedMessage(0, BODY, text.encode()) for _ in range(32)]
    batch = encode_batch(batched)
    found |= {
        "fields to a typed header": repeated(lambda: decode_header(SendMessageRequestV2, ext)),
        "encode a record": repeated(lambda: encode_record(record)),
        "decode a record": repeated(lambda: decode_record(stored)),
        "parse properties": repeated(lambda: parse_properties(text)),
        "hash of a tag": repeated(lambda: java_string_hash("TagA")),
        "encode a batch of 32, per message": repeated(lambda: encode_batch(batched), 32),
        "split a batch of 32, per message": repeated(lambda: split_batch(batch), 32),
    }
    return found


def main() -> None:
    """Print the smallest time of each case."""
    print_best("codec, 1 KiB bodies, CPU per message", best(cases()))


if __name__ == "__main__":
    main()
