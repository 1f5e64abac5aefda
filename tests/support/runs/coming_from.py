"""The programs of examples/COMING_FROM.md: those of others, and ours beside each."""

import re
from typing import Final

from support.runs.source_tree import ROOT

PAGE: Final = ROOT / "examples" / "COMING_FROM.md"


def programs(language: str) -> dict[str, str]:
    """Return the blocks of one language by the heading that they stand under."""
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    found = {}
    for section in sections:
        heading = section.partition("\n")[0]
        blocks = re.findall(rf"^```{language}\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
        assert len(blocks) <= 1, heading
        if blocks:
            (found[heading],) = blocks
    return found
