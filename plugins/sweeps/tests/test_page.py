"""Every command of docs/sweeps.md is typed, with jobs that end at once: the first of each block
always, the others and the study in `pytest -m long`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import pytest
from rlcore_sweeps import job
from rlcore_sweeps.job_record import JobRecord

from rlcore.cli.main import main

PAGE = Path(__file__).parents[3] / "docs/sweeps.md"
BLOCKS = re.findall(r"```bash\n(.*?)```", PAGE.read_text(), re.DOTALL)
SEARCH = "hydra/sweeper=rlcore_optuna"
STUDY, MORE = next(block for block in BLOCKS if SEARCH in block).splitlines()
COMMANDS = [
    pytest.param(line, id=line, marks=[pytest.mark.long] if number or line == STUDY else [])
    for block in BLOCKS
    for number, line in enumerate(block.splitlines())
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty folder where jobs end at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "JOB_PROCESS", (str(Path(__file__).parent / "quick_job_process.py"),))
        yield tmp_path_factory.mktemp("page")


@pytest.fixture(scope="module")
def swept(place: Path) -> Path:
    """A folder in which there is a sweep, one of whose jobs was killed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        assert main(["train", "quickstart", "-m", "runner.seed=0,30"]) == 1
    return place


@pytest.mark.quick(2)
@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_the_page(line, request, place, elsewhere, monkeypatch, capsys):
    program, *arguments = shlex.split(line)
    assert program == "rlcore"
    if line == MORE:  # there is a study
        assert main(shlex.split(STUDY)[1:]) == 0
    elif arguments[0] in ("resume", "report", "runs"):
        monkeypatch.chdir(request.getfixturevalue("swept"))
    (named,) = [word for word in arguments if word.startswith("hydra/launcher=")] or [""]
    if named.endswith("slurm") and which("srun") is None:
        arguments += ["--cfg", "hydra"]  # composes the launcher's keys, and submits nothing
    package = f"hydra_plugins.hydra_{named.partition('=')[2].partition('_')[0]}_launcher"
    code = main(arguments)
    if named and find_spec(package) is None:
        assert code == 2 and "hint: pip install hydra-" in capsys.readouterr().err
        return
    assert code == 0
    if arguments[0] not in ("report", "runs"):
        for sweep in Path("logs").glob("*"):
            assert {record.state for record in JobRecord.load_all(sweep)} == {"done"}
