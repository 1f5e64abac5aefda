"""The table of subscription groups."""

import asyncio
import json
from pathlib import Path

import msgspec
import pytest
from support.golden.tables import GROUP

from aerobee.broker.tables.groups import SYSTEM_GROUPS, GroupTable
from aerobee.remoting.bodies import (
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    encode_body,
)
from aerobee.remoting.errors import RequestError

GOLDEN = Path(__file__).parents[3] / "golden" / "config"


def table(folder: Path, *, auto_create: bool = True, groups_max: int = 1000) -> GroupTable:
    """Make a loaded table in `folder`."""
    groups = GroupTable(lambda: 1000, folder, auto_create=auto_create, groups_max=groups_max)
    groups.load()
    return groups


def test_rocketmqs_file_is_read_and_ours_has_its_shape(tmp_path: Path) -> None:
    """A file that RocketMQ wrote is taken whole and written again the same."""
    original = (GOLDEN / "subscriptionGroup.json").read_bytes()
    (tmp_path / "subscriptionGroup.json").write_bytes(original)
    groups = table(tmp_path)
    config = groups.get(GROUP)
    assert config is not None
    assert (config.retry_max_times, config.consume_broadcast_enable) == (3, False)
    policy = config.group_retry_policy.exponential_retry_policy
    assert policy is not None and policy.multiplier == 3
    assert json.loads(groups.encode()) == json.loads(original)


def test_system_groups_are_those_of_rocketmq() -> None:
    """The groups of a fresh RocketMQ 5.5.0."""
    stored = json.loads((GOLDEN / "subscriptionGroup.json").read_text())
    assert set(SYSTEM_GROUPS) == set(stored["subscriptionGroupTable"]) - {GROUP}


def test_groups_are_made_by_use(tmp_path: Path) -> None:
    """With RocketMQ's defaults, unless that is switched off or the name is not allowed."""
    groups = table(tmp_path)
    assert groups.find("g", auto_create=False) is None
    made = groups.find("g")
    assert made == SubscriptionGroupConfig(group_name="g")
    assert groups.find("g") is made and "g" in groups
    assert groups.data_version.counter == 1
    assert groups.find("no good") is None
    groups.auto_create = False
    assert groups.find("h") is None
    assert groups.find("CID_RMQ_SYS_h") is not None, "groups of the system are made all the same"
    groups.create_system = False
    assert groups.find("CID_RMQ_SYS_i") is None


def test_groups_are_limited(tmp_path: Path) -> None:
    """Neither use nor an administrator's request goes past the limit."""
    groups = table(tmp_path, groups_max=len(SYSTEM_GROUPS))
    assert groups.find("g") is None
    with pytest.raises(RequestError, match="groupsMax"):
        groups.update(SubscriptionGroupConfig(group_name="g"))
    groups.update(SubscriptionGroupConfig(group_name=SYSTEM_GROUPS[0], retry_max_times=1))


async def test_a_restart_finds_everything(tmp_path: Path) -> None:
    """Configurations and the version survive, deleted groups do not."""
    groups = table(tmp_path)
    groups.update(SubscriptionGroupConfig(group_name="g", retry_max_times=5))
    groups.find("h")
    assert groups.delete("h") and not groups.delete("h")
    await groups.file.flush()
    again = table(tmp_path)
    assert list(again) == list(groups)
    assert again.data_version == groups.data_version


def test_what_is_forbidden_is_kept(tmp_path: Path) -> None:
    """Topics that were closed to a group stay so, in the file and in force."""
    groups = table(tmp_path)
    text = json.loads(groups.encode()) | {"forbiddenTable": {"g": {"t": 4, "u": 2}}}
    groups.file.path.parent.mkdir(parents=True, exist_ok=True)
    groups.file.path.write_text(json.dumps(text))
    again = table(tmp_path)
    assert again.is_read_forbidden("g", "t") and not again.is_read_forbidden("g", "u")
    assert again.forbidden() == {"g": {"t": 4, "u": 2}}
    assert json.loads(again.encode())["forbiddenTable"] == {"g": {"t": 4, "u": 2}}


def test_attributes_are_edited_not_replaced(tmp_path: Path) -> None:
    """There is no attribute of a group yet, and an unknown one is refused."""
    groups = table(tmp_path)
    with pytest.raises(RequestError, match="unsupported key: colour"):
        groups.update(SubscriptionGroupConfig(group_name="g", attributes={"+colour": "red"}))
    assert groups.get("g") is None


async def test_of_many_groups_that_which_changes_is_encoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that changes while the file is written is in the next one, and in every answer."""
    groups = table(tmp_path)
    for number in range(500):
        groups.update(SubscriptionGroupConfig(group_name=f"g{number}"))
    before = json.loads(groups.encode())
    encoded: list[object] = []
    encode = msgspec.json.encode

    def noted(value: object) -> bytes:
        if isinstance(value, SubscriptionGroupConfig):
            encoded.append(value)
        return encode(value)

    monkeypatch.setattr(msgspec.json, "encode", noted)
    flush = asyncio.create_task(groups.file.flush())
    await asyncio.sleep(0)  # it has begun
    changed = groups.update(SubscriptionGroupConfig(group_name="g7", retry_max_times=3))
    groups.delete("g8")
    await flush
    assert not encoded
    assert json.loads(groups.file.path.read_bytes()) == before
    await groups.file.flush()
    after = json.loads(groups.file.path.read_bytes())["subscriptionGroupTable"]
    assert after["g7"]["retryMaxTimes"] == 3 and "g8" not in after
    assert encoded == [changed]
    answer = groups.encode_some(["g7", "g9"], {"g7": {"t": 4}})
    assert json.loads(answer)["subscriptionGroupTable"] == {"g7": after["g7"], "g9": after["g9"]}
    assert encoded == [changed]
    wrapper = SubscriptionGroupWrapper(
        subscription_group_table={
            each.group_name: each for each in groups if each.group_name in ("g7", "g9")
        },
        forbidden_table={"g7": {"t": 4}},
        data_version=groups.data_version,
    )
    assert answer == encode_body(wrapper)
