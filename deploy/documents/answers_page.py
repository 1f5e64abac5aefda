"""Every code of an answer, with the texts that servers say with it."""

import ast
from collections.abc import Iterator
from typing import Final

from aerobee.remoting.codes import ResponseCode
from deploy.documents.assembling import ROOT
from deploy.documents.tables import code, table

FOLDERS: Final = ("broker", "namesrv", "remoting")
TEXTS_MAX: Final = 8
LETTERS_MIN: Final = 8
"""A text with fewer holds what somebody else says, or says nothing by itself."""


def answer_codes() -> str:
    """Return the codes in their order; texts have `…` where they name what was asked for."""
    texts: dict[str, list[str]] = {}
    for name, text in _texts():
        if text not in (found := texts.setdefault(name, [])):
            found.append(text)
    names = {value: name for name, value in vars(ResponseCode).items() if name.isupper()}
    rows = (
        (code(number), code(names[number]), _said(texts.get(names[number], [])))
        for number in sorted(names)
    )
    return table(("code", "name", "said with it, among others"), rows)


def _said(texts: list[str]) -> str:
    told = [text for text in texts if sum(map(str.isalpha, text)) >= LETTERS_MIN]
    shown = sorted(told, key=len)[:TEXTS_MAX]
    return "<br>".join(text.replace("`", "").replace("<", "&lt;") for text in shown)


def _texts() -> Iterator[tuple[str, str]]:
    """Yield each text that is written beside a code in a call."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if not isinstance(node, ast.Call):
                    continue
                values = [*node.args, *(keyword.value for keyword in node.keywords)]
                names = [
                    value.attr
                    for value in values
                    if isinstance(value, ast.Attribute)
                    and ast.unparse(value.value).endswith("ResponseCode")
                ]
                for text in filter(None, map(_text, values)) if len(names) == 1 else ():
                    yield names[0], text


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if not isinstance(node, ast.JoinedStr):
        return ""
    parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
    return "".join(map(str, parts))
