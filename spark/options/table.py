"""Options of `CREATE TABLE ... USING rocketmq`: told from Spark's own words, and kept for reading.

Spark hands the properties of a table on as options, its own among them. When the table is read it
hands on none of a Python source's: so they are kept in the schema, which it does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# what catalogs keep of a table (TableCatalog.java, HiveExternalCatalog.scala), in small letters
RESERVED: Final = frozenset(
    {
        *("owner", "provider", "location", "external", "is_managed_location", "comment"),
        *("collation", "table_type", "transient_lastddltime", "serialization.format"),
    }
)
_TWIN: Final = "option."  # before each name in OPTIONS, which comes once more without
_TELLING: Final = "provider"  # only tables have one
_SECRET: Final = frozenset({"tlskeypassword"})  # not for the catalog: to be named when reading
_KEPT: Final = "rocketmq.options"


def is_table(given: Mapping[str, str]) -> bool:
    """Whether options are the properties of a table that is being made."""
    return any(name.lower() == _TELLING for name in given)


def own_options(given: Mapping[str, str], known: Mapping[str, object]) -> dict[str, str]:
    """The options by their names in small letters, without what Spark and a table's owner add.

    What stands in TBLPROPERTIES and is not `known` is no option; in OPTIONS it is, a wrong one.
    """
    by_name = {name.lower(): value for name, value in given.items()}
    options = {
        name: value
        for name, value in by_name.items()
        if name not in RESERVED and not name.startswith(_TWIN)
    }
    if is_table(given):
        options = {
            name: value
            for name, value in options.items()
            if name in known or f"{_TWIN}{name}" in by_name
        }
    return options


def keep_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """The schema with a table's options in its first column, for `kept_options`."""
    kept = {name: value for name, value in options.items() if name not in _SECRET}
    schema.fields[0].metadata = {_KEPT: json.dumps(kept, sort_keys=True)}
    return schema


def kept_options(schema: StructType) -> dict[str, str]:
    """The options of the table that a schema belongs to, none of any other."""
    found: dict[str, str] = {}
    for field in schema.fields:
        found |= json.loads(field.metadata.get(_KEPT, "{}"))
    return found
