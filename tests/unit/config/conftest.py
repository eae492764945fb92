"""Fixtures of the tests of configurations."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlcore.config.compose import compose

TOY = ("env=toy", "model=toy", "algorithm=plain")


@pytest.fixture
def made(registry, tmp_path: Path):
    """`made(*overrides, files={path: text})`: compose with files of the user's own."""

    def make(*overrides: str, files: dict[str, str] | None = None, base=TOY):
        for path, text in (files or {}).items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text, encoding="utf-8")
        return compose([*base, *overrides], config_dirs=[tmp_path], registry=registry)

    return make
