"""Answers that viewers share: asked once, kept a moment, given up where they take too long."""

import asyncio

import pytest
from support.waiting import until

from aerobee.console.kept_answers import ANSWERS_MAX, KeptAnswers
from aerobee.remoting.errors import Unavailable


async def test_viewers_at_one_time_have_one_question_asked() -> None:
    """And who comes within its age is told the same; afterwards it is asked anew."""
    now_s, asked = 0.0, 0
    gate = asyncio.Event()
    answers = KeptAnswers(lambda: now_s)

    async def question() -> int:
        nonlocal asked
        asked += 1
        await gate.wait()
        return asked

    waiting = [asyncio.create_task(answers.get("key", question)) for _ in range(10)]
    await asyncio.sleep(0)
    waiting[0].cancel()  # who leaves takes nobody with him
    gate.set()
    assert await asyncio.gather(*waiting[1:]) == [1] * 9
    assert await answers.get("key", question) == 1
    now_s = 1.5
    assert await answers.get("key", question) == 2
    answers.forget()
    assert await answers.get("key", question) == 3


async def test_a_change_is_not_hidden_by_what_was_asked_before_it() -> None:
    """An answer that was under way when something changed is not kept."""
    answers = KeptAnswers(lambda: 0.0)
    gate = asyncio.Event()

    async def old() -> str:
        await gate.wait()
        return "old"

    async def new() -> str:
        return "new"

    waiting = asyncio.create_task(answers.get("key", old))
    await asyncio.sleep(0)
    answers.forget()
    assert await answers.get("key", new) == "new"
    gate.set()
    assert await waiting == "old"
    assert await answers.get("key", old) == "new"


async def test_refusals_are_kept_too_and_answers_are_bounded() -> None:
    """A broker that refuses is not asked by every viewer; keys are what viewers make up."""
    asked = 0
    answers = KeptAnswers(lambda: 0.0)

    async def failing() -> None:
        nonlocal asked
        asked += 1
        raise Unavailable("no")

    for _ in range(3):
        with pytest.raises(Unavailable):
            await answers.get("key", failing)
    assert asked == 1

    async def fine() -> str:
        return "x"

    for number in range(ANSWERS_MAX + 10):
        await answers.get(number, fine)
    assert len(answers) == ANSWERS_MAX


async def test_an_old_answer_is_let_go_though_nobody_asks() -> None:
    """Hundreds of large ones would stay in memory until others took their place."""
    answers = KeptAnswers()
    for number in range(10):
        assert await answers.get(number, _one, age_s=0.01) == 1
    await until(lambda: not len(answers), 10)


async def test_what_is_asked_at_a_change_ends_with_the_console() -> None:
    """It would go on with connections that are closed."""
    answers = KeptAnswers()
    ended = asyncio.Event()

    async def question() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    waiting = asyncio.create_task(answers.get("key", question))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    answers.forget()
    await answers.close()
    assert ended.is_set()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def _one() -> int:
    return 1
