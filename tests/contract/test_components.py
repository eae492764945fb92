"""What every plugin of this repository promises: components that exist, light facts, one API."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.resources import files

import pytest

from rlcore.contracts.component import ComponentSpec
from rlcore.contracts.specs import KINDS
from rlcore.contracts.version import API_VERSION
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import load_plugins

HEAVY = {"torch", "ray", "gymnasium", "transformers", "tokenizers", "sentencepiece", "mujoco"}
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
    for target in (spec.target, spec.config, spec.spec):
        assert target is None or load_target(target) is not None


@pytest.mark.parametrize("name", PLUGINS)
def test_a_plugin_states_the_api_and_has_its_configuration(name):
    plugin = PLUGINS[name]
    assert plugin.RLCORE_API == API_VERSION
    folders = plugin.rlcore_config_paths() if hasattr(plugin, "rlcore_config_paths") else []
    for folder in folders:
        assert files(folder.removeprefix("pkg://")).is_dir()


def test_listing_and_planning_load_nothing_heavy():
    """Every command imports the modules of plugins, a dry run those of settings and facts too."""
    targets = [target for spec in COMPONENTS.values() for target in (spec.config, spec.spec)]
    modules = {target.partition(":")[0] for target in targets if target is not None}
    modules |= {plugin.__name__ for plugin in PLUGINS.values()}
    assert len(modules) > 20
    code = "".join(f"import {module}\n" for module in sorted(modules))
    code += "import json, sys\nprint(json.dumps([*sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout)) & HEAVY == set()
