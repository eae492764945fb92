"""`rlcore check`: each fault is found by what it is, once, and a sound plugin has none."""

from __future__ import annotations

import subprocess
import sys

import pytest
from rlcore_tools.check.configuration import component_of, settings_findings
from rlcore_tools.check.targets import call_fault, component_findings, configuration_findings
from rlcore_tools.cli import check
from test_new import importable

from rlcore.contracts.errors import ConfigError
from rlcore.contracts.specs import ComponentSpec
from rlcore.plugins.registry import load_plugins

SOUND = """
from rlcore import hookimpl
from rlcore.contracts.specs import ComponentSpec

RLCORE_API = (0, 1)


@hookimpl
def rlcore_components():
    return [ComponentSpec(kind="tracker", name="broken", target="broken.tracker:Broken")]


@hookimpl
def rlcore_config_paths():
    return ["pkg://broken.conf"]
"""
TRACKER = """
class Broken:
    def __init__(self, config, run_dir):
        pass

    def log(self, metrics, step):
        pass

    def close(self):
        pass
"""
MATRIX = {
    "sound": ({}, ""),
    "sound, it reads its settings": (
        {
            "tracker": (
                "run_dir):\n        pass",
                "run_dir):\n        import rlcore\n"
                "        self.keys = rlcore.open_run(run_dir).config().plugins.tools",
            )
        },
        "",
    ),
    "sound, its hook reads its settings": (
        {
            "plugin": (
                "@hookimpl\ndef rlcore_config_paths",
                "from rlcore.config.schema import PluginConfig\n\n\n"
                "class Own(PluginConfig):\n    pass\n\n\n"
                "@hookimpl\ndef rlcore_settings():\n    return ['broken.plugin:Own']\n\n\n"
                "@hookimpl\ndef rlcore_after_update(run):\n"
                "    assert run.config.plugins.broken.enabled\n\n\n"
                "@hookimpl\ndef rlcore_config_paths",
            )
        },
        "",
    ),
    "a module that fails": ({"tracker": ("class Broken", "1 / 0\nclass Broken")}, "ZeroDivision"),
    "a tracker that fails": (
        {"tracker": ("metrics, step):\n        pass", "metrics, step):\n        metrics['none']")},
        "KeyError",
    ),
}
"""Beside the cases of broken_plugins.py: what is changed, and the cause that is found."""


def package(folder, changes):
    """The plugin `broken` with each file changed so."""
    files = {"plugin": SOUND, "tracker": TRACKER, "conf": "env_type: toy\n"}
    for name, (old, new) in changes.items():
        assert old in files[name]
        files[name] = files[name].replace(old, new)
    (folder / "broken/conf/env").mkdir(parents=True)
    (folder / "broken/__init__.py").write_text("")
    (folder / "broken/conf/__init__.py").write_text("")
    (folder / "broken/plugin.py").write_text(files["plugin"])
    (folder / "broken/tracker.py").write_text(files["tracker"])
    (folder / "broken/conf/env/x.yaml").write_text(files["conf"])
    return importable(folder, "broken")


def test_progress_is_printed_after_a_silence(monkeypatch, capsys):
    for silence, printed in ((3600.0, False), (-1.0, True)):
        monkeypatch.setattr(check, "SILENCE", silence)
        assert check.main(["tracker", "tensorboard"]) == 0
        assert (", tensorboard: 1 of " in capsys.readouterr().err) is printed


@pytest.mark.quick(2)
@pytest.mark.parametrize("fault", MATRIX)
def test_each_fault_is_found(fault, tmp_path):
    changes, cause = MATRIX[fault]
    env = package(tmp_path, changes)
    command = [sys.executable, "-m", "rlcore.cli.main", "check", "broken"]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == bool(cause), done.stdout + done.stderr
    assert cause in done.stdout and "Traceback" not in done.stderr
    assert done.stdout.count("\n  fix: ") == bool(cause)
    # each check that logs sees a log that fails
    assert ("3 checks more" in done.stdout) == (fault == "a tracker that fails")


TWO = """
from rlcore import hookimpl
from rlcore.contracts.specs import ComponentSpec

RLCORE_API = (0, 1)


@hookimpl
def rlcore_components():
    return [
        ComponentSpec("tracker", name, "rlcore_desk.tracker:Broken") for name in ("one", "two")
    ]
"""


def test_a_fault_of_two_components_is_one_finding_with_its_line(tmp_path):
    """A stranger's package may be named as ours are. Each check fails after another number of calls
    at one line, so what is raised reads differently."""
    (tmp_path / "rlcore_desk").mkdir()
    (tmp_path / "rlcore_desk/__init__.py").write_text("")
    (tmp_path / "rlcore_desk/plugin.py").write_text(TWO)
    calls = "metrics, step):\n        raise ValueError(f'{id(self)}')"
    text = TRACKER.replace("metrics, step):\n        pass", calls)
    (tmp_path / "rlcore_desk/tracker.py").write_text(text)
    line = text.splitlines().index("        raise ValueError(f'{id(self)}')") + 1
    env = importable(tmp_path, "rlcore_desk")
    command = [sys.executable, "-m", "rlcore.cli.main", "check", "rlcore_desk"]
    skip = ["--skip", "test_it_takes_numbers_that_are_not_finite"]
    done = subprocess.run([*command, *skip], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert done.stdout.count("\n  fix: ") == 1 and "tracker one (and tracker two): " in done.stdout
    assert f"{tmp_path}/rlcore_desk/tracker.py:{line})" in done.stdout
    for name in ("one", "two"):
        assert f"tracker {name}: not checked: it takes numbers that are not finite" in done.stdout


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["tracker", "tensorboard", "--skip", "it takes nombers"], "it takes numbers"),
        (["tracker", "tensorboard", "--quick", "--skip", "it takes numbers"], "--skip"),
        (["--skip", "it takes numbers"], "--skip"),
    ],
)
def test_a_check_that_can_not_be_skipped_is_named(refused, words, named):
    with refused(ConfigError, named):
        check.main(words)


def test_a_preset_is_checked_with_its_settings():
    found = component_of(load_plugins(), "env", "metaworld_50")
    assert found is not None
    component, settings = found
    assert component.spec.name == "metaworld" and "env_type" not in settings
    assert component_of(load_plugins(), "env", "nowhere") is None
    assert component_of(load_plugins(), "tracker", "tensorboard") is None


def test_settings_of_installed_components_have_no_findings():
    registry = load_plugins()
    kinds = ("env", "model", "algorithm")
    components = [registry.get(kind, name) for kind in kinds for name in registry.names(kind)]
    assert len(components) > 10
    assert [f for component in components for f in settings_findings(registry, component)] == []


@pytest.mark.parametrize(
    ("function", "fault"),
    [
        (lambda config, *, env_spec: None, ""),
        (lambda config, **others: None, ""),
        (lambda config: None, "'env_spec'"),
        (lambda config, other, *, env_spec: None, "'other'"),
    ],
)
def test_a_signature_is_compared_with_the_call(function, fault):
    found = call_fault(function, 1, ("env_spec",))
    assert (fault in found) and bool(fault) == bool(found)


def test_a_module_that_fails_is_one_finding(tmp_path, monkeypatch):
    (tmp_path / "broken_facts.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    names = {part: f"broken_facts:{part}" for part in ("target", "config", "spec")}
    (found,) = component_findings(ComponentSpec("env", "x", **names))
    assert "ZeroDivisionError" in found.fault and found.fault.startswith("target: ")


def test_a_protocol_is_a_protocol():
    spec = ComponentSpec("protocol", "x", "rlcore_testing.toy_settings:GOALS")
    (found,) = component_findings(spec)
    assert "dict" in found.fault and "ProtocolSpec" in found.fault


def test_a_folder_that_is_not_there_is_a_finding(tmp_path):
    (found,) = configuration_findings("acme", str(tmp_path / "nowhere"))
    assert "nowhere" in found.fault


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({}, ""),
        ({"plugin": ("broken.tracker:", "broken.trakcer:")}, "broken.trakcer"),
        ({"plugin": (":Broken", ":Brokn")}, "'Brokn'"),
    ],
)
def test_the_doctor_finds_targets_that_cannot_be_loaded(changes, missing, tmp_path):
    env = package(tmp_path, changes)
    command = [sys.executable, "-m", "rlcore.cli.main", "doctor"]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert missing in done.stdout, done.stdout
    assert ("tracker broken" in done.stdout) == bool(missing), done.stdout


@pytest.mark.quick(2)
def test_a_run_warns_that_it_goes_without_a_plugin(tmp_path):
    """Its hooks would have steered it."""
    env = package(tmp_path, {"plugin": ("rlcore_config_paths", "rlcore_config_path")})
    words = ["env=toy", "model=toy", "algorithm=ppo", "cluster.backend=local", "--dry-run"]
    command = [sys.executable, "-m", "rlcore.cli.main", "train", *words]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed
    assert "plugin broken" in printed and "rlcore_config_path." in " ".join(printed.split())
