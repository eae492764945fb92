"""A plugin's distribution made by hand: a module and its dist-info, as pip would leave them."""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """`install(distribution, module, source, version="1.0")` puts a plugin on sys.path. Its
    entry point is called like the module."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    before = set(sys.modules)

    def make(distribution: str, module: str, source: str, version: str = "1.0") -> Path:
        (site / f"{module}.py").write_text(textwrap.dedent(source), encoding="utf-8")
        info = site / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n", encoding="utf-8"
        )
        (info / "entry_points.txt").write_text(
            f"[rlcore.plugins]\n{module} = {module}\n", encoding="utf-8"
        )
        importlib.invalidate_caches()
        return site

    yield make
    for module in set(sys.modules) - before:  # the next test's plugin may have the same name
        if getattr(sys.modules[module], "__file__", None) == str(site / f"{module}.py"):
            del sys.modules[module]
