"""Build hook: an editable install sees the flat folders as one package, `aerobee`."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class DevLinks(BuildHookInterface[Any]):
    """Link `.dev/aerobee/<name>` to `<name>/` when the build is editable."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the links; a build of any other kind needs none."""
        if version != "editable":
            return
        package_dir = Path(self.root, ".dev", "aerobee")
        package_dir.mkdir(parents=True, exist_ok=True)
        for name in self.build_config.only_include.values():
            link = package_dir / name
            if not link.is_symlink():
                link.symlink_to(Path("..", "..", name), target_is_directory=True)
