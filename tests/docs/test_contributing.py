"""What CONTRIBUTING.md tells to do leads where it says."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from support.runs.source_tree import PACKAGE, ROOT, packages

TEXT = (ROOT / "CONTRIBUTING.md").read_text()
STEPS = re.findall(r"<!-- ([a-z ]+): (\S+) -->\n```python\n(.*?)```", TEXT, re.DOTALL)


def test_a_request_code_is_added_as_it_says(tmp_path: Path) -> None:
    """Each step is done in a copy of the packages, and the test of the last one passes there."""
    tree = tmp_path / "aerobee"
    for name in packages():
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in PACKAGE.glob("*.py"):  # or the installed package would be found before the copy
        shutil.copy(path, tree / path.name)
    kinds = [kind for kind, _, _ in STEPS]
    assert kinds == ["in the class", "behind", "behind", "before", "new"]
    for kind, place, code in STEPS:
        path = tmp_path / place if kind == "new" else tree / place
        text = "" if kind == "new" else path.read_text()
        if kind == "in the class":
            text = text.replace(
                "    SEND_MESSAGE: Final = 10\n", f"    SEND_MESSAGE: Final = 10\n{code}"
            )
        elif kind == "before":
            text = text.replace("\nroutes: ", f"{code}\nroutes: ", 1)
        else:
            text = f"{text}\n\n{code}" if text else code
        assert code in text
        path.write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", str(ROOT / "pyproject.toml"), "--rootdir",
         str(tmp_path), "-p", "no:aerobee", "-o", f"pythonpath={tmp_path} {ROOT / 'tests'}",
         str(tmp_path / "test_count_messages.py")],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_each_command_names_what_exists() -> None:
    """Modules, scripts and targets of make that are named in the text are there."""
    makefile = (ROOT / "Makefile").read_text()
    for line in re.findall(r"^make ([a-z -]+?)(?: +#.*)?$", TEXT, re.MULTILINE):
        for target in line.split():
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for target in re.findall(r"`make ([a-z-]+)`", TEXT):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for module in re.findall(r"python -m (benchmarks[.\w]*|simulation[.\w]*)", TEXT):
        place = module.replace(".", "/")
        places = (ROOT / f"{place}.py", ROOT / place, ROOT / "tests" / place)
        assert any(each.exists() for each in places), module
