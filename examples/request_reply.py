"""Request and reply: one side asks and awaits the answer, the other answers, refuses or is silent.

Run it beside a nameserver and a broker: `python examples/request_reply.py`.
"""

import asyncio
import os

from aerobee.client import (
    ConsumeFrom,
    Message,
    NoReply,
    PushConsumer,
    ReceivedMessage,
    ReplierRefused,
    RequestProducer,
)

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
PRICES = {"apples": b"3.20", "pears": b"4.10"}


async def ask(producer: RequestProducer, fruit: str, timeout_ms: int = 10_000) -> str:
    """Return what the other side says of a fruit."""
    try:
        answer = await producer.request(Message("price", fruit.encode()), timeout_ms=timeout_ms)
        return answer.body.decode()
    except ReplierRefused as refused:
        return f"refused, {refused.reason}"
    except NoReply:
        return "no answer in time"


async def main() -> None:
    """Be both sides; in real life they are two programs, in any of RocketMQ's languages."""
    producer = RequestProducer("fruit-shop", namesrv=NAMESRV)

    async def answer(request: ReceivedMessage) -> None:
        fruit = request.body.decode()
        if fruit in PRICES:
            await producer.reply(request, PRICES[fruit])
        elif fruit != "durians":  # of which nobody speaks
            await producer.reply(request, b"-", refusal=f"we have no {fruit}")

    consumer = PushConsumer("price-list", namesrv=NAMESRV, consume_from=ConsumeFrom.FIRST)
    consumer.subscribe("price", answer)
    async with producer, consumer:
        for fruit in ("apples", "pears", "stones"):
            print(f"{fruit:8} {await ask(producer, fruit)}")
        print(f"durians  {await ask(producer, 'durians', timeout_ms=500)}")


if __name__ == "__main__":
    asyncio.run(main())
