"""A clinic for dead letters: see which messages nobody could handle, cure them, send them again.

Run it beside a nameserver and a broker: `python examples/dlq_clinic.py`.
"""

import asyncio
import os

from aerobee import client
from aerobee.client import ConsumeFrom, Later, Message, ReceivedMessage

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
PAYMENTS = (b'{"cents": 4200}', b"42 Euro", b'{"cents": 1300}', b"7 Euro")

outcomes = asyncio.Queue[int | None]()


async def book(message: ReceivedMessage) -> Later | None:
    """Book a payment; what is no JSON will be none the next time, either."""
    try:
        outcomes.put_nowait(message.decode(dict[str, int])["cents"])
    except client.BadBody:
        outcomes.put_nowait(None)
        return Later(delay_level=-1)  # to the dead letters, without sixteen more attempts
    return None


async def treat(producer: client.Producer, dead: ReceivedMessage) -> None:
    """Cure one dead letter and send it to the topic that it came from."""
    origin, cents = dead.properties["DLQ_ORIGIN_TOPIC"], int(dead.body.split()[0]) * 100
    print(f"  dead letter of {origin}: {dead.body.decode()!r}, cured: {cents} cents")
    await producer.send(Message(origin, json={"cents": cents}, keys=dead.keys))


async def main() -> None:
    """Let two of four payments fail, and treat them while the bookkeeper is at work."""
    bookkeeper = client.PushConsumer("bookkeeper", namesrv=NAMESRV, consume_from=ConsumeFrom.FIRST)
    bookkeeper.subscribe("payments", book)
    clinic = client.LitePullConsumer("clinic", namesrv=NAMESRV, consume_from=ConsumeFrom.FIRST)
    clinic.subscribe("%DLQ%bookkeeper")
    async with client.Producer(namesrv=NAMESRV) as producer:
        for payment in PAYMENTS:
            await producer.send(Message("payments", payment))
        async with bookkeeper:
            booked = [cents for _ in PAYMENTS if (cents := await outcomes.get()) is not None]
            dead = len(PAYMENTS) - len(booked)
            print(f"booked {sum(booked)} cents; {dead} payments could not be read")
            async with clinic:
                for _ in range(dead):
                    await treat(producer, await anext(clinic))
            booked += [cents for _ in range(dead) if (cents := await outcomes.get()) is not None]
    print(f"booked {sum(booked)} cents of {len(booked)} payments")


if __name__ == "__main__":
    asyncio.run(main())
