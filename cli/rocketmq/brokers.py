"""mqadmin's commands of brokers and nameservers, and a message to try them."""

from argparse import Namespace
from typing import Final

from aerobee.admin.calls import read_settings
from aerobee.admin.client import AdminClient
from aerobee.cli.rocketmq.given import BROKER, CLUSTER, EITHER, AdminCommand, Letter, chosen
from aerobee.cli.rocketmq.texts import columns
from aerobee.client import Message, Producer
from aerobee.client.settings import ProducerSettings
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.config.java_properties import format_java_properties
from aerobee.remoting.headers.kv import DeleteKVConfigRequest, PutKVConfigRequest

CLUSTERS: Final = "%-22s  %-22s  %-4s  %-22s %-16s  %16s  %16s  %-11s  %-10s"


async def list_cluster(admin: AdminClient, given: Namespace) -> None:
    """List brokers with their rates: clusterList."""
    columns(
        CLUSTERS,
        "#Cluster Name",
        "#Broker Name",
        "#BID",
        "#Addr",
        "#Version",
        "#InTPS",
        "#OutTPS",
        "#PCWait(ms)",
        "#ACTIVATED",
    )
    for broker in await admin.brokers():
        if given.clusterName in (None, broker.cluster):
            state = await admin.broker.state(broker.address)
            into, out = (_rate(state, key) for key in ("putTps", "getTransferredTps"))
            version = state.get("brokerVersionDesc", "")
            columns(
                CLUSTERS,
                broker.cluster,
                broker.name,
                broker.broker_id,
                broker.address,
                version,
                into,
                out,
                state.get("pageCacheLockTimeMills", ""),
                state.get("brokerActive", ""),
            )


def _rate(state: dict[str, str], key: str) -> str:
    """Return the first rate of a key, of the last seconds."""
    return f"{float((state.get(key) or '0').split()[0]):.2f}"


async def status(admin: AdminClient, given: Namespace) -> None:
    """Show what a broker says of itself: brokerStatus."""
    for broker in await chosen(admin, given):
        prefix = "" if given.brokerAddr else f"{broker.address:<24} "
        for key, value in sorted((await admin.broker.state(broker.address)).items()):
            print(f"{prefix}{key:<32}: {value}")


async def settings(admin: AdminClient, given: Namespace) -> None:
    """Show the settings of brokers: getBrokerConfig."""
    for broker in await chosen(admin, given):
        title = broker.address if given.brokerAddr else f"Master: {broker.address}"
        print(f"============{title}============")
        for key, value in (await admin.broker.settings_at(broker.address)).items():
            print(f"{key:<50}=  {value}")
        print()


async def update_settings(admin: AdminClient, given: Namespace) -> None:
    """Change a setting of running brokers: updateBrokerConfig."""
    body = format_java_properties({given.key: given.value}).encode()
    for broker in await chosen(admin, given):
        code = RequestCode.UPDATE_BROKER_CONFIG
        await admin.connections.request(broker.address, code, body=body)
        print(f"update broker config success, {broker.address}")


async def wipe_writes(admin: AdminClient, given: Namespace) -> None:
    """Let nameservers say that a broker takes nothing: wipeWritePerm."""
    for server, count in (await admin.broker.wipe_write_permission(given.brokerName)).items():
        print(f"wipe write perm of broker[{given.brokerName}] in name server[{server}] OK, {count}")


async def add_writes(admin: AdminClient, given: Namespace) -> None:
    """Undo that: addWritePerm."""
    for server, count in (await admin.broker.add_write_permission(given.brokerName)).items():
        print(f"add write perm of broker[{given.brokerName}] in name server[{server}] OK, {count}")


async def namesrv_settings(admin: AdminClient, given: Namespace) -> None:
    """Show the settings of nameservers: getNamesrvConfig."""
    for server in list(admin.namesrv):
        reply = await admin.connections.request(server, RequestCode.GET_NAMESRV_CONFIG)
        print(f"============{server}============")
        for key, value in read_settings(server, reply.body).items():
            print(f"{key:<50}=  {value}")


async def put_kv(admin: AdminClient, given: Namespace) -> None:
    """Keep a value in all nameservers: updateKvConfig."""
    header = PutKVConfigRequest(namespace=given.namespace, key=given.key, value=given.value)
    await admin.tell_nameservers(RequestCode.PUT_KV_CONFIG, header)
    print("create or update kv config to namespace success.")


async def delete_kv(admin: AdminClient, given: Namespace) -> None:
    """Remove one: deleteKvConfig."""
    header = DeleteKVConfigRequest(namespace=given.namespace, key=given.key)
    await admin.tell_nameservers(RequestCode.DELETE_KV_CONFIG, header)
    print("delete kv config from namespace success.")


async def send(admin: AdminClient, given: Namespace) -> None:
    """Send a message: sendMessage."""
    message = Message(
        given.topic, given.body.encode(), tags=given.tags or None, keys=given.key or ()
    )
    async with Producer(
        "mqadmin",
        namesrv=list(admin.namesrv),
        settings=ProducerSettings(),
        client=admin.settings,
    ) as producer:
        sent = await producer.send(message)
    row = "%-32s  %-4s  %-20s    %s"
    columns(row, "#Broker Name", "#QID", "#Send Result", "#MsgId")
    columns(row, sent.queue.broker_name, sent.queue.queue_id, sent.status.name, sent.message_id)


NAMESPACE: Final = Letter("s", "namespace", required=True)
KEY: Final = Letter("k", "key", required=True)
VALUE: Final = Letter("v", "value", required=True)
BROKER_NAME: Final = Letter("b", "brokerName", required=True)
COMMANDS: Final = {
    "clusterList": AdminCommand(list_cluster, (CLUSTER,)),
    "brokerStatus": AdminCommand(status, (BROKER, CLUSTER), EITHER),
    "getBrokerConfig": AdminCommand(settings, (BROKER, CLUSTER), EITHER),
    "updateBrokerConfig": AdminCommand(update_settings, (BROKER, CLUSTER, KEY, VALUE), EITHER),
    "wipeWritePerm": AdminCommand(wipe_writes, (BROKER_NAME,)),
    "addWritePerm": AdminCommand(add_writes, (BROKER_NAME,)),
    "getNamesrvConfig": AdminCommand(namesrv_settings, ()),
    "updateKvConfig": AdminCommand(put_kv, (NAMESPACE, KEY, VALUE)),
    "deleteKvConfig": AdminCommand(delete_kv, (NAMESPACE, KEY)),
    "sendMessage": AdminCommand(
        send,
        (
            Letter("t", "topic", required=True), Letter("p", "body", required=True),
            Letter("k", "key"), Letter("c", "tags"),
        ),
    ),
}  # fmt: skip
