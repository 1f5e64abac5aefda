"""`aerobee user` and `acl` with RocketMQ's own broker that asks who is there, and with ours."""

import json
from collections.abc import Iterator
from typing import Final

import pytest
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.each_server import running
from support.interop.rocketmq_server import RocketMQ
from support.servers.commands import Commands

pytestmark = [pytest.mark.interop, pytest.mark.needs("java"), pytest.mark.timeout(180)]

ROOT, SECRET = "root", "12345678"
_AUTH: Final = "org.apache.rocketmq.auth"
SETTINGS: Final = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "authenticationProvider": f"{_AUTH}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": (
        f"{_AUTH}.authentication.provider.LocalAuthenticationMetadataProvider"
    ),
    "authorizationProvider": f"{_AUTH}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": (
        f"{_AUTH}.authorization.provider.LocalAuthorizationMetadataProvider"
    ),
    "initAuthenticationUser": json.dumps({"username": ROOT, "password": SECRET}),
}


@pytest.fixture(scope="module", params=[RocketMQ, Aerobee])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Each server in turn, asking everybody."""
    folder = tmp_path_factory.mktemp(f"users-{request.param.name}")
    with running(request.param, folder, SETTINGS) as cluster:
        yield cluster


def of_user(cluster: Cluster, name: str, secret: str = SECRET) -> Commands:
    """Return commands that a user signs."""
    environ = {"AEROBEE_ACCESS_KEY": name, "AEROBEE_SECRET_KEY": secret}
    return Commands(cluster.namesrv, environ)


def test_users_and_what_they_may(cluster: Cluster) -> None:
    """Made, let do something, refused something else, disabled, deleted."""
    root = of_user(cluster, ROOT)
    root("user", "create", "ann", "--password-file", "-", given=SECRET.encode())
    root("user", "create", "ann", "--password-file", "-", given=SECRET.encode(), code=2)
    rows = root.json("user", "list", "--like", "ann")
    assert rows == [{"user": "ann", "type": "Normal", "state": "enabled", "brokers": "broker-a"}]
    root("topic", "create", "asked", "-q", "2")
    ann = of_user(cluster, "ann")
    ann("message", "produce", "asked", given=b'{"body": "x"}', code=1)
    root("acl", "create", "ann", "-r", "Topic:asked", "-a", "Pub")
    ann("message", "produce", "asked", given=b'{"body": "x"}')
    told = ann("message", "browse", "asked", code=6)
    assert "this was asked as ann" in told.stderr
    root("acl", "alter", "ann", "-r", "Topic:asked", "-a", "Pub", "-a", "Sub", "-a", "Get",
         "--source", "127.0.0.0/8")  # fmt: skip
    (row,) = root.json("acl", "describe", "ann")
    assert (row["actions"], row["sources"]) == ("Get,Pub,Sub", "127.0.0.0/8")
    assert [row["user"] for row in root.json("acl", "list", "--resource", "asked")] == ["ann"]
    root("acl", "delete", "ann", "-r", "Topic:asked", "--yes")
    assert root.json("acl", "describe", "ann") == []
    root("user", "disable", "ann", "--yes")
    ann("topic", "describe", "asked", code=6)
    root("user", "alter", "ann", "--enabled", "--super")
    ann("topic", "describe", "asked")
    root("user", "delete", "ann", "--yes")
    root("user", "describe", "ann", code=2)


def test_a_wrong_secret_and_nobody_are_refused(cluster: Cluster) -> None:
    """With the broker's words, and what to do."""
    told = of_user(cluster, ROOT, "guessed")("user", "list", code=6)
    assert "signature" in told.stderr
    told = Commands(cluster.namesrv)("user", "list", code=6)
    assert "nobody signed this" in told.stderr
