"""Pages whose blocks are done one after the other: programs are files, commands are typed.

A block of Python whose first line is `# NAME.py` is that file. A block of `sh` is typed, line by
line; the block of `text` behind it is what it prints, where `…` stands for anything and the order
does not matter. `<!-- serves -->` before a block says that it goes on, `<!-- ends -->` that all of
those are told to end.
"""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from aerobee.testing import ClusterThread

TIMEOUT_S: Final = 60.0
_BLOCK: Final = re.compile(
    r"^(?:<!-- (?P<mark>serves) -->\n)?```(?P<kind>python|sh|text)\n(?P<text>.*?)^```$"
    r"|^<!-- (?P<end>ends) -->$",
    re.DOTALL | re.MULTILINE,
)
_SERVERS: Final = re.compile(r"aerobee (namesrv|broker) start")
_WRITTEN: Final = "127.0.0.1:9876"


class Block(NamedTuple):
    """A block of a page, or the end of what was started (`ends`)."""

    kind: str
    text: str
    serves: bool
    line: int


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page in their order."""
    markdown = page.read_text()
    return [
        Block(
            found["end"] or found["kind"], found["text"] or "", found["mark"] is not None,
            markdown.count("\n", 0, found.start()) + 1,
        )
        for found in _BLOCK.finditer(markdown)
    ]  # fmt: skip


class Walk:
    """Does what a page says, in a folder of its own, with a cluster in place of its servers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cluster = ClusterThread(root=folder / "stores")
        self._serving: list[_Serving] = []
        self._brokers_started = 0
        self.done: list[str] = []

    def __enter__(self) -> Self:
        self._cluster.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        for each in self._serving:
            each.process.kill()
        self._cluster.stop()

    def follow(self, page: Sequence[Block]) -> None:
        """Do all blocks; a block of text is held against what the one before it printed."""
        printed: _Printed = _Printed()
        for block in page:
            match block.kind:
                case "python":
                    name = block.text.partition("\n")[0].removeprefix("# ")
                    assert re.fullmatch(r"\w+\.py", name), f"line {block.line}: no file is named"
                    code = block.text.replace(_WRITTEN, self._cluster.namesrv_addr)
                    (self._folder / name).write_text(code)
                case "sh":
                    printed = self._serve(block) if block.serves else self._type(block)
                case "text":
                    printed.expect(block)
                case "ends":
                    self._end()
            self.done.append(block.kind)
        assert not self._serving, "what was started is told to end"

    def _type(self, block: Block) -> "_Printed":
        if _SERVERS.search(block.text):
            return self._start_servers(block)
        done = subprocess.run(
            ["bash", "-ec", block.text], cwd=self._folder, env=self._environment(),
            capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"line {block.line}: {done.stdout}{done.stderr}"
        return _Printed(done.stdout.splitlines())

    def _start_servers(self, block: Block) -> "_Printed":
        """The cluster is there; a broker that is started again was stopped before."""
        if "aerobee broker" in block.text:
            self._brokers_started += 1
            if self._brokers_started > 1:
                self._cluster.restart_broker()
        return _Printed()

    def _serve(self, block: Block) -> "_Printed":
        serving = _Serving(block.text, self._folder, self._environment())
        self._serving.append(serving)
        return serving.printed

    def _end(self) -> None:
        for each in self._serving:
            each.end()
        self._serving.clear()

    def _environment(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return os.environ | {
            "PATH": path, "NAMESRV_ADDR": self._cluster.namesrv_addr, "HOME": str(self._folder)
        }  # fmt: skip


class _Printed:
    """Lines that a command has printed so far."""

    def __init__(self, lines: Sequence[str] = (), waits: bool = False) -> None:
        self.lines = list(lines)
        self.changed = threading.Condition()
        self._waits = waits

    def expect(self, block: Block) -> None:
        """Have each line of a block printed; of what goes on it is waited for."""
        wanted = block.text.splitlines()
        if self._waits:
            with self.changed:
                self.changed.wait_for(lambda: not self._missing(wanted), TIMEOUT_S)
        missing = self._missing(wanted)
        assert not missing, f"line {block.line}: {missing} is not in {self.lines}"

    def _missing(self, wanted: Sequence[str]) -> list[str]:
        left = list(self.lines)
        missing = []
        for line in wanted:
            form = re.compile(re.sub("…", ".*", _escaped(line)))
            if (found := next(filter(form.fullmatch, left), None)) is None:
                missing.append(line)
            else:
                left.remove(found)
        return missing


def _escaped(line: str) -> str:
    return "…".join(r"\s+".join(map(re.escape, part.split(" "))) for part in line.split("…"))


class _Serving:
    """A program that goes on until it is told to end."""

    def __init__(self, command: str, folder: Path, environment: dict[str, str]) -> None:
        self.printed = _Printed(waits=True)
        self.process = subprocess.Popen(
            ["bash", "-ec", f"exec {command}"], cwd=folder, env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self.printed.changed:
                self.printed.lines.append(line.rstrip("\n"))
                self.printed.changed.notify_all()

    def end(self) -> None:
        """End it as Ctrl-C does; it ends in order."""
        self.process.terminate()
        assert self.process.wait(TIMEOUT_S) == 0, self.printed.lines
        self._reader.join(TIMEOUT_S)


def lines_that_are_typed(page: Path) -> Iterator[str]:
    """Yield what the `sh` blocks of a page have, line by line."""
    for block in blocks(page):
        if block.kind == "sh":
            yield from filter(None, map(str.strip, block.text.splitlines()))
