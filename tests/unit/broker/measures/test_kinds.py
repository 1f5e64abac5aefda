"""What labels say of clients, topics and groups."""

import pytest

from aerobee.broker.measures.kinds import is_retry, is_system_group, version_name


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (0, "v3_0_0_snapshot"),
        (15, "v3_0_0_final"),
        (16, "v3_0_1_snapshot"),
        (45, "v3_0_15"),
        (46, "v3_1_0_snapshot"),
        (85, "v3_2_9"),
        (86, "v3_3_1_snapshot"),
        (121, "v3_4_9"),
        (211, "v3_9_9"),
        (212, "v4_0_0_snapshot"),
        (213, "v4_0_0"),
        (409, "v4_9_8"),
        (513, "v5_5_0"),
        (611, "v5_9_9"),
        (612, "higher_version"),
        (2**31 - 1, "higher_version"),
        (-1, "v3_0_0_snapshot"),
    ],
)
def test_versions_have_their_names(number: int, name: str) -> None:
    """Those that RocketMQ counts, where it has another step too; a peer may send any number."""
    assert version_name(number) == name


def test_own_groups_and_retries_are_told_from_others() -> None:
    """By their names."""
    assert is_system_group("CID_RMQ_SYS_TRANS") and is_system_group("cid_rmq_sys_x")
    assert not is_system_group("orders")
    assert is_retry("%RETRY%g") and is_retry("%DLQ%g") and not is_retry("t")
