"""What a setting may be, in the words that its refusal has."""

from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo


def allowed_values(info: FieldInfo) -> str:
    """Describe in words what a setting may be: `a whole number from 1 to 65535`."""
    kind = info.annotation
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    choices = [choice for part in (kind, *get_args(kind)) for choice in _literals(part)]
    if choices:
        return ", ".join(choices)
    kinds = {part for part in (kind, *get_args(kind)) if isinstance(part, type)}
    if bool in kinds:
        return "true, false"
    word = "a whole number" if int in kinds else "a number" if float in kinds else "text"
    return word + _bounds(info)


def _literals(kind: Any) -> list[str]:
    """List the choices of a `Literal`, none for any other type."""
    return [str(choice) for choice in get_args(kind)] if get_origin(kind) is Literal else []


def _bounds(info: FieldInfo) -> str:
    """Put the limits that a field's metadata carries into words."""
    words = {"ge": " from {}", "gt": " above {}", "le": " to {}", "lt": " below {}"}
    words |= {"min_length": ", at least {} long", "max_length": ", at most {} long"}
    words["pattern"] = f" like {info.default}"  # an example says more than an expression
    found = ""
    for word, text in words.items():
        for item in info.metadata:
            if (limit := getattr(item, word, None)) is not None:
                lonely = word == "le" and "from" not in found and "above" not in found
                found += (" up to {}" if lonely else text).format(limit)
    return found
