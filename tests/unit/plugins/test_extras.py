"""Names of extras come from the metadata of the installed rlcore."""

from __future__ import annotations

import pytest

from rlcore.config.catalog import COMPONENT_GROUPS, Catalog
from rlcore.contracts.errors import MissingPackageError, PluginError
from rlcore.contracts.specs import KINDS
from rlcore.plugins import extras
from rlcore.plugins.registry import Registry, load_plugins

REQUIRES = [
    "numpy>=1.26",
    "rlcore-env-maniskill==0.1.0; extra == 'maniskill'",
    "rlcore-algo-ppo==0.1.0; extra == 'maniskill'",
    "rlcore-env-hut==0.1.0 ; extra == 'hut'",
    'rlcore-model-openvla==0.1.0; extra == "openvla"',
    'rlcore-model-openvla-oft==0.1.0; extra == "openvla-oft"',
    "rlcore-algo-ppo==0.1.0; extra == 'ppo'",
    "rlcore-simulation==0.1.0; extra == 'simulation'",
    "rlcore-tools==0.1.0; extra == 'tools'",
    "rlcore-tools==0.1.0; extra == 'wandb'",
    "WandB>=0.19; extra == 'wandb'",
]


@pytest.fixture(autouse=True)
def installed_from_an_index(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """No clone, whatever these tests run in."""
    monkeypatch.setattr(extras, "SCRIPT", tmp_path / "site-packages/requirements/install.sh")


@pytest.fixture
def metadata(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(extras, "requires", lambda name: REQUIRES)
    extras.extras.cache_clear()
    yield
    extras.extras.cache_clear()


def test_extras_are_read_from_requirements(metadata):
    assert extras.extras() == {
        "maniskill": ("rlcore-env-maniskill", "rlcore-algo-ppo"),
        "hut": ("rlcore-env-hut",),
        "openvla": ("rlcore-model-openvla",),
        "openvla-oft": ("rlcore-model-openvla-oft",),
        "ppo": ("rlcore-algo-ppo",),
        "simulation": ("rlcore-simulation",),
        "tools": ("rlcore-tools",),
        "wandb": ("rlcore-tools", "wandb"),
    }


@pytest.mark.parametrize(
    ("kind", "name", "extra"),
    [
        ("env", "maniskill", "maniskill"),
        ("env", "maniskill_put_on_plate", "maniskill"),
        ("tracker", "tensorboard", "tools"),
        ("tracker", "wandb", "wandb"),  # its own extra before the one that brings less
        ("command", "venv", "simulation"),
        ("env", "ManiSkill", "maniskill"),
        ("env", "maniskills", None),  # a slip of the pen is not an option of the plugin
        ("model", "openvla_oft", "openvla-oft"),  # the longer name wins over openvla
        ("model", "openvla", "openvla"),
        ("algorithm", "ppo", "ppo"),  # in two extras: the one that brings less
        ("model", "maniskill", None),  # of another kind
        ("command", "report", "tools"),
        ("tracker", "ppo", None),
    ],
)
def test_the_extra_that_ships_a_name(metadata, kind, name, extra):
    assert extras.extra_that_ships(kind, name, loaded=()) == extra


@pytest.mark.parametrize(
    ("kind", "name", "named"),
    [
        # no extra ships it, and no name is near
        ("env", "shack", "rlcore plugins"),
        ("tracker", "hut", "rlcore plugins"),
        # misspelt names of components that are not installed
        ("env", "hutt", 'pip install "rlcore[hut]"'),
        ("model", "openvlaoft", 'pip install "rlcore[openvla-oft]"'),
    ],
)
def test_an_extra_is_offered_only_for_names_it_ships(metadata, refused, kind, name, named):
    registry = Registry.load(plugins=[], environ={})
    with refused(MissingPackageError, 'pip install "rlcore[maniskill]"'):
        registry.get("env", "maniskill")
    with refused(PluginError, f"{kind} '{name}'", named):
        registry.get(kind, name)


def test_an_installed_plugin_is_not_offered(metadata):
    assert extras.extra_that_ships("env", "hut_9", loaded={"rlcore-env-hut"}) is None
    assert extras.absent_names("env", loaded={"rlcore-env-hut"}) == ["maniskill"]


def test_extras_that_are_not_installed(metadata):
    models = ["openvla", "openvla-oft"]
    everything = ["hut", "maniskill", *models, "ppo", "simulation", "tools", "wandb"]
    assert extras.not_installed(loaded=()) == everything
    found = {"rlcore-env-hut", "rlcore-algo-ppo", "rlcore-simulation", "rlcore-tools"}
    assert extras.not_installed(loaded=found) == ["maniskill", "openvla", "openvla-oft"]


def test_every_option_of_ours_follows_from_its_distribution():
    """Else a name that is not installed has no hint: configs/extras.json takes what is missing."""
    registry = load_plugins()
    catalog = Catalog(registry)
    owners = {}
    for kind in KINDS:
        for name in registry.names(kind):
            owners[kind, name] = registry.get(kind, name).distribution
    folders = {root.location: str(root.folder) for root in catalog.roots}
    for group, kind in COMPONENT_GROUPS.items():
        for name in catalog.options(group):
            file = str(catalog.file(group, name))
            for owner, location in registry.config_paths:
                if file.startswith(folders[location]):
                    owners[kind, name] = owner
    ours = {distribution for extra in extras.extras().values() for distribution in extra}
    assert len(ours) > 1 and len(owners) > len(ours)
    for (kind, name), owner in owners.items():
        if owner in ours:
            known = extras.names_of(owner, kind)
            assert any(extras.belongs(name, each) for each in known), (kind, name, owner)


def test_packages_that_are_lacking(metadata):
    assert extras.lacking(["numpy", "no-such-package-of-ours"]) == ["no-such-package-of-ours"]
    assert extras.installing(["wandb"]) == 'pip install "rlcore[wandb]" --find-links dist'
    assert extras.installing(["some", "other"]) == "pip install some other"


@pytest.mark.parametrize(
    ("names", "options"),
    [
        (["maniskill"], " --env maniskill"),
        (["ppo", "openvla-oft", "maniskill"], " --env maniskill --model openvla-oft"),
        (["tools"], ""),  # of neither kind: everything
    ],
)
def test_a_clone_has_a_script_of_its_own(metadata, monkeypatch, refused, tmp_path, names, options):
    """No index has to offer what it installs."""
    script = tmp_path / "clone/requirements/install.sh"
    script.parent.mkdir(parents=True)
    script.touch()
    monkeypatch.setattr(extras, "SCRIPT", script)
    monkeypatch.chdir(tmp_path / "clone")
    assert extras.install_command(names) == f"bash requirements/install.sh{options}"
    monkeypatch.chdir("/")
    assert extras.install_command(names) == f"bash {script.relative_to('/')}{options}"
    monkeypatch.chdir(script.parent)  # the script goes to its clone by itself
    assert extras.install_command(names) == f"bash install.sh{options}"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert extras.install_command(names) == f"bash {script}{options}"
    with refused(MissingPackageError, f"bash {script} --env hut"):
        Registry.load(plugins=[], environ={}).get("env", "hut_5")
    assert extras.installing(["wandb"]) == "pip install wandb"
