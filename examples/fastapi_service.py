"""A FastAPI service: orders come in by HTTP, are handled from the queue, and are found by number.

Run it beside a nameserver and a broker: `pip install fastapi uvicorn`, then
`uvicorn --app-dir examples fastapi_service:app`; its pages to try it out are at /docs.
"""

import os

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

from aerobee.client import ClientError, ConsumeFrom, Message, Producer, PushConsumer
from aerobee.client import ReceivedMessage as Received
from aerobee.integrations.asgi import lifespan

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


class Order(BaseModel):
    """What a customer wants."""

    number: str
    cents: int


handled: set[str] = set()
producer = Producer(namesrv=NAMESRV)
consumer = PushConsumer("order-service", namesrv=NAMESRV, consume_from=ConsumeFrom.FIRST)


async def handle(message: Received) -> None:
    """Do what takes too long for a request."""
    order = message.decode(Order)
    print(f"order {order.number} over {order.cents} cents is on its way", flush=True)
    handled.add(order.number)


consumer.subscribe("shop-orders", handle)
app = FastAPI(lifespan=lifespan(producer, consumer))


@app.post("/orders", status_code=202)
async def place(order: Order) -> dict[str, str]:
    """Store the order, answer at once; 503 where it cannot be stored."""
    try:
        sent = await producer.send(Message("shop-orders", json=order, keys=order.number))
    except ClientError as error:
        raise HTTPException(503, str(error)) from error
    return {"message_id": sent.message_id}


@app.get("/orders/{number}")
async def find(number: str) -> dict[str, object]:
    """Find the order in the broker's log by its number."""
    found = await producer.find("shop-orders", key=number, messages_max=1)
    if not found:
        raise HTTPException(404, f"there is no order {number}")
    order = found[0].decode(Order)
    return order.model_dump() | {"handled": number in handled}
