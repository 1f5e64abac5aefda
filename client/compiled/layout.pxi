# Where numbers stand in frames, records and queue entries, in bytes: made of
# remoting/message/layout.py by deploy/compiled_layout.py, never written by hand.

cdef enum:
    FRAME_LENGTH_BYTES = 4
    FRAME_WORDS_BYTES = 8
    FRAME_HEADER_BYTES_MAX = 4194304
    RECORD_BYTES_MIN = 91
    RECORD_HEAD_BYTES = 88
    RECORD_HEAD_BYTES_MAX = 112
    RECORD_AROUND_BYTES = 54
    RECORD_PREFIX_BYTES = 36
    MAGIC_AT = 4
    BODY_CRC_AT = 8
    QUEUE_ID_AT = 12
    FLAG_AT = 16
    QUEUE_OFFSET_AT = 20
    POSITION_AT = 28
    SYS_FLAG_AT = 36
    SYS_FLAG_LAST_AT = 39
    BORN_TIMESTAMP_AT = 40
    BORN_HOST_AT = 48
    HOST_BITS_SHIFT = 4
    WRAPPED = 192
    HOST_V4_BYTES = 8
    HOST_V6_MORE_BYTES = 12
    BODY_LENGTH_BYTES = 4
    PROPERTIES_LENGTH_BYTES = 2
    BATCH_HEAD_BYTES = 20
    BATCH_FLAG_AT = 12
    BATCH_BODY_BYTES_AT = 16
    ENTRY_BYTES = 20
    ENTRY_SIZE_AT = 8
    ENTRY_TAGS_CODE_AT = 12
    STORE_TIMESTAMP_AT = 56
    STORE_HOST_AT = 64
    RECONSUME_TIMES_AT = 72
    INDEX_ENTRY_BYTES = 20
    INDEX_POSITION_AT = 4
    INDEX_SECONDS_AT = 12
    INDEX_PREVIOUS_AT = 16
    INDEX_SUM_ENTRIES = 1024

cdef enum:  # apart, for they make all of an enum unsigned
    MAGIC_V1 = 0xdaa320a7
    MAGIC_V2 = 0xdaa320ab
