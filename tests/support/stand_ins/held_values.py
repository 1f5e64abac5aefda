"""Every plain value that an object of ours reaches, by the way that leads to it."""

import asyncio
import functools
import types
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

from aerobee.broker.room import Room

PLAIN: Final = (bool, int, float, str, bytes, type(None))
VALUES_MAX: Final = 200_000


def held_values(root: object) -> dict[str, Any]:
    """Return path to value, shortest paths first; only objects of ours are looked into.

    Looked at are attributes, containers, what functions close over, and the variables of coroutines
    that tasks run. Two objects that were made alike have the same paths.
    """
    found: dict[str, Any] = {}
    seen: set[int] = set()
    todo: deque[tuple[str, object]] = deque([("", root)])
    while todo and len(found) < VALUES_MAX:
        path, value = todo.popleft()
        if isinstance(value, PLAIN):
            found[path] = value
            continue
        if id(value) in seen:
            continue
        seen.add(id(value))
        todo.extend((path + step, held) for step, held in _inside(value))
    return found


def _inside(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, held in value.items():
            yield f"[{_name(key)}]", held
    elif isinstance(value, list | tuple | deque):
        for at, held in enumerate(value):
            known = isinstance(held, Room)  # one that was switched on is the last of the list
            yield f"[{type(held).__name__ if known else at}]", held
    elif isinstance(value, types.FunctionType):
        for at, cell in enumerate(value.__closure__ or ()):
            yield f"<{value.__code__.co_freevars[at]}>", cell.cell_contents
    elif isinstance(value, types.MethodType):
        yield ".self", value.__self__
    elif isinstance(value, functools.partial):
        yield ".partial", (value.func, value.args, value.keywords)
    elif isinstance(value, asyncio.Task):
        yield ".coroutine", value.get_coro()
    elif isinstance(value, types.CoroutineType):
        if value.cr_frame is not None:
            yield from ((f"<{name}>", held) for name, held in value.cr_frame.f_locals.items())
        yield ".awaits", value.cr_await
    elif type(value).__module__.startswith("aerobee."):
        for kind in type(value).__mro__:
            slots = kind.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                attribute = f"_{kind.__name__.lstrip('_')}{name}" if name[:2] == "__" else name
                if not name.endswith("__") and hasattr(value, attribute):
                    yield f".{name}", getattr(value, attribute)
        yield from ((f".{name}", held) for name, held in getattr(value, "__dict__", {}).items())


def _name(key: object) -> str:
    return key.get_name() if isinstance(key, asyncio.Task) else repr(key)
