"""Keys by their parts, in a dictionary that others add to."""

from hypothesis import given
from hypothesis import strategies as st

from aerobee.storage.grouped_keys import GroupedKeys

Key = tuple[str, int]

KEYS = st.tuples(st.sampled_from("abc"), st.integers(0, 3))
STEPS = st.lists(st.tuples(st.sampled_from(("add", "put", "remove", "ask")), KEYS), max_size=60)


class Watched(dict[Key, None]):
    """A dictionary that counts how many of its keys somebody has looked at."""

    looked_at = 0

    def __iter__(self):  # type: ignore[no-untyped-def]
        for key in super().__iter__():
            self.looked_at += 1
            yield key


@given(STEPS)
def test_they_are_always_those_of_the_dictionary(steps: list[tuple[str, Key]]) -> None:
    """Whatever comes and goes between two questions, in the order it came."""
    table: dict[Key, None] = {}
    grouped = GroupedKeys[Key](table, lambda key: key[0], lambda key: key[1])
    for step, key in steps:
        if step == "add":
            table.setdefault(key)
        elif step == "put":
            if key not in table:
                grouped.put(key, None)
        elif step == "remove":
            grouped.remove(key)
            assert key not in table
        else:
            assert grouped.of(key[0]) == [each for each in table if each[0] == key[0]]
            assert grouped.of(key[1], by=1) == [each for each in table if each[1] == key[1]]


def test_one_part_of_many_costs_what_it_has() -> None:
    """Each key is looked at once, however many questions there are."""
    table = Watched({(str(number // 4), number % 4): None for number in range(4_000)})
    grouped = GroupedKeys[Key](table, lambda key: key[0])
    for number in range(1_000):
        for key in grouped.of(str(number)):
            grouped.remove(key)
    assert not table
    assert table.looked_at == 4_000
