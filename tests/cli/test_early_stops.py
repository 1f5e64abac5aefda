"""A broker that is told to stop while it still starts: at once, and its store is as it was."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from support.raw_peer import RawPeer
from support.servers.brokers import SMALL_STORE, running_broker, send_command

TIMEOUT_S: Final = 60
MESSAGES: Final = 5


@pytest.fixture
async def store(tmp_path: Path) -> Path:
    """A store that a broker has left cleanly, with some messages."""
    async with running_broker(tmp_path) as broker, await RawPeer.connect(broker.port) as peer:
        for number in range(MESSAGES):
            await peer.request(send_command(b"%d" % number))
        return Path(broker.settings.store_path_root_dir)


@contextmanager
def starting_broker(store: Path, **settings: object) -> "Iterator[subprocess.Popen[str]]":
    """Start a broker on a store, its log on a pipe."""
    given = {
        "brokerIP1": "127.0.0.1",
        "listenPort": 0,
        "httpPort": -1,
        "storePathRootDir": store,
        **SMALL_STORE,
        **settings,
    }
    config = store.parent / "starting.conf"
    config.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
    with subprocess.Popen(
        [sys.executable, "-m", "aerobee.broker", "-c", str(config)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        end = threading.Timer(TIMEOUT_S, child.kill)  # a hang fails, whatever waits for it
        end.start()
        try:
            yield child
        finally:
            end.cancel()
            child.kill()


def log_until(child: "subprocess.Popen[str]", word: str) -> str:
    """Read the log up to the line that has a word, and return that line."""
    assert child.stderr is not None
    lines = []
    for line in child.stderr:
        lines.append(line)
        if word in line:
            return line
    raise AssertionError(f"no {word!r} in {lines}")


def tree(store: Path) -> dict[str, bytes]:
    """Return every file of a store, but the lock."""
    return {
        str(path.relative_to(store)): path.read_bytes()
        for path in store.rglob("*")
        if path.is_file() and path.name != "lock"
    }


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_does_not_wait_for_the_recovery(store: Path, number: signal.Signals) -> None:
    """Here a disk does not answer, so a recovery would never end; its slowness is told, too.

    The store is as a kill leaves it: nothing says that it was stopped cleanly, nothing is changed,
    and the next start finds every message.
    """
    before = tree(store)
    checkpoint = store / "checkpoint"
    checkpoint.unlink()
    os.mkfifo(checkpoint)  # whoever opens it to read waits for somebody who writes
    with starting_broker(store) as child:
        slow = log_until(child, "store_still_recovers")
        assert f"path={store} " in slow and "log_read_at=nowhere" in slow
        child.send_signal(number)
        output, errors = child.communicate()
    assert (child.returncode, output) == (0, "")
    (told,) = errors.splitlines()
    assert f"stopped_while_it_started signal={number.name}:" in told
    checkpoint.unlink()
    checkpoint.write_bytes(before["checkpoint"])
    assert tree(store) == before
    with starting_broker(store) as child:
        log_until(child, "store_recovered")
        assert "log_end=0" not in log_until(child, "broker_serves")
        child.send_signal(signal.SIGTERM)
        log_until(child, "clean=true")
        assert child.wait() == 0


def test_a_stop_does_not_wait_for_who_reads_the_log(store: Path) -> None:
    """A pipe that is full holds up a line for ever; the stop comes without it."""
    checkpoint = store / "checkpoint"
    checkpoint.unlink()
    os.mkfifo(checkpoint)
    with starting_broker(store) as child:
        log_until(child, "store_still_recovers")
        pipe = os.open(f"/proc/{child.pid}/fd/2", os.O_WRONLY | os.O_NONBLOCK)
        with pytest.raises(BlockingIOError):
            while os.write(pipe, bytes(4096)):
                pass
        os.close(pipe)
        child.send_signal(signal.SIGTERM)
        assert child.wait() == 0


def test_a_stop_does_not_wait_for_a_nameserver(store: Path) -> None:
    """Who starts asks the nameservers first; one that is silent delays no stop, which is clean."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(TIMEOUT_S)
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        waits = {"namesrvAddr": address, "registerBrokerTimeoutMills": 10 * TIMEOUT_S * 1000}
        with starting_broker(store, **waits) as child:
            connection, _ = silent.accept()
            child.send_signal(signal.SIGTERM)
            output, errors = child.communicate()
            connection.close()
    assert (child.returncode, output) == (0, ""), errors
    assert "clean=true" in errors and "stopped_before_it_served" in errors
    assert not (store / "abort").exists()
