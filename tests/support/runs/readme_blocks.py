"""The programs that a README shows, to be run by a test."""

import re

from support.runs.source_tree import ROOT

BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def python_block(readme: str, word: str) -> str:
    """Return the one program of a README, named from the root, that imports from `word`."""
    blocks = [
        block
        for block in BLOCK.findall((ROOT / readme).read_text())
        if re.search(rf"^(import|from) {re.escape(word)}\b", block, re.MULTILINE)
    ]
    assert len(blocks) == 1, f"{readme}: {len(blocks)} programs import {word}"
    return str(blocks[0])
