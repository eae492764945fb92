"""The machines of a run are those that its backend knows."""

from __future__ import annotations

import pytest

from rlcore.cli import doctor
from rlcore.config.schema import ClusterConfig
from rlcore.contracts.errors import PluginError
from rlcore.placement import Inventory, find_inventory, machines
from rlcore.plugins import extras
from rlcore.plugins.entry_points import CORE, Installed
from rlcore.plugins.registry import Registry

ALONE = "cluster.backend=local needs no plugin: all workers in one process"


@pytest.fixture
def core_alone(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """Installed from an index, without any plugin."""
    registry = Registry.load(plugins=[Installed("core", CORE)], environ={})
    monkeypatch.setattr(machines, "load_plugins", lambda: registry)
    monkeypatch.setattr(extras, "SCRIPT", tmp_path / "requirements/install.sh")


@pytest.mark.parametrize(
    ("backend", "said", "hint"),
    [
        ("ray", "backend 'ray' ships as an extra: pip install \"rlcore[ray]\"", ALONE),
        ("locl", "there is no backend 'locl'. Did you mean 'local'? Choose from: local.",
         f"rlcore plugins; {ALONE}"),
    ],
)  # fmt: skip
def test_what_is_missing_is_said_with_the_command(core_alone, backend, said, hint):
    with pytest.raises(PluginError) as caught:
        find_inventory(ClusterConfig(backend=backend))
    assert (caught.value.message, caught.value.hint) == (said, hint)


def test_described_machines_hide_no_slip_of_the_pen():
    with pytest.raises(PluginError, match=r"Did you mean 'ray'\? Choose from: local, ray\."):
        find_inventory(ClusterConfig(backend="rai", inventory="8x80GB"), only_look=True)


def test_core_alone_runs_in_one_process(core_alone):
    assert find_inventory(ClusterConfig(backend="local")) == Inventory.local()


def test_the_doctor_says_so_too(core_alone):
    (row,) = doctor._backend()
    assert row["status"] == "missing" and 'pip install "rlcore[ray]"' in row["detail"]
