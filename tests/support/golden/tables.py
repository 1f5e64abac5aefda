"""What a broker is asked to remember, so that its tables can be compared."""

import json
from typing import Final

from support.interop.raw_remoting import RawClient

FILES: Final = ("topics.json", "subscriptionGroup.json", "consumerOffset.json")
TOPIC: Final = "golden-topic"
GROUP: Final = "golden-group"
OFFSETS: Final = {0: 7, 1: 0, 3: 4_294_967_296}


def fill(broker: str) -> None:
    """Make a topic with an attribute, a group of its own mind, a forbidden topic, and offsets."""
    with RawClient(broker) as client:
        topic = {
            "topic": TOPIC,
            "defaultTopic": "TBW102",
            "readQueueNums": "4",
            "writeQueueNums": "4",
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "true",
            "attributes": "+message.type=FIFO",
        }
        assert client.call(17, topic).code == 0
        group = {
            "groupName": GROUP,
            "retryQueueNums": 2,
            "retryMaxTimes": 3,
            "consumeBroadcastEnable": False,
            "groupRetryPolicy": {
                "type": "EXPONENTIAL",
                "exponentialRetryPolicy": {"initial": 1000, "max": 60000, "multiplier": 3},
            },
        }
        assert client.call(200, {}, json.dumps(group).encode()).code == 0
        for queue_id, offset in OFFSETS.items():
            fields = {
                "consumerGroup": GROUP,
                "topic": TOPIC,
                "queueId": str(queue_id),
                "commitOffset": str(offset),
            }
            assert client.call(15, fields).code == 0
