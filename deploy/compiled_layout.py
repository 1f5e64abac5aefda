"""Writes the layouts of messages and frames for compiled code: `python deploy/compiled_layout.py`.

The numbers come from `remoting/message/layout.py`; a test compares the files with what this makes.
"""

import sys
from pathlib import Path
from typing import Final

from aerobee.remoting import frame
from aerobee.remoting.message import layout
from aerobee.storage.layout import INDEX_ENTRY_FIELDS, INDEX_SUM_ENTRIES

RECORD, ENTRY, FRAME = layout.RECORD_FIELDS, layout.ENTRY_FIELDS, layout.FRAME_FIELDS
BATCH = layout.BATCH_FIELDS

NUMBERS: Final = {
    "FRAME_LENGTH_BYTES": FRAME.behind("frame_bytes"),
    "FRAME_WORDS_BYTES": FRAME.size,
    "FRAME_HEADER_BYTES_MAX": frame.HEADER_BYTES_MAX,
    "RECORD_BYTES_MIN": layout.RECORD_BYTES_MIN,
    "RECORD_HEAD_BYTES": RECORD.size,
    "RECORD_HEAD_BYTES_MAX": layout.RECORD_SHAPES[layout.HOST_BITS].size,
    "RECORD_AROUND_BYTES": layout.AROUND_BYTES,
    "RECORD_PREFIX_BYTES": layout.PREFIX_BYTES,
    "MAGIC_AT": RECORD.at("magic"),
    "BODY_CRC_AT": RECORD.at("body_crc"),
    "QUEUE_ID_AT": RECORD.at("queue_id"),
    "FLAG_AT": RECORD.at("flag"),
    "QUEUE_OFFSET_AT": RECORD.at("queue_offset"),
    "POSITION_AT": layout.POSITION_AT,
    "SYS_FLAG_AT": RECORD.at("sys_flag"),
    "SYS_FLAG_LAST_AT": RECORD.behind("sys_flag") - 1,
    "BORN_TIMESTAMP_AT": RECORD.at("born_timestamp"),
    "BORN_HOST_AT": RECORD.at("born_host"),
    "HOST_BITS_SHIFT": layout.BORN_HOST_V6_BIT.bit_length() - 1,
    "WRAPPED": layout.WRAPPED,
    "HOST_V4_BYTES": layout.HOST_V4_BYTES,
    "HOST_V6_MORE_BYTES": layout.HOST_V6_BYTES - layout.HOST_V4_BYTES,
    "BODY_LENGTH_BYTES": layout.BODY_LENGTH_BYTES,
    "PROPERTIES_LENGTH_BYTES": layout.PROPERTIES_LENGTH_BYTES,
    "BATCH_HEAD_BYTES": BATCH.size,
    "BATCH_FLAG_AT": BATCH.at("flag"),
    "BATCH_BODY_BYTES_AT": BATCH.at("body_bytes"),
    "ENTRY_BYTES": ENTRY.size,
    "ENTRY_SIZE_AT": ENTRY.at("size"),
    "ENTRY_TAGS_CODE_AT": ENTRY.at("tags_code"),
    "STORE_TIMESTAMP_AT": RECORD.at("store_timestamp"),
    "STORE_HOST_AT": RECORD.at("store_host"),
    "RECONSUME_TIMES_AT": RECORD.at("reconsume_times"),
    "INDEX_ENTRY_BYTES": INDEX_ENTRY_FIELDS.size,
    "INDEX_POSITION_AT": INDEX_ENTRY_FIELDS.at("position"),
    "INDEX_SECONDS_AT": INDEX_ENTRY_FIELDS.at("seconds"),
    "INDEX_PREVIOUS_AT": INDEX_ENTRY_FIELDS.at("previous"),
    "INDEX_SUM_ENTRIES": INDEX_SUM_ENTRIES,
}
MAGICS: Final = {"MAGIC_V1": layout.MAGIC_V1, "MAGIC_V2": layout.MAGIC_V2}
PLACES: Final = (
    "broker/compiled/layout.pxi", "client/compiled/layout.pxi", "spark/compiled/layout.pxi",
    "storage/compiled/layout.pxi",
)  # fmt: skip


def text() -> str:
    """Return what each of the files has."""
    numbers = "".join(f"    {name} = {number}\n" for name, number in NUMBERS.items())
    magics = "".join(f"    {name} = {number:#x}\n" for name, number in MAGICS.items())
    return (
        "# Where numbers stand in frames, records and queue entries, in bytes: made of\n"
        "# remoting/message/layout.py by deploy/compiled_layout.py, never written by hand.\n\n"
        f"cdef enum:\n{numbers}\n"
        f"cdef enum:  # apart, for they make all of an enum unsigned\n{magics}"
    )


def main(root: Path) -> None:
    """Write the files of a tree."""
    for place in PLACES:
        (root / place).write_text(text())


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parents[1])
