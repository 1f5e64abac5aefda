"""Dashboards and alerts of `deploy/monitoring`, asked of a real Prometheus beside a broker."""

import asyncio
import json
import subprocess
import urllib.parse
import urllib.request
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Self

import pytest
from support.interop import toolchain
from support.interop.processes import Process, free_port
from support.runs.monitoring import ALERTS, DASHBOARDS, FOLDER, alerts, panels
from support.servers.live_broker import fill, live_broker

from aerobee.broker.features.transactions.ending import COMMIT, ROLLBACK
from aerobee.broker.features.transactions.feature import Transactions
from aerobee.remoting.bodies import TopicConfig
from aerobee.remoting.codes import RequestCode

pytestmark = [pytest.mark.interop, pytest.mark.needs("prometheus")]

HEADER: Final = {"a": "p", "b": "t", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}
WAITING: Final = (
    (0, "DELAY\x0118\x02"),
    (0, "TIMER_DELAY_SEC\x013600\x02"),
    (4, "TRAN_MSG\x01true\x02PGROUP\x01p\x02UNIQ_KEY\x01K\x02"),
)
"""Flags and properties of messages that wait: by level, for a time, for their producer."""
QUIET: Final = {"Requests that wait for an answer"}
"""Panels that show nothing while all is well."""


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run promtool in the folder of the rules."""
    command = [toolchain.prometheus("promtool"), *arguments]
    return subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "rules", "alerts.yaml"),
        ("check", "config", "prometheus.yaml"),
        ("test", "rules", "alerts.test.yaml"),
    ],
    ids=["rules", "configuration", "cases"],
)
def test_prometheus_own_tool_has_nothing_against_them(arguments: tuple[str, ...]) -> None:
    """Each alert fires in its case, and none while all is well."""
    done = promtool(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr


class Prometheus:
    """A real one that scrapes an address each half second, with the alerts."""

    def __init__(self, folder: Path, target: str) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        config = folder / "prometheus.yaml"
        config.write_text(
            "global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 1s}\n"
            f"rule_files: [{ALERTS}]\n"
            "scrape_configs:\n"
            "  - job_name: aerobee-brokers\n"
            f"    static_configs: [{{targets: ['{target}']}}]\n"
        )
        self._process = Process(
            [
                toolchain.prometheus("prometheus"),
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'tsdb'}",
                f"--web.listen-address={self.address}",
            ],
            folder / "prometheus.log",
        )

    def __enter__(self) -> Self:
        self._process.wait_until(lambda: self.query("up") is not None, 60, "prometheus")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()

    def query(self, expression: str) -> list[Any] | None:
        """Return the samples of an expression, None while it cannot be asked."""
        query = urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(
                "http" + f"://{self.address}/api/v1/query?{query}"
            ) as reply:
                answer = json.load(reply)
        except urllib.error.HTTPError as error:
            if error.code == HTTPStatus.SERVICE_UNAVAILABLE:
                return None
            raise AssertionError(f"{expression}: {error.read().decode()}") from error
        except OSError:
            return None
        samples: list[Any] = answer["data"]["result"]
        return samples

    def rules(self) -> dict[str, dict[str, Any]]:
        """Return the state of each alert."""
        with urllib.request.urlopen("http" + f"://{self.address}/api/v1/rules") as reply:
            groups = json.load(reply)["data"]["groups"]
        return {rule["name"]: rule for group in groups for rule in group["rules"]}


async def test_every_expression_has_an_answer(tmp_path: Path) -> None:
    """Of a broker that is used: no panel is empty, and no alert fires or fails."""
    async with live_broker(tmp_path, http_port=0) as live:
        context = live.broker.context
        for name, attributes in (("kept", "cleanup.policy"), ("once", "aerobee.dedup.seconds")):
            value = "COMPACTION" if name == "kept" else "60"
            context.tables.topics.update(TopicConfig(topic_name=name), {f"+{attributes}": value})
        await fill(live, b"x" * 100)
        for flag, properties in WAITING:
            header = HEADER | {"f": flag, "i": properties}
            assert (await live.ask(RequestCode.SEND_MESSAGE_V2, header, b"x")).code == 0
        (transactions,) = (each for each in live.broker.rooms if isinstance(each, Transactions))
        await live.get("/healthz")
        with Prometheus(tmp_path, f"127.0.0.1:{live.broker.http_port}") as prometheus:
            ask = prometheus.query

            async def used() -> None:
                """Have everything happen, so that it has a rate."""
                await live.ask(RequestCode.SEND_MESSAGE_V2, HEADER, b"x" * 100)
                context.health.metrics.dead_letter("t", "g")
                context.health.metrics.pulled("t", "g", 1, 100)
                context.consumers.handovers.given["let go"] += 1
                context.health.faults.counts["nowhere"] += 1
                for outcome in (COMMIT, ROLLBACK):
                    transactions.endings.counts["t", outcome] += 1

            asked = [(title, text) for path in DASHBOARDS for title, text, _ in panels(path)]
            deadline = asyncio.get_running_loop().time() + 120
            missing = asked
            while (empty := {title for title, _ in missing} - QUIET) and (
                asyncio.get_running_loop().time() < deadline
            ):
                await used()
                await asyncio.sleep(0.5)
                missing = [each for each in missing if not await asyncio.to_thread(ask, each[1])]
            assert not empty, empty
            states = await asyncio.to_thread(prometheus.rules)
            assert set(states) == set(alerts())
            assert not {name for name, rule in states.items() if rule["health"] == "err"}
