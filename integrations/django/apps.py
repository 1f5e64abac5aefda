"""The app, as Django loads it."""

from django.apps import AppConfig
from django.core.checks import register
from django.core.signals import setting_changed

__all__ = ["AerobeeConfig"]


class AerobeeConfig(AppConfig):  # type: ignore[misc]  # Django has no types
    """Registers the check of the settings, and hears when tests override them."""

    name = "aerobee.integrations.django"
    label = "aerobee"
    verbose_name = "Aerobee"

    def ready(self) -> None:
        """Be told that all apps are loaded."""
        from aerobee.integrations.django.checks import check_settings
        from aerobee.integrations.django.producing import settings_changed

        register(check_settings)
        setting_changed.connect(settings_changed)
