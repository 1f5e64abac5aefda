"""The tutorial is done block by block, and prints what it says."""

from pathlib import Path

import pytest
from support.runs.source_tree import ROOT
from support.runs.walkthrough import TIMEOUT_S, Walk, blocks

PAGE = ROOT / "docs/tutorial.md"


@pytest.mark.timeout(4 * TIMEOUT_S)
def test_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    """Programs run, commands succeed, and what a page shows as printed is printed."""
    page = blocks(PAGE)
    with Walk(tmp_path) as walk:
        walk.follow(page)
    assert walk.done.count("python") >= 5 and walk.done.count("text") >= 10
    assert PAGE.read_text().count("\n```\n") == len([b for b in page if b.kind != "ends"])
