"""Which rows of an attempt are stored already: looked up in the tails of the queues."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import aclosing

from aerobee.remoting.message.properties import NAME_SEPARATOR, Property
from aerobee.spark.network.pulls import Pulls
from aerobee.spark.offsets import QueueRange
from aerobee.spark.options.address import NetworkAddress
from aerobee.spark.records.cells import payload, ragged
from aerobee.spark.records.headers import Records
from aerobee.spark.records.replies import ReplyBuffer, find_records


async def stored_ids(
    address: NetworkAddress, ranges: Sequence[QueueRange], prefix: str
) -> set[str]:
    """The ids of messages in the ranges that begin with `prefix`.

    Messages of others cost their transfer and a look at their properties. What retention has
    deleted is told as a warning. Raises ClusterUnreachable where a queue cannot be read, also for
    want of read queues: what is stored in it would be written again.
    """
    wanted = [each for each in ranges if each.start < each.end]
    ours = re.compile(f"{Property.UNIQ_KEY}{NAME_SEPARATOR}({prefix}[0-9A-F]*)".encode())
    found: set[str] = set()
    buffer = ReplyBuffer()
    reading = Pulls(address, wanted, fail_on_data_loss=False, queues_stay=True)
    async with aclosing(reading) as pulls:
        async for replies in pulls.replies():
            data, bounds = buffer.join([each.body for each in replies])
            starts, sizes = find_records(data, bounds)
            if len(starts):
                records = Records(data, 0, starts, sizes)
                cells = ragged(records.data, records.properties_at, records.properties_bytes)
                properties, _ = payload(cells)
                found.update(each.decode() for each in ours.findall(properties.tobytes()))
    return found
