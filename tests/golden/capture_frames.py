"""Records what real clients, the real broker and the real nameserver say to each other.

    PYTHONPATH=tests python tests/golden/capture_frames.py

The broker listens on 127.0.0.1 and is registered as 127.0.0.2, where a proxy stands in front of
it; another proxy stands in front of the nameserver. Of each scenario, the first frame of every kind
is kept: `frames/SCENARIO/CODE_NAME-request.hex` and `...-reply-CODE.hex`.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from support.code_names import REQUEST_NAMES
from support.golden.frames import decode_header, save_frame, split_frames
from support.golden.proxy import Proxy, Recording
from support.interop import peers
from support.interop.peers import Consumer, Content, Peer
from support.interop.processes import ServerFailed, free_port
from support.interop.raw_messages import create_topic, wait_for_route
from support.interop.rocketmq_server import RocketMQ

FRAMES = Path(__file__).parent / "frames"
JAVA_OPTIONS = "JAVA_TOOL_OPTIONS"
MESSAGES = [
    Content("TagA", "key-0", "plain é 中 🐝".encode()),
    Content("TagB", "key-1", b"other"),
    Content("TagA", "key-2", b"large " + b"x" * 5000),
]


class Proxied(RocketMQ):
    """RocketMQ with a recording proxy before its broker and before its nameserver."""

    def __init__(self, directory: Path, settings: dict[str, str]) -> None:
        super().__init__(directory, settings=settings)
        port = self.broker.rsplit(":", 1)[1]
        self.namesrv_entry = f"127.0.0.1:{free_port()}"
        self.to_namesrv = Proxy(self.namesrv_entry, self.namesrv, "broker-registers")
        self.to_broker = Proxy(f"127.0.0.2:{port}", self.broker)
        self.broker = f"127.0.0.2:{port}"

    def settings(self) -> dict[str, str]:
        """Bind where the proxy is not, register through the proxy."""
        own = {"bindAddress": "127.0.0.1", "namesrvAddr": self.namesrv_entry}
        return super().settings() | own

    @contextmanager
    def scenario(self, name: str, java_options: str = "") -> Iterator[None]:
        """Keep what connections say that are opened meanwhile."""
        self.to_namesrv.label = self.to_broker.label = name
        os.environ[JAVA_OPTIONS] = java_options
        yield
        self.to_namesrv.label = self.to_broker.label = ""
        del os.environ[JAVA_OPTIONS]

    def kept(self) -> Iterator[tuple[str, Recording]]:
        """Yield every recording with the name of the server it was made before."""
        for server, proxy in (("namesrv", self.to_namesrv), ("broker", self.to_broker)):
            for recording in proxy.recordings:
                yield server, recording


def main() -> None:
    """Run all scenarios and write their frames."""
    shutil.rmtree(FRAMES, ignore_errors=True)
    capture_clients()
    capture_compressed_registration()
    print(f"{len(list(FRAMES.rglob('*.hex')))} frames in {FRAMES}")


def capture_clients() -> None:
    """Run a broker, which asks for data versions between registrations, and all clients."""
    with tempfile.TemporaryDirectory() as directory:
        server = Proxied(Path(directory), {"forceRegister": "false"})
        with server.to_namesrv, server.to_broker, server:
            server.to_namesrv.label = ""
            create_topic(server.broker, "golden", 2)
            wait_for_route(server.namesrv, "golden")
            run_clients(server)
            server.stop_broker()
            write_all(server, "broker-registers")


def capture_compressed_registration() -> None:
    """Run a broker that compresses its registration.

    RocketMQ 5.5.0's own nameserver refuses what its broker sends ("Failed to decode
    RegisterBrokerBody"), so the broker never gets as far as serving.
    """
    with tempfile.TemporaryDirectory() as directory:
        server = Proxied(Path(directory), {"compressedRegister": "true"})
        server.start_seconds_max = 25
        with server.to_namesrv, server.to_broker, suppress(ServerFailed), server:
            pass
        write_all(server, "broker-registers-compressed")


def write_all(server: Proxied, registers: str) -> None:
    """Write what both proxies kept."""
    for before, recording in server.kept():
        write(recording, before, registers)


def run_clients(server: Proxied) -> None:
    """Let every client send and receive."""
    binary = "-Drocketmq.serialize.type=ROCKETMQ"
    for peer in peers.ALL:
        produce_and_consume(server, peer, peer.name)
    produce_and_consume(server, peers.JAVA_5, "java-5.5.0-binary", binary)
    produce_and_consume(server, peers.JAVA_4, "java-4.9.8-binary", binary)
    with server.scenario("java-4.9.8-v1", "-Dorg.apache.rocketmq.client.sendSmartMsg=false"):
        peers.JAVA_4.produce(server.namesrv_entry, "golden", MESSAGES)
    with server.scenario("java-5.5.0-lite"):
        entry = server.namesrv_entry
        with Consumer(peers.JAVA_5, entry, "golden", "golden-lite", "TagA", command="lite") as one:
            one.wait_for(2)
    with server.scenario("java-5.5.0-admin"):
        child = peers.ADMIN.start(
            [server.namesrv_entry, server.broker], server.directory / "admin.log"
        )
        child.communicate(timeout=120)


def produce_and_consume(server: Proxied, peer: Peer, name: str, options: str = "") -> None:
    """Send singly and as a batch, then consume by two members, so that one hears of the other."""
    with server.scenario(f"{name}-produces", options):
        peer.produce(server.namesrv_entry, "golden", MESSAGES)
        if peer.batches:
            peer.produce(server.namesrv_entry, "golden", MESSAGES, batch=True)
    with server.scenario(f"{name}-consumes", options), ExitStack() as stack:
        group = f"golden-{name.replace('.', '_')}"
        words = (peer, server.namesrv_entry, "golden", group, "TagA")
        first = stack.enter_context(Consumer(*words))
        first.wait_for(2)
        if name == "java-5.5.0":
            stack.enter_context(Consumer(*words))
            time.sleep(2)


def write(recording: Recording, before: str, registers: str) -> None:
    """Write the first frame of each kind of one connection, unless its scenario has one already."""
    label = registers if recording.label == "broker-registers" else recording.label
    client = "broker" if recording.label == "broker-registers" else "client"
    names: dict[tuple[str, int], str] = {}
    directions = [
        (f"{client} to {before}", bytes(recording.from_client)),
        (f"{before} to {client}", bytes(recording.from_server)),
    ]
    frames = [(way, frame) for way, stream in directions for frame in split_frames(stream)]
    for way, frame in frames:
        header = decode_header(frame)
        if not header["flag"] & 1:
            names[way, header["opaque"]] = REQUEST_NAMES.get(header["code"], str(header["code"]))
            keep(FRAMES / label / f"{names[way, header['opaque']]}-request.hex", way, frame)
    for way, frame in frames:
        header = decode_header(frame)
        if header["flag"] & 1:
            asked = directions[1][0] if way == directions[0][0] else directions[0][0]
            name = names.get((asked, header["opaque"]), "UNKNOWN")
            keep(FRAMES / label / f"{name}-reply-{header['code']}.hex", way, frame)


def keep(file: Path, direction: str, frame: bytes) -> None:
    """Write a frame unless there is one of its kind."""
    if not file.exists():
        save_frame(file, direction, frame)


if __name__ == "__main__":
    main()
