"""After how long a group gets a failed message again."""

import pytest

from aerobee.broker.sends.retry_policy import retry_level
from aerobee.remoting.bodies import (
    CustomizedRetryPolicy,
    ExponentialRetryPolicy,
    GroupRetryPolicy,
    SubscriptionGroupConfig,
)
from aerobee.storage.settings import DELAY_LEVELS_MS


def levels(policy: GroupRetryPolicy, tries: int) -> list[int]:
    """Return the levels of the first so many tries."""
    config = SubscriptionGroupConfig(group_name="g", group_retry_policy=policy)
    return [retry_level(config, times, DELAY_LEVELS_MS) for times in range(tries)]


@pytest.mark.parametrize(
    "policy",
    [
        GroupRetryPolicy(),
        GroupRetryPolicy(type="EXPONENTIAL"),  # without its numbers RocketMQ takes the default
        GroupRetryPolicy(customized_retry_policy=CustomizedRetryPolicy(next=[])),
        GroupRetryPolicy(type="NEW"),
    ],
)
def test_without_a_policy_each_try_waits_a_level_longer(policy: GroupRetryPolicy) -> None:
    """From 10 s on; levels beyond the last are the last when the message is stored."""
    assert levels(policy, 5) == [3, 4, 5, 6, 7]


def test_waits_may_grow_by_a_factor() -> None:
    """2 s, 6 s, 18 s, 54 s, rounded up to the levels 5 s, 10 s, 30 s, 1 m; then the largest."""
    numbers = ExponentialRetryPolicy(initial=2000, max=100_000, multiplier=3)
    policy = GroupRetryPolicy(type="EXPONENTIAL", exponential_retry_policy=numbers)
    assert levels(policy, 6) == [2, 3, 4, 5, 6, 6]
    assert levels(policy, 100)[99] == 6


def test_waits_may_be_listed() -> None:
    """The first try takes the third entry, as CustomizedRetryPolicy.java has it."""
    policy = GroupRetryPolicy(
        customized_retry_policy=CustomizedRetryPolicy(next=[1, 1, 1000, 6000])
    )
    assert levels(policy, 4) == [1, 3, 3, 3]


@pytest.mark.parametrize("wait_ms", [-(2**63), 0, 2**63 - 1])
def test_absurd_waits_become_levels(wait_ms: int) -> None:
    """Whatever an administrator has written, a failed message comes back."""
    numbers = ExponentialRetryPolicy(initial=wait_ms, max=2**63 - 1, multiplier=2**63 - 1)
    exponential = GroupRetryPolicy(type="EXPONENTIAL", exponential_retry_policy=numbers)
    listed = GroupRetryPolicy(customized_retry_policy=CustomizedRetryPolicy(next=[wait_ms]))
    for policy in (exponential, listed):
        assert set(levels(policy, 40)) <= {1, len(DELAY_LEVELS_MS)}
