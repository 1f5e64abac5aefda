"""Files of topics and groups as JSON, YAML or TOML: what version control keeps and people edit."""

import tomllib
from collections import Counter
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import yaml

from aerobee.cli.program import WrongSettings
from aerobee.client.errors import InvalidUse

FileKind = Literal["json", "yaml"]
FILE_BYTES_MAX: Final = 256 << 20
_YAML: Final = (".yaml", ".yml")


def kind_of(file: Path | None, said: str | None) -> FileKind:
    """Return how a file is written: as its name says, or `said`; JSON without either."""
    if said not in (None, "json", "yaml"):
        raise InvalidUse(f"-o {said}: the file is written as json or yaml")
    if file is not None and file.suffix in _YAML:
        return "yaml"
    if file is not None and file.suffix == ".toml":
        raise InvalidUse(f"{file}: TOML is read and not written; name it .json or .yaml")
    return "yaml" if said == "yaml" else "json"


def written(data: bytes, kind: FileKind) -> bytes:
    """Return JSON of topics and groups as a file of that kind has it, in the same order."""
    if kind == "json":
        return data
    value = msgspec.json.decode(data)
    return yaml.dump(
        value, Dumper=yaml.SafeDumper, sort_keys=False, allow_unicode=True, width=100
    ).encode()


def read_metadata_file(file: Path) -> bytes:
    """Return a file as JSON; raises InvalidUse, with the place, where it cannot be read.

    YAML (`.yaml`, `.yml`) without aliases, TOML (`.toml`), or JSON.
    """
    if file.stat().st_size > FILE_BYTES_MAX:
        raise WrongSettings(f"{file}: over {FILE_BYTES_MAX >> 20} MiB, this is no such file")
    data = file.read_bytes()
    if file.suffix not in (*_YAML, ".toml"):
        return data
    try:
        value = tomllib.loads(data.decode()) if file.suffix == ".toml" else _yaml(data)
        return msgspec.json.encode(value)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise InvalidUse(f"{file} cannot be read: {error}") from None


class _Loader(yaml.SafeLoader):
    """Takes no aliases: a file of a few lines could stand for gigabytes by them."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            line = self.get_event().start_mark.line + 1  # type: ignore[no-untyped-call]
            raise yaml.YAMLError(f"aliases are not taken, line {line}")
        node: yaml.Node | None = super().compose_node(parent, index)
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        if twice := next((key for key, count in keys.items() if count > 1), None):
            line = node.start_mark.line + 1
            raise yaml.YAMLError(f"{twice!r} is there twice, in what begins in line {line}")
        return super().construct_mapping(node, deep)


def _yaml(data: bytes) -> Any:
    return yaml.load(data, Loader=_Loader)
