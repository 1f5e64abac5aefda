"""What a broker, its routers and their endpoints know of each other."""

from dataclasses import dataclass, field
from typing import Any

from faststream._internal.configs import (
    BrokerConfig,
    UnderlyingDriverAnnotation,
    UnderlyingDriverAnnotations,
)

from aerobee.integrations.faststream.groups import Groups

__all__ = ["AerobeeBrokerConfig"]


def _annotations() -> UnderlyingDriverAnnotations:
    """What a handler is to write in place of the classes; they know the broker, which knows us."""
    from aerobee.integrations.faststream import annotations
    from aerobee.integrations.faststream.broker import AerobeeBroker
    from aerobee.integrations.faststream.message import AerobeeBatchMessage, AerobeeMessage

    named: dict[Any, str] = {
        AerobeeBroker: "AerobeeBroker",
        AerobeeMessage: "AerobeeMessage",
        AerobeeBatchMessage: "AerobeeBatchMessage",
    }
    return {
        kind: UnderlyingDriverAnnotation(
            type_hint=getattr(annotations, name), module=annotations.__name__, name=name
        )
        for kind, name in named.items()
    }


@dataclass(kw_only=True)
class AerobeeBrokerConfig(BrokerConfig):
    """FastStream's, with the group that subscribers are in by default, and the consumers."""

    group: str = ""
    groups: Groups = field(default_factory=lambda: Groups(None, None, None, None))
    default_driver_annotations: UnderlyingDriverAnnotations = field(default_factory=_annotations)
