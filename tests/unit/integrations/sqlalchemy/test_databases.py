"""What differs between databases: types of columns, and what their errors are called."""

import importlib

import pytest
from sqlalchemy import MetaData
from sqlalchemy.engine import Dialect
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnectionFree
from sqlalchemy.schema import CreateTable

from aerobee.client import Message
from aerobee.integrations.sqlalchemy import Inbox, Offsets, Outbox
from aerobee.integrations.sqlalchemy.databases import passes
from aerobee.integrations.sqlalchemy.outbox import BODY_BYTES_MAX

INNODB_KEY_BYTES_MAX = 3_072
UTF8_BYTES_MAX = 4


def created(dialect: str) -> dict[str, str]:
    """Return how each table is made in a database."""
    metadata = MetaData()
    Inbox("g", metadata), Offsets(metadata), Outbox(metadata)
    module = importlib.import_module(f"sqlalchemy.dialects.{dialect}")
    made: Dialect = module.dialect()
    if dialect == "mssql":  # as of 2012, which it learns by a connection
        made.deprecate_large_types = True  # type: ignore[attr-defined]
    return {
        table.name: str(CreateTable(table).compile(dialect=made))
        for table in metadata.tables.values()
    }


@pytest.mark.parametrize("dialect", ["mysql", "postgresql", "sqlite", "oracle", "mssql"])
def test_tables_can_be_made(dialect: str) -> None:
    """With all their columns."""
    tables = created(dialect)
    assert set(tables) == {"aerobee_inbox", "aerobee_offsets", "aerobee_outbox"}
    assert "VARCHAR" in tables["aerobee_inbox"]


def test_mysql_tells_names_apart_and_takes_large_messages() -> None:
    """Its texts are compared without case by default, its BLOBs and TEXTs end at 64 KiB."""
    tables = created("mysql")
    for table, names in (("inbox", 3), ("offsets", 3), ("outbox", 2)):
        exact = "VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
        assert tables[f"aerobee_{table}"].count(exact) == names
    assert "headers MEDIUMTEXT" in tables["aerobee_outbox"]
    assert f"body BLOB({BODY_BYTES_MAX})" in tables["aerobee_outbox"]  # a MEDIUMBLOB
    assert 3 * 255 * UTF8_BYTES_MAX + 4 <= INNODB_KEY_BYTES_MAX


def test_sql_server_tells_names_apart_and_takes_large_messages() -> None:
    """Its VARBINARY has at most 8,000 bytes, or any number."""
    tables = created("mssql")
    assert tables["aerobee_inbox"].count("COLLATE Latin1_General_100_BIN2") == 3
    assert "body VARBINARY(max)" in tables["aerobee_outbox"]


def test_an_id_fits_its_column() -> None:
    """Those that an outbox gives, and the longest of clients."""
    column = Outbox(MetaData()).table.c.message_id
    assert column.type.length == 64  # type: ignore[attr-defined]
    assert Message("t", b"x").wire_properties("A" * 56)


class Told(Exception):
    """An error of a driver, with the code that it has."""

    def __init__(self, **codes: object) -> None:
        super().__init__("told")
        vars(self).update(codes)


@pytest.mark.parametrize(
    "error",
    [
        OperationalError("", {}, Told()),
        DBAPIError("", {}, Told(sqlstate="40001")),  # asyncpg: of serializable transactions
        DBAPIError("", {}, Told(sqlstate="40P01")),  # a deadlock
        DBAPIError("", {}, Told(pgcode="55P03")),  # psycopg2: a lock that is not to be had
        DBAPIError("", {}, Told(sqlstate="57P01")),  # the server goes down
        DBAPIError("", {}, Told(), connection_invalidated=True),
        NoConnectionFree(),
        ConnectionRefusedError(),
    ],
)
def test_what_may_pass_is_tried_again(error: Exception) -> None:
    """By whichever class a driver has it."""
    assert passes(error)


@pytest.mark.parametrize(
    "error",
    [
        IntegrityError("", {}, Told(sqlstate="23505")),
        DBAPIError("", {}, Told(sqlstate="22001")),
        DBAPIError("", {}, Told(sqlstate=17)),
        ValueError(),
    ],
)
def test_what_will_fail_again_is_an_error(error: Exception) -> None:
    """At once."""
    assert not passes(error)
