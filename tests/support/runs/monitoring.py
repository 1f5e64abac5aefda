"""The dashboards and alerts of `deploy/monitoring`, and the expressions in them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from support.runs.source_tree import ROOT

FOLDER: Final = ROOT / "deploy" / "monitoring"
DASHBOARDS: Final = (FOLDER / "brokers.json", FOLDER / "topics-and-groups.json")
ALERTS: Final = FOLDER / "alerts.yaml"
VARIABLES: Final = {
    "$__rate_interval": "1m",
    "$cluster": ".*",
    "$node": ".*",
    "$topic": ".*",
    "$group": ".*",
}
_SERIES: Final = re.compile(r"\b((?:rocketmq|aerobee)_[a-z_]+)(?:\{([^}]*)\})?")
_GROUPING: Final = re.compile(r"\b(?:by|on|group_left) \(([^)]*)\)")


def alerts() -> dict[str, str]:
    """Return the expression of each alert."""
    pairs = re.findall(r"- alert: (\w+)\n +expr: (.+)\n", ALERTS.read_text())
    return dict(pairs)


def panels(dashboard: Path) -> Iterator[tuple[str, str, str]]:
    """Yield each panel's title with each expression, as Grafana asks it, and its legend."""
    for panel in json.loads(dashboard.read_text())["panels"]:
        for target in panel["targets"]:
            text = target["expr"]
            for name, value in VARIABLES.items():
                text = text.replace(name, value)
            yield panel["title"], text, target["legendFormat"]


def series(expression: str) -> set[tuple[str, frozenset[str]]]:
    """Return the metrics of an expression, each with the labels that are asked of it alone."""
    return {
        (name, frozenset(re.findall(r"(\w+)(?:=~|!=|!~|=)", wanted)))
        for name, wanted in _SERIES.findall(expression)
    }


def grouped_by(expression: str) -> set[str]:
    """Return the labels by which an expression groups or joins."""
    texts = ",".join(_GROUPING.findall(expression))
    return {label.strip() for label in texts.split(",") if label.strip()}
