"""What handlers write to be given the message, the broker, the logger or the context."""

from typing import Annotated

from faststream import Context
from faststream.annotations import ContextRepo, Logger
from faststream.params import NoCast

from aerobee.client import RequestProducer
from aerobee.integrations.faststream import broker as _broker
from aerobee.integrations.faststream import message as _message

__all__ = ["AerobeeBatchMessage", "AerobeeBroker", "AerobeeMessage", "Client", "ContextRepo",
           "Logger", "NoCast"]  # fmt: skip

AerobeeMessage = Annotated[_message.AerobeeMessage, Context("message")]
AerobeeBatchMessage = Annotated[_message.AerobeeBatchMessage, Context("message")]
AerobeeBroker = Annotated[_broker.AerobeeBroker, Context("broker")]
Client = Annotated[RequestProducer, Context("broker._connection")]
