"""What a recipe costs: of ours, of a plugin's or a user's folder, and a file that is malformed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlcore.cli.main import main
from rlcore.config.catalog import Catalog
from rlcore.config.compose import compose
from rlcore.config.costs import cost_of, recipe_costs
from rlcore.contracts.errors import ConfigError
from rlcore.plugins.registry import load_plugins

COSTS = """
quickstart: {hardware: a toaster, time: 3 CPU-minutes, memory: 1 GiB, curve: 0.2 -> 0.9,
             source: docs/mine.md, measured: true}
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder with a recipe of its own under the name of one of ours."""
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment/quickstart.yaml").write_text(
        "# @package _global_\ndefaults:\n"
        + "".join(f"  - override /{g}\n" for g in ("env: toy", "model: toy", "algorithm: ppo"))
    )
    return tmp_path


def test_the_file_beside_the_recipe_counts(own: Path):
    registry = load_plugins()
    shipped = cost_of(Catalog(registry), "quickstart")
    assert shipped is not None and shipped.source == "docs/results/quickstart.md"
    assert cost_of(Catalog(registry, [own]), "quickstart") is None, "ours says nothing of this one"
    (own / "costs.yaml").write_text(COSTS)
    found = cost_of(Catalog(registry, [own]), "quickstart")
    assert found is not None and found.hardware == "a toaster"
    assert cost_of(Catalog(registry, [own]), "nothing_of_that_name") is None


def test_the_costs_of_a_recipe_are_listed(own: Path, snapshot):
    (own / "costs.yaml").write_text(COSTS)
    words = ["experiment=quickstart", "runner.max_epochs=1"]
    assert recipe_costs(compose(words, config_dirs=[own]), load_plugins()) == snapshot
    assert recipe_costs(compose(["env=toy", "model=toy", "algorithm=ppo"]), load_plugins()) == []


@pytest.mark.parametrize(
    "text",
    [
        "quickstart: cheap",
        "quickstart: {hardware: a toaster}",
        COSTS.replace("measured: true", "measured: 1"),
        COSTS.replace("3 CPU-minutes", "3"),
        COSTS.replace("measured: true", "measured: true, price: 3"),
    ],
)
def test_a_malformed_file_is_named(own: Path, refused, text: str):
    (own / "costs.yaml").write_text(text)
    with refused(ConfigError, "costs.yaml", "quickstart", "hardware (str)"):
        cost_of(Catalog(load_plugins(), [own]), "quickstart")


def test_the_command_shows_the_costs_of_a_recipe(capsys):
    assert main(["plugins", "QuickStart"]) == 0
    printed = capsys.readouterr().out
    assert "  hardware: 2 CPU cores, no GPU\n" in printed
    assert "  source: docs/results/quickstart.md\n" in printed
    assert main(["plugins", "maniskill_ppo_openvla"]) == 0
    printed = capsys.readouterr().out
    assert "  time: not published\n" in printed and printed.endswith("not measured here\n")
    assert main(["plugins", "quickstart", "--json"]) == 0
    (recipe,) = json.loads(capsys.readouterr().out)
    assert recipe["cost"]["measured"] is True


def test_the_command_shows_components_of_a_name_and_proposes_near_names(capsys):
    assert main(["plugins", "toy"]) == 0
    rows = capsys.readouterr().out.splitlines()
    kinds = [row.split()[0] for row in rows if not row.startswith(" ")]
    assert kinds == ["kind", "env", "model", "preset", "preset"]
    for slip, meant in {"quickstrat": "quickstart", "toi": "toy"}.items():
        assert main(["plugins", slip]) == 2
        error = capsys.readouterr().err
        assert f"'{slip}'" in error and f"'{meant}'" in error
