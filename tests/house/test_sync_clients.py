"""`aerobee.client.sync` has everything that `aerobee.client` has: nothing of one is forgotten."""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from support.programs import run_program

import aerobee.client
import aerobee.client.sync
from aerobee.client.instance.checkers import TransactionChecker
from aerobee.client.instance.consumer import Consumer

WITHIN: Final = {*vars(Consumer), *vars(TransactionChecker)} - {"running_info"}
"""What an instance asks of its clients; programs do not."""
MARKS: Final = {"consume_type", "takes_locks", "client_rebalance", "handover_timeout_ms"} | {
    "message_model"
}
"""By which members tell the instance what they are."""
SPOKEN: Final = {"__aenter__": "__enter__", "__aexit__": "__exit__", "__aiter__": "__iter__"} | {
    "__anext__": "__next__"
}
"""What `async with` and `async for` call, and what `with` and `for` do."""
OWN_NAMES: Final = {"BatchHandler", "MessageHandler", "SendHandle"}
"""Of another kind where threads wait for it, and not tasks."""
OF_ITS_KIND: Final = {"self", "clients", "handler", "listener", "work"}
"""Parameters that are async there, or clients, and plain here."""
MORE: Final = {"timeout_ms": None, "block": True}
"""Parameters of what waits only here, and their defaults."""
ATTRIBUTES: Final = {
    "Producer": {"group", "settings"},
    "TransactionProducer": {"group", "settings", "transactions"},
    "RequestProducer": {"group", "settings"},
    "PushConsumer": {"group", "settings", "ordered"},
    "LitePullConsumer": {"group", "settings"},
    "PullConsumer": {"group", "settings"},
}
"""What programs read of clients, beside what they call."""


def test_the_names_are_the_same() -> None:
    """A program changes its imports, and its awaits."""
    ours, theirs = set(aerobee.client.sync.__all__), set(aerobee.client.__all__)
    assert theirs - ours == set()
    assert ours - theirs <= OWN_NAMES | theirs


def test_clients_are_others_and_values_are_the_same() -> None:
    """Whatever waits has a class of its own here; what is sent, got or raised is shared."""
    other = {
        name
        for name in aerobee.client.__all__
        if getattr(aerobee.client, name) is not getattr(aerobee.client.sync, name)
    }
    waits = {name for name in aerobee.client.__all__ if _waits(getattr(aerobee.client, name))}
    assert other - OWN_NAMES == waits - OWN_NAMES
    assert len(waits) >= 9


def test_each_method_and_parameter_has_its_counterpart() -> None:
    """In the same order, of the same kind, with the same default and the same type."""
    differences = []
    compared = 0
    for name in aerobee.client.__all__:
        theirs, ours = getattr(aerobee.client, name), getattr(aerobee.client.sync, name)
        if theirs is ours or name in OWN_NAMES:
            continue
        for method in _methods(theirs) if inspect.isclass(theirs) else [""]:
            compared += 1
            mine = getattr(ours, SPOKEN.get(method, method), None) if method else ours
            if mine is None:
                differences.append(f"{name}.{method} is missing")
            else:
                where = f"{name}.{method}" if method else name
                differences += _compare(where, getattr(theirs, method) if method else theirs, mine)
    assert differences == []
    assert compared > 80


def test_attributes_that_programs_read_are_there() -> None:
    """With the same values."""
    for name, attributes in ATTRIBUTES.items():
        pair = [_made(getattr(module, name)) for module in (aerobee.client, aerobee.client.sync)]
        for attribute in attributes:
            assert getattr(pair[0], attribute) == getattr(pair[1], attribute), (name, attribute)
        public = {each for each in vars(pair[0]) if not each.startswith("_")}
        assert public - attributes - WITHIN - MARKS == set(), name


def test_nothing_that_waits_is_left_to_await() -> None:
    """No method here is async, and each says what it does."""
    for name in aerobee.client.sync.__all__:
        each = getattr(aerobee.client.sync, name)
        if not getattr(each, "__module__", "").startswith("aerobee.client.sync"):
            continue
        for method in [*_methods(each)] if inspect.isclass(each) else []:
            function = inspect.getattr_static(each, method)
            assert not inspect.iscoroutinefunction(function), (name, method)
            assert inspect.getdoc(getattr(each, method)), (name, method)


def _waits(thing: Any) -> bool:
    if inspect.isclass(thing):
        return any(inspect.iscoroutinefunction(getattr(thing, each)) for each in dir(thing))
    return inspect.iscoroutinefunction(thing)


def _methods(kind: type) -> Iterator[str]:
    for name in dir(kind):
        spoken = name in SPOKEN or name == "__init__" or not name.startswith("_")
        if spoken and name not in WITHIN | MARKS:
            yield name


def _compare(where: str, theirs: Any, mine: Any) -> list[str]:
    """Say what is different, but for what only a coroutine, or a plain function, has."""
    if not callable(theirs):
        return []
    if where.endswith(("Transaction.__init__", "TransactionListener.__init__")):
        return []  # made by producers; derived from
    their_parameters = list(inspect.signature(theirs).parameters.values())
    my_parameters = list(inspect.signature(mine).parameters.values())
    told = []
    for their, my in zip(their_parameters, my_parameters, strict=False):
        alike = (their.name, their.kind, their.default) == (my.name, my.kind, my.default)
        if not alike or (their.name not in OF_ITS_KIND and _type(their) != _type(my)):
            told.append(f"{where}: {my} is not {their}")
    more = my_parameters[len(their_parameters) :]
    if len(their_parameters) > len(my_parameters) or any(
        each.name not in MORE or each.default is not MORE[each.name] for each in more
    ):
        told.append(f"{where}: {len(my_parameters)} parameters, not {len(their_parameters)}")
    return told


def _type(parameter: inspect.Parameter) -> str:
    """Return a parameter's type without the modules of its names, quoted or not."""
    return re.sub(r"[\w.]*\.", "", inspect.formatannotation(parameter.annotation)).strip("'")


def _made(kind: Any) -> Any:
    arguments = {"listener": _Listener()} if kind.__name__ == "TransactionProducer" else {}
    return kind("g", namesrv="127.0.0.1:1", **arguments)


class _Listener(aerobee.client.sync.TransactionListener):
    def check(self, message: aerobee.client.ReceivedMessage) -> aerobee.client.TransactionState:
        return aerobee.client.TransactionState.UNKNOWN


def test_checkers_see_what_is_loaded() -> None:
    """The imports that only type checkers read are the homes that names are loaded from."""
    path = inspect.getsourcefile(aerobee.client.sync)
    assert path is not None
    body = ast.parse(Path(path).read_text()).body
    checked, _ = (each for each in body if isinstance(each, ast.If))
    read = {
        alias.name: node.module
        for node in checked.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    homes = aerobee.client.sync._HOMES
    assert read == {name: homes.get(name, "aerobee.client") for name in aerobee.client.sync.__all__}
    for name, module in read.items():
        home = importlib.import_module(module)
        assert getattr(aerobee.client.sync, name) is getattr(home, name)
    assert dir(aerobee.client.sync) == sorted(aerobee.client.sync.__all__)


def test_who_sends_loads_nothing_of_consumers() -> None:
    """An import costs what is used of it; a misspelling is an error."""
    printed = run_program(
        """
        import sys
        import aerobee.client.sync as sync
        print("asyncio" in sys.modules)
        sync.Producer, sync.Message
        rooms = ("aerobee.client.push", "aerobee.client.poll")
        print([name for name in sys.modules if name.startswith(rooms)])
        try:
            sync.Producr
        except AttributeError as error:
            print(error)
        """
    )
    assert printed.splitlines() == [
        "False",
        "[]",
        "module 'aerobee.client.sync' has no attribute 'Producr'",
    ]
