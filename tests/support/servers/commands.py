"""Commands of `aerobee` run in this process, against a cluster that a test names."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from click.testing import CliRunner, Result

from aerobee.cli import main


class Commands(NamedTuple):
    """Runs commands over one cluster: `commands("topic", "list", "-o", "json")`."""

    namesrv: str
    environ: Mapping[str, str] = {}

    def __call__(self, *words: str, given: bytes | None = None, code: int = 0) -> Result:
        """Run a command; it has to end with `code`."""
        env = {"NAMESRV_ADDR": self.namesrv, "COLUMNS": "200", **self.environ}
        result = CliRunner().invoke(main.main, list(words), input=given, env=env)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, f"{words}: {result.exit_code}\n{result.output}"
        return result

    def json(self, *words: str, code: int = 0) -> Any:
        """Run a command that writes JSON, and return it."""
        return json.loads(self(*words, "-o", "json", code=code).stdout)

    def lines(self, *words: str) -> list[Any]:
        """Run a command that writes a line of JSON for each message."""
        return [json.loads(line) for line in self(*words, "-o", "json").stdout.splitlines()]

    def table(self, *words: str) -> list[list[str]]:
        """Run a command as a pipe gets it, and return the cells of its lines."""
        return [line.split("\t") for line in self(*words).stdout.splitlines()]
