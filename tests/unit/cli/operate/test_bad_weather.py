"""Commands where servers are gone, silent, or not to be talked to."""

import asyncio
import os
import pty
import select
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from support.servers.commands import Commands
from support.stand_ins.silent_server import SilentServer
from support.waiting import until

from aerobee.admin import AdminClient
from aerobee.remoting.bodies import RegisterBrokerBody, encode_body
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.headers.registration import RegisterBrokerRequest
from aerobee.testing import EmbeddedCluster

LISTINGS = [
    ("topic", "list"), ("topic", "describe", "t"), ("group", "list"), ("group", "describe", "g"),
    ("group", "members", "g"), ("group", "producers"), ("message", "browse", "t"),
    ("message", "find", "t", "--key", "k"), ("message", "track", "t", "--key", "k"),
    ("dlq", "list"), ("dlq", "show", "g"), ("broker", "list"), ("broker", "describe", "b"),
    ("broker", "settings", "b"), ("cluster", "list"), ("cluster", "settings"), ("user", "list"),
    ("acl", "list"), ("acl", "describe", "u"), ("config", "export"),
]  # fmt: skip
CHANGES = [
    ("topic", "create", "t"), ("topic", "alter", "t", "-q", "3"), ("topic", "delete", "t", "-y"),
    ("topic", "spread", "t", "-y"), ("group", "create", "g"), ("group", "delete", "g", "-y"),
    ("offset", "reset", "g", "t", "--to-end", "-y"), ("offset", "copy", "g", "h", "t", "-y"),
    ("dlq", "resend", "g", "-y"), ("broker", "set", "b", "a=1"), ("broker", "drain", "b", "-y"),
    ("broker", "add", "b", "--from", "c", "-y"), ("broker", "wipe-writes", "b", "-y"),
    ("cluster", "set", "a=1"), ("user", "delete", "u", "-y"), ("user", "enable", "u"),
    ("acl", "create", "u", "-r", "Topic:t", "-a", "Pub"), ("acl", "delete", "u", "-y"),
]  # fmt: skip


@pytest.fixture(scope="module")
def nobody() -> Iterator[str]:
    """An address at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        address = f"127.0.0.1:{gone.getsockname()[1]}"
    yield address


@pytest.mark.parametrize("words", [*LISTINGS, *CHANGES], ids=" ".join)
def test_without_a_nameserver_each_says_so(nobody: str, words: tuple[str, ...]) -> None:
    """One clear line with the address, code 1, and nothing on standard output."""
    ended = Commands(nobody)(*words, code=1)
    assert ended.stdout == ""
    assert ended.stderr.startswith("error: ")
    assert nobody in ended.stderr


@pytest.fixture
async def silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Commands]:
    """A broker that has registered, takes connections, and never says a word; and one that does."""
    monkeypatch.setattr("aerobee.admin.pages.PAGE_TIMEOUT_MS", 300)
    async with EmbeddedCluster(root=tmp_path) as cluster, SilentServer() as server:
        await cluster.create_topic("orders", 2)
        header = RegisterBrokerRequest(
            broker_name="broker-mute",
            broker_addr=server.address,
            cluster_name="DefaultCluster",
            ha_server_addr=server.address,
            broker_id=0,
        )
        async with AdminClient(cluster.namesrv_addr) as registering:
            code, body = RequestCode.REGISTER_BROKER, encode_body(RegisterBrokerBody())
            await registering.connections.request(cluster.namesrv_addr, code, header, body)
            yield Commands(cluster.namesrv_addr)


def test_users_of_a_broker_that_keeps_none(commands: Commands) -> None:
    """It says how to have some."""
    for words in (("user", "list"), ("acl", "list"), ("user", "describe", "ann")):
        assert "authenticationEnabled=true" in commands(*words, code=1).stderr


async def test_a_silent_broker_costs_its_own_answer_alone(silent: Commands) -> None:
    """What the others say is shown (4); a change, and what would mislead by halves, fails (1)."""

    def work() -> None:
        for words in (("topic", "list"), ("group", "producers"), ("broker", "list")):
            shown = silent(*words, "--timeout", "0.3", code=4)
            assert "nothing from broker-mute" in shown.stderr
        for change in (
            ("topic", "spread", "orders", "-y"),
            ("broker", "add", "broker-mute", "--from", "broker-a", "-y"),
            ("user", "enable", "ann"),
            ("config", "export"),
        ):
            silent(*change, "--timeout", "0.3", code=1)

    await asyncio.to_thread(work)


def test_ctrl_c_ends_what_waits_with_130() -> None:
    """Whichever server it waits for; nothing but that is told."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        env = os.environ | {"NAMESRV_ADDR": f"127.0.0.1:{mute.getsockname()[1]}"}
        for words in (("topic", "list"), ("topic", "spread", "t", "-y")):
            command = [sys.executable, "-m", "aerobee", *words, "--timeout", "60"]
            with subprocess.Popen(command, env=env, stdout=-1, stderr=-1) as child:
                asking, _ = mute.accept()
                with asking:  # a connection that is closed would be an error before
                    asking.recv(1)
                    child.send_signal(signal.SIGINT)
                    out, err = child.communicate(timeout=30)
            assert (child.returncode, out, err) == (130, b"", b"")


ON_ITS_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "aerobee", *sys.argv[1:]])
"""
TYPED = [
    (("user", "delete", "ann"), b"[y/N]", b"\x03", 130),
    (("user", "delete", "ann"), b"[y/N]", b"n\n", 2),
    (("user", "delete", "ann"), b"[y/N]", b"\x04", 2),
    (("user", "create", "ann"), b"Password", b"\x03", 130),
    (("user", "create", "ann", "--access-key", "bob"), b"Secret", b"\x03", 130),
]


@pytest.mark.parametrize(("words", "asked", "typed", "code"), TYPED)
def test_a_question_ends_with_what_is_typed(
    nobody: str, words: tuple[str, ...], asked: bytes, typed: bytes, code: int
) -> None:
    """Ctrl-C the first time it is pressed; nobody has said yes where something else is typed."""
    terminal, its_side = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", ON_ITS_TERMINAL, *words],
        env=os.environ | {"NAMESRV_ADDR": nobody},
        stdin=its_side, stdout=its_side, stderr=its_side, start_new_session=True,
    )  # fmt: skip
    os.close(its_side)
    try:
        shown = read_terminal(terminal, last=asked)
        assert asked in shown, shown
        asyncio.run(until(lambda: is_waiting(child.pid)))  # what is pressed just before is lost
        os.write(terminal, typed)
        shown += read_terminal(terminal)
        assert child.wait(30) == code, shown
        assert b"Traceback" not in shown
    finally:
        child.kill()
        child.wait()
        os.close(terminal)


def is_waiting(process: int) -> bool:
    """Whether a process sleeps until something comes."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def read_terminal(terminal: int, last: bytes | None = None) -> bytes:
    """Return what is shown until something appears, or until the terminal is left."""
    shown = b""
    while last is None or last not in shown:
        if not select.select([terminal], [], [], 30)[0]:
            raise AssertionError(f"it waits: {shown!r}")
        try:
            if not (part := os.read(terminal, 4096)):
                return shown
        except OSError:  # Linux says so when nobody is there any more
            return shown
        shown += part
    return shown
