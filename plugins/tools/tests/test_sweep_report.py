"""The page of a sweep: its answer, its size, and what it does with studies and broken runs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rlcore_tools.report.parallel import Line, parallel
from rlcore_tools.runs.folders import runs_below
from rlcore_tools.runs.importance import parts
from rlcore_tools.runs.ranking import Ranked, ranked
from rlcore_tools.runs.settings import Setting
from rlcore_tools.runs.study import Study
from sweeps_made import make_sweep
from test_report import AFTER, Page, make_run

from rlcore.cli.main import main
from rlcore.runs.statistics import SuccessRate

FOUR = [
    {"algorithm.gamma": gamma, "actor.optim.lr": lr} for gamma in (0.9, 0.99) for lr in (1e-5, 1e-3)
]
RATES = [0.5, 0.2, 0.75, 0.3]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweeps") / "sweep"
    make_sweep(folder, FOUR, RATES, seeds=3, trials=40)
    return folder


def page(*words: str) -> Page:
    assert main(["report", *words]) == 0
    return Page(Path(words[-1]) if "-o" in words else Path(words[0]) / "report.html")


def test_the_page_has_the_best_setting_and_its_interval(sweep):
    found = page(str(sweep))
    assert "4 settings, 3 seeds each; 12 runs: 12 finished." in found.text
    assert "Best: algorithm.gamma=0.99, actor.optim.lr=1e-05." in found.text
    best = ranked(runs_below(sweep)).measured[0]
    assert best.rate and f"{best.rate.rate:.3f} [{best.rate.lo:.3f}, {best.rate.hi:.3f}]" in (
        found.text
    )
    assert "000-seed-0" in found.text and "0.99" in found.text


def test_the_page_needs_no_network_and_runs_no_script(sweep):
    found = page(str(sweep))
    assert found.addresses == []  # no run has a report of its own here
    for external in ("http:", "https:", "@import", "url(", "<script", "src="):
        assert external not in found.html


@pytest.mark.long
def test_two_hundred_runs_stay_below_five_megabytes(tmp_path):
    many = [
        {"algorithm.gamma": 0.9 + n / 1000, "actor.optim.lr": 10.0 ** -(3 + n % 5)}
        for n in range(50)
    ]
    make_sweep(tmp_path / "many", many, [0.2 + n / 100 for n in range(50)], seeds=4, updates=300)
    found = page(str(tmp_path / "many"))
    assert "200 runs: 200 finished" in found.text
    assert len(found.html.encode()) < 5_000_000


def test_several_seeds_of_one_recipe_have_such_a_page_too(sweep, elsewhere, capsys):
    runs = [str(row.folder) for row in runs_below(sweep)[:3]]
    assert main(["report", *runs]) == 0
    assert capsys.readouterr().out == f"{elsewhere}/report.html\n"
    found = Page(elsewhere / "report.html")
    assert "1 setting, 3 seeds each; 3 runs: 3 finished." in found.text
    assert "best" not in found.text
    again = page(runs[0], str(runs_below(sweep)[3].folder), "-o", "two.html")  # seed 0 of two
    assert "2 runs compared" in again.text


def test_broken_and_oddly_named_runs_are_named(tmp_path):
    runs = make_sweep(tmp_path / "s", FOUR, RATES, seeds=1, trials=4, updates=3)
    runs[0].summary.write_text("{]")
    runs[1].metrics.write_text("{]\n{]\n")
    (runs[2].evaluations / "after.parquet").write_text("nothing")
    odd = os.fsencode(runs[3].path.parent) + b"/\xff<b>\x1b\n"
    os.rename(runs[3].path, odd)
    found = page(str(tmp_path / "s"))
    assert "1 unreadable" in found.text and "summary.json" in found.text
    assert "after.parquet" in found.text
    assert "\\udcff<b>\\x1b\\n" in found.text and "\x1b" not in found.html


def test_the_page_of_a_study_has_its_trials_and_the_held_out_result(tmp_path):
    runs = make_sweep(tmp_path / "s", FOUR, RATES, seeds=1, trials=20, updates=3)
    trials = [
        {
            "number": n,
            "setting": setting,
            "state": "pruned" if n == 1 else "complete",
            "value": None if n == 1 else 0.4 + n / 10,
            "runs": [{"folder": run.name, "seed": 0, "pruned": 2 if n == 1 else None}],
        }
        for n, (setting, run) in enumerate(zip(FOUR, runs, strict=True))
    ]
    best = {"trial": 2, "rate": 0.7, "n": 40, "lo": 0.55, "hi": 0.82, "seeds": [0.7]}
    default = {**best, "rate": 0.5, "lo": 0.35, "hi": 0.65}
    difference = {"mean": 0.2, "lo": 0.01, "hi": 0.38}
    study = {
        "objective": "success_after.rate",
        "split": "validation",
        "planned": 4,
        "trials": trials,
        "heldout": {"best": best, "default": default, "difference": difference},
    }
    (tmp_path / "s" / "trials.json").write_text(json.dumps(study))
    make_run(tmp_path / "s", after=AFTER, before=None, name="heldout-2/run-0")
    found = page(str(tmp_path / "s"))
    assert "4 of 4 trials: 3 complete, 1 pruned" in found.text
    assert "0.700 [0.550, 0.820], better by +0.200" in found.text
    assert "held-out starts 0.500" in found.text and "update 2" in found.text
    rates = [setting.rate for setting in ranked(runs_below(tmp_path / "s")).settings]
    assert len(rates) == 3 and None not in rates


@pytest.mark.parametrize("text", ["{]", "[]", '{"trials": [3, {"runs": "x"}], "heldout": []}'])
def test_a_damaged_file_of_a_study_is_ignored(tmp_path, text):
    make_sweep(tmp_path / "s", FOUR[:2], RATES[:2], seeds=1, trials=4, updates=2)
    (tmp_path / "s" / "trials.json").write_text(text)
    assert "Best: " in page(str(tmp_path / "s")).text


def test_optuna_judges_a_study_of_its_own(tmp_path):
    """Twenty trials whose value is x alone: y matters less."""
    optuna = pytest.importorskip("optuna")
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = JournalStorage(JournalFileBackend(str(tmp_path / "study.log")))
    sampler = optuna.samplers.RandomSampler(seed=0)
    study = optuna.create_study(
        storage=storage, study_name="rlcore", direction="maximize", sampler=sampler
    )
    study.optimize(
        lambda trial: trial.suggest_float("x", 0, 1) + 0 * trial.suggest_float("y", 0, 1),
        n_trials=20,
    )
    (tmp_path / "trials.json").write_text('{"trials": []}')
    found = Study.of(tmp_path)
    assert found is not None
    shares = found.importance()
    assert shares is not None and shares["x"] > 0.8 > 0.2 > shares["y"]


# -- parts --------------------------------------------------------------------------------------


def setting(rate: float, **values: object) -> Ranked:
    return Ranked(Setting(values, ()), (), SuccessRate(rate, 10, 0.0, 1.0))


def test_the_share_of_variance_that_a_key_explains():
    """a: groups 0.2, 0.4 and 0.6, 0.8; mean 0.5, all 0.09 + 0.01 + 0.01 + 0.09 = 0.2, between
    4 * 0.04 = 0.16, so 0.8, adjusted 1 - 0.2 * 3 / 2 = 0.7. b: groups of mean 0.4 and 0.6: 0.04,
    0.2, adjusted 1 - 0.8 * 3 / 2 < 0: 0. c is another in each: nothing can be told."""
    settings = [
        setting(0.2, a=1, b="x", c=1),
        setting(0.4, a=1, b="y", c=2),
        setting(0.6, a=2, b="x", c=3),
        setting(0.8, a=2, b="y", c=4),
    ]
    found = {part.key: part for part in parts(settings, ("a", "b", "c"))}
    assert found["a"].share == pytest.approx(0.7)
    assert found["b"].share == 0.0 and found["c"].share is None
    assert [name for name, _, _ in found["a"].groups] == ["1", "2"]
    assert [mean for _, mean, _ in found["a"].groups] == pytest.approx([0.3, 0.7])


def test_many_numbers_are_put_together_by_quarters():
    found = parts([setting(n / 10, a=n) for n in range(8)], ("a",))
    quarters = {name: count for name, _, count in found[0].groups}
    assert quarters == {"0 to 1": 2, "2 to 3": 2, "4 to 5": 2, "6 to 7": 2}


def test_parallel_coordinates():
    """Axes at 56, 200 and 344 of 400; heights 34 at the top, 186 of 200 at the bottom. 1e-5 to 1e-3
    is drawn in powers, so 1e-4 is in the middle: 110. Names are from top to bottom."""
    lines = [
        Line([1e-5, "b", 1.0], "best", "first"),
        Line([1e-4, "a", 0.5], "tied", "<second>"),
        Line([1e-3, "b", 0.0], "beaten", "third"),
    ]
    svg = ElementTree.fromstring(parallel(lines, ["lr", "name", "success"], width=400, height=200))
    drawn = {line.findtext("title"): line.get("points") for line in svg.iter("polyline")}
    assert drawn == {
        "first": "56.0,186.0 200.0,186.0 344.0,34.0",
        "<second>": "56.0,110.0 200.0,34.0 344.0,110.0",
        "third": "56.0,34.0 200.0,186.0 344.0,186.0",
    }
    assert [line.get("opacity") for line in svg.iter("polyline")] == ["0.10", "0.55", "1.00"]
    assert {"1.0e-5", "1.0e-4", "0.001", "a", "b", "success"} <= {t.text for t in svg.iter("text")}
    assert [group.get("class") for group in svg.iter("g")][-1] == "best"  # on top


def test_one_value_and_missing_ones_have_an_axis():
    for values in ([1, 1], [None, 2], [True, False]):
        lines = [Line([value, 0.5], "tied", "x") for value in values]
        assert parallel(lines, ["a", "success"], width=400, height=200)
