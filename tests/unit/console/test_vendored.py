"""What others have made lies here as they made it, under their licences, and nowhere else."""

import hashlib
import json
import re
from typing import Final

import pytest

from aerobee.console.assets import FOLDER, Assets

FILES: Final = json.loads((FOLDER / "vendored.json").read_text())
OWN: Final = {"console.css", "frame.js", "charts.js", "icon.svg"}


@pytest.mark.parametrize("entry", FILES, ids=lambda entry: str(entry["file"]))
def test_a_file_is_as_it_was_published(entry: dict[str, str]) -> None:
    """To the byte; its licence lies beside it."""
    content = (FOLDER / entry["file"]).read_bytes()
    assert hashlib.sha256(content).hexdigest() == entry["sha256"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", entry["version"])
    licence = (FOLDER / entry["license_file"]).read_text()
    assert "Permission" in licence and entry["license"] in ("MIT", "0BSD")


def test_every_file_is_ours_or_listed() -> None:
    """A script that nobody answers for is not served."""
    assert {path.name for path in FOLDER.iterdir()} == (
        OWN
        | {entry["file"] for entry in FILES}
        | {entry["license_file"] for entry in FILES}
        | {"vendored.json"}
    )


def test_nothing_is_fetched_from_elsewhere() -> None:
    """Style sheets and scripts of ours name no other host."""
    for name in OWN - {"icon.svg"}:
        text = (FOLDER / name).read_text()
        assert not re.search(r"https?:|//[a-z]+\.|@import", text), name
    assert Assets().find("0" * 16, "vendored.json") is None
