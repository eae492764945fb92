"""Interpreters of simulators before a run: what is reported of them, and what is refused."""

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


def query(python: object, *requirements: str, **facts: Any) -> None:
    """Ask the interpreter of simulators that need this."""
    interpreters_of({"train": Elsewhere(python=str(python))}, registry_of(*requirements, **facts))


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
        "python": python,
        "PyYAML": version("pyyaml"),
        "numpy": NUMPY,
        "acme-slider": "1.2.3",
    }
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


def test_missing_packages_are_named_with_the_command(refused, twin_venv: Path) -> None:
    command = f"rlcore venv create sliding {twin_venv}"
    missing = ("no-such-simulator==3.1", f"numpy<1.0 (there: {NUMPY})")
    with refused(AssetError, "env.train.python", *missing, command, text=False) as error:
        query(twin_venv, "no-such-simulator==3.1", "numpy<1.0", "pyyaml")
    assert "yaml" not in str(error.value)  # it is there


def test_an_interpreter_of_another_python_is_refused(refused, twin_venv: Path) -> None:
    here = ".".join(map(str, sys.version_info[:3]))
    with refused(AssetError, f"<3.9 (there: {here})", "rlcore venv create", text=False):
        query(twin_venv, "numpy", requires_python="<3.9")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("echo hello", ["code 0"]),
        ("echo broken >&2; exit 3", ["code 3", "broken"]),
        (
            "for line in warned Traceback ' File x' 'SyntaxError: old'; "
            'do echo "$line" >&2; done; '
            "exit 1",
            ["code 1", "SyntaxError: old"],
        ),
        (answering("3.9.18"), [">=3.10", "3.9.18", "numpy>=1.24"]),
        (answering("3.12.1"), ["numpy>=1.24"]),
        (answering("3.10.1", numpy="1.23.5"), ["numpy>=1.24", "1.23.5"]),
        (answering("3.10.1", numpy="main"), ["numpy>=1.24", "main"]),
    ],
)
def test_an_unfit_interpreter_is_refused_with_the_command(
    refused, tmp_path: Path, text: str, found: list[str]
) -> None:
    """The command makes an environment with all that the env asks for."""
    path = script(tmp_path, text)
    with refused(AssetError, "env.train.python", path, *found, "rlcore venv create sliding"):
        query(path, "numpy>=1.24")


def test_an_environment_without_numpy_is_completed_where_it_is(refused, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "pyvenv.cfg").write_text("")
    path = script(tmp_path / "bin", answering("3.12.1"))
    for python in (tmp_path, path):
        with refused(AssetError, f"rlcore venv create sliding {tmp_path}"):
            query(python, "robot")
    with refused(AssetError, f"{path} -m pip install 'numpy>=1.24'"):
        query(path)  # an env without requirements


def test_a_link_to_the_python_of_an_environment_is_refused(refused, tmp_path: Path) -> None:
    bare = script(tmp_path, answering("3.11.7"))
    venv, link = tmp_path / "venv", tmp_path / "links" / "python"
    for folder in (venv / "bin", link.parent):
        folder.mkdir(parents=True)
    (venv / "pyvenv.cfg").touch()
    (venv / "bin" / "python").symlink_to(bare)
    link.symlink_to("../venv/bin/python")
    with refused(AssetError, f"{link.parent}/../venv/bin/python"):
        query_interpreter(str(link))
    assert query_interpreter(str(venv)).version == "3.11.7"


def test_an_interpreter_that_hangs_is_refused(
    refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlcore_simulation.interpreters.LOOK_SECONDS", 0.3)
    with refused(AssetError, "0.3 s"):
        query(script(tmp_path, "sleep 600"))


@pytest.mark.long
def test_children_of_an_interpreter_that_hangs_end_with_it(
    refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlcore_simulation.interpreters.LOOK_SECONDS", 3.0)
    child = tmp_path / "child"
    with refused(AssetError, "3 s"):
        query(script(tmp_path, f"sleep 600 & echo $! > {child}; wait"))
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


def test_a_path_without_an_interpreter_is_refused(refused, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path, reason in (
        (tmp_path / "nothing", "No such file"),
        (tmp_path, "bin/python"),
        (tmp_path / "file", "Permission denied"),
    ):
        with refused(AssetError, path, reason):
            query(path)


def test_an_environment_of_another_machine_is_refused(refused, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "pyvenv.cfg").write_text("")
    (tmp_path / "bin" / "python").symlink_to("/no/such/python3.11")
    with refused(AssetError, f"{tmp_path}/bin/python", "/no/such/python3.11"):
        query(tmp_path, "robot")


def test_an_interpreter_may_print_as_it_starts_and_have_blanks_in_its_path(
    twin_venv: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "my robot's"
    folder.mkdir()
    loud = script(folder, f"""echo '{{"version": 1}}'; exec {twin_venv}/bin/python "$@" """)
    assert query_interpreter(str(loud)).packages["numpy"] == NUMPY


def test_doctor_has_a_row_for_each_side(twin_venv: Path) -> None:
    envs = {"train": Elsewhere(python=str(twin_venv)), "eval": Elsewhere(python="/no/python")}
    good, bad = findings(envs, registry_of("numpy"))
    assert good["status"] == "ok" and good["name"] == "env.train.python"
    assert f"numpy {NUMPY}" in good["detail"] and "python 3." in good["detail"]
    assert (bad["name"], bad["status"]) == ("env.eval.python", "missing")
    assert "/no/python" in bad["detail"] and bad["fix"] == "rlcore venv create sliding"
    assert [*findings({"train": EnvConfig()}, registry_of())] == []
    (own,) = findings({"train": Elsewhere()}, registry_of("numpy"))
    assert "python 3." in own["detail"] and NUMPY in own["detail"]


def test_a_run_that_starts_looks_again_and_remembers_the_interpreter(
    twin_venv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(plugin, "load_plugins", lambda: registry_of("numpy"))
    envs = {"train": Elsewhere(python=str(twin_venv)), "eval": EnvConfig()}
    assert noted() == []
    (one,) = plugin.rlcore_versions(envs, None)
    assert (one.side, "gauge" in one.packages) == ("train", False)
    assert noted() == [f"{twin_venv}/bin/python"]
    (packages,) = twin_venv.glob("lib/python3*/site-packages")
    info = packages / "gauge-3.0.dist-info"
    info.mkdir()
    try:
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: gauge\nVersion: 3.0\n")
        (one,) = plugin.rlcore_versions(envs, None)
    finally:
        shutil.rmtree(info)
        query_interpreter.cache_clear()
    assert one.packages["gauge"] == "3.0"


def test_doctor_refuses_simulators_of_another_interpreter_in_this_process() -> None:
    """Whatever the interpreter is, as it is not asked."""
    _, row = findings({"train": Elsewhere(python="/no/python", num_processes=0)}, registry_of())
    assert (row["name"], row["status"]) == ("env.train.num_processes", "refused")
    assert "python=/no/python" in row["detail"]


def test_doctor_warns_where_a_hang_is_found_too_late() -> None:
    envs = {"train": SimulatedEnvConfig(), "eval": SimulatedEnvConfig(simulator_timeout=300)}
    envs["validation"] = EnvConfig()  # no simulators in processes
    (row,) = timeouts(envs, longest=300)
    assert (row["name"], row["status"]) == ("env.eval.simulator_timeout", "warning")
    assert row["fix"] == "cluster.timeouts.env=450"


def test_another_interpreter_has_nothing_of_this_ones_path(
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

    def install(number: str) -> None:
        info = tmp_path / number / f"acme_engine-{number}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: acme-engine\nVersion: {number}\n"
        )
        monkeypatch.syspath_prepend(str(info.parent))

    return install


ENGINE = SimulatorVersions("acme-engine", ">=3.2,<=3.3.2", "boxes touch otherwise from 3.4 on")


@pytest.mark.parametrize("installed_version", ["3.1", "3.3.3", "3.3.3rc1", "main-build"])
def test_a_version_with_other_results_is_refused_with_its_reason(
    engine: Any, installed_version: str
) -> None:
    engine(installed_version)
    registry = simulated_with(ENGINE)
    rows = [*findings({"train": Elsewhere(), "eval": Elsewhere()}, registry)]
    assert rows[0] == rows[1]  # one finding for both sides
    assert rows[0]["status"] == "missing" and rows[0]["name"] == "acme-engine>=3.2,<=3.3.2"
    assert installed_version in rows[0]["detail"] and ENGINE.reason in rows[0]["detail"]
    assert rows[0]["fix"].endswith("-m pip install 'acme-engine>=3.2,<=3.3.2'")
    (same,) = [each for each in installed(registry) if each["status"] != "ok"]
    assert same == rows[0]


def test_an_untested_version_gives_a_warning(engine: Any) -> None:
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
        (row,) = [each for each in rows if each["status"] == "missing"]
        assert row["name"] == "env.train.python"
        assert changes.reason in row["detail"] and version("pyyaml") in row["detail"]
    warned = SimulatorVersions("PyYAML", "<1.0")
    assert [each["status"] for each in findings(env, simulated_with(warned))] == ["ok", "warning"]
