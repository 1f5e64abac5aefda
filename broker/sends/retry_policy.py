"""How long a message waits before its group gets it again, as a delay level.

Without a policy of the group's own that is level 3 at first and one more each time, RocketMQ's
rule. A policy that somebody has set (GroupRetryPolicy.java: a list of waits, or waits that grow by
a factor) decides instead; its time is rounded up to the next level. RocketMQ's broker keeps such a
policy and leaves it to the proxy; for its remoting clients it changes nothing there.
"""

from typing import Final

from aerobee.remoting.bodies import GroupRetryPolicy, SubscriptionGroupConfig

FIRST_LEVEL: Final = 3
STEPS_MAX: Final = 32  # ExponentialRetryPolicy stops growing there


def retry_level(
    config: SubscriptionGroupConfig, reconsume_times: int, levels_ms: tuple[int, ...]
) -> int:
    """Return the level for a message that has been tried again `reconsume_times` before."""
    wait_ms = policy_wait_ms(config.group_retry_policy, max(0, reconsume_times))
    if wait_ms is None:
        return FIRST_LEVEL + reconsume_times
    return next(
        (level for level, level_ms in enumerate(levels_ms, 1) if level_ms >= wait_ms),
        len(levels_ms),
    )


def policy_wait_ms(policy: GroupRetryPolicy | None, reconsume_times: int) -> int | None:
    """Return how long (ms) a group's own policy lets a message wait, None where it has none."""
    if policy is None:
        return None
    exponential, customized = policy.exponential_retry_policy, policy.customized_retry_policy
    if policy.type == "EXPONENTIAL" and exponential is not None:
        growth: int = exponential.multiplier ** min(reconsume_times, STEPS_MAX)
        return min(exponential.max, exponential.initial * growth)
    if policy.type == "CUSTOMIZED" and customized is not None and customized.next:
        waits = customized.next
        return waits[min(reconsume_times + FIRST_LEVEL - 1, len(waits) - 1)]
    return None
