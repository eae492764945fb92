"""Every command of docs/sweeps.md is typed, with jobs that end at once."""

from __future__ import annotations

import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest
from rlcore_sweeps import job
from rlcore_sweeps.job import Note

from rlcore.cli.main import main

PAGE = Path(__file__).parents[3] / "docs/sweeps.md"
COMMANDS = [
    shlex.split(line)
    for block in re.findall(r"```bash\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for line in block.splitlines()
]


@pytest.mark.parametrize("words", COMMANDS, ids=shlex.join)
def test_a_command_of_the_page(words, elsewhere, monkeypatch, capsys):
    monkeypatch.setattr(job, "CHILD", (str(Path(__file__).parent / "quick_child.py"),))
    program, *arguments = words
    assert program == "rlcore"
    if "hydra.sweeper.n_trials=8" in arguments:  # there is a study
        (study,) = [one for one in COMMANDS if "hydra.sweeper.n_trials=6" in one]
        assert main(study[1:]) == 0
    elif arguments[0] == "resume":  # there is a sweep, one of whose jobs was killed
        assert main(["train", "quickstart", "-m", "runner.seed=0,30"]) == 1
    if arguments[0] in ("report", "runs"):
        assert main(["train", "quickstart", "-m", "runner.seed=0,1"]) == 0
    (named,) = [word for word in arguments if word.startswith("hydra/launcher=")] or [""]
    package = f"hydra_plugins.hydra_{named.partition('=')[2].partition('_')[0]}_launcher"
    code = main(arguments)
    if named and find_spec(package) is None:
        assert code == 2 and "hint: pip install hydra-" in capsys.readouterr().err
        return
    assert code == 0
    for sweep in Path("logs").glob("*"):
        assert {note.state for note in Note.all(sweep)} == {"done"}
