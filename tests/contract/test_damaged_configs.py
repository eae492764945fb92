"""Wrong command lines and recipes: each ends with one error that names the fault, before a run
folder or a worker exists."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from config_damages import BASES, KINDS, METAWORLD, RECIPE, TOY, VERBS, Damage, Draw, recipe
from refused import Started, the_error

from rlcore.cli.main import main

WRONG = yaml.safe_load(Path(__file__).with_name("wrong_configs.yaml").read_text(encoding="utf-8"))
SEEDS = 6
ONE_PROCESS_EACH = "cluster.component_placement={env: all:0, rollout: all:0, actor: all:0}"
COMPOSES_DAMAGED = (f"experiment={RECIPE}",)


def rows() -> list[Damage]:
    """Return the damages of `wrong_configs.yaml`."""
    damages = []
    for base in ((*TOY, ONE_PROCESS_EACH), METAWORLD):
        for overrides, culprits in WRONG["toy" if base[0] == TOY[0] else "metaworld"]:
            damages.append(Damage("train", (*base, *overrides), tuple(culprits)))
    for line, culprits in WRONG["lines"]:
        verb, *words = line
        expanded = [word for each in words for word in (TOY if each == "$TOY" else (each,))]
        damages.append(Damage(verb, tuple(expanded), tuple(culprits)))
    for text, culprits in WRONG["recipes"]:
        content = text.replace("$TOY", recipe(TOY))
        damages.append(Damage("train", COMPOSES_DAMAGED, tuple(culprits), content))
    return damages


def arguments(damage: Damage, folder: Path) -> list[str]:
    if damage.recipe is None:
        return [damage.verb, *damage.overrides]
    file = folder / "mine" / "experiment" / f"{RECIPE}.yaml"
    file.parent.mkdir(parents=True)
    file.write_bytes(damage.recipe.encode())
    return [damage.verb, *damage.overrides, "--config-dir", str(folder / "mine")]


def assert_named(damage: Damage, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(arguments(damage, folder))
    output = capsys.readouterr()
    text = the_error(code, output)
    missing = [culprit for culprit in damage.culprits if culprit not in text]
    assert not missing, f"{damage}\n{text}"
    assert output.out == ""
    assert [entry.name for entry in folder.iterdir() if entry.name != "mine"] == []


@pytest.mark.quick(24)
@pytest.mark.parametrize("damage", rows(), ids=lambda damage: " ".join(damage.overrides[-2:]))
def test_a_wrong_configuration_is_named(damage: Damage, nothing_starts: Path, capsys):
    assert_named(damage, nothing_starts, capsys)


@pytest.mark.quick(12)
@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_wrong_key_or_value_is_named(kind, seed: int, nothing_starts: Path, capsys):
    assert_named(kind(Draw(kind.__name__, seed)), nothing_starts, capsys)


@pytest.mark.long
@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe\x00bad", b"runner:\n  seed: \xff\n", b"\x00", b"\x89PNG\r\n\x1a\n", b"a: \x07\n"],
)
def test_a_recipe_that_is_no_text_is_named(content: bytes, nothing_starts: Path, capsys):
    words = arguments(Damage("train", COMPOSES_DAMAGED, (), ""), nothing_starts)
    (file,) = nothing_starts.rglob(f"{RECIPE}.yaml")
    file.write_bytes(content)
    assert RECIPE in the_error(main(words), capsys.readouterr())


@pytest.mark.quick(1)
@pytest.mark.parametrize("base", BASES, ids=" ".join)
@pytest.mark.parametrize("verb", VERBS)
def test_an_undamaged_command_starts(verb: str, base: tuple[str, ...], nothing_starts: Path):
    """The damages prove something only if their bases are valid."""
    with pytest.raises(Started):
        main([verb, *base])


@pytest.mark.quick(1)
@pytest.mark.parametrize("base", [TOY, METAWORLD], ids=" ".join)
def test_an_undamaged_recipe_starts(base: tuple[str, ...], nothing_starts: Path):
    content = f"{recipe(base)}runner:\n  seed: 3\n"
    with pytest.raises(Started):
        main(arguments(Damage("train", COMPOSES_DAMAGED, (), content), nothing_starts))


@pytest.mark.filterwarnings("default:actor.model.model_path is null")
def test_random_weights_are_announced_once(nothing_starts: Path, capsys):
    with pytest.raises(Started):
        main(["train", *TOY])
    assert capsys.readouterr().err.count("random weights") == 1
