"""Our SQL92 filters against what RocketMQ's own classes said of the same expressions."""

import json
import re
from pathlib import Path
from typing import Final

import pytest

from aerobee.broker.features.sql92.errors import EvaluationError, ExpressionError
from aerobee.broker.features.sql92.expression import Expression

FOLDER: Final = Path(__file__).parent / "filters"
LETTERS: Final = {True: "T", False: "F", None: "?"}
AHEAD: Final = re.compile(r'Encountered " "(NOT|IS|\+)"')  # it looked at more than one word
RUN: Final = re.compile(r"(\d*)(.)")


def load() -> tuple[list[bytes], dict[str, str | dict[str, str]]]:
    """Return the messages' property bytes, and what RocketMQ made of each expression."""
    messages = [text.encode() for text in json.loads((FOLDER / "messages.json").read_text())]
    lines = (FOLDER / "answers.jsonl").read_text().splitlines()
    return messages, dict(json.loads(line) for line in lines)


def ours(expression: str, messages: list[bytes]) -> str | None:
    """Return our letters, None for an expression that we refuse."""
    try:
        compiled = Expression(expression)
    except ExpressionError:
        return None
    letters = []
    for message in messages:
        try:
            letters.append(LETTERS[compiled.value(message)])
        except EvaluationError:
            letters.append("!")
    return "".join(letters)


def test_every_answer_is_that_of_rocketmq() -> None:
    """True, false, unknown and failed, message by message; and refused where RocketMQ refuses."""
    messages, answers = load()
    assert len(answers) > 5000
    for expression, answer in answers.items():
        runs = RUN.findall(answer) if isinstance(answer, str) else None
        theirs = None if runs is None else "".join(letter * int(n or 1) for n, letter in runs)
        assert ours(expression, messages) == theirs, expression


REFUSED: Final = [
    "a = NULL", "a > 'true'", "TRUE = 'true'", "TRUE = 5", "5 IN ('5')", "a AND 5", "a OR 'x'", "5",
    "a > 0.0", "a > 1e400", "a > 1e-400", "a BETWEEN 5 AND 1", "a BETWEEN '1' AND '5'",
]  # fmt: skip


@pytest.mark.parametrize("expression", REFUSED)
def test_what_may_not_be_compared_is_refused_in_the_same_words(expression: str) -> None:
    """The remark that users look for says which value cannot stand where."""
    _, answers = load()
    answer = answers[expression]
    assert isinstance(answer, dict)
    with pytest.raises(ExpressionError) as refused:
        Expression(expression)
    assert str(refused.value) == answer["refused"].partition(": ")[2]


def test_a_word_out_of_place_is_named_with_its_place() -> None:
    """Line and column are RocketMQ's; it names a NOT, IS or + where ours names what follows."""
    _, answers = load()
    place = re.compile(r"at line \d+, column \d+")
    compared = 0
    for expression, answer in answers.items():
        if isinstance(answer, str) or AHEAD.search(answer["refused"]) or "\t" in expression:
            continue
        found = place.search(answer["refused"])
        if found is None or "ParseException" not in answer["refused"] or "line 0" in found.group():
            continue
        try:
            Expression(expression)
        except ExpressionError as error:
            ours = place.search(str(error))
            assert ours is not None and ours.group() == found.group(), (expression, answer, error)
            compared += 1
    assert compared > 500
