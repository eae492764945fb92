"""Simulators under another interpreter do as in the one that rlcore runs in, to the bit."""

from __future__ import annotations

import ast
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from line_simulator import LineConfig, env_spec
from rlcore_simulation.env import SimulatedEnv
from rlcore_simulation.interpreters import query_interpreter
from rlcore_simulation.module_links import link_modules
from rlcore_simulation.simulator import SimulatorSource
from test_processes import wait_gone

from rlcore.contracts.errors import AssetError, ConfigError, SimulatorError, WorkerError
from rlcore.contracts.specs import Episode
from rlcore.workers.restarting_env import RestartingEnv

ROWS = 4
EPISODES = [Episode(row % 2, 20 + row) for row in range(ROWS)]
MakeEnv = Callable[..., SimulatedEnv]


def course(
    env: SimulatedEnv | RestartingEnv, strike: Callable[[int], None] = lambda _: None
) -> Any:
    """All that is seen of some chunks, a film and a demonstration."""
    random = np.random.default_rng(0)
    seen: list[Any] = [env.reset(options={"episodes": EPISODES})[0]]
    env.record([1])
    for chunk in range(4):
        strike(chunk)
        actions = random.uniform(-1, 1, (ROWS, 5, 1)).astype(np.float32)
        seen.append(vars(env.chunk_step(actions)))
    seen.append(env.recorded())
    settings = {"action_noise": 0.1, "speed": 0.5, "stride": 3, "seed": 1}
    seen += map(vars, env.demonstrate([Episode(1, 7)], **settings))
    return seen


def require_same(one: Any, other: Any) -> None:
    """Equal to the bit, all the way down."""
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one:
            require_same(one[name], other[name])
    elif isinstance(one, list):
        for each, its in zip(one, other, strict=True):
            require_same(each, its)
    else:
        assert one == other


def test_another_interpreter_gives_the_same_bits(make: MakeEnv, twin_venv: Path) -> None:
    require_same(course(make(ROWS, 2, python=str(twin_venv))), course(make(ROWS, 2)))


def test_another_major_version_of_numpy_gives_the_same_bits(make: MakeEnv, numpy1: str) -> None:
    there = query_interpreter(numpy1).packages["numpy"]
    assert there.split(".")[0] != np.__version__.split(".")[0]
    require_same(course(make(ROWS, 2, python=f"{numpy1}/bin/python")), course(make(ROWS, 0)))


@pytest.mark.long
@pytest.mark.parametrize(
    ("python", "numpy"),
    [("3.10", "1.24.*"), ("3.11", "1.24.*"), ("3.12", "1.26.*"), ("3.13", "2.*")],
)
def test_other_pythons_give_the_same_bits(
    make: MakeEnv, other_venv: Callable[..., Path], python: str, numpy: str
) -> None:
    """Those that are found by their name, as python3.12; `rlcore venv create` makes them too."""
    venv = other_venv(f"python{python}", f"numpy=={numpy}", requires_python=f"=={python}.*")
    there = query_interpreter(str(venv))
    assert there.version.startswith(f"{python}.")
    assert there.packages["numpy"].startswith(numpy.removesuffix("*"))
    require_same(course(make(ROWS, 2, python=str(venv))), course(make(ROWS, 0)))


def test_nothing_of_this_interpreters_path_is_on_the_others(make: MakeEnv, twin_venv: Path) -> None:
    env = make(1, 1, python=str(twin_venv), show_variable="PYTHONPATH")
    shown = env.reset()[0]["task_descriptions"][0].split()[-1]
    linked = sorted(path.name for path in Path(shown).iterdir() if path.name != "__pycache__")
    assert linked == ["line_simulator.py", "rlcore", "rlcore_simulation"]
    env.close()
    assert not Path(shown).exists()


@pytest.mark.quick(1)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_process_there_that_dies_or_hangs_costs_time_and_nothing_else(
    make: MakeEnv, twin_venv: Path, how: signal.Signals
) -> None:
    built: list[SimulatedEnv] = []
    config = LineConfig(python=str(twin_venv))
    usual = config.simulator_timeout

    def build() -> SimulatedEnv:
        config.simulator_timeout = usual
        built.append(make(ROWS, 2, config))
        return built[-1]

    def strike(chunk: int) -> None:
        if chunk == 2 and len(built) == 1:
            config.simulator_timeout = 1.0  # start-up had the longer one
            os.kill(built[-1].process_ids[1], how)

    env = RestartingEnv(build, restarts=1)
    seen = course(env, strike)
    assert len(env.incidents) == 1 and len(built) == 2
    expected = course(make(ROWS, 2))
    for ours, theirs in zip(seen[:5], expected[:5], strict=True):  # a lost film is not made again
        require_same(ours, theirs)


def test_an_error_of_another_interpreter_is_raised_here(
    refused, make: MakeEnv, twin_venv: Path
) -> None:
    env = make(1, 1, python=str(twin_venv), asset="/no/such/file")
    with refused(AssetError, "process 1 of 1", "/no/such/file"):
        env.reset()


# -- what can't be used -------------------------------------------------------------------------


def test_a_path_without_an_interpreter_is_refused_before_a_process_starts(
    refused, make: MakeEnv
) -> None:
    with refused(AssetError, "/no/python"):
        make(1, 1, python="/no/python")


def test_an_interpreter_that_is_gone_since_is_refused(
    refused, make: MakeEnv, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    query_interpreter(str(python))
    python.unlink()
    with refused(AssetError, "process 1 of 1", python):
        make(1, 1, python=str(python))


def test_another_interpreter_can_not_simulate_in_this_process(
    refused, make: MakeEnv, twin_venv: Path
) -> None:
    with refused(ConfigError, "num_processes", "python=", text=False):
        make(1, 0, python=str(twin_venv))


@pytest.fixture
def wrapper(twin_venv: Path, tmp_path: Path) -> Path:
    """A script in place of an interpreter, in a folder that PYTHONPATH can't name."""
    script = tmp_path / "a 'quoted': folder" / "python"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nunset PYTHONPATH\n{twin_venv}/bin/python "$@"\n')
    script.chmod(0o755)
    return script


def test_a_script_that_starts_an_interpreter_will_do(
    refused, make: MakeEnv, wrapper: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It clears the variable, stays beside the simulator, and the code is at an odd place; what
    lies in the current folder or is meant for this interpreter is nothing to the other."""
    monkeypatch.setattr("tempfile.tempdir", str(wrapper.parent))
    monkeypatch.chdir(wrapper.parent)
    for name in ("json", "numpy", "sitecustomize", "line_simulator"):
        Path(f"{name}.py").write_text("raise SystemExit(3)\n")
    for name in ("PYTHONHOME", "PYTHONSTARTUP", "PYTHONPLATLIBDIR", "VIRTUAL_ENV"):
        monkeypatch.setenv(name, "/no/such")
    config = LineConfig(python=str(wrapper), max_episode_steps=5)
    env = make(1, 1, config)
    env.reset(options={"episodes": EPISODES[:1]})
    process = psutil.Process(env.process_ids[0])
    everyone = [process, *process.children(recursive=True)]
    assert len(everyone) == 2  # the shell, and Python
    os.kill(everyone[1].pid, signal.SIGSTOP)
    config.simulator_timeout = 0.1
    with refused(SimulatorError, "0.1 s", "simulator_timeout", text=False):  # has process ids
        env.chunk_step(np.zeros((1, 5, 1), np.float32))
    wait_gone([each.pid for each in everyone])


def test_a_module_that_is_not_there_is_named(
    refused, twin_venv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "needs_scipy.py").write_text(
        "def make(config):\n    import scipy_of_nobody.linalg\n"
    )
    config = LineConfig(python=str(twin_venv))
    source = SimulatorSource("needs_scipy:make", name="sim")
    rows = {"num_envs": 1, "first_slot": 0, "num_processes": 1}
    env = SimulatedEnv(env_spec(config), source, config, **rows)  # type: ignore[arg-type]
    try:
        with refused(WorkerError, "scipy_of_nobody", text=False):
            env.reset()
    finally:
        env.close()


# -- what is handed on --------------------------------------------------------------------------


LOADED = """
import sys, rlcore_simulation.serve, line_simulator, rlcore.validation.env, rlcore.files.hub
for name, module in sorted(sys.modules.items()):
    print(name.partition(".")[0], getattr(module, "__file__", None) or "")
"""


def test_a_simulator_process_loads_what_numpy_and_python_3_10_can_run(
    twin_venv: Path, tmp_path: Path
) -> None:
    """Torch and the rest are installed where the twin looks. Our files are parsed by the oldest
    grammar, and ask nothing of newer standard libraries."""
    link_modules(tmp_path, ["line_simulator"])
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [f"{twin_venv}/bin/python", "-c", LOADED], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    loaded = [line.partition(" ") for line in done.stdout.splitlines()]
    ours = {"rlcore", "rlcore_simulation", "line_simulator"}
    known = {*sys.stdlib_module_names, *ours, "numpy", "__main__", "sitecustomize"}
    assert {name for name, _, file in loaded if file} <= known
    newer = (
        *("tomllib", "ExceptionGroup", "StrEnum", "from typing import Self", "assert_never"),
        *("datetime import UTC", "itertools import batched", "add_note", "except*"),
    )
    files = [Path(file) for name, _, file in loaded if name in ours]
    assert len(files) > 30
    for file in files:
        text = file.read_text()
        ast.parse(text, feature_version=(3, 10))
        for word in newer:
            assert word not in text, f"{file} uses {word}, which Python 3.10 lacks"
