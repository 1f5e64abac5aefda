"""Build hook of aerobee-server: the tree's, which is two folders above, or here in an sdist."""

import importlib.util
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def get_build_hook() -> Any:
    """Return the class, as hatchling asks for it."""
    shared = HERE / "deploy" / "build_hook.py"
    if not shared.exists():
        shared = HERE.parent / "build_hook.py"
    spec = importlib.util.spec_from_file_location("aerobee_build_hook", shared)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.BuildSteps
