"""What a simulator process loads beside its simulator: the standard library and numpy."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys

class Others:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in {*sys.stdlib_module_names, "numpy", "rlcore", "rlcore_simulation"}:
            raise ImportError(f"{name} is neither ours nor numpy's")

sys.meta_path.insert(0, Others())
import importlib, pkgutil, rlcore_simulation
for module in pkgutil.iter_modules(rlcore_simulation.__path__):
    # which no simulator process loads; nor the modules of `cli`
    if module.name not in ("plugin", "published"):
        importlib.import_module(f"rlcore_simulation.{module.name}")
print("loaded", "rlcore_simulation.serve" in sys.modules)
"""


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)


def test_a_simulator_process_needs_numpy_alone():
    done = run(SCRIPT)
    assert done.stdout == "loaded True\n", done.stderr


def test_the_check_sees_what_is_loaded():
    assert "pluggy is neither" in run(f"{SCRIPT}\nimport rlcore.contracts.hookspecs").stderr
