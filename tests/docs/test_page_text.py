"""What is done to Markdown on its way from the repository to the site."""

from pathlib import Path, PurePosixPath

import pytest

from deploy.documents import assembling
from deploy.documents.assembling import AssemblyError, assemble, place
from deploy.documents.page_text import filled, for_the_site, headline, linked, relative


def lead(target: str) -> str | None:
    """Know one page, and that a folder is none."""
    return {"b/README.md": "inside/b/index.md"}.get(target)


def test_a_list_may_follow_its_paragraph() -> None:
    """Python-Markdown wants an empty line before it, and none within."""
    assert for_the_site("so:\n- a\n  b\n- c\n") == "so:\n\n- a\n  b\n- c\n"
    assert for_the_site("```text\nso:\n- a\n```\n") == "```text\nso:\n- a\n```\n"


def test_bars_in_the_code_of_a_table_lose_their_escape() -> None:
    """GitHub wants one, Python-Markdown shows it."""
    assert for_the_site("| `a \\| b` | x |\n") == "| `a | b` | x |\n"


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("[b](b/README.md#x)", "[b](inside/b/index.md#x)"),
        ("[over\ntwo lines](b/README.md)", "[over\ntwo lines](inside/b/index.md)"),
        ("[`b`](b)", "`b`"),
        ("[here](#there), [web](https://www.apache.org/)", None),
        ("![picture](b/README.md)", "![picture](inside/b/index.md)"),
        ("```md\n[b](b/README.md)\n```", None),
    ],
)
def test_links_to_files_lead_to_pages(markdown: str, expected: str | None) -> None:
    """What has no page is text; what is code, or leads elsewhere, stays as it is."""
    assert linked(markdown, lead) == (expected or markdown)


def test_a_marker_is_filled() -> None:
    """It stands on a line by itself."""
    page = "# A\n\n<!-- generated: part -->\n\nsee `<!-- generated: part -->`\n"
    assert filled(page, {"part": "| x |\n"}.__getitem__).startswith("# A\n\n| x |\n\nsee `<!--")


def test_pages_have_their_places() -> None:
    """`docs/` is the site, others are inside, and some have a place of their own."""
    assert place(PurePosixPath("docs/how_to/debug.md")) == PurePosixPath("how_to/debug.md")
    assert place(PurePosixPath("broker/README.md")) == PurePosixPath("inside/broker/index.md")
    assert place(PurePosixPath("storage/FORMAT.md")) == PurePosixPath("reference/format.md")
    assert relative(PurePosixPath("a/b.md"), PurePosixPath("c/d.md")) == "../c/d.md"
    assert headline("x\n# The `log`\n") == "The log"


def test_a_marker_that_nobody_fills_is_named(tmp_path: Path) -> None:
    """And so is the page that has it."""

    def nothing(name: str) -> str:
        raise KeyError(name)

    with pytest.raises(AssemblyError, match=r"docs/reference/\w+\.md: nothing is generated"):
        assemble(tmp_path / "pages", nothing)


def test_a_copy_without_git_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is unpacked from an archive has no list of its files."""
    monkeypatch.setattr(assembling, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "none"))
    with pytest.raises(AssemblyError, match="git"):
        assemble(tmp_path / "pages", str)
