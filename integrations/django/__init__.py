"""Aerobee in a Django project: `INSTALLED_APPS = [..., "aerobee.integrations.django"]`."""

from aerobee.remoting.extras import need

try:
    from aerobee.integrations.django.handlers import consumes
    from aerobee.integrations.django.producing import producer, send, send_on_commit
except ModuleNotFoundError:
    need("django", "aerobee.integrations.django")
    raise

__all__ = ["consumes", "producer", "send", "send_on_commit"]
