"""The region that acknowledgements and messages name."""

from pathlib import Path

import pytest
from msgspec import structs
from support.raw_peer import RawPeer
from support.servers.brokers import pull_command, running_broker, send_command

from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Codec
from aerobee.remoting.message.batch import BatchedMessage, encode_batch
from aerobee.remoting.message.properties import parse_properties
from aerobee.remoting.message.record import iter_records


@pytest.mark.parametrize("compiled", ["true", "false"])
@pytest.mark.parametrize("codec", [Codec.JSON, Codec.MSGPACK])
async def test_a_region_may_have_any_name(tmp_path: Path, compiled: str, codec: Codec) -> None:
    """What JSON or a template takes for its own is answered as it was configured, on both paths."""
    region = 'eu 5%d "%016X" \\%'
    async with (
        running_broker(tmp_path, regionId=region, compiledFastPath=compiled) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        batch = encode_batch([BatchedMessage(flag=0, body=b"b", properties=b"")])
        batch_command = send_command(
            batch, code=RequestCode.SEND_BATCH_MESSAGE, properties="", m="true"
        )
        for command in (send_command(), send_command(), batch_command):
            reply = await peer.request(structs.replace(command, codec=codec))
            assert reply.code == ResponseCode.SUCCESS, reply.remark
            assert reply.ext["MSG_REGION"] == region
        records = list(iter_records(bytes((await peer.request(pull_command(0))).body)))
    regions = [parse_properties(record.properties)["MSG_REGION"] for record in records[:2]]
    assert regions == [region, region]
