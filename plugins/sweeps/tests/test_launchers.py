"""Launchers and sweepers of others: a published one in an environment of its own, and a stranger's
sweeper. `pytest -m long -n0 plugins/sweeps/tests/test_launchers.py`."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from rlcore_sweeps.job_record import JobRecord

from rlcore.files.reading import read_yaml

RLCORE = [sys.executable, "-m", "rlcore.cli.main"]
TOY = [
    *("train", "env=toy", "model=toy", "algorithm=ppo", "runner.max_epochs=1"),
    *("cluster.component_placement={env: 0, rollout: 0, actor: 0}", "cluster.torch_threads=1"),
    *("env.train.total_num_envs=2", "env.eval.total_num_envs=2", "env.eval.trials_per_task=2"),
    *("actor.global_batch_size=4", "actor.micro_batch_size=4", "-m"),
]
PLAYED = "cluster.component_placement={env: 0, rollout: 0, actor: 0}"
ALONE = {
    "toy": [
        *("env=toy", "model=toy", "algorithm=ppo", "runner.max_epochs=2", PLAYED),
        *("env.*.total_num_envs=4", "env.eval.trials_per_task=4"),
        *("actor.global_batch_size=8", "actor.micro_batch_size=8"),
    ],
    "quickstart": [
        *("quickstart", "runner.max_epochs=2", "env.*.tasks=[button-press-v3]"),
        *("env.*.total_num_envs=4", "env.train.rollout_epoch=1", "env.eval.trials_per_task=4"),
        *("env.*.max_episode_steps=60", "env.eval.video_cfg.save_video=false", "sft.max_steps=4"),
        *("algorithm.steps=4", "actor.global_batch_size=16", "actor.micro_batch_size=16"),
    ],
}
LAUNCHERS = {
    "joblib": (["hydra-joblib-launcher", "joblib"], ["hydra.launcher.n_jobs=2"]),
    "submitit_local": (["hydra-submitit-launcher", "submitit"], ["hydra.launcher.cpus_per_task=1"]),
    "ray": (
        ["hydra-ray-launcher"],
        [
            "+hydra.launcher.ray.init.address=local",
            "+hydra.launcher.ray.init.num_cpus=2",
            "+hydra.launcher.ray.init.object_store_memory=80000000",
        ],
    ),
}
SWEEPER = '''
from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper

ConfigStore.instance().store(
    group="hydra/sweeper",
    name="climber",
    node={"_target_": "hydra_plugins.climber.Climber", "steps": 3},
    provider="stranger",
)


class Climber(Sweeper):
    """Doubles what it varies as long as that does no harm."""

    def __init__(self, steps):
        self.steps = steps

    def setup(self, *, hydra_context, task_function, config):
        self.config, self.hydra_context = config, hydra_context
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments):
        best, lr = None, 1e-5
        for step in range(self.steps):
            batch = [[*arguments, f"actor.optim.lr={lr}", f"runner.seed={s}"] for s in (0, 1)]
            self.validate_batch_is_legal(batch)
            values = [one.return_value for one in self.launcher.launch(batch, 2 * step)]
            assert all(isinstance(value, float) for value in values), values
            best, lr = max(best or 0, sum(values)), 2 * lr
        return best
'''


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that sees this one's packages, with the launchers."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    scheme = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    here = sysconfig.get_path("purelib")
    Path(scheme, "here.pth").write_text(f"import site; site.addsitedir({here!r})\n")
    python = folder / "bin/python"
    pip = [str(python), "-m", "pip", "install", "-q", "--no-deps"]
    for packages, _ in LAUNCHERS.values():
        subprocess.run([*pip, *packages], check=True)
    Path(scheme, "hydra_plugins/climber.py").write_text(SWEEPER)
    return python


def play(python: Path | str, log_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    logger = (f"runner.logger.log_path={log_path}", "runner.logger.experiment_name=run")
    command = [str(python), "-m", "rlcore.cli.main", *TOY, *logger, *words]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.long
@pytest.mark.parametrize("backend", ["local", "ray"])
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_published_launcher_plays_them(environment, launcher, backend, log_path):
    seeds = "runner.seed=0,1,2,3" if backend == "local" else "runner.seed=0,1"
    words = [f"hydra/launcher={launcher}", *LAUNCHERS[launcher][1]]
    place = [f"hydra.sweep.dir={log_path / 'mine'}", "hydra.sweep.subdir=job-${hydra.job.num}"]
    done = play(environment, log_path, seeds, f"cluster.backend={backend}", *words, *place)
    assert done.returncode == 0, done.stdout + done.stderr
    records = JobRecord.load_all(log_path / "mine")
    assert [(record.number, record.state, Path(record.folder).name) for record in records] == [
        (number, "done", f"job-{number}") for number in range(len(seeds.split(",")))
    ]
    assert all((Path(record.folder) / "summary.json").is_file() for record in records)


@pytest.mark.long
def test_a_sweeper_of_somebody_elses_drives_them(environment, log_path):
    words = ["cluster.backend=local", "hydra/sweeper=climber", "sweep.objective=env_steps"]
    done = play(environment, log_path, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    labels = [record.label for record in JobRecord.load_all(log_path / "run")]
    rates = ("1e-05", "2e-05", "4e-05")
    assert labels == [f"actor.optim.lr={lr},runner.seed={s}" for lr in rates for s in (0, 1)]


@pytest.mark.long
@pytest.mark.parametrize("what", ALONE)
def test_a_job_equals_the_same_run_alone(what, log_path):
    """Side by side, one after another, and by itself on the cores and under the keys it names."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("one core")
    words = [*RLCORE, "train", *ALONE[what], "cluster.backend=local", "runner.save_interval=2"]
    words.append("rollout.forward_batch=2")
    runs = [log_path / parallel / "1-seed-1" for parallel in ("2", "1")]
    many = ["-m", "runner.seed=0,1"]
    place = ["sweep.parallel=2", f"hydra.sweep.dir={log_path / '2'}"]
    subprocess.run([*words, *many, *place], check=True)
    config = read_yaml(runs[0] / "config.yaml")
    threads, rows = config["cluster"]["torch_threads"], config["rollout"]["forward_batch"]
    own = [f"cluster.torch_threads={threads}", f"rollout.forward_batch={rows}"]
    place = ["sweep.parallel=1", f"hydra.sweep.dir={log_path / '1'}"]
    subprocess.run([*words, *own, *many, *place], check=True)  # it would have two threads
    place = [f"runner.logger.log_path={log_path}", "runner.logger.experiment_name=alone"]
    bound = ["taskset", "-c", str(cores[0]), *words, *own, "runner.seed=1"]
    subprocess.run([*bound, *place], check=True)
    alone = log_path / "alone"
    assert figures(alone) and weights(alone)
    for run in runs:
        assert figures(run) == figures(alone)
        assert weights(run) == weights(alone)


def weights(run: Path) -> dict[str, str]:
    """Digests of all tensors that it kept, by the name of their file."""
    return {
        str(file.relative_to(run)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in run.glob("checkpoints/step_*/**/*.safetensors")
    }


def figures(run: Path) -> list[dict[str, float]]:
    """All that it measured but times."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    timed = ("time", "env_steps_per_second")
    return [
        {
            name: value
            for name, value in json.loads(line).items()
            if not any(t in name for t in timed)
        }
        for line in lines
    ]
