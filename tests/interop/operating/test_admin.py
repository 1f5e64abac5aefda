"""RocketMQ's own admin client does to the servers what mqadmin does."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.interop.cluster import Cluster
from support.interop.peers import ADMIN

pytestmark = [pytest.mark.interop, pytest.mark.needs("java"), pytest.mark.timeout(300)]

RUNTIME_KEYS = {  # what clusterList and brokerStatus print
    "bootTimestamp",
    "brokerVersionDesc",
    "commitLogDiskRatio",
    "commitLogMaxOffset",
    "commitLogMinOffset",
    "dispatchBehindBytes",
    "earliestMessageTimeStamp",
    "getTransferredTps",
    "msgGetTotalTodayNow",
    "msgPutTotalTodayNow",
    "pageCacheLockTimeMills",
    "pullThreadPoolQueueSize",
    "putMessageEntireTimeMax",
    "putTps",
    "runtime",
    "sendThreadPoolQueueHeadWaitTimeMills",
    "sendThreadPoolQueueSize",
}


@pytest.fixture(scope="module")
def steps(server: Cluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Run the admin program once; its printed steps by name."""
    log_file = tmp_path_factory.mktemp("admin") / "log"
    child = ADMIN.start([server.namesrv, server.broker], log_file)
    try:
        output, _ = child.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        child.kill()
        output, _ = child.communicate()
    assert child.returncode == 0, output + Path(log_file).read_text()
    lines = [json.loads(line) for line in output.splitlines() if line.startswith('{"step"')]
    return {line["step"]: line for line in lines}


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("topicCreated", "done"),
        ("topicConfig", "admin-topic 3 3 6 SINGLE_TAG 0 false"),
        ("messageSent", "SEND_OK"),
        ("messageViewed", "for admin TagA 1 0"),
        ("maxOffset", "1"),
        ("minOffset", "0"),
        ("offsetByTime", "0"),
        ("earliestStoreTime", "true"),
        ("groupCreated", "done"),
        ("groupConfig", "admin-group 3 true false 1"),
        ("groupDeleted", "done"),
        ("brokerConfigUpdated", "false"),
        ("keyValuePut", "a value"),
        ("keyValueList", "{admin-key=a value}"),
        ("keyValueDeleted", "{}"),
        ("expiredQueuesCleaned", "true"),
        ("unusedTopicsCleaned", "true"),
        ("expiredLogDeleted", "true"),
        ("topicDeleted", "done"),
    ],
)
def test_step_has_its_outcome(steps: dict[str, dict[str, Any]], step: str, expected: str) -> None:
    """A step of the admin client ends as it does with RocketMQ."""
    assert steps[step].get("result") == expected, steps[step]


def test_route_and_cluster_name_the_broker(
    server: Cluster, steps: dict[str, dict[str, Any]]
) -> None:
    """The route of a made topic and the cluster table lead to the broker's address."""
    addresses = f"{{0={server.broker}}}"
    assert steps["topicRoute"].get("result") == f"{addresses} 3 3 6", steps["topicRoute"]
    assert steps["clusterInfo"].get("result") == f"{{DefaultCluster=[broker-a]}} {addresses}", (
        steps["clusterInfo"]
    )


def test_broker_config_is_told(server: Cluster, steps: dict[str, dict[str, Any]]) -> None:
    """The broker's configuration comes under RocketMQ's keys."""
    port = server.broker.rsplit(":", 1)[1]
    assert steps["brokerConfig"].get("result") == f"broker-a {port} true ASYNC_FLUSH"


def test_runtime_stats_have_what_the_tools_read(steps: dict[str, dict[str, Any]]) -> None:
    """Every key that mqadmin's tables are made of is there."""
    missing = RUNTIME_KEYS - set(steps["runtimeStats"].get("result", "").split())
    assert not missing, steps["runtimeStats"]


@pytest.mark.parametrize(
    ("step", "code"),
    [
        ("topicWithBadName", 29),
        ("unknownRoute", 17),
        ("forbiddenConfigUpdated", 16),
        ("topicConfigAfterDelete", 17),
    ],
)
def test_step_is_refused(steps: dict[str, dict[str, Any]], step: str, code: int) -> None:
    """A step that must not succeed fails with the code that the admin client expects."""
    assert f"CODE: {code} " in steps[step].get("error", ""), steps[step]
