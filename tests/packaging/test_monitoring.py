"""What `deploy/monitoring` asks for is what a broker tells: names and labels."""

import json
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.runs.monitoring import ALERTS, DASHBOARDS, FOLDER, alerts, grouped_by, panels, series
from support.servers.live_broker import fill, live_broker

from aerobee.broker.measures.names import HELP
from aerobee.remoting.bodies import TopicConfig

HISTOGRAM = re.compile(r"_(?:bucket|sum|count)$")
ELSEWHERE = {"up", "le", "job", "instance"}  # Prometheus' own


async def told(folder: Path) -> tuple[set[str], dict[str, set[str]]]:
    """Return what a broker with every feature may tell, and the labels of what it does tell."""
    async with live_broker(folder, http_port=0, enable_property_filter=True) as live:
        topics = live.broker.context.tables.topics
        topics.update(TopicConfig(topic_name="kept"), {"+cleanup.policy": "COMPACTION"})
        topics.update(TopicConfig(topic_name="once"), {"+aerobee.dedup.seconds": "60"})
        await fill(live, b"x")
        live.broker.context.health.metrics.dead_letter("t", "g")
        live.broker.context.health.metrics.pulled("t", "g", 1, 100)
        live.broker.context.consumers.handovers.given["let go"] += 1
        names = set(HELP).union(*(room.metric_help for room in live.broker.rooms))
        _, text = await live.get("/metrics")
    labels: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    return names, labels


async def test_every_expression_asks_for_what_there_is(tmp_path: Path) -> None:
    """No panel stays empty, and no alert silent, for a name that nobody exports."""
    names, labels = await told(tmp_path)
    expressions = [*alerts().values(), *(e for each in DASHBOARDS for _, e, _ in panels(each))]
    assert len(expressions) > 50
    for expression in expressions:
        found = series(expression)
        assert found or "up{" in expression, expression
        known: set[str] = set()
        for name, wanted in found:
            assert HISTOGRAM.sub("", name) in names, f"{name} in {expression}"
            if name in labels:
                assert wanted <= labels[name], f"{name} in {expression}"
                known |= labels[name]
        if all(name in labels for name, _ in found):
            assert grouped_by(expression) <= known | ELSEWHERE, expression


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_can_be_loaded(path: Path) -> None:
    """Panels have places of their own; variables and legends are of what there is."""
    dashboard = json.loads(path.read_text())
    variables = {each["name"] for each in dashboard["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", path.read_text())) - {"__rate_interval"}
    assert used <= variables
    places = [tuple(panel["gridPos"].values()) for panel in dashboard["panels"]]
    assert len(set(places)) == len(places)
    assert [panel["id"] for panel in dashboard["panels"]] == list(range(1, len(places) + 1))
    for title, expression, legend in panels(path):
        shown = set(re.findall(r"\{\{(\w+)\}\}", legend))
        assert shown <= grouped_by(expression), title


def test_each_alert_is_tested_and_explained() -> None:
    """By a case in which it fires, and a sentence of what to do."""
    tests = (FOLDER / "alerts.test.yaml").read_text()
    readme = (FOLDER.parent / "README.md").read_text()
    fired = set(re.findall(r'alertname="(\w+)"', tests))
    assert fired == set(alerts()) and len(fired) == ALERTS.read_text().count("- alert: ")
    assert not {name for name in fired if f"`{name}`" not in readme}
