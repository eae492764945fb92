"""Words are sorted, go to Hydra's grammar and back, and name the folders of jobs."""

from __future__ import annotations

import pytest
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.core.singleton import Singleton
from hydra.types import RunMode
from internals import compose
from rlcore_sweeps.folder_names import folder_suffix
from rlcore_sweeps.loader import SweepLoader
from rlcore_sweeps.request import JobChoices, SweepRequest, quote_text_values, to_hydra, to_rlcore

from rlcore.config.schema import RunConfig
from rlcore.contracts.errors import ConfigError, PluginError


def jobs(*words: str) -> list[list[str]]:
    """The words of the jobs that Hydra's basic sweeper makes."""
    parser = OverridesParser.create(config_loader=SweepLoader())
    (batch,) = BasicSweeper.split_arguments(parser.parse_overrides(to_hydra(words)), None)
    return [to_rlcore(job) for job in batch]


def names(*words: str) -> list[str]:
    """What follows the number in the names of their folders."""
    fixed = JobChoices.parse(to_hydra(words)).fixed
    swept = [[word for word in to_hydra(job) if word not in fixed] for job in jobs(*words)]
    return [folder_suffix(job, digits=1) for job in swept]


def test_whose_a_word_is():
    request = SweepRequest.parse(
        [
            *("eval", "quickstart", "-m", "--config-dir", "mine", "runner.seed=0,1", "~model"),
            *("hydra/launcher=joblib", "+hydra.callbacks.a=b", "sweep.parallel=2"),
            *("sweep.objective=[env_steps,seconds.rollout]", "--trust"),
        ]
    )
    assert request.verb == "eval"
    assert request.flags == ("quickstart", "--config-dir", "mine", "--trust")
    assert request.words == ("runner.seed=0,1", "~model")
    choices = ("hydra/launcher=joblib", "+hydra.callbacks.a=b")
    assert request.hydra == (*choices, "hydra.launcher.parallel=2")
    assert request.objective == ("env_steps", "seconds.rollout")
    assert request.config_dirs == ("mine",)
    assert not request.is_preview


def test_a_folder_is_no_list_whatever_its_name(elsewhere):
    folder = elsewhere / "a,b{c}=d"
    folder.mkdir()
    assert SweepRequest.parse(["eval", str(folder), "-m"]).flags == (str(folder),)
    assert SweepRequest.parse(["eval", "-cd", "a=b", "-m", "c=d"]).config_dirs == ("a=b",)
    assert SweepRequest.parse(["train", "a,b", "-m"]).words == ("experiment=a,b",)


def test_an_unknown_key_of_the_sweep_is_refused(refused):
    with refused(ConfigError, "sweep.parallel"):
        SweepRequest.parse(["train", "sweep.paralel=2"])


def test_an_order_is_kept(elsewhere):
    request = SweepRequest.parse(["train", "quickstart", "runner.seed=0,1", "sweep.objective=seed"])
    request.write(elsewhere)
    assert SweepRequest.load(elsewhere) == request


def test_the_product_in_the_order_written():
    assert jobs("env=toy", "runner.seed=1,2", "algorithm.gamma=choice(0.9,1.0)") == [
        ["env=toy", "runner.seed=1", "algorithm.gamma=0.9"],
        ["env=toy", "runner.seed=1", "algorithm.gamma=1.0"],
        ["env=toy", "runner.seed=2", "algorithm.gamma=0.9"],
        ["env=toy", "runner.seed=2", "algorithm.gamma=1.0"],
    ]


@pytest.mark.parametrize(
    "word",
    [
        "env.*.k=1",
        "env.train.tasks=[a,b]",
        "cluster.component_placement={env: 0, rollout: 0, actor: 0}",
        "actor.model.model_path=~/a",
        "actor.model.model_path='/a b,c\\'d'",
        "k='a=b'",
        "runner.resume_dir=null",
        "~model",
    ],
)
def test_a_fixed_override_keeps_its_value(word):
    """Parsed again, it is the same; a sweeper may have put it together anew."""
    (job,) = jobs(word)
    ((again,), (first,)) = (parsed(job), parsed([word]))
    assert (again.key_or_group, again.value()) == (first.key_or_group, first.value())
    assert JobChoices.parse(to_hydra([word])).count == 1


def parsed(words):
    """As rlcore reads them."""
    from rlcore.config.overrides import parse_overrides

    return parse_overrides(words)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["env=toy"], [""]),
        (["env=toy,other", "runner.seed=0"], ["-env-toy", "-env-other"]),
        (["+runner.seed=0,1"], ["-seed-0", "-seed-1"]),
        (["a.lr=1e-4,-1", "b.gamma=0.5"], ["-lr-0.0001", "-lr--1"]),
        # as much of a key as distinguishes it from the others
        (["a.optim.lr=1,2", "b.optim.lr=3"], ["-lr-1", "-lr-2"]),
        (
            ["a.optim.lr=1,2", "b.optim.lr=3,4", "lr=5"],
            [f"-a-optim-lr-{x}-b-optim-lr-{y}" for x in (1, 2) for y in (3, 4)],
        ),
        # no character that a file system or a command line takes for something else
        (["k='a=b','c d/e','f,g:*?'"], ["-k-a_b", "-k-c_d_e", "-k-f_g"]),
        (["k=[a,b],{x:1}"], ["-k-a_b", "-k-x_1"]),
        (["k='\u00fc','.'"], ["-k", "-k"]),
        # both envs of a job get the same
        (["env.*.k=1,2"], ["-k-1", "-k-2"]),
        (
            ["env.*.k=2,3", "env.train.k=4,5"],
            [f"-both-k-{x}-train-k-{y}" for x in (2, 3) for y in (4, 5)],
        ),
    ],
)
def test_names_of_folders(words, expected):
    assert names(*words) == expected


def test_numbers_of_folders_sort():
    config = SweepLoader(digits=2).load_configuration(None, ["runner.seed=7"], RunMode.RUN)
    config.hydra.job.num = 3
    assert config.hydra.sweep.subdir == "03-seed-7"


def test_a_name_has_an_end():
    assert len(folder_suffix([f"k={'x' * 300}"], digits=2)) == 98


def test_a_pattern_fits_recipes():
    names = [job[0] for job in jobs("experiment=glob(metaworld_grpo*tiny)")]
    assert names == ["experiment=metaworld_grpo_openvlaoft_tiny"]


def test_how_many_jobs_lists_make():
    choices = JobChoices.parse(["a=1,2,3", "b=range(0,4)", "c=5"])
    assert (choices.count, choices.first) == (12, ("a=1", "b=0", "c=5"))
    assert JobChoices.parse(["a=1,2", "b=interval(0,1)"]).count == 0


def test_quotes_that_hydra_takes_from_a_listed_value_come_back():
    (first,) = JobChoices.parse(to_hydra(['a.b=choice("é\\"x y",c)'])).first
    assert first == "a.b='é\"x y'"


def test_names_that_look_like_numbers_stay_two_jobs():
    """1e5 and 100000.0 would be one name, 123e456 and 12e4567 both inf."""
    key = "runner.logger.project_name"
    words = quote_text_values([f"{key}=123e456,12e4567,x", "actor.optim.lr=1e-4,2e-4"], RunConfig())
    assert words == [f"{key}='123e456','12e4567',x", "actor.optim.lr=1e-4,2e-4"]
    names = [parsed([job[0]])[0].value() for job in jobs(words[0])]
    assert names == ["123e456", "12e4567", "x"]
    fixed = quote_text_values([f"{key}=7_5", f"{key}=choice(1e5,true)", f"{key}=[1]"], RunConfig())
    assert fixed == [f"{key}='7_5'", f"{key}=choice('1e5','true')", f"{key}=[1]"]


def test_a_plugin_of_hydra_that_can_not_be_imported_is_refused(refused, tmp_path, monkeypatch):
    """hydra-ax-sweeper 1.2 can't under Python 3.11. Hydra skips only plugins that lack a module."""
    package = tmp_path / "hydra_plugins"
    package.mkdir()
    (package / "theirs.py").write_text("raise ValueError('mutable default')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(Singleton._instances, Plugins, raising=False)
    with refused(PluginError, "hydra_plugins.theirs", text=False):  # names files of Hydra
        SweepLoader().load_configuration(None, [], RunMode.RUN)
    compose(["env=toy", "model=toy", "algorithm=ppo"])  # a single run needs none of them
