"""Which interpreters the user knows, and what the folder of a run may name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from rlcore_simulation import known_interpreters
from rlcore_simulation.interpreters import query_interpreter

from rlcore.config.schema import RunConfig
from rlcore.config.schema.keys import TrustedKey
from rlcore.config.trusted_keys import require_trusted_keys
from rlcore.contracts.errors import AssetError, ConfigError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


def test_a_run_from_elsewhere_may_name_an_interpreter_that_the_user_knows(
    refused, home: Path, twin_venv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted = TrustedKey(
        "runs its simulators with", (None,), allowed="rlcore_simulation.known_interpreters:known"
    )
    config = RunConfig()
    (key,) = (f for f in type(config.cluster).__dataclass_fields__.values() if f.name == "address")
    monkeypatch.setattr(key, "metadata", {**key.metadata, "trusted": trusted})
    config.cluster.address = f"{twin_venv}/bin/python"
    with refused(ConfigError, f"{twin_venv}/bin/python", "--trust", text=False):
        require_trusted_keys(home / "config.yaml", config, overridden=())
    known_interpreters.note(twin_venv)
    require_trusted_keys(home / "config.yaml", config, overridden=())


def test_an_interpreter_that_is_gone_needs_no_trust(refused, home: Path) -> None:
    """By its folder, its interpreter, or a link to a Python that was removed. A name is looked for
    on PATH, so nothing is known of it."""
    folder = home / "venv"
    (folder / "bin").mkdir(parents=True)
    for gone in (home / "other", folder, folder / "bin" / "python"):
        assert known_interpreters.known(str(gone))
        with refused(AssetError, gone):
            query_interpreter(str(gone))
    (folder / "bin" / "python").symlink_to(home / "removed")
    assert known_interpreters.known(str(folder))
    assert not known_interpreters.known("python3")
    (home / "removed").symlink_to(sys.executable)
    assert not known_interpreters.known(str(folder))
