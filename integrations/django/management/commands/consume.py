"""`manage.py consume`: calls the project's handlers with messages until it is told to end."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.module_loading import autodiscover_modules

from aerobee.client.sync import run
from aerobee.integrations.django.handlers import consumer_of, groups

__all__ = ["Command"]


class Command(BaseCommand):  # type: ignore[misc]  # Django has no types
    """Consumes for all groups, or those that are named, in one process."""

    help = (
        "Call the functions that @consumes registers in the handlers.py of apps, until SIGINT or"
        " SIGTERM: running ones end, and all that was handled is committed."
    )
    requires_system_checks = "__all__"

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the names of groups."""
        parser.add_argument("groups", nargs="*", help="consumer groups; all, if none is named")

    def handle(self, *_: Any, **options: Any) -> None:
        """Find handlers, say what is consumed, and serve."""
        autodiscover_modules("handlers")
        wanted = options["groups"] or groups()
        if not wanted:
            raise CommandError("no handlers: no app has @consumes(...) in its handlers.py")
        unknown = sorted(set(wanted) - set(groups()))
        if unknown:
            there = ", ".join(groups()) or "none"
            raise CommandError(f"no handlers for {', '.join(unknown)}; groups that have: {there}")
        consumers = [consumer_of(group) for group in dict.fromkeys(wanted)]
        self.stdout.write(f"consuming for {', '.join(dict.fromkeys(wanted))}")
        self.stdout.flush()
        run(*consumers)
        self.stdout.write("all that was handled is committed")
