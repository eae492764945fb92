"""`rlcore config explain` and `schema`, and the completion of a shell."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator
from rlcore_tools.json_schema import schema

from rlcore.cli.main import main
from rlcore.files.core_configs import core_configs


def explained(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(["config", "explain", *words]) == 0
    return capsys.readouterr().out.splitlines()


def test_a_key_is_explained_with_who_set_it(capsys: pytest.CaptureFixture[str]) -> None:
    recipe = core_configs() / "experiment" / "quickstart.yaml"
    lines = recipe.read_text().splitlines()
    line = 1 + next(n for n, text in enumerate(lines) if text.startswith("  max_epochs:"))
    said = explained(capsys, "runner.max_epochs", "quickstart", "runner.max_epochs=3")
    assert said[0].startswith("  runner.max_epochs: int = 3 ") and "policy updates" in said[1]
    assert said[2:] == [
        "default: 10",
        f"set by experiment=quickstart, {recipe.relative_to(Path.cwd())}:{line}: 12",
        "set by the override runner.max_epochs=3: 3",
    ]
    said = explained(capsys, "env.eval.split", "env=metaworld_50")  # what one side has of its own
    assert said[-1].startswith("set by env/eval=metaworld_50, ") and said[-1].endswith(": heldout")
    said = explained(capsys, "env.eval.total_num_envs", "quickstart", "env.*.total_num_envs=8")
    assert said[-1] == "set by the override env.*.total_num_envs=8: 8"
    assert len(explained(capsys, "runner.seed")) == 3  # nobody sets it
    assert main(["config", "explain", "runner.sed"]) == 2
    assert "Did you mean 'runner.seed'?" in capsys.readouterr().err


def test_the_schema_takes_all_recipes_and_finds_slips(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "schema", "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    Draft202012Validator.check_schema(whole)
    check = Draft202012Validator(whole)
    recipe = yaml.safe_load((core_configs() / "experiment" / "quickstart.yaml").read_text())
    assert not list(check.iter_errors(recipe))
    recipe["runner"]["max_epoch"] = 1  # no such key
    recipe["runner"]["max_epochs"] = "many"
    recipe["defaults"][0] = {"override /env": "metaword"}
    assert len(list(check.iter_errors(recipe))) == 3
    narrow = schema(["env=toy", "model=toy", "algorithm=ppo"])  # of one choice
    assert "steps" not in narrow["properties"]["algorithm"]["properties"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_a_shell_completes_commands_recipes_and_keys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "rlcore.bash"
    script.write_text(
        capsys.readouterr().out
        + 'while read -r line; do COMP_LINE="rlcore ${line%.}"; COMP_POINT=${#COMP_LINE}; _rlcore\n'
        + 'echo "${COMPREPLY[*]}"; done\n'
    )
    (tmp_path / "logs").mkdir()
    typed = [
        "rep",
        "train quickstart_",
        "train model=to",
        "train runner.max_",
        "replay --fai",
        "eval lo",
    ]
    done = subprocess.run(
        ["bash", str(script)],
        input="".join(f"{one}.\n" for one in typed), cwd=tmp_path,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "replay report",
        "quickstart_expo quickstart_ppo",
        "toy",
        "runner.max_epochs= runner.max_steps=",
        "--failures",
        "logs",
    ]
