"""The machines of a run are those that its backend knows."""

from __future__ import annotations

import pytest

from rlcore.cli import doctor
from rlcore.config.schema import ClusterConfig
from rlcore.contracts.errors import MissingPackageError, PluginError
from rlcore.placement import Inventory, find_inventory, machines
from rlcore.plugins import extras
from rlcore.plugins.entry_points import CORE, Installed
from rlcore.plugins.registry import Registry


@pytest.fixture
def core_alone(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """Make core look installed from an index, without any plugin."""
    registry = Registry.load(plugins=[Installed("core", CORE)], environ={})
    monkeypatch.setattr(machines, "load_plugins", lambda: registry)
    monkeypatch.setattr(extras, "SCRIPT", tmp_path / "requirements/install.sh")


@pytest.mark.parametrize(
    ("backend", "error", "word"),
    [
        ("ray", MissingPackageError, 'pip install "rlcore[ray]"'),
        ("locl", PluginError, "'local'"),
    ],
)
def test_a_missing_backend_is_refused_with_the_command(refused, core_alone, backend, error, word):
    with refused(error, backend, "cluster.backend=local", word):
        find_inventory(ClusterConfig(backend=backend))


def test_an_unknown_backend_of_described_machines_is_refused(refused):
    with refused(PluginError, "'ray'", "local, ray"):
        find_inventory(ClusterConfig(backend="rai", inventory="8x80GB"), only_look=True)


def test_core_alone_runs_in_one_process(core_alone):
    assert find_inventory(ClusterConfig(backend="local")) == Inventory.local()


def test_the_doctor_reports_a_missing_backend(core_alone):
    (row,) = doctor._backend()
    assert row["status"] == "missing" and 'pip install "rlcore[ray]"' in row["detail"]
