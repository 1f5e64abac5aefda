"""Commands over a cluster as processes: pipes, and Ctrl-C."""

import json
import os
import signal
import subprocess
import sys

from aerobee.testing import ClusterThread

AEROBEE = (sys.executable, "-m", "aerobee")
TIMEOUT_S = 30


def test_messages_are_piped_as_they_come_until_ctrl_c(rocketmq: ClusterThread) -> None:
    """Each is a line at once, what one command writes another sends, and 130 says who ended it."""
    rocketmq.create_topic("cli-piped", queues=1)
    rocketmq.create_topic("cli-piped-on", queues=1)
    env = os.environ | {"NAMESRV_ADDR": rocketmq.namesrv_addr}

    def produce(topic: str, lines: bytes) -> None:
        words = [*AEROBEE, "message", "produce", topic]
        subprocess.run(words, input=lines, env=env, check=True, timeout=TIMEOUT_S)

    produce("cli-piped", b'{"body": "before", "tags": "t"}')
    words = [*AEROBEE, "message", "tail", "cli-piped", "--since", "1h", "-o", "json"]
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as tail:
        try:
            assert tail.stdout is not None and tail.stderr is not None
            first = tail.stdout.readline()
            produce("cli-piped", b'{"body": "after"}')
            second = tail.stdout.readline()
            tail.send_signal(signal.SIGINT)
            assert tail.wait(TIMEOUT_S) == 130
            assert tail.stderr.read() == b""
        finally:
            tail.kill()
    assert [json.loads(line)["body"] for line in (first, second)] == ["before", "after"]
    produce("cli-piped-on", first + second)
    words = [*AEROBEE, "message", "browse", "cli-piped-on"]
    shown = subprocess.run(words, env=env, capture_output=True, check=True, timeout=TIMEOUT_S)
    assert [line.split(b"\t")[-1] for line in shown.stdout.splitlines()] == [b"before", b"after"]
