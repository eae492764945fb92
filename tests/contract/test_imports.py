"""Import levels: light <- running <- torch; nothing in core imports a plugin, or Ray."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "rlcore"
HEAVY = ("torch", "ray", "gymnasium", "transformers")

# Rooms of core by what their modules may load.
LIGHT = (
    "contracts", "utils", "files", "plugins", "config", "placement", "checks", "cli", "validation",
    "api",
)  # fmt: skip
RUNNING = ("demonstrations", "workers", "training")
TORCH = ("learner", "rollout", "transport", "runs")
# Modules of light rooms that load torch or gymnasium when they are imported.
TENSORS = {
    "rlcore.contracts.learning", "rlcore.contracts.metric", "rlcore.contracts.replay_batches",
    "rlcore_policy_gradient.minibatch",
    "rlcore.contracts.trajectory", "rlcore.rollout.batch_invariance",
    "rlcore.validation.algorithm", "rlcore.validation.policy", "rlcore.api.vector_env",
}  # fmt: skip
# What a checkpoint or a data set says of its env, and where a run's files are: checks look at it.
LIGHT_ELSEWHERE = (
    "rlcore.runs.acting", "rlcore.runs.env_facts", "rlcore.runs.folder",
    "rlcore.demonstrations.datasets",
)  # fmt: skip


def modules_of(part: str) -> list[str]:
    """Dotted names of the modules under `rlcore/PART`."""
    files = [CORE / f"{part}.py"] if (CORE / f"{part}.py").exists() else (CORE / part).rglob("*.py")
    names = []
    for file in files:
        names.append(_module(file))
    return sorted(names)


def loaded_by(modules: list[str]) -> dict[str, list[str]]:
    """`{module: heavy packages that stood in sys.modules once it was imported}`.

    One fresh interpreter imports them in turn: as long as the lists are empty, the order can't
    hide anything.
    """
    script = """
import importlib, json, sys
found = {}
for name in json.loads(sys.argv[1]):
    importlib.import_module(name)
    found[name] = [heavy for heavy in json.loads(sys.argv[2]) if heavy in sys.modules]
print(json.dumps(found))
"""
    arguments = [json.dumps(modules), json.dumps(HEAVY)]
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, list[str]] = json.loads(done.stdout)
    return result


def imports(file: Path, *, lazy: bool) -> Iterator[str]:
    """Absolute names a file imports when it is imported; with `lazy` those inside functions too.
    What stands under `if TYPE_CHECKING` never runs and is left out."""

    def visit(nodes: list[ast.stmt]) -> Iterator[str]:
        for node in nodes:
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield f"{node.module}.{node.names[0].name}" if node.level == 0 else "rlcore"
            elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                yield from visit(node.orelse)
            elif lazy or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for block in ("body", "orelse", "finalbody", "handlers", "cases"):
                    yield from visit(vars(node).get(block, []))

    yield from visit(ast.parse(file.read_text()).body)


def _module(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def core_files(*parts: str) -> list[Path]:
    if not parts:
        return sorted(CORE.rglob("*.py"))
    single = [CORE / f"{part}.py" for part in parts]
    nested = [file for part in parts for file in (CORE / part).rglob("*.py")]
    return sorted([file for file in single if file.exists()] + nested)


def test_every_part_of_core_has_a_level():
    parts = {path.stem for path in CORE.iterdir() if path.suffix == ".py" or path.is_dir()}
    parts -= {"__init__", "__pycache__", "py"}
    known = {*LIGHT, *RUNNING, *TORCH}
    assert parts == known, f"without a level: {parts - known}; no longer there: {known - parts}"


def test_light_modules_load_nothing_heavy():
    modules = ["rlcore", *(name for part in LIGHT for name in modules_of(part))]
    modules = [name for name in modules if name not in TENSORS]
    assert len(modules) > 20
    assert loaded_by(modules) == {name: [] for name in modules}


def test_workers_and_loops_load_no_tensor_library():
    """It comes with the first policy worker."""
    modules = [name for part in RUNNING for name in modules_of(part)]
    assert loaded_by(modules) == {name: [] for name in modules}


def test_an_env_worker_loads_no_model_stack():
    """What a worker process imports before its simulator."""
    testing = ("toy_env", "conformance.env")
    modules = ["rlcore.workers.env_worker", *(f"rlcore_testing.{name}" for name in testing)]
    assert loaded_by(modules) == {name: [] for name in modules}


def test_light_code_imports_only_light_code_when_it_is_imported():
    for file in core_files(*LIGHT):
        for name in imports(file, lazy=False):
            if _module(file) in TENSORS or name.startswith(LIGHT_ELSEWHERE):
                continue
            if name.startswith("rlcore."):
                assert not name.startswith(tuple(TENSORS)), f"{file}: {name}"
                assert name.split(".")[1] in (*LIGHT, "hookimpl", "__version__"), f"{file}: {name}"


def test_core_imports_ray_nowhere_and_gymnasium_in_one_module():
    for file in core_files():
        for name in imports(file, lazy=True):
            package = name.split(".")[0]
            assert package != "ray", f"{file} imports {name}"
            assert package != "gymnasium" or file == CORE / "api/vector_env.py", file


def test_nothing_in_core_imports_a_plugin():
    plugins = {path.parent.name for path in ROOT.glob("plugins/**/rlcore_*/__init__.py")}
    assert len(plugins) >= 3
    for file in core_files():
        for name in imports(file, lazy=True):
            package = name.split(".")[0]
            assert package not in plugins and not package.startswith("rlcore_"), f"{file}: {name}"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import torch", ["torch"]),
        ("from torch import nn", ["torch.nn"]),
        ("try:\n    import ray\nexcept ImportError:\n    import torch", ["ray", "torch"]),
        ("class A:\n    import torch", ["torch"]),
        ("with x:\n    import torch", ["torch"]),
        ("if TYPE_CHECKING:\n    import torch", []),
        ("def f():\n    import torch", []),
    ],
)
def test_the_reader_of_imports(tmp_path, source, expected):
    (tmp_path / "module.py").write_text(source)
    assert list(imports(tmp_path / "module.py", lazy=False)) == expected
