"""What templates write: names as parts of addresses, figures that brokers tell wrongly."""

import pytest

from aerobee.console.assets import Assets
from aerobee.console.rendering import make_environment, percent


@pytest.mark.parametrize("name", ["team/ann", "a?b#c", '"><script>', "%DLQ%x", "ä ö", "a&b=c"])
def test_a_name_in_an_address_is_one_part_of_it(name: str) -> None:
    """A user whose name has a slash could not be shown, and his forms led to other pages."""
    template = make_environment(Assets()).from_string('<a href="/users/{{ name | urlencode }}">')
    address = template.render(name=name).removeprefix('<a href="').removesuffix('">')
    assert address.startswith("/users/") and address.count("/") == 2
    assert not set(address) & set("?#<>\"'& ")


@pytest.mark.parametrize("told", ["nan", "inf", "-inf", "1e999", "x", ""])
def test_what_is_no_share_is_a_dash(told: str) -> None:
    """Brokers tell figures as words."""
    assert percent(told) == "–"
    assert percent("0.42") == "42 %"
