"""How a fake broker keeps half messages, hears of their end, and asks about them.

A half message stands in its own topic as any other: what a test looks at are `ends`.
"""

from typing import TYPE_CHECKING

from aerobee.remoting.codes import RequestCode
from aerobee.remoting.command import FLAG_ONEWAY, Command
from aerobee.remoting.headers.transactions import (
    CheckTransactionStateRequest,
    EndTransactionRequest,
)
from aerobee.remoting.headers.typed import decode_header, encode_header
from aerobee.remoting.message.properties import parse_properties
from aerobee.remoting.message.record import Record, encode_record
from aerobee.remoting.net.routes import Request, Routes
from aerobee.remoting.words import HALF_TOPIC

if TYPE_CHECKING:
    from support.stand_ins.fake_cluster import FakeBroker

routes: Routes["FakeBroker"] = Routes("fake transactions")


@routes.on(RequestCode.END_TRANSACTION, EndTransactionRequest)
def end_came(broker: "FakeBroker", request: Request[EndTransactionRequest]) -> None:
    """Note nothing but that it came: `FakeBroker.seen` has it."""


def ends(broker: "FakeBroker") -> list[EndTransactionRequest]:
    """Return what producers have decided, in the order in which it came."""
    commands = broker.requests(RequestCode.END_TRANSACTION)
    assert all(command.is_oneway for command in commands)
    return [decode_header(EndTransactionRequest, command.ext) for command in commands]


def halves(broker: "FakeBroker", topic: str) -> list[Record]:
    """Return the half messages of a topic."""
    return [
        record
        for (name, _), records in broker.log.items()
        if name == topic
        for record in records
        if parse_properties(record.properties).get("TRAN_MSG") == "true"
    ]


def ask(broker: "FakeBroker", half: Record, *, offset: int | None = None) -> None:
    """Let a broker ask a producer of the half's group what becomes of it; nobody waits."""
    properties = parse_properties(half.properties)
    header = CheckTransactionStateRequest(
        topic=HALF_TOPIC,
        tran_state_table_offset=half.queue_offset if offset is None else offset,
        commit_log_offset=half.position,
        msg_id=properties["UNIQ_KEY"],
        transaction_id=properties["UNIQ_KEY"],
        broker_name=broker.name,
    )
    broker.producers[properties["PGROUP"]].send(
        Command(
            RequestCode.CHECK_TRANSACTION_STATE,
            encode_header(header),
            encode_record(half),
            flag=FLAG_ONEWAY,
        )
    )
