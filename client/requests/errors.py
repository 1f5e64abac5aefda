"""What a request, or a reply, can end with beside the errors of a send."""

from aerobee.client.errors import ClientError
from aerobee.client.message import SendResult
from aerobee.client.received import ReceivedMessage


class NoReply(ClientError):
    """A request was stored, and no reply came in time; it may be handled all the same.

        except NoReply as error:
            print(error.topic, error.waited_ms, error.result.message_id)

    `result` says where it was stored, `waited_ms` is the request's time-out
    (RequestTimeoutException.java, 10006).
    """

    def __init__(self, topic: str, waited_ms: int, result: SendResult) -> None:
        super().__init__(
            f"send request message to <{topic}> OK, but wait reply message timeout, {waited_ms} ms."
        )
        self.topic = topic
        self.waited_ms = waited_ms
        self.result = result


class ReplyConnectionLost(NoReply):
    """No reply came in time, and a connection on which it may have come ended meanwhile.

        except ReplyConnectionLost as error:
            print("ask again, if that may be done twice:", error.result)

    A reply that was pushed then went nowhere; its copy is in the cluster's reply topic.
    """


class ReplierRefused(ClientError):
    """The replier has got the request, and answers why there is no answer.

        except ReplierRefused as error:
            print(error.reason)

    `reason` are its words, `reply` the whole message.
    """

    def __init__(self, reason: str, reply: ReceivedMessage) -> None:
        super().__init__(f"the replier refused: {reason}")
        self.reason = reason
        self.reply = reply


class ReplyNotTaken(ClientError):
    """A reply was not handed over: its requester is gone, says nothing, or did not take it.

        except ReplyNotTaken as error:
            print("handling the request again will not help:", error)

    The text has the broker's words.
    """
