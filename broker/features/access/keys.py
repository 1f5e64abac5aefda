"""The settings of a broker's access control: those of every server, and of what 4.x left."""

import os
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

from aerobee.remoting.config.settings import AtStart, Guarded
from aerobee.remoting.net.access.keys import AccessKeys


class BrokerAccessKeys(AccessKeys):
    """Who must say who he is, and whether users come from `plain_acl.yml`, at each start."""

    migrate_auth_from_v1_enabled: AtStart[Guarded[bool]] = False
    # ours: a folder with plain_acl.yml and acl/, or one such file; None is $ROCKETMQ_HOME/conf
    plain_acl_path: AtStart[
        Guarded[
            Annotated[
                Path | None,
                BeforeValidator(lambda value: None if not str(value or "").strip() else value),
            ]
        ]
    ] = None

    @property
    def controls_access(self) -> bool:
        """Whether users are kept: they are asked for, or are to be made before they are."""
        return super().controls_access or self.migrate_auth_from_v1_enabled

    @property
    def plain_acl_folder(self) -> Path | None:
        """Where RocketMQ 4.x has its users; None where nothing says so."""
        if self.plain_acl_path is not None:
            return self.plain_acl_path.expanduser()
        home = os.environ.get("ROCKETMQ_HOME", "").strip()
        return Path(home) / "conf" if home else None
