"""Options are checked on the driver; a refusal names the option and what is allowed."""

from __future__ import annotations

import pytest

from aerobee.spark.columns import USUAL
from aerobee.spark.errors import OptionError
from aerobee.spark.options import Options, parse_options
from aerobee.spark.selection import Selection


def test_path_alone_is_enough() -> None:
    """Everything else has a default."""
    assert parse_options({"path": "/s"}) == Options("/s", USUAL)


def test_every_option_is_understood_in_any_case() -> None:
    """Spark hands option names over in lower case."""
    given = {
        "path": " /s ",
        "columns": "Body, topic",
        "PROPERTIES": "Binary",
        "decompress": "TRUE",
        "partitionbytes": "256m",
        "subscribe": "orders, payments",
        "startingTimestamp": "1000",
        "endingTimestamp": "2000",
    }
    selection = Selection(frozenset({"orders", "payments"}), 1000, 2000)
    expected = Options("/s", ("body", "topic"), "binary", True, 256 << 20, selection)
    assert parse_options(given) == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"path": ""}, "option path is missing"),
        ({"colums": "a"}, "unknown option 'colums'; did you mean columns"),
        ({"columns": "boddy"}, "option columns: unknown column 'boddy'; did you mean body"),
        ({"columns": " , "}, "option columns: .* names no column"),
        ({"columns": "body,body"}, "option columns: column 'body' stands there twice"),
        ({"properties": "mapp"}, "option properties: 'mapp' .* map, binary; did you mean map"),
        ({"decompress": "yes"}, "option decompress: 'yes' is not one of true, false"),
        ({"partitionBytes": "lots"}, "option partitionBytes: 'lots' is no size"),
        ({"partitionBytes": "1"}, "option partitionBytes: '1' is no size of at least 64k"),
        ({"subscribe": ","}, "option subscribe: ',' names no topic"),
        ({"startingTimestamp": "today"}, "option startingTimestamp: 'today' is no time in mill"),
        ({"startingTimestamp": "5", "endingTimestamp": "5"}, "option endingTimestamp: 5 is not"),
    ],
)
def test_wrong_options_are_named(given: dict[str, str], message: str) -> None:
    """Option, value, and what is allowed."""
    with pytest.raises(OptionError, match=message):
        parse_options({"path": "/s", **given})
