"""Which entry decides, and how resources, actions and addresses are read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aerobee.remoting.net.access.policies import (
    Acl,
    Action,
    Decision,
    Need,
    Pattern,
    PolicyEntry,
    PolicyType,
    Resource,
    ResourceKind,
    actions_of,
    address,
    group,
    topic,
)

HERE = address("10.1.2.3")
ALLOW, DENY = Decision.ALLOW, Decision.DENY


def entry(
    resource: str, decision: Decision, *actions: Action, sources: tuple[str, ...] = ()
) -> PolicyEntry:
    """Make one; without actions it speaks of all."""
    return PolicyEntry(Pattern.of(resource), frozenset(actions or [Action.ALL]), decision, sources)


def acl(*custom: PolicyEntry, default: tuple[PolicyEntry, ...] = ()) -> Acl:
    """Make what a user may do of entries."""
    made = Acl({}).with_entries(PolicyType.CUSTOM, custom)
    return made.with_entries(PolicyType.DEFAULT, default) if default else made


def need(name: str, *actions: Action) -> Need:
    """Need one of some actions of a topic."""
    return Need(topic(name), actions or (Action.PUB,))


@pytest.mark.parametrize(
    ("entries", "decision"),
    [
        ([], None),
        ([entry("Topic:other", ALLOW)], None),
        ([entry("Group:orders", ALLOW)], None),
        ([entry("Topic:orders", ALLOW)], ALLOW),
        ([entry("Topic:orders", ALLOW, Action.SUB)], None),
        ([entry("*", ALLOW)], ALLOW),
        ([entry("*", ALLOW), entry("Topic:*", DENY)], DENY),
        ([entry("*", DENY), entry("Topic:*", ALLOW)], ALLOW),
        ([entry("Topic:*", DENY), entry("Topic:or*", ALLOW)], ALLOW),
        ([entry("Topic:or*", ALLOW), entry("Topic:ord*", DENY)], DENY),
        ([entry("Topic:ord*", DENY), entry("Topic:orders", ALLOW)], ALLOW),
        ([entry("Topic:orders", DENY), entry("Topic:orders*", ALLOW)], DENY),
        ([entry("Topic:orders", DENY, Action.SUB), entry("Topic:*", ALLOW)], ALLOW),
        ([entry("Topic:orders", ALLOW, sources=("10.1.0.0/16",))], ALLOW),
        ([entry("Topic:orders", ALLOW, sources=("10.2.0.0/16", "::1"))], None),
        ([entry("Topic:orders", DENY, sources=("10.1.2.3",)), entry("Topic:*", ALLOW)], DENY),
    ],
)
def test_the_most_specific_entry_decides(
    entries: list[PolicyEntry], decision: Decision | None
) -> None:
    """Literal before prefixed, long prefix before short, typed before any, in whichever order."""
    assert acl(*entries).decision(need("orders"), HERE) is decision
    assert acl(*reversed(entries)).decision(need("orders"), HERE) is decision


def test_default_entries_are_asked_where_no_custom_one_matches() -> None:
    """However general the custom one is."""
    made = acl(entry("*", DENY, Action.SUB), default=(entry("Topic:orders", ALLOW),))
    assert made.decision(need("orders", Action.SUB), HERE) is DENY
    assert made.decision(need("orders", Action.PUB), HERE) is ALLOW


def test_one_shared_action_is_enough() -> None:
    """Of those that are needed any will do, and a refusal of one counts for all (as RocketMQ)."""
    wanted = need("orders", Action.PUB, Action.SUB, Action.GET)
    assert acl(entry("Topic:orders", ALLOW, Action.GET)).decision(wanted, HERE) is ALLOW
    assert acl(entry("Topic:orders", DENY, Action.SUB)).decision(wanted, HERE) is DENY


def test_an_entry_replaces_the_one_of_its_resource() -> None:
    """Of one policy; without it, nothing is left of the policy."""
    made = acl(entry("Topic:a", ALLOW), entry("Topic:b", ALLOW), entry("Topic:a", DENY))
    assert [str(each.pattern) for each in made.policies[PolicyType.CUSTOM]] == [
        "Topic:a",
        "Topic:b",
    ]
    assert made.decision(need("a"), HERE) is DENY
    left = made.without(PolicyType.CUSTOM, Pattern.of("Topic:a"))
    assert left.decision(need("a"), HERE) is None
    assert left.without(PolicyType.CUSTOM, Pattern.of("Topic:b")).policies == {}


@pytest.mark.parametrize("text", ["*", "Topic:*", "Topic:a*", "Topic:a", "Group:g", "Cluster:c"])
def test_a_resource_is_written_as_it_is_read(text: str) -> None:
    """And kinds are read whatever their letters' case."""
    assert str(Pattern.of(text)) == text
    assert Pattern.of(text.replace("Topic", "tOPIC")) == Pattern.of(text)


@pytest.mark.parametrize("text", ["", "a", "Topic", "Topic:", "Thing:a", ":a", "**"])
def test_what_names_no_resource_is_refused(text: str) -> None:
    """The text says what was expected."""
    with pytest.raises(ValueError, match="names no resource"):
        Pattern.of(text)


def test_a_retry_topic_is_its_group() -> None:
    """A topic of dead letters is a topic, as with RocketMQ."""
    assert topic("%RETRY%g") == group("g") == group("%RETRY%g") == Resource(ResourceKind.GROUP, "g")
    assert topic("%DLQ%g") == Resource(ResourceKind.TOPIC, "%DLQ%g")


def test_actions_are_read_by_their_names() -> None:
    """A word that nobody knows is told, not left out."""
    assert actions_of(["pub", " Sub"]) == {Action.PUB, Action.SUB}
    with pytest.raises(ValueError, match="Write: no such action"):
        actions_of(["Pub", "Write"])


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["*", "Topic:*", "Topic:a*", "Topic:ab*", "Topic:ab", "Group:ab"]),
            st.sampled_from([ALLOW, DENY]),
            st.sampled_from([Action.PUB, Action.SUB, Action.ALL]),
        ),
        max_size=8,
    )
)
def test_it_decides_as_the_words_say(lines: list[tuple[str, Decision, Action]]) -> None:
    """Against a plain reading of the rules, entry by entry."""
    latest = {resource: (decision, action) for resource, decision, action in lines}
    made = acl(*(entry(resource, *rest) for resource, rest in latest.items()))
    rank = ["Topic:ab", "Topic:ab*", "Topic:a*", "Topic:*", "*"]
    said = (latest.get(each) for each in rank)
    matching = [each for each in said if each and each[1] in (Action.PUB, Action.ALL)]
    expected = matching[0][0] if matching else None
    assert made.decision(need("ab"), HERE) is expected


@pytest.mark.parametrize("source", ["::ffff:10.1.2.3", "::ffff:10.0.0.0/104", "::ffff:0:0/96"])
def test_a_network_in_ipv6_is_the_ipv4_one(source: str) -> None:
    """As that of peers: an entry that refuses would never have matched."""
    rules = acl(entry("Topic:*", ALLOW), entry("Topic:orders", DENY, sources=(source,)))
    assert rules.decision(need("orders"), address("::ffff:10.1.2.3")) is DENY
    assert rules.decision(need("orders"), HERE) is DENY
    assert rules.decision(need("orders"), address("fd00::1")) is ALLOW


def test_an_address_in_ipv6_is_the_ipv4_one() -> None:
    """A dual-stack socket says ::ffff:10.1.2.3, and a link's name does not matter."""
    made = acl(entry("*", ALLOW, sources=("10.1.2.3", "fe80::/10")))
    for text, decision in (("::ffff:10.1.2.3", ALLOW), ("fe80::1%eth0", ALLOW), ("::1", None)):
        assert made.decision(need("t"), address(text)) is decision
