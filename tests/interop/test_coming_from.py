"""The Java program of examples/COMING_FROM.md sends to our broker and is handed what it sent."""

import os
import subprocess
from pathlib import Path

import pytest
from support.interop import toolchain
from support.runs.coming_from import programs

from aerobee.testing import ClusterThread

pytestmark = [pytest.mark.interop, pytest.mark.needs("java"), pytest.mark.timeout(300)]


def test_the_java_program_runs_as_it_stands(tmp_path: Path) -> None:
    """Compiled against RocketMQ's client 5.5.0, nothing changed but the nameserver's address."""
    (program,) = programs("java").values()
    classpath = toolchain.classpath("client-5.5.0")
    with ClusterThread(root=tmp_path / "stores") as cluster:
        source = tmp_path / "Orders.java"
        source.write_text(program.replace("127.0.0.1:9876", cluster.namesrv_addr))
        javac = [toolchain.tool("javac"), "-Xlint:all,-path", "-Werror", "-cp", classpath]
        subprocess.run([*javac, "-d", str(tmp_path), str(source)], check=True)
        path = f"{tmp_path}{os.pathsep}{classpath}"
        java = [
            toolchain.tool("java"),
            "-Xmx256m",
            f"-Duser.home={tmp_path}",
            "-cp",
            path,
            "Orders",
        ]
        with subprocess.Popen(java, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
            try:
                assert child.stdout is not None
                handled = any(line == b"handled one\n" for line in child.stdout)
            finally:
                child.kill()
    assert handled
