"""Names of queues that RocketMQ does not take are written so that it does, and stay different."""

from hypothesis import given, settings
from hypothesis import strategies as st

from aerobee.client.message import GROUP_CHARACTERS_MAX, TOPIC_CHARACTERS_MAX, check_name
from aerobee.integrations.kombu.names import Names
from aerobee.remoting.words import RETRY_PREFIX


@settings(max_examples=50)
@given(queue=st.text(min_size=1), prefix=st.text())
def test_every_name_is_taken(queue: str, prefix: str) -> None:
    """Topics and groups keep to the rules of brokers, and the retry topics of the groups, too."""
    names = Names(prefix)
    check_name("topic", names.topic(queue), TOPIC_CHARACTERS_MAX)
    check_name("topic", names.exchange(queue), TOPIC_CHARACTERS_MAX)
    check_name("group", names.group(queue), GROUP_CHARACTERS_MAX)
    assert len(RETRY_PREFIX + names.group(queue)) <= TOPIC_CHARACTERS_MAX


@settings(max_examples=50)
@given(first=st.text(), second=st.text())
def test_different_names_stay_different(first: str, second: str) -> None:
    """No two queues share a topic."""
    assert (Names().topic(first) == Names().topic(second)) == (first == second)


def test_plain_names_stay_as_they_are() -> None:
    """An operator finds a queue by its name; a long one ends with a digest."""
    assert Names().topic("celery") == "celery"
    assert Names("shop-").topic("a.b@c%") == "shop-a%2Eb%40c%25"
    assert Names().topic("x" * 200) != Names().topic("x" * 201)
