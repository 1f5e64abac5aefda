"""A nameserver that asks who is there: routes for all, everything else for who may."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from support.asker import BODY, BROKER, Asker, connect
from support.code_names import REQUEST_NAMES
from support.features.access import signed
from support.servers.live_broker import live_broker
from support.waiting import until

from aerobee.namesrv.access import READS
from aerobee.namesrv.app import NameServer
from aerobee.namesrv.processors import FAMILIES
from aerobee.namesrv.settings import NamesrvSettings
from aerobee.remoting.codes import RequestCode as Code
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.config.kept_files import KeptFileDamaged
from aerobee.remoting.net.access.changes import CHANGES

DENIED: Final = ResponseCode.NO_PERMISSION
INNER: Final = json.dumps({"accessKey": "root", "secretKey": "a secret"})
ASKED: Final = pytest.mark.settings(
    authentication_enabled=True,
    authorization_enabled=True,
    inner_client_authentication_credentials=INNER,
)
USERS: Final = {"users": [{"username": "ann", "password": "a secret", "userType": "Normal"}]}


def acls(*lines: tuple[str, str]) -> dict[str, Any]:
    """What a file of ann's policies holds."""
    entries = [{"resource": r, "actions": [a], "decision": "Allow"} for r, a in lines]
    return {"acls": [{"subject": "User:ann", "policies": [{"entries": entries}]}]}


@ASKED
async def test_all_but_routes_is_asked(asker: Asker) -> None:
    """A stranger finds brokers, and may nothing else; a super user may all."""
    for family in FAMILIES:
        for code in family.table:
            reply = await asker.ask(code)
            free = code in (Code.GET_ROUTEINFO_BY_TOPIC, Code.GET_BROKER_CLUSTER_INFO)
            assert (reply.code == DENIED) != free, REQUEST_NAMES[code]
    assert (await asker.register()).remark == "username cannot be null."
    assert (await asker.ask(Code.REGISTER_BROKER, signed("root", BROKER, BODY), BODY)).code == 0
    assert (await asker.route()).code == 0
    wrong = signed("root", BROKER, BODY, "guessed")
    reply = await asker.ask(Code.UNREGISTER_BROKER, wrong, BODY)
    assert (reply.code, reply.remark) == (DENIED, "check signature failed.")
    assert (await asker.route()).code == 0
    shown = await asker.ask(Code.GET_NAMESRV_CONFIG, signed("root", {}))
    assert b"a secret" not in shown.body
    assert b"authenticationEnabled=true" in shown.body


NOWHERE: Final = pytest.mark.settings(
    authentication_enabled=True,
    authorization_enabled=True,
    inner_client_authentication_credentials=INNER,
    admin_allowed_networks="none",
)
OFF: Final = b"enableAllTopicList=false"


@NOWHERE
async def test_settings_are_changed_by_who_may_from_wherever_he_is(asker: Asker) -> None:
    """318 needs no address where it is signed; the list of what it may change is the same."""
    assert (await asker.ask(Code.UPDATE_NAMESRV_CONFIG, body=OFF)).code == DENIED
    guessed = signed("root", {}, OFF, "guessed")
    assert (await asker.ask(Code.UPDATE_NAMESRV_CONFIG, guessed, OFF)).code == DENIED
    ext = signed("root", {})
    assert (await asker.ask(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, ext)).code == 0
    ext = signed("root", {}, OFF)
    assert (await asker.ask(Code.UPDATE_NAMESRV_CONFIG, ext, OFF)).code == 0
    reply = await asker.ask(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, signed("root", {}))
    assert (reply.code, reply.remark) == (1, "disable")
    for key in (b"kvConfigPath=/tmp/x", b"authenticationEnabled=false"):
        reply = await asker.ask(Code.UPDATE_NAMESRV_CONFIG, signed("root", {}, key), key)
        assert reply.code == DENIED, key


@pytest.mark.parametrize(
    "rules",
    [
        {"authentication_whitelist": "318", "authorization_whitelist": "318"},
        {"authentication_enabled": False},
        {"authorization_enabled": False},
    ],
    ids=["whitelisted", "claims", "rights"],
)
async def test_who_is_not_asked_both_changes_nothing_from_afar(
    tmp_path: Path, rules: dict[str, Any]
) -> None:
    """A name that nobody proves, and one without a right, need an address that is trusted."""
    (tmp_path / "users.json").write_text(json.dumps(USERS))
    (tmp_path / "acls.json").write_text(json.dumps(acls(("Cluster:*", "All"))))
    server = await start(tmp_path, admin_allowed_networks="none", **rules)
    try:
        async with await connect(server) as asker:
            reply = await asker.ask(Code.UPDATE_NAMESRV_CONFIG, signed("ann", {}, OFF), OFF)
            assert (reply.code, "adminAllowedNetworks" in (reply.remark or "")) == (DENIED, True)
    finally:
        await server.stop()


def test_what_changes_a_nameserver_is_noted() -> None:
    """All but reads, and what brokers tell of themselves again and again."""
    told = {Code.REGISTER_BROKER, Code.QUERY_DATA_VERSION, Code.BROKER_HEARTBEAT}
    changes = {code for family in FAMILIES for code in family.table} - READS - told
    assert {REQUEST_NAMES[code] for code in changes - set(CHANGES)} == set()


async def start(folder: Path, **settings: Any) -> NameServer:
    """Start a nameserver that asks."""
    server = NameServer(
        NamesrvSettings(
            bind_address="127.0.0.1",
            listen_port=0,
            kv_config_path=folder / "kvConfig.json",
            **({"authentication_enabled": True, "authorization_enabled": True} | settings),
        )
    )
    await server.start()
    return server


@pytest.mark.parametrize(
    ("lines", "may"),
    [
        ([], set()),
        ([("Cluster:*", "Get")], set(READS)),
        ([("Cluster:DefaultCluster", "All")], set()),
        ([("Cluster:*", "All")], None),
    ],
)
async def test_users_of_files_may_what_they_say(
    tmp_path: Path, lines: list[tuple[str, str]], may: set[int] | None
) -> None:
    """Copied from a broker; a right on one cluster is none on what all have in common."""
    (tmp_path / "users.json").write_text(json.dumps(USERS))
    if lines:
        (tmp_path / "acls.json").write_text(json.dumps(acls(*lines)))
    server = await start(tmp_path, routes_authentication_enabled=True)
    try:
        async with await connect(server) as asker:
            for family in FAMILIES:
                for code in family.table:
                    reply = await asker.ask(code, signed("ann", {}))
                    expected = may is None or code in may
                    assert (reply.code != DENIED) == expected, REQUEST_NAMES[code]
                    assert (await asker.ask(code)).code == DENIED
    finally:
        await server.stop()


async def test_a_damaged_file_keeps_it_from_starting(tmp_path: Path) -> None:
    """Nobody is served by half of the users."""
    (tmp_path / "users.json").write_text('{"users":[{"username":"ann"}]}')
    with pytest.raises(KeptFileDamaged, match=r"users\.json"):
        await start(tmp_path)


async def test_a_broker_signs_its_registrations(tmp_path: Path) -> None:
    """By innerClientAuthenticationCredentials; one without is not registered."""
    server = await start(tmp_path, inner_client_authentication_credentials=INNER)
    address = f"127.0.0.1:{server.port}"
    try:
        async with live_broker(
            tmp_path / "signs",
            namesrv_addr=address,
            inner_client_authentication_credentials=INNER,
        ):
            await until(lambda: "broker-a" in server.table.brokers, what="it is registered")
        await until(lambda: "broker-a" not in server.table.brokers, what="it has taken leave")
        async with live_broker(tmp_path / "silent", namesrv_addr=address) as live:
            assert not server.table.brokers
            registration = live.broker.context.cluster.registration
            assert not any(each.knows_us for each in registration.nameservers)
    finally:
        await server.stop()
