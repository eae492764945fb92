"""Interpreters of simulators before a run: what of them is told, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rlcore_simulation import plugin
from rlcore_simulation.doctor import findings, installed, interpreters_of, timeouts
from rlcore_simulation.interpreters import query_interpreter
from rlcore_simulation.known_interpreters import noted
from rlcore_simulation.settings import SimulatedEnvConfig
from rlcore_testing.toy_settings import ToyEnvConfig, env_spec

from rlcore.config.schema import EnvConfig
from rlcore.contracts.errors import AssetError
from rlcore.contracts.specs import ComponentSpec, SimulatorVersions
from rlcore.plugins.registry import Component
from rlcore.runs.manifest import build_manifest, code, versions

NUMPY = version("numpy")


@dataclass
class Elsewhere(EnvConfig):
    env_type: str = "sliding"
    python: str | None = None

    def interpreter(self) -> str | None:
        return self.python


def registry_of(*requirements: str, requires_python: str | None = None) -> Any:
    spec = ComponentSpec(
        "env", "sliding", "x:y", requirements=requirements, requires_python=requires_python
    )
    component = Component(spec, "sliding", "acme-slider", "1.2.3")
    return SimpleNamespace(get=lambda kind, name: component)


def refused(python: object, *requirements: str, **facts: Any) -> AssetError:
    with pytest.raises(AssetError) as caught:
        interpreters_of(
            {"train": Elsewhere(python=str(python))}, registry_of(*requirements, **facts)
        )
    return caught.value


def script(folder: Path, text: str) -> Path:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def answering(version: str, **packages: str) -> str:
    """The text of a script that answers as an interpreter with these packages would."""
    answer = json.dumps({"version": version, "packages": packages})
    return f"echo 'rlcore-look {answer}'"


def test_envs_of_rlcores_own_interpreter_are_left_alone() -> None:
    assert interpreters_of({"train": EnvConfig(), "eval": Elsewhere()}, registry_of()) == []


def test_versions_of_note_stand_in_the_manifest(twin_venv: Path) -> None:
    envs = {"train": EnvConfig(), "eval": Elsewhere(python=str(twin_venv))}
    found = interpreters_of(envs, registry_of("PyYAML>=5", "Some_Thing; python_version < '3'"))
    (one,) = found
    assert one.executable == f"{twin_venv}/bin/python" and one.side == "eval"
    python = ".".join(map(str, sys.version_info[:3]))
    assert one.of_note == {
        "python": python, "PyYAML": version("pyyaml"), "numpy": NUMPY, "acme-slider": "1.2.3",
    }  # fmt: skip
    made = build_manifest(
        seeds={},
        device="cpu",
        protocol=None,
        specs={"eval": env_spec(ToyEnvConfig())},
        code=code(found),
        interpreters=found,
    )
    assert made["interpreters"]["eval"]["packages"]["PyYAML"] == version("pyyaml")
    assert made["versions"]["numpy (env.eval.python)"] == NUMPY
    assert made["versions"]["acme-slider (env.eval.python)"] == "1.2.3"
    assert not any("env." in name for name in versions())


def test_what_is_missing_there_is_named_with_the_command(twin_venv: Path) -> None:
    error = refused(twin_venv, "no-such-simulator==3.1", "numpy<1.0", "pyyaml")
    assert error.message == (
        f"env.train.python: {twin_venv}/bin/python lacks what the simulators of sliding need: "
        f"no-such-simulator==3.1 (there: not installed), numpy<1.0 (there: {NUMPY})"
    )
    assert error.hint == f"rlcore venv create sliding {twin_venv}"


def test_another_python_than_the_simulator_takes(twin_venv: Path) -> None:
    error = refused(twin_venv, "numpy", requires_python="<3.9")
    assert f"Python <3.9 (there: {'.'.join(map(str, sys.version_info[:3]))})" in error.message
    assert error.hint == "rlcore venv create sliding"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo hello", "is no Python interpreter: it ends with code 0"),
        ("echo broken >&2; exit 3", "is no Python interpreter: it ends with code 3: broken"),
        (
            "for line in warned Traceback ' File x' 'SyntaxError: old'; "
            'do echo "$line" >&2; done; '
            "exit 1",
            "is no Python interpreter: it ends with code 1: SyntaxError: old",
        ),
        (answering("3.9.18"), "Python >=3.10 (there: 3.9.18), numpy>=1.24 (there: not installed)"),
        (answering("3.12.1"), "need: numpy>=1.24 (there: not installed)"),
        (answering("3.10.1", numpy="1.23.5"), "need: numpy>=1.24 (there: 1.23.5)"),
        (answering("3.10.1", numpy="main"), "need: numpy>=1.24 (there: main)"),
    ],
)
def test_an_interpreter_that_will_not_do(tmp_path: Path, text: str, said: str) -> None:
    """The command makes an environment with all that the env asks for."""
    path = script(tmp_path, text)
    error = refused(path, "numpy>=1.24")
    assert error.message.startswith(f"env.train.python: {path} ") and said in error.message
    assert error.hint == "rlcore venv create sliding"


def test_an_environment_without_numpy_is_completed_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "pyvenv.cfg").write_text("")
    path = script(tmp_path / "bin", answering("3.12.1"))
    for python in (tmp_path, path):
        assert refused(python, "robot").hint == f"rlcore venv create sliding {tmp_path}"
    # an env without requirements
    assert refused(path).hint == f"{path} -m pip install 'numpy>=1.24'"


def test_a_link_to_the_python_of_an_environment_is_told_from_it(tmp_path: Path) -> None:
    bare = script(tmp_path, answering("3.11.7"))
    venv, link = tmp_path / "venv", tmp_path / "links" / "python"
    for folder in (venv / "bin", link.parent):
        folder.mkdir(parents=True)
    (venv / "pyvenv.cfg").touch()
    (venv / "bin" / "python").symlink_to(bare)
    link.symlink_to("../venv/bin/python")
    with pytest.raises(AssetError, match="is a link to the Python of an environment") as refused:
        query_interpreter(str(link))
    assert refused.value.hint == f"name {link.parent}/../venv/bin/python itself"
    assert query_interpreter(str(venv)).version == "3.11.7"


def test_one_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlcore_simulation.interpreters.LOOK_SECONDS", 0.3)
    error = refused(script(tmp_path, "sleep 600"))
    assert "did not report its version in 0.3 s" in error.message


@pytest.mark.long
def test_what_one_that_hangs_had_started_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlcore_simulation.interpreters.LOOK_SECONDS", 3.0)
    child = tmp_path / "child"
    refused(script(tmp_path, f"sleep 600 & echo $! > {child}; wait"))
    ended = time.monotonic() + 60
    while _runs(int(child.read_text())) and time.monotonic() < ended:
        time.sleep(0.02)
    assert not _runs(int(child.read_text()))


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2]
    except OSError:
        return False
    return not state.startswith("Z")  # dead, and not yet collected


def test_a_path_that_leads_nowhere(tmp_path: Path) -> None:
    missing = tmp_path / "nothing"
    assert refused(missing).message.endswith("no Python interpreter: No such file or directory")
    assert f"{tmp_path} is no virtual environment: it has no" in refused(tmp_path).message
    (tmp_path / "file").write_text("")
    assert "Permission denied" in refused(tmp_path / "file").message


def test_an_environment_of_another_machine_is_said(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "pyvenv.cfg").write_text("")
    (tmp_path / "bin" / "python").symlink_to("/no/such/python3.11")
    error = refused(tmp_path, "robot")
    assert error.message == (
        f"env.train.python: {tmp_path}/bin/python is no Python interpreter: /no/such/python3.11: "
        "No such file or directory"
    )
    assert error.hint == "rlcore venv create sliding"


def test_one_that_prints_as_it_starts_and_whose_path_has_blanks(
    twin_venv: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "my robot's"
    folder.mkdir()
    loud = script(folder, f"""echo '{{"version": 1}}'; exec {twin_venv}/bin/python "$@" """)
    assert query_interpreter(str(loud)).packages["numpy"] == NUMPY


def test_doctor_says_both_sides(twin_venv: Path) -> None:
    envs = {"train": Elsewhere(python=str(twin_venv)), "eval": Elsewhere(python="/no/python")}
    good, bad = findings(envs, registry_of("numpy"))
    assert good["status"] == "ok" and good["name"] == "env.train.python"
    assert f"numpy {NUMPY}, " in good["detail"] and "; here: python 3." in good["detail"]
    assert bad == {
        "name": "env.eval.python",
        "status": "missing",
        "detail": "/no/python is no Python interpreter: No such file or directory",
        "fix": "rlcore venv create sliding",
    }
    assert [*findings({"train": EnvConfig()}, registry_of())] == []
    (own,) = findings({"train": Elsewhere()}, registry_of("numpy"))
    assert (
        own["detail"].startswith("rlcore's own interpreter: python 3.") and NUMPY in own["detail"]
    )


def test_a_run_that_starts_looks_again_and_remembers_the_interpreter(
    twin_venv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(plugin, "load_plugins", lambda: registry_of("numpy"))
    envs = {"train": Elsewhere(python=str(twin_venv)), "eval": EnvConfig()}
    assert noted() == []
    (one,) = plugin.rlcore_versions(envs)
    assert (one.side, "gauge" in one.packages) == ("train", False)
    assert noted() == [f"{twin_venv}/bin/python"]
    (packages,) = twin_venv.glob("lib/python3*/site-packages")
    info = packages / "gauge-3.0.dist-info"
    info.mkdir()
    try:
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: gauge\nVersion: 3.0\n")
        (one,) = plugin.rlcore_versions(envs)
    finally:
        shutil.rmtree(info)
        query_interpreter.cache_clear()
    assert one.packages["gauge"] == "3.0"


def test_doctor_refuses_simulators_of_another_interpreter_in_this_process() -> None:
    """Whatever the interpreter is, as it is not asked."""
    _, row = findings({"train": Elsewhere(python="/no/python", num_processes=0)}, registry_of())
    assert (row["name"], row["status"]) == ("env.train.num_processes", "refused")
    assert row["detail"].startswith("must be at least 1 with python=/no/python: ")


def test_doctor_warns_where_a_hang_is_found_too_late() -> None:
    envs = {"train": SimulatedEnvConfig(), "eval": SimulatedEnvConfig(simulator_timeout=300)}
    envs["validation"] = EnvConfig()  # no simulators in processes
    (row,) = timeouts(envs, longest=300)
    assert (row["name"], row["status"]) == ("env.eval.simulator_timeout", "warning")
    assert row["fix"] == "cluster.timeouts.env=450"


def test_what_stands_on_this_path_is_not_on_the_others(
    twin_venv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "numpy.py").write_text("raise SystemExit('the wrong numpy')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONHOME", str(tmp_path))
    query_interpreter.cache_clear()
    assert query_interpreter(str(twin_venv)).packages["numpy"] == NUMPY
    assert os.environ["PYTHONPATH"] == str(tmp_path)


def simulated_with(*tested: SimulatorVersions, requirements: tuple[str, ...] = ()) -> Any:
    spec = ComponentSpec("env", "sliding", "x:y", tested=tested, requirements=requirements)
    component = Component(spec, "sliding", "acme-slider", "1.2.3")
    return SimpleNamespace(get=lambda kind, name: component, components=lambda kind: [component])


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Installs `acme-engine` in rlcore's own interpreter, in a version."""

    def install(its: str) -> None:
        info = tmp_path / its / f"acme_engine-{its}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: acme-engine\nVersion: {its}\n"
        )
        monkeypatch.syspath_prepend(str(info.parent))

    return install


ENGINE = SimulatorVersions("acme-engine", ">=3.2,<=3.3.2", "boxes touch otherwise from 3.4 on")


@pytest.mark.parametrize("its", ["3.1", "3.3.3", "3.4.0", "4.0.0", "3.3.3rc1", "main-build"])
def test_a_version_with_other_results_is_refused_with_its_reason(engine: Any, its: str) -> None:
    engine(its)
    registry = simulated_with(ENGINE)
    rows = [*findings({"train": Elsewhere(), "eval": Elsewhere()}, registry)]
    assert rows[0] == rows[1]  # one finding for both sides
    assert rows[0]["status"] == "missing" and rows[0]["name"] == "acme-engine>=3.2,<=3.3.2"
    assert its in rows[0]["detail"] and "boxes touch otherwise" in rows[0]["detail"]
    assert rows[0]["fix"].endswith("-m pip install 'acme-engine>=3.2,<=3.3.2'")
    (same,) = [each for each in installed(registry) if each["status"] != "ok"]
    assert same == rows[0]


def test_a_version_of_which_nothing_is_known_is_warned_of(engine: Any) -> None:
    engine("2.0")
    registry = simulated_with(SimulatorVersions("acme-engine", "==1.4.0"))
    (found,) = findings({"eval": Elsewhere()}, registry)
    assert found["status"] == "warning" and "acme-engine 2.0" in found["detail"]


def test_a_tested_version_stands_with_the_interpreter(engine: Any) -> None:
    engine("3.3.0")
    registry = simulated_with(ENGINE, requirements=("numpy",))
    (found,) = findings({"eval": Elsewhere()}, registry)
    assert found["status"] == "ok" and "acme-engine 3.3.0" in found["detail"]
    (listed,) = installed(registry)
    assert listed["detail"] == "acme-engine 3.3.0" and listed["status"] == "ok"
    assert not [*installed(simulated_with(SimulatorVersions("no-such-engine", ">=1", "x")))]


def test_another_interpreter_is_held_to_the_same_versions(twin_venv: Path) -> None:
    changes = SimulatorVersions("PyYAML", "<1.0", "numbers are read otherwise")
    env = {"train": Elsewhere(python=str(twin_venv))}
    for requirements in ((), (changes.requirement,)):  # whether or not its author names it twice
        rows = [*findings(env, simulated_with(changes, requirements=requirements))]
        (refused,) = [each for each in rows if each["status"] == "missing"]
        assert refused["name"] == "env.train.python"
        assert "numbers are read otherwise" in refused["detail"]
        assert version("pyyaml") in refused["detail"]
    warned = SimulatorVersions("PyYAML", "<1.0")
    assert [each["status"] for each in findings(env, simulated_with(warned))] == ["ok", "warning"]
