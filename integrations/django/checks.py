"""What `manage.py check` says of our settings."""

import os
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning

from aerobee.integrations.django.configured import NAME, read


def check_settings(app_configs: Any, **_: Any) -> list[CheckMessage]:
    """Return an error for each wrong setting; nothing is connected."""
    given = getattr(settings, NAME, {})
    found, wrong = read(given)
    told: list[CheckMessage] = [Error(each, id="aerobee.E001") for each in wrong]
    if not wrong and not found.namesrv and not os.environ.get("NAMESRV_ADDR"):
        said = f"no nameserver: neither {NAME}['NAMESRV'] nor NAMESRV_ADDR names one"
        hint = f'{NAME} = {{"NAMESRV": "127.0.0.1:9876"}}'
        told.append(Warning(said, hint=hint, id="aerobee.W001"))
    return told
