"""300 damaged command lines and recipes: each ends with one error that names the fault, before a
run folder or a worker exists."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from config_damages import ASK, BASES, KINDS, METAWORLD, RECIPE, TOY, VERBS, Damage, damages, recipe
from refused import Started, the_error

from rlcore.cli.main import main

COUNT, QUICK = 300, 76
DAMAGES = dict(damages(COUNT))
NAMES = [
    pytest.param(name, marks=[pytest.mark.long] if number >= QUICK else [])
    for number, name in enumerate(DAMAGES)
]


def arguments(damage: Damage, folder: Path) -> list[str]:
    if damage.recipe is None:
        return [damage.verb, *damage.words]
    file = folder / "mine" / "experiment" / f"{RECIPE}.yaml"
    file.parent.mkdir(parents=True)
    file.write_bytes(damage.recipe)
    return [damage.verb, *damage.words, "--config-dir", str(folder / "mine")]


@pytest.mark.quick(12)
@pytest.mark.parametrize("name", NAMES)
def test_a_damage_is_named(name: str, nothing_starts: Path, capsys: pytest.CaptureFixture[str]):
    damage = DAMAGES[name]
    code = main(arguments(damage, nothing_starts))
    output = capsys.readouterr()
    text = the_error(code, output)
    missing = [culprit for culprit in damage.culprits if culprit not in text]
    assert not missing, f"{damage.command}\n{text}"
    assert output.out == ""
    assert [entry.name for entry in nothing_starts.iterdir() if entry.name != "mine"] == []


@pytest.mark.quick(1)
@pytest.mark.parametrize("base", BASES, ids=" ".join)
@pytest.mark.parametrize("verb", VERBS)
def test_without_damage_the_run_starts(verb: str, base: tuple[str, ...], nothing_starts: Path):
    """The damages prove something only if their bases are valid."""
    with pytest.raises(Started):
        main([verb, *base])


@pytest.mark.quick(1)
@pytest.mark.parametrize("base", [TOY, METAWORLD], ids=" ".join)
def test_without_damage_a_recipe_starts(base: tuple[str, ...], nothing_starts: Path):
    sound = Damage("train", ASK, (), recipe(base, "runner:\n  seed: 3\n"))
    with pytest.raises(Started):
        main(arguments(sound, nothing_starts))


def test_every_kind_of_damage_is_drawn_often():
    counts = Counter(name.partition("-")[2] for name in DAMAGES)
    assert sum(counts.values()) == COUNT
    assert set(counts) == {kind.__name__ for kind in KINDS}
    assert min(counts.values()) >= COUNT // len(KINDS) > QUICK // len(KINDS) >= 2
    commands = {damage.command for damage in DAMAGES.values()}
    assert len(commands) > COUNT * 0.9  # nearly all different


@pytest.mark.filterwarnings("default:actor.model.model_path is null")
def test_random_weights_are_announced_once(
    nothing_starts: Path, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(Started):
        main(["train", *TOY])
    assert capsys.readouterr().err.count("starts from random weights") == 1
