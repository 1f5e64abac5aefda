"""The pages, in the order of the navigation; a new one is a module beside this and a line here."""

from typing import Final

from aerobee.console.page import ConsolePage
from aerobee.console.pages import (
    brokers,
    changes_made,
    configuration,
    dead_letters,
    groups,
    message,
    messages,
    offsets,
    overview,
    publish,
    topics,
    users,
    waiting,
)

PAGES: Final[tuple[ConsolePage, ...]] = (
    overview.PAGE,
    topics.PAGE,
    groups.PAGE,
    messages.PAGE,
    message.PAGE,
    publish.PAGE,
    dead_letters.PAGE,
    offsets.PAGE,
    brokers.PAGE,
    users.PAGE,
    configuration.PAGE,
    waiting.PAGE,
    changes_made.PAGE,
)
