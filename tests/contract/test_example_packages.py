"""The packages in examples/ are a third party's: public modules alone; they work from wheels."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from public_api import imported, is_public
from test_wheels import SMALL, installed, rlcore, run

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PACKAGES = sorted(path.parent.name for path in EXAMPLES.glob("*/pyproject.toml"))
SIMULATOR = ("gymnasium-robotics>=1.4,<1.5", "pettingzoo", "imageio")
LOCAL = tuple(word for word in SMALL if not word.startswith("actor."))


@pytest.mark.parametrize("name", PACKAGES)
def test_it_imports_public_modules_alone(name):
    files = sorted((EXAMPLES / name).rglob("*.py"))
    assert len(files) > 4
    private = {
        f"{file.name}: {module}"
        for file in files
        for module, taken in imported(file.read_text())
        if not is_public(module, taken)
    }
    assert private == set()


def test_what_a_third_party_writes_is_counted(monkeypatch):
    """As docs/comparison.md says."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import lines_to_write  # type: ignore[import-not-found]

    page = (ROOT / "docs/comparison.md").read_text()
    for what, files in lines_to_write.WRITTEN["rlcore"].items():
        size = sum(lines_to_write.counted(ROOT, each) for each in files)
        assert f"| {what} | {size} |" in page, (what, size)
    assert f"| env | {lines_to_write.template_env()} |" in page


@pytest.mark.long
def test_the_algorithm_works_from_its_wheel(tmp_path):
    packages = installed(EXAMPLES / "rloo", tmp_path)
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib"]
    run(*words, EXAMPLES / "rloo/tests", cwd=tmp_path, packages=packages)
    extra = ["algorithm.wrappers=[{entropy_floor: {floor: 0.5}}]", "plugins.entropy.least=-9"]
    rlcore("train", "rloo_toy", *LOCAL, *extra, cwd=tmp_path, packages=packages)
    metrics = (tmp_path / "logs/rloo_toy/metrics.jsonl").read_text()
    assert '"train/actor/entropy_floor": ' in metrics


@pytest.mark.long
def test_the_env_works_from_its_wheel(tmp_path):
    packages = installed(EXAMPLES / "fetch", tmp_path)
    fetched = subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", packages,
         *SIMULATOR], capture_output=True, text=True,
    )  # fmt: skip
    if fetched.returncode:
        pytest.skip(f"gymnasium-robotics can't be installed here: {fetched.stderr.strip()[-200:]}")
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib"]
    run(*words, EXAMPLES / "fetch/tests", cwd=tmp_path, packages=packages)
    rlcore("view", "env=fetch", "--trials", "2", cwd=tmp_path, packages=packages)
    assert "lift the black cube to the red ball" in (tmp_path / "view.html").read_text()
    rlcore("train", "fetch_reach", *LOCAL, cwd=tmp_path, packages=packages)
    summary = (tmp_path / "logs/fetch_reach/summary.json").read_text()
    assert '"distance"' in summary  # what the env measures besides
