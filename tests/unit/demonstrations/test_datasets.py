"""Which format a folder of demonstrations has: that which holds it, else that of new ones."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from rlcore.contracts.errors import PluginError
from rlcore.contracts.specs import ComponentSpec
from rlcore.demonstrations import datasets
from rlcore.demonstrations.safetensors_format import SafetensorsFormat
from rlcore.plugins.registry import Registry


class TapeFormat:
    """Holds folders with a tape."""

    def holds(self, path: Path) -> bool:
        return (path / "tape").is_file()


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Registry:
    """A registry with the tapes, and whatever is installed."""
    module = ModuleType("tapes")
    module.TapeFormat = TapeFormat  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tapes", module)
    registry = Registry.load()
    spec = ComponentSpec(kind="dataset", name="tapes", target="tapes:TapeFormat")
    registry._register(spec, "tapes", ("tapes", "1.0"))
    monkeypatch.setattr(datasets, "load_plugins", lambda: registry)
    return registry


def test_a_folder_is_read_by_who_holds_it(installed: Registry, tmp_path: Path) -> None:
    assert isinstance(datasets.format_of(tmp_path / "new"), SafetensorsFormat)
    (tmp_path / "tape").touch()
    assert isinstance(datasets.format_of(tmp_path), TapeFormat)


def test_a_format_that_is_not_installed_is_named(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="dataset 'no_such_format'"):
        datasets.format_of(tmp_path, "no_such_format")
    with pytest.raises(PluginError, match="dataset 'no_such_format'"):
        datasets.format_of(None, "no_such_format")
