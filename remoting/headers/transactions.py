"""Headers of transactions: 37, 39 and 323."""

import msgspec

from aerobee.remoting.headers.typed import Header, Int32, Int64


class EndTransactionRequest(Header, frozen=True, kw_only=True):
    """END_TRANSACTION: what a producer has decided about its half message.

    `commit_or_rollback` is 8, 12, or 0 for a producer that does not know yet;
    `tran_state_table_offset` is the offset in the half topic, `commit_log_offset` the position, and
    `from_transaction_check` says that the broker had asked (EndTransactionRequestHeader.java).
    """

    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32
    topic: str | None = None
    from_transaction_check: bool = False
    msg_id: str | None = None
    transaction_id: str | None = None
    broker_name: str | None = msgspec.field(name="bname", default=None)


class CheckTransactionStateRequest(Header, frozen=True, kw_only=True):
    """CHECK_TRANSACTION_STATE: the broker asks a producer; the body is the half message.

    `topic` is the half topic; the message in the body names its own
    (CheckTransactionStateRequestHeader.java).
    """

    topic: str | None = None
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    broker_name: str | None = msgspec.field(name="bname", default=None)


class ResumeCheckHalfMessageRequest(Header, frozen=True, kw_only=True):
    """RESUME_CHECK_HALF_MESSAGE: ask again about what was given up; `msg_id` is the broker's id."""

    topic: str | None = None
    msg_id: str
