"""What an installed Aerobee says of how it was built."""

import json
from importlib import metadata

import pytest

from aerobee.remoting.config.built import BUILD_FILE, build

HERE = "aerobee.remoting.config.built"


class Told:
    """A distribution whose file says this, or has no such file."""

    version = "1.2.3"

    def __init__(self, text: str | None) -> None:
        self._text = text

    def read_text(self, file: str) -> str | None:
        """Return the text of the one file."""
        assert file == BUILD_FILE
        return self._text


def note(*modules: str, why: str = "") -> str:
    """Write what the build hook writes."""
    return json.dumps({"compiled": modules, "why": why})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (note(HERE), "compiled"),
        (note(why="no compiler found"), "pure Python: no compiler found"),
        (note(HERE, "aerobee.remoting.gone"), "pure Python: aerobee.remoting.gone cannot be found"),
        (None, "pure Python: nothing tells how it was built"),
        ("{", "pure Python: nothing tells how it was built"),
        ("[]", "pure Python: nothing tells how it was built"),
    ],
)
def test_what_is_said_is_what_is_there(
    text: str | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiled is what can be found now; otherwise the reason is that of the build."""
    monkeypatch.setattr(metadata, "distribution", lambda name: Told(text))
    assert str(build()) == f"1.2.3 ({said})"
    assert build().compiled is (said == "compiled")


def test_a_source_tree_was_never_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an installation there is neither a version nor a note."""

    def missing(name: str) -> Told:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    assert build().kind == "pure Python: it was never built"


@pytest.mark.parametrize(
    ("client", "server", "said"),
    [
        (note(HERE), note(HERE), "compiled"),
        (note(HERE), note(why="no compiler found"), "pure Python: no compiler found"),
        (note(why="it was not wanted"), note(HERE), "pure Python: it was not wanted"),
        (note(HERE), None, "compiled"),
    ],
)
def test_the_servers_are_asked_where_they_are_installed(
    client: str, server: str | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiled is what all that is installed is."""

    def find(name: str) -> Told:
        if name == "aerobee-server" and server is None:
            raise metadata.PackageNotFoundError(name)
        return Told(server if name == "aerobee-server" else client)

    monkeypatch.setattr(metadata, "distribution", find)
    assert str(build()) == f"1.2.3 ({said})"
