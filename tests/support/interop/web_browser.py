"""Debian's Chromium over pages of this machine, by Playwright; what it complains of is kept."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from support.interop import toolchain

FLAGS: Final = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run")
SERIOUS: Final = frozenset({"serious", "critical"})
PICTURES: Final = toolchain.PROJECT / "build" / "console"
AXE_TAGS: Final = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")


class Watched:
    """A tab of a browser: `complaints` are errors of its console, its policy and its requests."""

    def __init__(self, page: Any, url: str) -> None:
        self.page = page
        self.url = url.rstrip("/")
        self.complaints: list[str] = []
        self.refused = 0
        """Answers from 400 on that a test expects."""
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("request", self._requested)

    def _said(self, message: Any) -> None:
        if message.type not in ("error", "warning"):
            return
        if "status of 4" in message.text and self.refused:
            self.refused -= 1
            return
        self.complaints.append(f"{message.type}: {message.text}")

    def _requested(self, request: Any) -> None:
        if not request.url.startswith((self.url + "/", "data:")):
            self.complaints.append(f"asked elsewhere: {request.url}")

    async def open(self, path: str) -> None:
        """Open a page and wait until it is quiet."""
        answer = await self.page.goto(self.url + path)
        assert answer is not None and answer.status < 400, f"{path}: {answer and answer.status}"
        await self.page.wait_for_load_state("load")

    async def log_in(self, name: str, password: str) -> None:
        """Fill in the form of the login."""
        await self.page.goto(self.url + "/login")
        await self.page.get_by_label("User").fill(name)
        await self.page.get_by_label("Password").fill(password)
        await self.page.get_by_role("button", name="Log in").click()
        await self.page.get_by_role("heading", name="Overview").wait_for()

    async def violations(self) -> list[str]:
        """Return what axe-core finds serious, each with the elements."""
        await self.page.evaluate(toolchain.axe_script())
        found = await self.page.evaluate(
            "tags => axe.run({runOnly: tags}).then(found => found.violations)", list(AXE_TAGS)
        )
        return [
            f"{each['id']}: {each['help']}: "
            + "; ".join(node["html"][:160] for node in each["nodes"][:4])
            for each in found
            if each["impact"] in SERIOUS
        ]

    async def overflow_px(self) -> int:
        """Return how much wider the page is than the window."""
        return int(
            await self.page.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
        )

    async def picture(self, name: str, *, whole: bool = True) -> Path:
        """Keep a picture of the page; return its file."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        path = PICTURES / f"{name}.png"
        await self.page.screenshot(path=path, full_page=whole, animations="disabled")
        return path


@asynccontextmanager
async def browser() -> AsyncIterator[Any]:
    """Start a browser with an empty profile; end it."""
    packages = str(toolchain.python_packages("playwright", toolchain.PLAYWRIGHT))
    if packages not in sys.path:
        sys.path.append(packages)
    from playwright.async_api import async_playwright

    found = toolchain.chromium()
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(
            executable_path=found.program,
            args=[*FLAGS],
            env={"LANG": "C.UTF-8", **found.environment},
        )
        try:
            yield started
        finally:
            await started.close()


@asynccontextmanager
async def tab(started: Any, url: str, **options: Any) -> AsyncIterator[Watched]:
    """Open a tab that shares nothing with others; options are Playwright's of a context."""
    options = {"viewport": {"width": 1280, "height": 800}, "locale": "en-GB", **options}
    context = await started.new_context(**options)
    try:
        yield Watched(await context.new_page(), url)
    finally:
        await context.close()
