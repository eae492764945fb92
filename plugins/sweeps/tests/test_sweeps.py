"""Sweeps: folders, the table, what costs what, and what can be gone on with."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import threading
import time
from pathlib import Path

import pytest
from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from rlcore_sweeps import job
from rlcore_sweeps.job_record import JobRecord
from rlcore_sweeps.request import FILE

from rlcore.cli.main import main
from rlcore.runs.folder import RunFolder

NAME = "runner.logger.experiment_name"
TRAIN = [
    *("train", "env=toy", "model=toy", "algorithm=ppo", "runner.max_epochs=1"),
    *("cluster.backend=local", "cluster.component_placement={env: 0, rollout: 0, actor: 0}"),
    f"{NAME}=run",
]


CHILD = (str(Path(__file__).parent / "quick_job_process.py"),)


@pytest.fixture
def sweep(monkeypatch: pytest.MonkeyPatch, log_path: Path):
    """`sweep(*words)`: the exit code of a sweep of quick jobs below `log_path`."""
    monkeypatch.setattr(job, "JOB_PROCESS", CHILD)
    return lambda *words: main([*TRAIN, f"runner.logger.log_path={log_path}", "-m", *words])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a sweep of two jobs, the second of which was killed, and its output."""
    logs = tmp_path_factory.mktemp("made")
    printed = io.StringIO()
    words = ["runner.seed=0,30", "+hydra.job.env_set.GREETING=hello"]
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr(job, "JOB_PROCESS", CHILD)
        assert main([*TRAIN, f"runner.logger.log_path={logs}", "-m", *words]) == 1
    return logs / "run", printed.getvalue()


def rows(text: str) -> list[list[str]]:
    """Cells of a table's rows."""
    lines = [line for line in text.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


def states(folder: Path) -> list[str]:
    return [record.state for record in JobRecord.load_all(folder)]


def seen(run: Path) -> list[str]:
    return (run / "seen.txt").read_text().splitlines()


@pytest.mark.long
def test_runs_have_folders_of_their_own(made):
    runs, _ = made
    folders = sorted(path.name for path in runs.iterdir() if path.is_dir())
    assert folders == [".jobs", "0-seed-0", "1-seed-30"]
    assert json.loads((runs / "1-seed-30/config.yaml").read_text())["runner.seed"] == "30"
    assert (runs / "1-seed-30" / "output.txt").is_file()


@pytest.mark.long
def test_env_set_reaches_the_jobs(made):
    assert (made[0] / "0-seed-0" / "output.txt").read_text() == "hello\n"


@pytest.mark.long
def test_a_second_sweep_mixes_with_none_and_lies_in_no_run(sweep, log_path):
    RunFolder.create(log_path, "run")
    assert sweep("runner.seed=0,1") == 0
    assert sweep("runner.seed=0,1") == 0
    assert sorted(path.name for path in log_path.iterdir()) == ["run", "run-2", "run-3"]


def test_a_table_ends_it_and_stands_beside_the_runs(made):
    runs, printed = made
    written = (runs / "sweep.txt").read_text()
    assert written.partition("1 of 2")[0] in printed and f"{runs}/sweep.txt\n" in printed
    first, second = rows(written)
    assert first[:2] == ["0", "runner.seed=0"]
    assert first[2:4] == ["0.250 (0.046..0.699)", "0.750 (0.301..0.954)"]
    assert first[4] == "+0.500 (-0.100..+1.000)"
    assert second[2:5] == ["", "", ""] and second[-1] == "1-seed-30 failed"


def test_a_number_that_was_another_jobs_is_refused(sweep, log_path, capsys):
    """Not passed over: the jobs behind it would not be played, and nobody would know."""
    folder = log_path / "mine"
    (folder / job.JOBS).mkdir(parents=True)
    JobRecord(0, ("runner.seed=7",), "runner.seed=7", state="done").write(folder)
    assert sweep("runner.seed=0,1", f"hydra.sweep.dir={folder}") == 2
    assert "runner.seed=7" in capsys.readouterr().err


@pytest.mark.long
def test_jobs_side_by_side_share_no_core(sweep, log_path):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core")
    assert sweep("runner.seed=0,1", "sweep.parallel=2") == 0
    both = [set(seen(run)[0].split()[1].split(",")) for run in (log_path / "run").glob("[0-9]*")]
    assert len(both) == 2 and not both[0] & both[1]
    assert sweep("runner.seed=0,1", "sweep.parallel=1") == 0
    # not bound; one core each by their placement
    second = [seen(run)[0].split() for run in (log_path / "run-2").glob("[0-9]*")]
    assert second == [["train", "1"], ["train", "1"]]


@pytest.mark.long
def test_a_job_that_fails_or_is_killed_costs_no_other(sweep, log_path, capsys):
    assert sweep("runner.seed=1,20,30,5", "hydra.sweeper.max_batch_size=2") == 1
    runs = log_path / "run"
    assert states(runs) == ["done", "failed", "failed", "done"]
    written = (runs / "sweep.txt").read_text()
    assert f"rlcore report {runs}\n" in written
    error = capsys.readouterr().err
    for failed in (
        "1 runner.seed=20: env worker 0 died\n",
        "2 runner.seed=30: killed by SIGKILL\n",
    ):
        assert failed in error and failed in written
    outcomes = ["0-seed-1", "1-seed-20 failed", "2-seed-30 failed", "3-seed-5"]
    assert [row[-1] for row in rows(written)] == outcomes


def test_resume_goes_on_with_what_is_not_done(sweep, log_path, capsys):
    assert sweep("runner.seed=1,30") == 1
    runs = log_path / "run"
    (runs / ".jobs/.partial-7-1.json").touch()  # its process was killed while it wrote a note
    assert f"rlcore resume {runs}\n" in (runs / "sweep.txt").read_text()
    assert main(["resume", str(runs)]) == 0
    assert states(runs) == ["done", "done"]
    assert [line.split()[0] for line in seen(runs / "0-seed-1")] == ["train"]
    assert [line.split()[0] for line in seen(runs / "1-seed-30")] == ["train", "resume"]
    shutil.rmtree(runs / "0-seed-1")
    moved = runs.rename(log_path / "moved")
    assert main(["resume", str(moved)]) == 0
    assert len(seen(moved / "0-seed-1")) == 1 and len(seen(moved / "1-seed-30")) == 2
    assert all(row[3] for row in rows((moved / "sweep.txt").read_text())) and not runs.exists()


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_jobs_and_resume_goes_on(sweep, log_path, capsys, number):
    waits = log_path / "run" / "1-seed-40" / "waits"

    def strike():
        while not waits.exists():
            time.sleep(0.05)
        os.kill(os.getpid(), number)

    threading.Thread(target=strike, daemon=True).start()
    assert sweep("runner.seed=1,40,5", "sweep.parallel=1") == 128 + number
    runs = log_path / "run"
    assert states(runs) == ["done", "interrupted", "not started"]
    outcomes = [row[-1] for row in rows((runs / "sweep.txt").read_text())]
    assert outcomes[1:] == ["1-seed-40 interrupted", "not started"]
    assert main(["resume", str(runs)]) == 0
    assert states(runs) == ["done"] * 3
    assert [len(seen(run)) for run in sorted(runs.glob("[0-9]*"))] == [1, 2, 1]


@pytest.mark.long
def test_hydra_names_the_folders_of_a_sweep_and_its_jobs(sweep, log_path, elsewhere):
    words = (f"hydra.sweep.dir={elsewhere}/mine", "hydra.sweep.subdir=job-${hydra.job.num}")
    assert sweep("runner.seed=0,1", *words) == 0
    assert sorted(path.name for path in (elsewhere / "mine").glob("job-*")) == ["job-0", "job-1"]
    assert not log_path.exists() or not list(log_path.iterdir())


@pytest.mark.long
def test_a_folder_holds_one_sweep(sweep, elsewhere, capsys):
    place = f"hydra.sweep.dir={elsewhere}/mine"
    assert sweep("runner.seed=0", place) == 0
    assert sweep("runner.seed=1", place) == 2
    assert f"rlcore resume {elsewhere}/mine" in capsys.readouterr().err


def test_a_refused_sweep_leaves_the_files_of_its_folder(sweep, elsewhere):
    theirs = elsewhere / "mine/notes.txt"
    theirs.parent.mkdir()
    theirs.write_text("theirs")
    place = f"hydra.sweep.dir={elsewhere}/mine"
    assert sweep("runner.seed=0,1", place, "hydra.sweep.subdir=one") == 2
    assert theirs.read_text() == "theirs" and not (elsewhere / "mine" / FILE).exists()


def test_a_job_that_is_refused_is_no_success_with_any_launcher(sweep, log_path, capsys):
    words = ("runner.seed=0", "sweep.objective=succes", "hydra/launcher=basic")
    assert sweep(*words) == 2
    assert "sweep.objective" in capsys.readouterr().err


class Stranger(Launcher):
    """A launcher with a bug."""

    def __init__(self, bug: str) -> None:
        self.bug = bug

    def setup(self, **_):
        if self.bug == "setup":
            raise RuntimeError("no queue")

    def launch(self, job_overrides, initial_job_idx):
        return []


@pytest.mark.quick(1)
@pytest.mark.parametrize(("bug", "cause"), [("setup", "no queue"), ("returns", "0 results")])
def test_an_error_names_the_launcher_with_the_bug(
    sweep, elsewhere, monkeypatch, capsys, bug, cause
):
    name = "hydra_plugins.strange.Stranger"  # Hydra accepts no other namespace
    monkeypatch.setitem(Plugins.instance().class_name_to_class, name, Stranger)
    option = elsewhere / "hydra/launcher/strange.yaml"
    option.parent.mkdir(parents=True)
    option.write_text(f"_target_: {name}\nbug: {bug}\n")
    assert sweep("runner.seed=0,1", "hydra/launcher=strange", f"--config-dir={elsewhere}") == 2
    error = capsys.readouterr().err
    assert "Stranger" in error and cause in error


def test_hydras_own_launcher_plays_them_too(sweep, log_path):
    assert sweep("runner.seed=0,20,5", "hydra/launcher=basic") == 1
    assert states(log_path / "run") == ["done", "failed", "done"]


@pytest.mark.long
def test_recipes_are_swept_into_one_folder(sweep, log_path):
    words = ["experiment=metaworld_grpo_openvlaoft_tiny,metaworld_mt10_ppo_pi0_tiny"]
    assert main(["train", *words, f"runner.logger.log_path={log_path}", "-m"]) == 0
    (folder,) = log_path.iterdir()
    assert folder.name == "sweep" and len(list(folder.glob("[0-9]*"))) == 2


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["env=toy", "model=toy", "algorithm=ppo", "runner.seed=1,2"], "toy-toy-ppo"),
        (["env=toy", "model=toy,gaussian", "algorithm=ppo"], "toy-ppo"),
        (["env=toy,metaworld", "model=toy,gaussian", "algorithm=ppo,grpo"], "sweep"),
        (["env=toy", "model=toy,gaussian", "algorithm=ppo", f"{NAME}=mine"], "mine"),
    ],
)
def test_a_sweep_is_named_after_what_its_jobs_share(words, name, log_path, capsys):
    shown = ("-m", "--cfg", "job", "-p", NAME, f"runner.logger.log_path={log_path}")
    assert main(["train", *words, *shown]) == 0
    assert f"\n{name}/0-" in capsys.readouterr().out


@pytest.mark.long
def test_nothing_is_made_where_nothing_runs(sweep, log_path, capsys):
    assert sweep("runner.seed=1,2", "--dry-run") == 0
    assert sweep("runner.seed=1,2", "--cfg", "job") == 0
    assert "experiment_name: run/1-seed-2" in capsys.readouterr().out
    assert sweep("runner.seed=interval(0,1)") == 2
    assert sweep("runner.seed=0,1", "sweep.parallel=1000") == 2
    assert not log_path.exists() or not list(log_path.iterdir())


def test_a_signal_ends_a_look_at_the_jobs(sweep, monkeypatch, capsys):
    monkeypatch.setattr("rlcore.cli.main.main", lambda words: 130)  # as at Ctrl-C in the first
    assert sweep("runner.seed=1,2", "--cfg", "job") == 130
    printed = capsys.readouterr().out
    assert "job 0" in printed and "job 1" not in printed


@pytest.mark.quick(8)
@pytest.mark.parametrize(
    ("word", "named"),
    [
        ("hydra/launcher=jolib", "'jolib'"),
        ("hydra/launcher=joblib", "hydra/launcher=joblib"),
        ("hydra/sweeper=optuna", "hydra/sweeper=rlcore_optuna"),
        ("hydra/sweeper=nevergrad", "nevergrad"),
        ("hydra.searchpath=[x]", "--config-dir DIR"),
        ("hydra/lancher=basic", "'hydra/launcher'"),
        ("hydra/launcher=jobib", "pip install hydra-joblib-launcher"),
        ("runner.sed=1,2", "'runner.seed'"),
        ("hydra.sweep.dir=a'b", "hydra.sweep.dir"),
        ("hydra.launcher.n_jobs=2", "hydra/launcher=NAME"),
        ("sweep.seeds=0,1", "hydra/sweeper=rlcore_optuna"),
        ("hydra.job.chdir=true", "hydra.job.chdir=true"),
        ("hydra.sweep.subdir=one", "hydra.sweep.subdir"),
        ("hydra.sweep.subdir=../${hydra.job.num}", "hydra.sweep.subdir"),
        ("hydra.sweep.dir=${runner.seed}", "'runner.seed'"),
        ("hydra.sweep.dir=" + 300 * "x", "File name too long"),
        ("hydra.sweep.dir=null", "hydra.sweep.dir"),
        ("hydra.launcher=3", "hydra/launcher=NAME"),
        ("hydra.swep.dir=x", "'hydra.sweep.dir'"),
        ("runner.seed=interval(0,1)", "range(1,4)"),
        ("sweep.parallel=none", "sweep.parallel"),
        ("runner.logger.log_path=a,b", "hydra.sweep.dir"),
        ("algorithm=glob(zzz*)", "algorithm"),
        ("runner.logger.experiment_name=''", "runner.logger.experiment_name"),
    ],
)
def test_a_wrong_word_is_an_error_that_names_it(sweep, word, named, capsys):
    assert sweep("runner.max_epochs=1,2", word) == 2
    assert named in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["resume", "replay"])
def test_one_run_is_resumed_at_a_time(elsewhere, capsys, verb):
    assert main([verb, ".", "-m", "runner.max_epochs=3,4"]) == 2
    assert "--multirun" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("hydra", "+hydra.callbacks.a._target_=os.getcwd"),
        ("hydra", "hydra.launcher._target_=os.getcwd"),
        ("hydra", "hydra.job.env_set={A: b}"),
        ("hydra", "hydra.sweeper.sampler={_target_: os.getcwd}"),
        ("hydra", "hydra.sweep.subdir=${oc.env:HOME}"),
        ("words", "runner.logger.experiment_name=${oc.env:HOME}"),
        ("flags", "--config-dir=/tmp"),
    ],
)
def test_a_folder_lets_no_code_in(made, tmp_path, capsys, name, word):
    folder = shutil.copytree(made[0], tmp_path / "run")
    kept = json.loads((folder / FILE).read_text())
    words = [*(kept[name] if name != "hydra" else ()), word]
    (folder / FILE).write_text(json.dumps({**kept, "hydra": [], name: words}))
    assert main(["resume", str(folder)]) == 2
    error = capsys.readouterr().err
    assert "error: " in error and word.partition("=")[0].lstrip("+") in error and "code" in error


def test_without_the_distribution_the_error_names_what_to_install(refused, log_path):
    from rlcore.contracts.errors import MissingPackageError
    from rlcore.plugins.entry_points import installed
    from rlcore.plugins.registry import Registry

    others = [one for one in installed({}) if one.name != "sweeps"]
    with refused(MissingPackageError, "sweep", text=False):
        Registry.load(others).get("command", "sweep")


# -- what is seen of Hydra, and what a recipe says of its sweep -------------------------------


def shown(capsys, *words: str) -> str:
    assert main([*words]) == 0
    return capsys.readouterr().out


@pytest.mark.long
def test_a_configuration_and_its_parts_are_shown(capsys):
    assert shown(capsys, "train", "quickstart", "--cfg", "job", "-p", "runner.seed") == "0\n"
    part = shown(capsys, "train", "-cn", "quickstart", "-c", "job", "--package=runner.logger")
    assert "experiment_name: quickstart\n" in part and "max_epochs" not in part
    own = shown(capsys, "train", "quickstart", "-c", "hydra", "-p", "hydra.launcher", *BASIC)
    assert own == "_target_: hydra._internal.core_plugins.basic_launcher.BasicLauncher\n"
    both = shown(capsys, "train", "quickstart", "--cfg", "all", "--resolve")
    assert both.startswith("hydra:\n") and "\nrunner:\n" in both and "${" not in both
    swept = shown(capsys, "train", "quickstart", "-m", "runner.seed=1,2", "-c", "all", "-p", SEED)
    assert swept == "job 0: runner.seed=1\n1\njob 1: runner.seed=2\n2\n"


BASIC, SEED = ["hydra/launcher=basic"], "runner.seed"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--info"], "rlcore plugins"),
        (["-i", "plugins"], "rlcore plugins"),
        (["--config-path", "conf"], "--config-dir DIR"),
        (["--run"], "without -m there is one run"),
        (["--experimental-rerun", "x"], "rlcore resume RUN"),
        (["-p", "runner"], "--cfg job"),
        (["-c", "job", "-p", "runer"], "'runer'"),
        (["hydra.sweep.dir=x"], "hydra.sweep.dir"),
        (["hydra.run.dir=x"], "runner.logger.log_path=DIR"),
        (["hydra.job.chdir=true"], "hydra.job.chdir"),
        (["hydra.verbose=true"], "runner.logger.verbose=true"),
        (["hydra.searchpath=[x]"], "--config-dir DIR"),
    ],
)
def test_an_unsupported_flag_of_hydra_names_the_alternative(words, named, capsys):
    assert main(["train", "quickstart", *words]) == 2
    error = capsys.readouterr().err
    assert named in error and error.count("\n") == 2


RECIPE = """# @package _global_
defaults:
  - override /env: toy
  - override /model: toy
  - override /algorithm: ppo
  - override /hydra/sweeper: rlcore_optuna
hydra:
  sweeper:
    n_trials: 4
    params:
      actor.optim.lr: tag(log, interval(1e-6, 1e-4))
cluster:
  backend: local
"""


@pytest.fixture
def recipe(elsewhere: Path):
    """`recipe(text)`: words that name a recipe with that text."""

    def named(text: str) -> list[str]:
        (elsewhere / "experiment").mkdir(exist_ok=True)
        (elsewhere / "experiment/mine.yaml").write_text(text)
        return ["train", "mine", f"--config-dir={elsewhere}"]

    return named


def test_a_recipe_chooses_its_sweeper_and_the_command_line_wins(recipe, capsys):
    words = [*recipe(RECIPE), "-m", "-c", "hydra", "-p"]
    assert shown(capsys, *words, "hydra.sweeper.n_trials") == "4\n"
    assert shown(capsys, *words, "hydra.sweeper.n_trials", "hydra.sweeper.n_trials=9") == "9\n"
    other = shown(capsys, *words, "hydra.sweeper", "hydra/sweeper=basic")
    assert "BasicSweeper" in other and "n_trials" not in other
    first = shown(capsys, *recipe(RECIPE), "-m", "-c", "job", "-p", "actor.optim.lr")
    assert [line for line in first.splitlines() if line[0] != "j"] == ["1e-05", "4.72003e-06"]


def test_a_single_run_of_such_a_recipe_is_as_any_other(recipe, capsys):
    assert shown(capsys, *recipe(RECIPE), "-c", "job", "-p", "cluster.backend") == "local\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    n_trials: 4", "    _target_: os.system"),
        ("    n_trials: 4", "    sampler_options: {a: {_target_: os.system}}"),
        ("    n_trials: 4", "    sampler: ${oc.env:HOME}"),
        ("  sweeper:\n", "  callbacks: {a: {_target_: os.system}}\n  sweeper:\n"),
        ("  sweeper:\n", "  searchpath: [file:///tmp]\n  sweeper:\n"),
        ("  sweeper:\n", "  job: {env_set: {A: b}}\n  sweeper:\n"),
        ("  sweeper:\n", "  launcher: {setup: [rm]}\n  sweeper:\n"),
        (
            "  - override /hydra/sweeper",
            "  - override /hydra/job_logging: colorlog\n  - override /hydra/sweeper",
        ),
    ],
)
def test_a_recipe_lets_no_code_in(recipe, old, new, capsys):
    assert main([*recipe(RECIPE.replace(old, new, 1)), "-m", "--dry-run"]) == 2
    assert "command line" in capsys.readouterr().err
