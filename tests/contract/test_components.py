"""What every plugin of this repository promises: components that exist, light facts, one API."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.resources import files
from types import SimpleNamespace

import pytest

from rlcore.contracts.component import ComponentSpec
from rlcore.contracts.specs import KINDS
from rlcore.contracts.version import API_VERSION
from rlcore.plugins.extras import lacking
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import load_plugins

HEAVY = {"torch", "ray", "gymnasium", "transformers", "tokenizers", "sentencepiece", "mujoco"}
SIMULATORS = {"bddl", "libero", "mani_skill", "metaworld", "mplib", "robosuite", "sapien"}
REGISTRY = load_plugins()
COMPONENTS: dict[str, ComponentSpec] = {
    f"{kind} {component.spec.name}": component.spec
    for kind in KINDS
    for component in REGISTRY.components(kind)
}
PLUGINS = dict(REGISTRY.manager.list_name_plugin())


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_component_names_what_exists(name):
    spec = COMPONENTS[name]
    light = (spec.config, spec.spec)
    for target in light if lacking(spec.packages) else (spec.target, *light):
        assert target is None or load_target(target) is not None


@pytest.mark.parametrize("name", PLUGINS)
def test_a_plugin_states_the_api_and_has_its_configuration(name):
    plugin = PLUGINS[name]
    assert plugin.RLCORE_API == API_VERSION
    folders = plugin.rlcore_config_paths() if hasattr(plugin, "rlcore_config_paths") else []
    for folder in folders:
        assert files(folder.removeprefix("pkg://")).is_dir()


def test_listing_and_planning_load_nothing_heavy():
    """Every command imports the modules of plugins, a dry run those of settings and facts too, and
    those of envs, whose facts it asks for; `doctor` asks all plugins."""
    targets = [target for spec in COMPONENTS.values() for target in (spec.config, spec.spec)]
    envs = [spec for spec in COMPONENTS.values() if spec.kind == "env"]
    targets += [spec.target for spec in envs]
    modules = {target.partition(":")[0] for target in targets if target is not None}
    modules |= {plugin.__name__ for plugin in PLUGINS.values()}
    assert len(modules) > 20
    code = "".join(f"import {module}\n" for module in sorted(modules))
    code += "from rlcore.plugins.import_target import load_target\n"
    for spec in envs:
        if spec.name not in ("gymnasium", "data"):  # asks an env in a process, needs a data set
            code += f"load_target({spec.spec!r})(load_target({spec.config!r})())\n"
    code += "import json, sys\nprint(json.dumps([*sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout)) & (HEAVY | SIMULATORS | {"cv2", "PIL", "scipy"}) == set()


@pytest.mark.parametrize(
    "name", [n for n in REGISTRY.names("env") if n not in ("gymnasium", "toy", "data")]
)
def test_doctor_of_an_env_is_silent_about_runs_without_it(name):
    (plugin,) = (plugin for plugin in PLUGINS.values() if name in _envs_of(plugin))
    other = SimpleNamespace(active_envs={"eval": SimpleNamespace(env_type="other")})
    assert plugin.rlcore_doctor(other) == []


def _envs_of(plugin):
    components = plugin.rlcore_components() if hasattr(plugin, "rlcore_components") else []
    return [spec.name for spec in components if spec.kind == "env"]
