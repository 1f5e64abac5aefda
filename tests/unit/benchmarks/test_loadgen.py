"""The load generator in C: it drives a real broker without an error, and notices one that lies."""

import asyncio
import json
import struct
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from support.servers.live_broker import LiveBroker, live_broker

from aerobee.remoting.codes import RequestCode
from benchmarks.generator import LoadFailed, Sample, run_marked
from benchmarks.loads import LOADS, MANY_FIRST, Load, Variant
from benchmarks.targets import compiling
from benchmarks.targets.brokers import topic_fields

SMALL = Variant(topics=1, queues=4, tags_first=False)
TIMES = ["--warmup", "0", "--seconds", "60"]
MESSAGES = 2000


@pytest.fixture(scope="module")
def loadgen() -> Path:
    """The generator, compiled."""
    try:
        return compiling.load_generator()
    except compiling.ToolMissing as error:
        pytest.skip(str(error))


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[LiveBroker]:
    """A broker with the topics of the benchmark."""
    async with live_broker(tmp_path, mapped_file_size_commit_log=32 << 20) as live:
        for variant in (SMALL, MANY_FIRST):
            for topic in variant.topic_names():
                fields = topic_fields(topic, variant.queues)
                await live.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
        yield live


def load(workload: str, **values: Any) -> Load:
    """Return the benchmark's load of that workload with other numbers."""
    first = next(each for each in LOADS if each.workload == workload)
    kept = {name: getattr(first, name) for name in ("title", "variants", "bar", "batch")}
    return Load(name=workload, workload=workload, **(kept | values))


async def run(loadgen: Path, port: int, words: list[str]) -> tuple[int, dict[str, Any], str]:
    """Run the generator to its end; return its status, its report and what it complained about."""
    child = await asyncio.create_subprocess_exec(
        str(loadgen), *words, "--port", str(port), stdout=-1, stderr=-1
    )
    out, errors = await asyncio.wait_for(child.communicate(), 60)
    assert child.returncode is not None
    return child.returncode, json.loads(out or b"{}"), errors.decode()


@pytest.mark.parametrize("variant", [SMALL, MANY_FIRST], ids=lambda variant: variant.label)
@pytest.mark.parametrize(
    ("workload", "connections", "outstanding", "requests"),
    [("send", 1, 64, MESSAGES), ("send", 16, 8, MESSAGES), ("batch", 2, 2, MESSAGES // 32)],
)
async def test_messages_are_stored_without_an_error(
    loadgen: Path,
    broker: LiveBroker,
    variant: Variant,
    workload: str,
    connections: int,
    outstanding: int,
    requests: int,
) -> None:
    """Every message is acknowledged, and the broker has as many as the generator counted."""
    asked = load(workload, connections=connections, outstanding=outstanding)
    words = [*asked.words(variant), "--requests", str(requests), *TIMES]
    status, report, errors = await run(loadgen, broker.broker.port, words)
    assert (status, report["errors"], errors) == (0, 0, "")
    assert report["answers"] == requests
    assert report["messages"] == requests * (32 if workload == "batch" else 1)
    statistics = broker.broker.store.statistics()
    assert statistics.position > report["messages"] * 1024
    assert 0 < report["p50_us"] <= report["p99_us"] <= report["p999_us"] <= report["max_us"]


async def test_pulls_get_every_record(loadgen: Path, broker: LiveBroker) -> None:
    """Pulls of 32 over what was sent before, each record checked."""
    fill = [*load("send", outstanding=64).words(SMALL), "--requests", str(MESSAGES), *TIMES]
    assert (await run(loadgen, broker.broker.port, fill))[0] == 0
    words = [*load("pull", connections=4, outstanding=4).words(SMALL), "--requests", "100", *TIMES]
    status, report, errors = await run(loadgen, broker.broker.port, words)
    assert (status, report["errors"], errors) == (0, 0, "")
    assert report["messages"] == 3200
    assert report["bytes_in"] > 3200 * 1024


async def test_held_pulls_wake(loadgen: Path, broker: LiveBroker) -> None:
    """A held pull brings each message that is sent."""
    words = [*load("wake").words(SMALL), "--requests", "300", *TIMES]
    status, report, errors = await run(loadgen, broker.broker.port, words)
    assert (status, report["errors"], errors) == (0, 0, "")
    assert report["messages"] == 300


async def test_a_missing_topic_is_an_error(loadgen: Path, broker: LiveBroker) -> None:
    """What the broker refuses is not measured."""
    words = ["pull", "--topic", "Nothing", "--requests", "10", *TIMES]
    status, report, errors = await run(loadgen, broker.broker.port, words)
    assert status == 1
    assert not report
    assert "Nothing" in errors


Answer = Callable[[int, int], dict[str, Any]]


async def lying_server(answer: Answer) -> asyncio.Server:
    """Serve sends with what `answer` makes of the opaque and the number of the request."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        count = 0
        try:
            while True:
                payload = await reader.readexactly(
                    *struct.unpack(">I", await reader.readexactly(4))
                )
                header = json.loads(payload[4 : 4 + int.from_bytes(payload[1:4], "big")])
                if header["code"] == RequestCode.GET_MAX_OFFSET:
                    reply = {"code": 0, "opaque": header["opaque"], "extFields": {"offset": "0"}}
                else:
                    reply = answer(header["opaque"], count)
                    count += 1
                text = json.dumps(reply | {"flag": 1}, separators=(",", ":")).encode()
                writer.write(struct.pack(">II", 4 + len(text), len(text)) + text)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", 0)


def stored(opaque: int, offset: int, code: int = 0) -> dict[str, Any]:
    """Return the header of an acknowledgement."""
    fields = {"queueId": "0", "queueOffset": str(offset), "msgId": "00"}
    return {"code": code, "extFields": fields, "opaque": opaque}


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (lambda opaque, count: stored(opaque, count // 2), "twice"),
        (lambda opaque, count: stored(opaque, count * 2), "but not"),
        (lambda opaque, count: stored(opaque, count, code=2), "refused"),
        (lambda opaque, count: stored(opaque + (count == 5), count), "not open"),
        (lambda opaque, count: stored(opaque, count), "ends at 0"),
    ],
    ids=["offset twice", "gap", "refused", "wrong opaque", "never in its queue"],
)
async def test_a_lie_is_noticed(loadgen: Path, answer: Answer, complaint: str) -> None:
    """A wrong reply ends the run with an error that names it."""
    server = await lying_server(answer)
    async with server:
        words = ["send", "--queues", "1", "--requests", "50", "--settle", "0.1", *TIMES]
        words += ["--outstanding", "4"] if complaint == "not open" else []
        port = server.sockets[0].getsockname()[1]
        status, report, errors = await run(loadgen, port, words)
        assert status == 1
        assert complaint in report.get("first_error", errors)


async def test_the_floor_serves_every_workload(loadgen: Path) -> None:
    """The server that stores nothing satisfies the generator's checks; marks frame the samples."""
    floor = await asyncio.create_subprocess_exec(str(loadgen), "floor", stdout=-1)
    try:
        assert floor.stdout
        port = (await asyncio.wait_for(floor.stdout.readline(), 10)).split()[-1].decode()
        for workload in ("send", "batch", "pull"):
            samples: list[Sample] = []

            def sample(taken: list[Sample] = samples) -> Sample:
                taken.append(Sample(cpu_s=len(taken) * 2.0, syncs=len(taken) * 7))
                return taken[-1]

            words = [*load(workload, outstanding=4).words(SMALL), "--requests", str(MESSAGES)]
            command = [str(loadgen), *words, "--port", port, *TIMES, "--marks"]
            measured = await asyncio.to_thread(run_marked, command, sample)
            assert len(samples) == 2
            assert measured.messages == MESSAGES * (1 if workload == "send" else 32)
            assert measured.cpu_us == pytest.approx(2e6 / measured.messages)
            assert measured.syncs == 7
    finally:
        floor.terminate()
        await floor.wait()


def test_a_generator_that_fails_is_not_a_measurement(loadgen: Path) -> None:
    """LoadFailed says what the generator said."""
    with pytest.raises(LoadFailed, match="cannot connect"):
        run_marked([str(loadgen), "send", "--port", "1", "--marks"], lambda: Sample(0.0))
