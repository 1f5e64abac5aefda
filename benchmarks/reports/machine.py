"""Where figures come from: the processor, the system, the versions, and how quiet it was."""

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any


def describe() -> dict[str, Any]:
    """Return what figures of different machines differ by."""
    return {
        "cpu": _cpu_model(),
        "cpus": os.cpu_count(),
        "virtual": "hypervisor" in _first("/proc/cpuinfo", r"^flags\s*:(.*)$"),
        "memory_mib": int(_first("/proc/meminfo", r"^MemTotal:\s*(\d+)") or 0) // 1024,
        "kernel": platform.release(),
        "system": _first("/etc/os-release", r'^PRETTY_NAME="?([^"\n]*)'),
        "python": platform.python_version(),
        "java": _version("java", "-version"),
        "compiler": _version("cc", "--version"),
        "commit": _version("git", "rev-parse", "--short", "HEAD"),
    }


def slug(machine: dict[str, Any]) -> str:
    """Return a name for files: `intel-xeon-processor-2-cpus`."""
    words = re.sub(r"\((r|tm)\)|@.*$|\bcpu\b", " ", str(machine["cpu"]).lower())
    return "-".join([*re.findall(r"[a-z0-9]+", words)[:5], str(machine["cpus"]), "cpus"])


def load_average() -> float:
    """Return how many processes wanted a CPU during the last minute."""
    return os.getloadavg()[0]


def stolen_seconds() -> float:
    """Return the CPU time that the host took from this machine since it was started."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(fields[8]) / os.sysconf("SC_CLK_TCK")


def _cpu_model() -> str:
    return _first("/proc/cpuinfo", r"^model name\s*:\s*(.*)$") or platform.machine()


def _first(file: str, pattern: str) -> str:
    path = Path(file)
    found = re.search(pattern, path.read_text(), re.MULTILINE) if path.exists() else None
    return found[1].strip() if found else ""


def _version(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return ""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    return (done.stdout or done.stderr).strip().split("\n")[0]
