"""Lists of values become jobs."""

from __future__ import annotations

import pytest

from rlcore.config.compose import compose
from rlcore.config.sweep import expand
from rlcore.errors import ConfigError


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
    names = [job.place(compose(job.overrides, require=("env",), registry=registry)) for job in jobs]
    assert [config.runner.logger.experiment_name for config in names] == [
        "run/0_runner.logger.log_path=_x_1",
        "run/1_runner.logger.log_path=_x_2",
    ]


def test_a_continuous_sweep_is_refused():
    with pytest.raises(ConfigError, match="needs a list of values"):
        expand(["runner.seed=interval(0,1)"])
