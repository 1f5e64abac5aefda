"""The tables of numbers."""

from support.code_names import REQUEST_NAMES, RESPONSE_NAMES

from aerobee.remoting.codes import (
    Perm,
    PullSysFlag,
    RequestCode,
    ResponseCode,
    SysFlag,
    TopicSysFlag,
)


def test_no_number_has_two_names() -> None:
    """A name table is as long as its class has constants."""
    for table, names in ((RequestCode, REQUEST_NAMES), (ResponseCode, RESPONSE_NAMES)):
        constants = [value for name, value in vars(table).items() if name.isupper()]
        assert len(constants) == len(names) > 60


def test_numbers_that_clients_depend_on() -> None:
    """A sample of each family, read off a client's traffic."""
    assert RequestCode.SEND_MESSAGE_V2 == 310
    assert RequestCode.POP_MESSAGE == 200050
    assert REQUEST_NAMES[105] == "GET_ROUTEINFO_BY_TOPIC"
    assert RESPONSE_NAMES[21] == "PULL_OFFSET_MOVED"
    assert ResponseCode.RPC_TIME_OUT == -1006


def test_flags_do_not_overlap() -> None:
    """Each bit of a set of flags means one thing."""
    assert SysFlag.COMPRESSION_ZLIB == SysFlag.COMPRESSION_LZ4 | SysFlag.COMPRESSION_ZSTD
    assert SysFlag.TRANSACTION_ROLLBACK == 12
    for table in (PullSysFlag, Perm, TopicSysFlag):
        bits = [value for name, value in vars(table).items() if name.isupper()]
        assert sum(bits) == 2 ** len(bits) - 1
