"""What recipes cost: each of ours says it, figures are those of the page that is named, and
docs/recipes.md has them as three tables. `python tests/contract/test_costs.py` writes them anew."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import pytest
from internals import protocol_spec

from rlcore.config.catalog import Catalog
from rlcore.config.costs import Cost, cost_of
from rlcore.plugins.registry import load_plugins

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/recipes.md"
RECIPES = sorted(path.stem for path in (ROOT / "configs/experiment").glob("*.yaml"))


def cost(recipe: str) -> Cost:
    found = cost_of(Catalog(load_plugins()), recipe)
    assert found is not None, f"configs/costs.yaml does not say what {recipe} costs"
    return found


def test_every_recipe_says_it_and_no_other():
    import yaml  # type: ignore[import-untyped]

    assert len(RECIPES) > 30
    told = yaml.safe_load((ROOT / "configs/costs.yaml").read_text(encoding="utf-8"))
    assert sorted(told) == RECIPES
    for recipe in RECIPES:
        assert all(vars(cost(recipe)).values()) or not cost(recipe).measured


@pytest.mark.parametrize("recipe", RECIPES)
def test_figures_are_those_of_the_page(recipe):
    found = cost(recipe)
    figures = re.findall(r"\d+\.\d+", found.curve)
    if found.measured:
        assert figures
        page = (ROOT / found.source).read_text(encoding="utf-8")
        assert recipe in page or f"experiment={recipe}" in page
        assert [figure for figure in figures if figure not in page] == []
    elif "/examples/embodied/" in found.source:
        registry = load_plugins()
        specs = [protocol_spec(registry, name) for name in registry.names("protocol")]
        published = {
            f"{figure:.2f}"
            for spec in specs
            for row in spec.published
            if row.source == found.source
            for figure in row.figures.values()
        }
        assert [figure for figure in figures if f"{float(figure):.2f}" not in published] == []


BEGIN, END = "<!-- the tables begin -->", "<!-- the tables end -->"
UNKNOWN = ("not published", "not measured")


def tables() -> str:
    """Return the tables of docs/recipes.md: measured by us, published by others, not measured."""
    costs = {recipe: cost(recipe) for recipe in RECIPES}
    measured = [
        f"| `{recipe}` | {cores(found)} | {found.time} | {link(found)} |"
        for recipe, found in costs.items()
        if found.measured
    ]
    published, unmeasured = (
        [
            f"| `{recipe}` | {cores(found)} | {known(found.curve)} | {link(found)} |"
            for recipe, found in costs.items()
            if not found.measured and found.source.startswith("docs/") == is_ours
        ]
        for is_ours in (False, True)
    )
    return "\n".join(
        [
            "## Measured here\n",
            "| recipe | on | time | page |",
            "|---|---|---|---|",
            *measured,
            "\n## Published elsewhere\n",
            "| recipe | on | success | page |",
            "|---|---|---|---|",
            *published,
            "\n## Not measured\n",
            "| recipe | on | what we know | page |",
            "|---|---|---|---|",
            *unmeasured,
        ]
    )


def link(found: Cost) -> str:
    if found.source.startswith("docs/"):
        name = "result" if found.measured else "page"
        return f"[{name}]({found.source.removeprefix('docs/')})"
    return f"[{'paper' if 'arxiv.org' in found.source else 'RLinf'}]({found.source})"


def cores(found: Cost) -> str:
    return known(found.hardware).removesuffix(", no GPU")


def known(text: str) -> str:
    """Leave the cell empty where nothing is known."""
    return "" if text in UNKNOWN else text


def test_the_page_has_the_tables():
    shown = PAGE.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0].strip()
    assert shown == tables(), f"python {Path(__file__).relative_to(ROOT)}"


def test_the_example_of_the_page_of_plugins_is_read(tmp_path):
    page = (ROOT / "docs/plugin-settings.md").read_text(encoding="utf-8")
    text = re.search(r"\n(    slider_quick:\n(?:      .+\n)+)", page)
    assert text is not None
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment/slider_quick.yaml").touch()
    (tmp_path / "costs.yaml").write_text(dedent(text[1]))
    found = cost_of(Catalog(load_plugins(), [tmp_path]), "slider_quick")
    assert found is not None and found.curve == "0.21 -> 0.94 in 20 updates"


if __name__ == "__main__":
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}", encoding="utf-8")
