"""The app, as Django loads it."""

from django.apps import AppConfig
from django.core.checks import register

__all__ = ["AerobeeConfig"]


class AerobeeConfig(AppConfig):  # type: ignore[misc]  # Django has no types
    """Registers the check of the settings."""

    name = "aerobee.integrations.django"
    label = "aerobee"
    verbose_name = "Aerobee"

    def ready(self) -> None:
        """Be told that all apps are loaded."""
        from aerobee.integrations.django.checks import check_settings

        register(check_settings)
