"""Lists of values become jobs."""

from __future__ import annotations

import pytest

from rlcore.config.compose import compose
from rlcore.config.sweep import expand
from rlcore.contracts.errors import ConfigError


def test_the_product_in_the_order_written():
    jobs = expand(["env=toy", "runner.seed=1,2", "algorithm.gamma=choice(0.9,1.0)"])
    assert [job.index for job in jobs] == [0, 1, 2, 3]
    assert [job.overrides for job in jobs] == [
        ("env=toy", "runner.seed=1", "algorithm.gamma=0.9"),
        ("env=toy", "runner.seed=1", "algorithm.gamma=1.0"),
        ("env=toy", "runner.seed=2", "algorithm.gamma=0.9"),
        ("env=toy", "runner.seed=2", "algorithm.gamma=1.0"),
    ]
    assert jobs[2].label == "runner.seed=2,algorithm.gamma=0.9"  # what is fixed is left out


def test_ranges_and_groups_are_swept():
    jobs = expand(["runner.seed=range(0,6,2)", "env=toy,other"])
    assert [job.label for job in jobs] == [
        "runner.seed=0,env=toy", "runner.seed=0,env=other",
        "runner.seed=2,env=toy", "runner.seed=2,env=other",
        "runner.seed=4,env=toy", "runner.seed=4,env=other",
    ]  # fmt: skip


def test_a_list_as_one_value_is_not_swept():
    (job,) = expand(["env.train.tasks=[a,b]"])
    assert job.overrides == ("env.train.tasks=[a,b]",)


def test_each_job_has_a_folder_of_its_own(registry):
    jobs = expand(["env=toy", "runner.logger.log_path=/x/1,/x/2"])
    configs = [
        job.place(compose(job.overrides, require=("env",), registry=registry), "run-2")
        for job in jobs
    ]
    names = [config.runner.logger.experiment_name for config in configs]
    assert names == ["run-2/0-log_path-x_1", "run-2/1-log_path-x_2"]


@pytest.mark.parametrize(
    ("overrides", "names"),
    [
        (["env=toy"], ["0"]),
        (["env=toy,other", "runner.seed=0"], ["0-env-toy", "1-env-other"]),
        (["+runner.seed=0,1"], ["0-seed-0", "1-seed-1"]),
        (["a.lr=1e-4,-1", "b.gamma=0.5"], ["0-lr-0.0001", "1-lr--1"]),
        # as much of a key as tells it from the others
        (["a.optim.lr=1,2", "b.optim.lr=3"], ["0-lr-1", "1-lr-2"]),
        (
            ["a.optim.lr=1,2", "b.optim.lr=3,4", "lr=5,6"],
            [
                f"{i}-a-optim-lr-{x}-b-optim-lr-{y}-lr-{z}"
                for i, (x, y, z) in enumerate(
                    (x, y, z) for x in (1, 2) for y in (3, 4) for z in (5, 6)
                )
            ],
        ),
        # no character that a file system or a command line takes for something else
        (["k='a=b','c d/e','f,g:*?'"], ["0-k-a_b", "1-k-c_d_e", "2-k-f_g"]),
        (["k=[a,b],{x:1}"], ["0-k-a_b", "1-k-x_1"]),
        (["k='\u00fc','.'"], ["0-k", "1-k"]),
        # both envs of a job get the same
        (["env.*.k=1,2"], ["0-k-1", "1-k-2"]),
        (
            ["env.*.k=1", "env.*.k=2,3", "env.train.k=4,5"],
            [
                "0-both-k-2-train-k-4",
                "1-both-k-2-train-k-5",
                "2-both-k-3-train-k-4",
                "3-both-k-3-train-k-5",
            ],
        ),
    ],
)
def test_names_of_folders(overrides, names):
    assert [job.name for job in expand(overrides)] == names


def test_names_sort_as_numbers_and_have_an_end():
    jobs = expand(["runner.seed=range(0,12)", f"k={'x' * 300}"])
    assert [job.name for job in jobs] == sorted(job.name for job in jobs)
    assert jobs[3].name == "03-seed-3"
    assert all(len(job.name) == 100 for job in expand([f"k={'x' * 300},{'y' * 300}"]))


def test_what_is_no_list_is_kept_whatever_its_name():
    folder = "experiment=logs/a,b{c}=d"
    jobs = expand([folder, "runner.seed=1,2"], keep=folder)
    assert [job.overrides for job in jobs] == [(folder, "runner.seed=1"), (folder, "runner.seed=2")]


@pytest.mark.parametrize("values", ["interval(0,1)", "glob(*)"])
def test_a_sweep_that_is_no_list_is_refused(values):
    with pytest.raises(ConfigError, match="needs a list of values"):
        expand([f"runner.seed={values}"])


@pytest.mark.parametrize(
    "word", ["hydra/launcher=joblib", "hydra.sweep.dir=runs", "hydra.sweeper.max_batch_size=2"]
)
def test_launchers_and_settings_of_hydra_are_refused(registry, word):
    with pytest.raises(ConfigError, match="unknown key 'hydra"):
        compose(["env=toy", word], require=("env",), registry=registry)
