"""Other Python processes of ours import nothing that happens to lie in the current folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rlcore_simulation import interpreters

STANDARD = ("json", "runpy", "signal", "threading")
OTHERS = ("numpy", "rlcore", "ray", "torch", "sitecustomize")


@pytest.fixture
def decoys(tmp_path: Path, monkeypatch) -> Path:
    """A folder to stand in: its modules leave a mark where they are imported."""
    here = tmp_path / "here"
    here.mkdir()
    for name in (*STANDARD, *OTHERS):
        mark = f"open({str(tmp_path / 'marks')!r}, 'a').write({name!r})\n"
        (here / f"{name}.py").write_text(f"{mark}raise ImportError\n")
    monkeypatch.chdir(here)
    return tmp_path


def marks(folder: Path) -> str:
    file = folder / "marks"
    return file.read_text() if file.exists() else ""


def run_module(module: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        interpreters.command(module, *arguments),
        env=interpreters.environment() | variables,
        capture_output=True,
        text=True,
    )


def test_the_decoys_work(decoys):
    """Otherwise the others would show nothing."""
    done = subprocess.run([sys.executable, "-m", "json.tool", "--help"], capture_output=True)
    assert done.returncode != 0 and "json" in marks(decoys)


@pytest.mark.parametrize("safe", ["", "1"])  # "": as before Python 3.11
def test_a_module_runs_without_the_current_folder(decoys, safe):
    done = run_module("json.tool", "--help", PYTHONSAFEPATH=safe)
    assert done.returncode == 0, done.stderr
    assert marks(decoys) == ""


def test_arguments_and_name_are_those_of_a_module_that_is_run(tmp_path, monkeypatch):
    (tmp_path / "probe.py").write_text(
        "import json, sys\nprint(json.dumps([__name__, sys.argv, sys.path[0]]))"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    name, arguments, first = json.loads(run_module("probe", "a", "b c").stdout)
    assert (name, arguments[1:]) == ("__main__", ["a", "b c"])
    assert first == str(tmp_path)


def test_folders_that_the_user_put_on_the_path_are_searched(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("print('mine')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    assert run_module("mine").stdout == "mine\n"


def test_a_queried_interpreter_ignores_the_current_folder(elsewhere: Path) -> None:
    """Pythons before 3.11 know no PYTHONSAFEPATH."""
    for name in ("json", "numpy"):
        Path(f"{name}.py").write_text("raise SystemExit('run')\n")
    variables = {name: text for name, text in os.environ.items() if name != "PYTHONSAFEPATH"}
    ask = [sys.executable, "-c", interpreters._QUERY]
    done = subprocess.run(ask, env=variables, capture_output=True, text=True)
    assert "rlcore-look" in done.stdout and done.returncode == 0, done.stderr


def test_a_package_that_is_half_removed_is_none(tmp_path: Path) -> None:
    (tmp_path / "broken-1.0.dist-info").mkdir()
    (tmp_path / "broken-1.0.dist-info" / "METADATA").write_bytes(b"Name: \xff\nVersion: \xff\n")
    (tmp_path / "empty-1.0.dist-info").mkdir()
    ask = [sys.executable, "-c", interpreters._QUERY]
    variables = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(ask, env=variables, capture_output=True, text=True)
    assert '"numpy": "' in done.stdout, done.stderr
