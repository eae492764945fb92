"""What comes from elsewhere runs no code: the folder of a sweep, a recipe, a folder of recipes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hydra.types import RunMode
from rlcore_sweeps import job
from rlcore_sweeps.command import main, run_sweep
from rlcore_sweeps.job_record import JOBS, JobRecord
from rlcore_sweeps.loader import SweepLoader
from rlcore_sweeps.request import FILE, SweepRequest
from rlcore_sweeps.safe_overrides import is_safe

from rlcore.contracts.errors import CheckpointError, ConfigError, UserError

WORDS = (
    *("env=toy", "model=toy", "algorithm=ppo", "runner.max_epochs=1", "cluster.backend=local"),
    *("cluster.component_placement={env: 0, rollout: 0, actor: 0}", "runner.seed=0,1"),
)

QUICK = (str(Path(__file__).parent / "quick_job_process.py"),)


@pytest.fixture
def sweep(elsewhere: Path, monkeypatch: pytest.MonkeyPatch):
    """`sweep(field=...)`: the folder of a sweep of quick jobs, with these fields in its order."""
    monkeypatch.setattr(job, "JOB_PROCESS", QUICK)
    monkeypatch.chdir(elsewhere)

    def made(**fields: object) -> Path:
        folder = elsewhere / "sweep"
        (folder / JOBS).mkdir(parents=True, exist_ok=True)
        (folder / "sweep.txt").touch()
        SweepRequest("train", words=WORDS, hydra=("hydra.launcher.parallel=1",)).write(folder)
        kept = json.loads((folder / FILE).read_text())
        (folder / FILE).write_text(json.dumps({**kept, **fields}))
        return folder

    return made


LETS_CODE_IN = [
    "hydra.job.env_set.PYTHONPATH=/tmp",
    "+hydra.job.env_set.PYTHONPATH=/tmp",
    "++hydra.job.env_set={PYTHONPATH: /tmp}",
    "hydra.job.env_copy=[PATH]",
    "+hydra.callbacks.x._target_=logging.FileHandler",
    "hydra/callbacks=x",
    "+hydra/callbacks=x",
    "hydra/callbacks@hydra.callbacks=x",
    "hydra/launcher@hydra.callbacks=x",
    "hydra/job_logging=colorlog",
    "hydra.job_logging.root.level=1",
    "~hydra.sweeper",
    "hydra.launcher._target_=os.system",
    "hydra.launcher.x._args_=[ls]",
    "hydra.launcher={_target_: os.system}",
    "hydra.launcher.setup=[rm]",
    "hydra.sweeper={_target_: os.system}",
    "hydra.sweeper.params.hydra.job.env_set.A=b",
    "hydra.sweeper.params.+hydra.callbacks.x._target_=os.getcwd",
    "++hydra.sweeper.params.hydra/callbacks=x",
    "hydra.sweeper.params.x._target_=os.getcwd",
    "hydra.sweeper.params.x={_target_: os.getcwd}",
    "hydra.sweeper.params.x=[{_target_: os.getcwd}]",
    "hydra.sweeper.params={hydra.job.env_set.A: b}",
    "hydra.sweeper.params.x=${oc.env:HOME}",
    "hydra.sweeper.custom_search_space=os.system",
    "hydra.sweeper.storage=sqlite:////tmp/x",
    "hydra.sweeper.sampler={_target_: os.getcwd}",
    "hydra.sweeper.sampler=os.system",
    "hydra.sweep.subdir=${oc.env:HOME}",
    "hydra.sweep.subdir=${hydra.job.num}${oc.env:HOME}",
    "hydra.searchpath=[file:///tmp]",
    "hydra.run.dir=/tmp",
    "hydra.output_subdir=x",
    "hydra.mode=RUN",
    "hydra.runtime.output_dir=/tmp",
]


@pytest.mark.parametrize("word", LETS_CODE_IN)
def test_no_word_that_loads_code_is_admitted(refused, word):
    assert not is_safe(word)
    with refused(ConfigError, word):
        SweepLoader().load_configuration(None, [word], RunMode.MULTIRUN)


@pytest.mark.parametrize(
    "word",
    [
        "hydra/launcher=joblib",
        "hydra.launcher.n_jobs=2",
        "hydra.launcher.parallel=auto",
        "+hydra.launcher.ray.init.num_cpus=2",
        "hydra.sweeper.n_trials=12",
        "hydra.sweeper.seeds=[0, 1]",
        "hydra.sweeper.direction=minimize",
        "hydra.sweeper.sampler='tpe'",
        "hydra.sweeper.pruner_options.n_startup_trials=2",
        "++hydra.sweeper.sampler_options.gamma=1e-3",
        "hydra.sweeper.params.actor.optim.lr='tag(log, interval(1e-6, 1e-4))'",
        "hydra.sweeper.params.env.*.max_steps=1,2",
        "hydra.sweeper.params.env/train=toy,other",
        "hydra.sweep.dir='/a b/c'",
        "hydra.sweep.subdir=job-${hydra.job.num}",
    ],
)
def test_settings_of_a_sweep_are_admitted(word):
    assert is_safe(word)


@pytest.mark.parametrize(
    ("field", "words"),
    [
        *(("hydra", [word]) for word in LETS_CODE_IN[::5]),
        ("words", ["runner.seed=0", "hydra.job.env_set.A=b"]),
        ("words", ["runner.seed=0", "+hydra.callbacks.x._target_=os.getcwd"]),
        ("words", ["hydra.sweep.dir=/tmp/other"]),
        ("words", ["runner.logger.experiment_name=${oc.env:HOME}"]),
        ("words", ["--config-dir=/tmp"]),
        ("hydra", ["runner.seed=0"]),
        ("flags", ["--config-dir", "/tmp"]),
        ("flags", ["--config-dir=/tmp"]),
        ("flags", ["-cd", "/tmp"]),
        ("flags", ["-cd=/tmp"]),
        ("flags", ["-vcd", "/tmp"]),
        ("flags", ["-v", "--config-dir", "/tmp"]),
        ("flags", ["--config-path=/tmp"]),
        ("flags", ["--multirun"]),
        ("flags", ["experiment/evil.yaml"]),
        ("flags", ["--config-name=experiment/evil.yaml"]),
        ("flags", ["-cn", "experiment/evil.yaml"]),
        ("verb", "runs"),
        ("words", "runner.seed=0"),
        ("words", [3]),
        ("typed", ["hydra.job.env_set.A=b"]),
        ("objective", {"a": 1}),
    ],
)
def test_the_folder_of_a_sweep_decides_nothing_that_runs_code(sweep, elsewhere, field, words):
    (elsewhere / "experiment").mkdir()
    (elsewhere / "experiment/evil.yaml").write_text("# @package _global_\n")
    folder = sweep(**{field: words})
    before = sorted(folder.rglob("*"))
    with pytest.raises(UserError):
        main(["resume", str(folder)])
    assert sorted(folder.rglob("*")) == before


def test_a_word_of_the_user_may_load_code(sweep):
    """Whatever is typed may load code; what a folder kept of it may, with --trust."""
    request = SweepRequest.parse(["train", "a=1", "+hydra.job.env_set.A=b"])
    config = SweepLoader(typed=request.typed).load_configuration(
        None, list(request.hydra), RunMode.MULTIRUN
    )
    assert config.hydra.job.env_set == {"A": "b"}
    folder = sweep(words=[*WORDS[:-1], "runner.seed=0"], hydra=["hydra.job.env_set.GREETING=hello"])
    assert main(["resume", str(folder), "--trust"]) == 0
    assert (folder / "0/output.txt").read_text() == "hello\n"


def test_a_sweeper_proposes_keys_of_runs_only(refused):
    loader = SweepLoader(typed=frozenset({"hydra.job.env_set.A=b"}))
    config = loader.load_configuration(None, [], RunMode.MULTIRUN)
    with refused(ConfigError, "hydra.job.env_set.A"):
        loader.load_sweep_config(config, ["runner.seed=0", "hydra.job.env_set.A=b"])


RECIPE = "# @package _global_\ndefaults:\n  - override /env: toy\n  - override /model: toy\n"
RECIPE += "  - override /algorithm: ppo\n"


@pytest.mark.parametrize(
    "more",
    [
        "hydra: {sweeper: {params: {hydra.job.env_set.A: b}}}\n",
        "hydra: {sweeper: {params: {+hydra.callbacks.x._target_: os.getcwd}}}\n",
        "hydra: {sweeper: {params: {hydra: {job: {env_set: {A: b}}}}}}\n",
        "hydra: {sweeper: {params: {x: {_target_: os.getcwd}}}}\n",
        "hydra: {sweeper: {params: {x: [{_target_: os.getcwd}]}}}\n",
        "hydra: {sweeper: {custom_search_space: os.system}}\n",
        "hydra: {sweep: {dir: '${oc.env:HOME}'}}\n",
        "  - override /hydra/launcher: evil\n",
        "  - /hydra/launcher@hydra.callbacks: evil\n",
        "  - /hydra/callbacks: evil\n",
        "  - inner\n",
    ],
)
def test_a_folder_of_recipes_runs_no_code(elsewhere, monkeypatch, more):
    monkeypatch.chdir(elsewhere)
    monkeypatch.setattr(job, "JOB_PROCESS", QUICK)
    mark = elsewhere / "mark"
    evil = f"_target_: os.mkdir\npath: {mark}\n"
    for name, text in {
        "hydra/launcher/evil": evil,
        "hydra/callbacks/evil": "evil:\n  " + evil.replace("\n", "\n  "),
        "experiment/inner": "# @package _global_\nhydra: {job: {env_set: {A: b}}}\n",
        "experiment/mine": RECIPE + more,
    }.items():
        file = elsewhere / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for words in (["experiment/mine.yaml"], [f"--config-dir={elsewhere}", "mine"]):
        with pytest.raises(ConfigError, match=r"hydra|experiment/inner"):
            main(["train", *words, "runner.seed=0,1", "--dry-run"])
    with pytest.raises(ConfigError, match=r"hydra|experiment/inner"):
        run_sweep("train", ["mine", "runner.seed=0,1"], config_dirs=[elsewhere])
    assert not mark.exists()


@pytest.mark.parametrize("option", ["config", "output/default", "launcher/rlcore", "sweeper/basic"])
def test_a_folder_of_configurations_replaces_nothing_of_hydra(refused, elsewhere, option):
    file = elsewhere / f"hydra/{option}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("# @package _global_\nhydra: {callbacks: {x: {_target_: os.getcwd}}}\n")
    with refused(ConfigError, f"hydra/{option}", text=False):
        SweepLoader((str(elsewhere),)).load_configuration(None, [], RunMode.MULTIRUN)


def test_yaml_makes_no_objects(refused, elsewhere):
    (elsewhere / "experiment").mkdir()
    (elsewhere / "experiment/mine.yaml").write_text(
        f"{RECIPE}hydra:\n  sweeper: !!python/object/apply:os.mkdir [{elsewhere}/mark]\n"
    )
    with refused(ConfigError, "mine.yaml", text=False):  # the parser words the cause
        main(["train", "mine", f"--config-dir={elsewhere}", "runner.seed=0,1", "--dry-run"])
    assert not (elsewhere / "mark").exists()


# -- notes ------------------------------------------------------------------------------------


def job_words(seed: int) -> tuple[str, ...]:
    placement = "cluster.component_placement={env:0,rollout:0,actor:0}"
    return (*WORDS[:5], placement, f"runner.seed={seed}")


def other_run(elsewhere: Path) -> Path:
    run = elsewhere / "other"
    run.mkdir()
    (run / "config.yaml").write_text("{}")
    return run


@pytest.mark.quick(2)
@pytest.mark.parametrize("way", ["outside", "above", "link", "far above"])
def test_a_note_leads_into_no_other_run(refused, sweep, elsewhere, way):
    """It is played in a folder of the sweep; the other run stays as it is."""
    folder, run = sweep(words=[*WORDS[:-1], "runner.seed=0"]), other_run(elsewhere)
    place = {
        "outside": str(run),
        "above": f"{folder}/../other",
        "link": f"{folder}/link",
        "far above": f"/x/{'../' * 3}{run.relative_to('/')}",
    }[way]
    record = JobRecord(0, job_words(0), "runner.seed=0", place, "failed", "x")
    record.write(folder)
    if way == "link":
        (folder / "link").symlink_to(run)
        with refused(CheckpointError, folder / "link", text=False):
            main(["resume", str(folder)])
    else:
        assert main(["resume", str(folder)]) == 0
        assert (folder / "0/config.yaml").is_file()
    assert [path.name for path in run.iterdir()] == ["config.yaml"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("number", 1),  # of another file
        ("folder", "a\0b"),
        ("state", "well"),
        ("process", [1]),
        ("process", ["1", 2]),
        ("more", 1),
    ],
)
def test_a_note_with_wrong_values_is_refused(refused, sweep, name, value):
    """Values of other types: test_damaged_notes.py."""
    folder = sweep()
    JobRecord(0, job_words(0), "runner.seed=0").write(folder)
    file = folder / JOBS / "0.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), name: value}))
    with refused(CheckpointError, file):
        JobRecord.load(folder, 0)


def test_a_note_steers_no_terminal(sweep):
    folder = sweep()
    JobRecord(0, job_words(0), "\x1b[31mred", error="\x1b]0;title\x07").write(folder)
    record = JobRecord.load(folder, 0)
    assert record is not None and "\x1b" not in record.label + record.error


@pytest.mark.parametrize("name", [".jobs", ".study"])
def test_notes_are_kept_in_folders(refused, sweep, name):
    folder = sweep()
    (folder / JOBS).rmdir()
    (folder / name).touch()
    with refused(CheckpointError, folder / name):
        main(["resume", str(folder)])


@pytest.mark.parametrize("name", ["multirun.yaml", ".jobs/0.log", "study.log"])
def test_nothing_is_written_through_links(refused, sweep, elsewhere, name):
    folder, file = sweep(), elsewhere / "precious"
    file.write_text("text")
    (folder / name).symlink_to(file)
    with refused(CheckpointError, folder / name):
        main(["resume", str(folder)])
    assert file.read_text() == "text"


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "share",
    [{"cores": 1}, {"cores": 1, "devices": 0, "jobs": 0}],
)
def test_a_share_with_wrong_values_is_refused(refused, sweep, share):
    folder = sweep(hydra=[])
    (folder / JOBS / "share").write_text(json.dumps(share))
    with refused(CheckpointError, folder / JOBS / "share"):
        main(["resume", str(folder)])


# -- jobs whose run has finished --------------------------------------------------------------


def test_a_job_whose_run_has_finished_is_done_though_its_process_was_killed(sweep):
    """Seed 50 writes its summary, then dies by SIGKILL."""
    folder = sweep(words=[*WORDS[:-1], "runner.seed=50"])
    assert main(["resume", str(folder)]) == 0
    (record,) = JobRecord.load_all(folder)
    assert (record.state, record.error) == ("done", "")


@pytest.mark.quick(1)
@pytest.mark.parametrize("state", ["failed", "running", "interrupted"])
def test_resume_finds_that_a_run_has_finished(sweep, state):
    folder = sweep(words=[*WORDS[:-1], "runner.seed=0"])
    run = folder / "0"
    run.mkdir()
    (run / "config.yaml").write_text("{}")
    (run / "summary.json").write_text("{}")
    gone = 2**22 + os.getpid()  # no system has processes of such numbers
    JobRecord(0, job_words(0), "x", str(run), state, "killed", process=(gone, 1.0)).write(folder)
    assert main(["resume", str(folder)]) == 0
    (record,) = JobRecord.load_all(folder)
    assert (record.state, record.error) == ("done", "")
    assert not (run / "seen.txt").exists()  # it was not played again
