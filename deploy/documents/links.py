"""Whether each link of the built site leads somewhere: to a file, and to the place in it."""

from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit


class Links(NamedTuple):
    """What is linked: what leads nowhere, page by page, and other sites with the pages that do."""

    broken: list[str]
    elsewhere: dict[str, list[str]]


class _Page(HTMLParser):
    """The names of a page's places, and where its links lead."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids = {"", "__top"}
        self.targets: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if key == "id" or (key == "name" and tag == "a"):
                self.ids.add(value or "")
            elif key in ("href", "src") and value and tag in ("a", "img"):
                self.targets.append(value)


def check(site: Path) -> Links:
    """Look at every page of a built site."""
    pages = {path: _Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    broken: list[str] = []
    elsewhere: dict[str, list[str]] = {}
    for path, page in pages.items():
        name = path.relative_to(site).as_posix()
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                elsewhere.setdefault(target, []).append(name)
                continue
            from_folder = site if parts.path.startswith("/") else path.parent
            to = from_folder / unquote(parts.path).lstrip("/") if parts.path else path
            to = to.resolve() if parts.path else to
            to = to / "index.html" if to.is_dir() else to
            if not to.is_file():
                broken.append(f"{name}: {target} is no file")
            elif to in pages and unquote(parts.fragment) not in pages[to].ids:
                broken.append(f"{name}: {target} is no place in that page")
    return Links(broken, elsewhere)
