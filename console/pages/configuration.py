"""Settings of brokers: what they are, where brokers differ, what a change needs to work."""

from collections.abc import Mapping
from typing import Final

import msgspec
from aiohttp import web

from aerobee.client.cluster.directory import BrokerEntry
from aerobee.client.cluster.routes import MASTER_ID
from aerobee.client.errors import InvalidUse
from aerobee.console.page import ConsolePage, PageRoute, Visit
from aerobee.console.restart_keys import RESTART_KEYS
from aerobee.console.roles import ConsoleRole
from aerobee.remoting.config.secret_keys import HIDDEN, is_secret, without_secrets

BROKERS_MAX: Final = 16
"""Brokers that are compared on one page."""
AGE_S: Final = 2.0
OURS: Final = "acceptsPerTurnMax"
"""A setting that brokers of other projects do not have: of theirs nobody knows what a change needs.
"""
OF_ONE: Final = frozenset(
    {"brokerName", "brokerId", "brokerIP1", "brokerIP2", "listenPort", "haListenPort",
     "storePathRootDir", "storePathCommitLog"}
)  # fmt: skip
"""Settings in which brokers have to differ."""


class SettingRow(msgspec.Struct, frozen=True):
    """A setting of one broker; `works` says when a change does, "" where nobody knows."""

    key: str
    value: str
    works: str
    is_secret: bool


async def show(visit: Visit) -> web.StreamResponse:
    """List the brokers, and the settings in which they differ."""
    masters = await _masters(visit)
    some = masters[:BROKERS_MAX]
    answers = await visit.sight.ask(
        "settings of all",
        lambda: visit.sight.admin.each(some, visit.sight.admin.broker.settings_at),
    )
    found = {name: without_secrets(settings) for name, settings in answers.found.items()}
    keys = sorted({key for settings in found.values() for key in settings} - OF_ONE)
    differing = [
        (key, [settings.get(key) for settings in found.values()])
        for key in keys
        if len({settings.get(key) for settings in found.values()}) > 1
    ]
    return visit.page(
        "brokers/configuration.html",
        masters=masters,
        names=list(found),
        differing=differing,
        failed=answers.failed,
    )


async def describe(visit: Visit) -> web.StreamResponse:
    """Show the settings of one broker, by a part of their names."""
    name, wanted = visit.path("broker"), visit.query("q")
    settings = await _settings(visit, name)
    is_ours = OURS in settings
    rows = [
        SettingRow(key, value, _works(key, is_ours=is_ours), is_secret(key))
        for key, value in sorted(
            without_secrets(settings).items(), key=lambda item: item[0].lower()
        )
        if wanted.casefold() in key.casefold()
    ]
    chosen = visit.query("key")
    return visit.page(
        "brokers/settings.html",
        name=name,
        rows=rows,
        wanted=wanted,
        is_ours=is_ours,
        chosen=next((row for row in rows if row.key == chosen), None),
    )


async def change(visit: Visit) -> web.StreamResponse:
    """Change one setting of a broker that runs."""
    name, form = visit.path("broker"), await visit.form()
    key, value = form.get("key", "").strip(), form.get("value", "")
    if not key:
        raise InvalidUse("Nothing was changed: name a setting.")
    if value.strip() == HIDDEN:
        raise InvalidUse("Nothing was changed: this is how a secret is shown, not what it is.")
    told = await visit.admin.broker.set(name, {key: value})
    shown = HIDDEN if is_secret(key) else value.strip()
    visit.changed(f"set {key}={shown} on {name}" + (f": {told}" if told else ""))
    return visit.go(f"/brokers/{visit.quoted(name)}/settings", q=key)


async def _masters(visit: Visit) -> list[BrokerEntry]:
    return [each for each in await visit.sight.entries() if each.broker_id == MASTER_ID]


async def _settings(visit: Visit, name: str) -> Mapping[str, str]:
    async def find() -> dict[str, str]:
        for master in await _masters(visit):
            if master.name == name:
                answers = await visit.sight.admin.each(
                    [master], visit.sight.admin.broker.settings_at
                )
                return answers.found[name]
        raise InvalidUse(f"No master {name!r} is registered.")

    return await visit.sight.ask(("settings", name), find, AGE_S)


def _works(key: str, *, is_ours: bool) -> str:
    if not is_ours:
        return ""
    return "after a restart" if key in RESTART_KEYS else "at once"


PAGE: Final = ConsolePage(
    "Configuration",
    "/configuration",
    (
        PageRoute("GET", "/configuration", show, costly=True),
        PageRoute("GET", "/brokers/{broker}/settings", describe, costly=True),
        PageRoute("POST", "/brokers/{broker}/settings", change, ConsoleRole.ADMIN),
    ),
)
