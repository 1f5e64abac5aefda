"""Tag expressions as the broker reads them."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from aerobee.broker.features.sql92.feature import compiled
from aerobee.broker.members.subscriptions import (
    COMPILED_CHARS_AT_ONCE,
    COMPILED_CHARS_PER_S,
    ExpressionRefused,
    Scan,
    SqlFilter,
    SqlFilters,
    check_property_filter,
    is_tag_type,
    parse_tags,
    wanted_hashes,
)
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.message.tags import java_string_hash


@pytest.mark.parametrize(
    ("expression", "tags"),
    [
        ("a", {"a"}),
        ("a||b", {"a", "b"}),
        (" a  ||  b || a ", {"a", "b"}),
        ("a |b", {"a |b"}),
        ("a||", {"a"}),
        ("|| a", {"a"}),
        ("|| ", set()),
        ("ü||日本", {"ü", "日本"}),
    ],
)
def test_expressions_are_lists_of_tags(expression: str, tags: set[str]) -> None:
    """Tags are trimmed, empty ones dropped (FilterAPI.buildSubscriptionData)."""
    assert parse_tags(expression) == frozenset(tags)


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_expressions_that_want_everything(expression: str | None) -> None:
    """No filter at all, and none is looked up."""
    assert parse_tags(expression) is None
    assert wanted_hashes(expression) is None


@pytest.mark.parametrize("expression", ["||", "||||"])
def test_separators_alone_are_refused(expression: str) -> None:
    """Java's split leaves nothing of them, and RocketMQ answers with code 23."""
    with pytest.raises(RequestError) as refused:
        parse_tags(expression)
    assert refused.value.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert refused.value.remark == "parse the consumer's subscription failed"


def test_wanted_are_java_hashes() -> None:
    """The ConsumeQueue holds String.hashCode of the tags."""
    assert wanted_hashes("TagA || TagB") == frozenset(
        {java_string_hash("TagA"), java_string_hash("TagB")}
    )


def test_properties_decide_only_where_that_is_allowed() -> None:
    """RocketMQ's words while enablePropertyFilter is false; a missing type means tags."""
    assert is_tag_type(None) and is_tag_type("") and is_tag_type("TAG")
    check_property_filter("SQL92", enabled=True)
    with pytest.raises(RequestError) as refused:
        check_property_filter("SQL92", enabled=False)
    assert refused.value.code == ResponseCode.SYSTEM_ERROR
    assert refused.value.remark == "The broker does not support consumer to filter message by SQL92"


def test_a_filter_says_what_is_wrong_with_it() -> None:
    """The first question compiles; a type that nobody knows is a mistake as well."""
    filters = SqlFilters()
    assert filters.problem(SqlFilter("a > 1", "SQL92")) == "there is no filter of type SQL92"
    filters.languages["SQL92"] = compiled
    assert filters.problem(SqlFilter("a > 1", "SQL92")) is None
    assert filters.problem(SqlFilter("a > 'x'", "SQL92")) == "Value ''x'' cannot be compared."
    assert filters.problem(SqlFilter("a > 1", "SQL99")) == "there is no filter of type SQL99"


def test_filters_of_pulls_are_remembered_within_bounds() -> None:
    """One filter for one text, and the oldest texts go."""
    filters = SqlFilters(chars_max=1000)
    first = filters.get("a > 1", "SQL92")
    assert filters.get("a > 1", "SQL92") is first
    assert filters.get("a > 1", "SQL99") is not first
    for number in range(50):
        filters.get(f"a > {number + 10}", "SQL92")
    assert 1 <= len(filters) <= 5
    assert filters.get("a > 1", "SQL92") is not first
    long = filters.get("a" * 5000, "SQL92")
    assert len(filters) == 1 and filters.get("a" * 5000, "SQL92") is long


def test_compiling_is_bounded_in_time() -> None:
    """Many new expressions wait, known ones do not; what was not used up is not saved for ever."""
    now_ms = 5_000
    filters = SqlFilters(clock_ms=lambda: now_ms)
    long = "a = 1 OR " * 1000 + "b = 2"

    def refuses(expression: str) -> Callable[[], Scan]:
        raise ExpressionRefused("no")

    filters.languages = {"SQL92": refuses}

    def tried() -> int:
        for number in range(1000):
            try:
                assert filters.problem(SqlFilter(f"{long} OR c = {number}", "SQL92")) == "no"
            except RequestError as error:
                assert error.code == ResponseCode.SYSTEM_BUSY
                return number
        raise AssertionError("nothing is refused")

    known = filters.get(long, "SQL92")
    problem = filters.problem(known)
    assert tried() == (COMPILED_CHARS_AT_ONCE - len(long)) // (len(long) + 9)
    assert filters.problem(known) == problem  # and is not told that the broker is busy
    now_ms += 1_000
    assert tried() in (COMPILED_CHARS_PER_S // 9015, COMPILED_CHARS_PER_S // 9015 + 1)
    now_ms += 3_600_000
    assert tried() <= COMPILED_CHARS_AT_ONCE // len(long)


def test_a_broker_without_such_filters_never_loads_the_parser() -> None:
    """It would take a tenth of a second of each start."""
    code = "import sys, aerobee.broker.app; sys.exit('lark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


LOADING = """
import asyncio, sys
from pathlib import Path

from support.servers.brokers import running_broker

async def main(folder, switched):
    options = {} if switched else {"enablePropertyFilter": "true"}
    async with running_broker(folder, **options) as broker:
        if switched:
            assert "lark" not in sys.modules
            await broker.context.changes.update({"enablePropertyFilter": "true"})
            while "aerobee.broker.features.sql92.expression" not in sys.modules:
                await asyncio.sleep(0.01)
        print("lark" in sys.modules)

asyncio.run(main(Path(sys.argv[1]), sys.argv[2] == "switched"))
"""


@pytest.mark.parametrize("when", ["configured", "switched"])
def test_the_parser_is_there_before_the_first_expression(tmp_path: Path, when: str) -> None:
    """To import it takes a tenth of a second, in which the broker would serve nobody."""
    tests = str(Path(__file__).parents[3])
    words = [sys.executable, "-c", LOADING, str(tmp_path), when]
    environment = os.environ | {"PYTHONPATH": tests}
    done = subprocess.run(
        words, env=environment, capture_output=True, text=True, check=False, timeout=30
    )
    assert done.stdout == "True\n", done.stderr
