"""Which format a folder of demonstrations has: that which holds it, else that of new ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rlcore.contracts.errors import PluginError
from rlcore.demonstrations.datasets import format_of
from rlcore.demonstrations.safetensors_format import SafetensorsFormat
from rlcore.plugins.registry import load_plugins


@pytest.fixture
def tapes(install) -> Iterator[None]:
    """Install a plugin with a format of folders that hold a tape."""
    install(
        "tapes",
        "tapes",
        """
        from rlcore import hookimpl
        from rlcore.contracts.specs import ComponentSpec

        RLCORE_API = (0, 1)


        @hookimpl
        def rlcore_components():
            return [ComponentSpec(kind="dataset", name="tapes", target="tapes:TapeFormat")]


        class TapeFormat:
            def holds(self, path):
                return (path / "tape").is_file()
        """,
    )
    load_plugins.cache_clear()
    yield
    load_plugins.cache_clear()


def test_a_folder_is_read_by_the_format_that_holds_it(tapes, tmp_path: Path) -> None:
    assert isinstance(format_of(tmp_path / "new"), SafetensorsFormat)
    (tmp_path / "tape").touch()
    assert type(format_of(tmp_path)).__name__ == "TapeFormat"


@pytest.mark.parametrize("folder", [Path("data"), None])
def test_a_format_that_is_not_installed_is_refused(refused, folder: Path | None) -> None:
    with refused(PluginError, "'no_such_format'", text=False):  # lists the installed ones
        format_of(folder, "no_such_format")
