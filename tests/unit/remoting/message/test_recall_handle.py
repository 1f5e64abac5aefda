"""The handle by which a message is taken back."""

import base64

import pytest

from aerobee.remoting.message.recall_handle import (
    RecallHandle,
    decode_recall_handle,
    encode_recall_handle,
)

KEY = "0A00000100002A9F00000000000001"
HANDLE = "djEgb3JkZXJzIGJyb2tlci1hIDE3MDAwMDAwMDAwMDEgMEEwMDAwMDEwMDAwMkE5RjAwMDAwMDAwMDAwMDAx"


def test_a_handle_is_rocketmqs() -> None:
    """As RocketMQ 5.5.0 makes it; also without the padding, which Java's decoder does not need."""
    assert encode_recall_handle("orders", "broker-a", 1_700_000_000_001, KEY) == HANDLE
    handle = RecallHandle("orders", "broker-a", "1700000000001", KEY)
    assert decode_recall_handle(HANDLE) == handle
    padded = encode_recall_handle("orde", "broker-a", 1, "K")
    assert padded.endswith("=")
    assert decode_recall_handle(padded.rstrip("=")) == decode_recall_handle(padded)


@pytest.mark.parametrize(
    "text",
    ["", "no base64!", "ü", "YQ", base64.urlsafe_b64encode(b"v2 a b 1 k").decode(),
     base64.urlsafe_b64encode(b"v1 a b 1").decode()],
)  # fmt: skip
def test_what_is_no_handle_is_refused(text: str) -> None:
    """Whatever it is that it is not."""
    with pytest.raises(ValueError, match=r"handle|base64|padding|ascii|codec|characters"):
        decode_recall_handle(text)
