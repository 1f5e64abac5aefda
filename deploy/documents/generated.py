"""What pages of `docs/reference/` have in place of `<!-- generated: NAME -->`."""

from collections.abc import Callable, Mapping
from typing import Final

from deploy.documents.answers_page import answer_codes
from deploy.documents.api_page import api
from deploy.documents.codes_page import served_codes
from deploy.documents.commands_page import commands
from deploy.documents.metrics_page import metrics
from deploy.documents.settings_page import broker_settings, console_settings, namesrv_settings

PARTS: Final[Mapping[str, Callable[[], str]]] = {
    "admin_api": lambda: api("aerobee.admin"),
    "answer_codes": answer_codes,
    "broker_settings": broker_settings,
    "client_api": lambda: api("aerobee.client"),
    "commands": commands,
    "console_settings": console_settings,
    "metrics": metrics,
    "namesrv_settings": namesrv_settings,
    "request_codes": served_codes,
    "testing_api": lambda: api("aerobee.testing"),
}


def generated(name: str) -> str:
    """Return what a marker stands for; KeyError where there is no such part."""
    return PARTS[name]()
