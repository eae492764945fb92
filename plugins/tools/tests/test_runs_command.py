"""`rlcore runs`: real runs of the toy, folders made by the writers of runs, and broken ones."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
from internals import compose, recipe_of, to_yaml
from rlcore_tools.runs.conditions import Condition
from rlcore_tools.runs.folders import natural_order, runs_below
from rlcore_tools.runs.ranking import ranked
from rlcore_tools.runs.record import RunRecord, read_config
from rlcore_tools.runs.row import read_row
from rlcore_tools.runs.settings import grouped
from test_report import AFTER, BEFORE, make_run

from rlcore.cli.main import main
from rlcore.contracts.errors import CheckpointError, ConfigError, WorkerError
from rlcore.contracts.hookspecs import hookimpl
from rlcore.files.reading import read_yaml
from rlcore.plugins.registry import load_plugins
from rlcore.runs.folder import RunFolder

TOY = (
    "env=toy",
    "model=toy",
    "algorithm=ppo",
    "runner.max_epochs=1",
    "cluster.backend=local",
    "cluster.component_placement={env: 0, rollout: 0, actor: 0}",
    "env.train.total_num_envs=4",
    "env.*.tasks=[reach-left]",
    "runner.logger.experiment_name=run",
)
ALL_LOST = dict.fromkeys(AFTER, False)
ALL_WON = dict.fromkeys(AFTER, True)


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["runs", *words]) == 0
    return capsys.readouterr().out


def states(folder: Path) -> dict[str, tuple[str, str]]:
    return {row.name: (row.state, row.reason) for row in runs_below(folder)}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of two runs that were really trained."""
    logs = tmp_path_factory.mktemp("played")
    for seed in (0, 1):
        words = (f"runner.seed={seed}", f"runner.logger.log_path={logs}")
        assert main(["train", *TOY, *words]) == 0
    return logs


def test_real_runs_are_listed_shown_and_compared(played, capsys):
    first, second = runs_below(played)
    assert (first.name, first.state, first.seed, second.seed) == ("run", "finished", 0, 1)
    assert first.before and first.before["n"] > 0 and first.seconds and first.started
    (found,) = json.loads(shown(capsys, "ls", str(played), "--where", "seed=1", "--json"))
    assert found["folder"] == str(second.folder) and found["after"] == second.after
    text = shown(capsys, "show", str(first.folder))
    assert "toy on toy, ppo" in text and "runner.max_epochs: 10 -> 1" in text
    assert "step_000001" in text
    text = shown(capsys, "diff", str(first.folder), str(second.folder))
    assert re.search(r"runner\.seed +0 +1\n", text)
    assert re.search(r"\(only setting\) +2\b", shown(capsys, "best", str(played)))


class Failing:
    """A plugin by which an update fails."""

    @hookimpl
    def rlcore_after_rollout(self, run):
        raise WorkerError("env worker 0 died")


def test_a_failed_run_shows_its_error(log_path, capsys):
    load_plugins().manager.register(Failing(), "failing")
    try:
        assert main(["train", *TOY, f"runner.logger.log_path={log_path}"]) == 1
    finally:
        load_plugins().manager.unregister(name="failing")
    ((state, reason),) = states(log_path).values()
    assert state == "failed" and reason.endswith("env worker 0 died")
    assert "rlcore resume" in shown(capsys, "show", str(log_path / "run"))


# -- states -------------------------------------------------------------------------------------


def holder(process: int, host: str = "") -> str:
    since = datetime.now().isoformat(" ", timespec="seconds")
    return f"process {process} on {host or socket.gethostname()} since {since}"


def test_a_run_under_way_shows_its_update_and_the_time_left(log_path, capsys):
    folder = make_run(log_path, "runner.max_epochs=8", finished=False, updates=())
    lines = [{"step": step, "time": 100.0 + 60 * step, "env/success_once": 0.5} for step in (1, 2)]
    folder.metrics.write_text("".join(f"{json.dumps(line)}\n" for line in lines) + '{"step": 3, "t')
    (folder.path / ".lock").write_text(holder(os.getpid()))
    row = read_row(folder.path, "run")
    assert (row.state, row.update, row.updates, row.success) == ("running", 2, 8, 0.5)
    assert row.left == 360.0  # 60 s an update, 6 to go
    text = shown(capsys, "ls", str(log_path))
    assert "2/8" in text and "0.50" in text and "6 min 0 s" in text


@pytest.mark.parametrize(
    ("word", "progress"), [("sft.until=max_steps", "sft 3/8"), ("sft.until=plateau", "sft 3")]
)
def test_a_run_in_supervised_training_shows_its_steps(log_path, capsys, word, progress):
    words = ("sft.enabled=true", "sft.max_steps=8", word)
    folder = make_run(log_path, *words, finished=False, before=None, updates=())
    # steps 20 to 22: those of the run whose policy this one began from are counted on
    lines = [{"step": step, "time": 100.0, "sft/train_loss": 0.5} for step in (20, 21, 22)]
    folder.metrics.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert progress in shown(capsys, "ls", str(log_path)).replace("  ", "\n").splitlines()
    assert progress.replace("/", " of ") in shown(capsys, "show", str(folder.path))


def test_the_state_of_a_run_that_did_not_finish(log_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    cases = {
        "killed": (".lock", holder(gone.pid)),
        "elsewhere": (".lock", holder(1, "another-host")),
        "stopped": ("attempts/0001/ended.json", '{"state": "interrupted", "reason": ""}'),
        "failed": ("attempts/0002/ended.json", '{"state": "failed", "reason": "NaN\\nat 3"}'),
        "silent": ("left", ""),
    }
    for name, (file, text) in cases.items():
        path = make_run(log_path, finished=False, name=name).path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = states(log_path)
    assert {name: state for name, (state, _) in found.items()} == {
        "elsewhere": "running",
        "failed": "failed",
        "killed": "interrupted",
        "silent": "interrupted",
        "stopped": "interrupted",
    }
    assert "killed" in found["killed"][1] and "another-host" in found["elsewhere"][1]
    assert found["failed"][1] == "NaN\nat 3"


def test_a_collection_into_another_folder_is_finished_unless_its_attempt_failed(log_path):
    cases = {
        "collected": None,
        "failed": ("attempts/0001/ended.json", '{"state": "failed", "reason": "too few"}'),
        "killed": (".lock", holder(2**22 + 1)),  # above the largest id of a process
    }
    for name, note in cases.items():
        folder = make_run(
            *(log_path, "collect.output=/data/shown"),
            **{"before": None, "after": None, "updates": (), "finished": False, "name": name},
        )
        if note is not None:
            (folder.path / note[0]).parent.mkdir(parents=True, exist_ok=True)
            (folder.path / note[0]).write_text(note[1])
    assert {name: state for name, (state, _) in states(log_path).items()} == {
        "collected": "finished",
        "failed": "failed",
        "killed": "interrupted",
    }


def test_a_later_process_with_the_same_id_is_another(log_path):
    folder = make_run(log_path, finished=False)
    (folder.path / ".lock").write_text(
        f"process {os.getpid()} on {socket.gethostname()} since 2001-01-01 00:00:00"
    )
    assert read_row(folder.path, "run").state == "interrupted"


def test_failed_jobs_of_a_sweep_are_listed_without_a_folder(log_path):
    sweep = log_path / "sweep"
    folder = make_run(sweep, finished=False, name="0-seed-0").path
    notes = {
        "0.json": {"folder": str(folder), "state": "failed", "error": "killed by SIGKILL"},
        "1.json": {"folder": str(sweep / "1-seed-1"), "state": "failed", "error": "no such key"},
        "2.json": {"folder": str(sweep / "2-seed-2"), "state": "not started", "error": ""},
    }
    (sweep / ".jobs").mkdir()
    for name, note in notes.items():
        (sweep / ".jobs" / name).write_text(json.dumps(note))
    assert states(log_path) == {
        "sweep/0-seed-0": ("failed", "killed by SIGKILL"),
        "sweep/1-seed-1": ("failed", "no such key"),
    }


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("summary.json", "{]"),
        pytest.param("summary.json", '{"success_after": {"rate": "x"}}', marks=pytest.mark.long),
        pytest.param("manifest.json", "\xff", marks=pytest.mark.long),
        ("config.yaml", None),
    ],
)
def test_an_unreadable_run_is_a_row_with_the_reason(log_path, capsys, file, text):
    make_run(log_path, name="whole")
    broken = make_run(log_path, name="broken").path / file
    broken.unlink() if text is None else broken.write_text(text, encoding="latin-1")
    ((state, reason), whole) = states(log_path).values()
    assert state == "unreadable" and file in reason and whole == ("finished", "")
    assert "1 unreadable, 1 finished" in shown(capsys, "ls", str(log_path))
    if text is not None:
        (broken.parent / "recipe.yaml").write_text("[")
        printed = shown(capsys, "show", str(broken.parent))
        assert reason[:80] in printed and "recipe.yaml" in printed


def test_pipes_links_and_odd_names_hang_and_escape_nothing(log_path, tmp_path, capsys):
    odd = "a\tb\n\x1b[31m\u202e ${x} 'q' 運転 -o"
    make_run(log_path, name=odd)
    pipe = make_run(log_path, name="pipe")
    pipe.summary.unlink()
    os.mkfifo(pipe.summary)
    (log_path / "round").symlink_to(log_path)
    (log_path / "loop").symlink_to("loop")
    secret = make_run(tmp_path / "other", name="secret").config
    (log_path / "link").mkdir()
    (log_path / "link" / "config.yaml").symlink_to(secret)
    os.mkdir(os.fsencode(log_path) + b"/\xff")
    os.link(pipe.config, os.fsencode(log_path) + b"/\xff/config.yaml")
    text = shown(capsys, "ls", str(log_path))
    assert len(text.splitlines()) == 6  # heading, four runs, the count
    assert states(log_path)["link"][0] == "unreadable"
    assert "\\t" in text and "\\n\\x1b[31m\\u202e" in text and "\x1b" not in text
    assert "\\udcff" in text and "pipe" in text
    named = [row["name"] for row in json.loads(shown(capsys, "ls", str(log_path), "--json"))]
    assert odd in named and len(named) == 4


@pytest.mark.long
def test_names_are_in_order_of_their_numbers(log_path):
    for number in (10, 2, 1):
        make_run(log_path, name=f"run-{number}")
    assert list(states(log_path)) == ["run-1", "run-2", "run-10"]
    assert natural_order("a2") < natural_order("a10") < natural_order("b")


# -- conditions ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    log_path = tmp_path_factory.mktemp("three")
    for name, gamma, after in (("low", 0.9, ALL_LOST), ("high", 0.99, AFTER), ("top", 1.0, None)):
        words = (f"algorithm.gamma={gamma}",)
        make_run(log_path, *words, after=after or AFTER, finished=bool(after), name=name)
    return log_path


@pytest.mark.quick(6)
@pytest.mark.parametrize(
    ("where", "found"),
    [
        (["algorithm.gamma>0.95"], ["high", "top"]),
        (["algorithm.gamma>=0.99", "state=finished"], ["high"]),
        (["algorithm.gamma = 0.90"], ["low"]),
        (["algorithm.gamma!=1"], ["high", "low"]),
        (["after<0.5"], ["low"]),
        (["after=null"], ["top"]),
        (["algorithm.name=ppo"], ["high", "low", "top"]),
        (["algorithm.name>a"], ["high", "low", "top"]),
        (["algorithm.name>1"], ["high", "low", "top"]),  # texts: 'p' is behind '1'
        (["runner.only_eval=false"], ["high", "low", "top"]),
        (["runner.only_eval>0"], []),  # true and false have no order
        (["name='low'"], ["low"]),
        (["algorithm.gamma=__import__('os').abort()"], []),
    ],
)
def test_conditions(three, capsys, where, found):
    words = [word for text in where for word in ("--where", text)]
    rows = json.loads(shown(capsys, "ls", str(three), "--json", *words))
    assert [row["name"] for row in rows] == found


def test_a_condition_shows_its_key_and_rows_can_be_sorted(three, capsys):
    text = shown(capsys, "ls", str(three), "--where", "algorithm.gamma>0", "--sort=-after")
    lines = [line.split() for line in text.splitlines()]
    assert lines[0][:3] == ["run", "state", "algorithm.gamma"]
    assert [line[0] for line in lines[1:4]] == ["high", "low", "top"]  # without a rate: the last
    text = shown(capsys, "ls", str(three), "--sort", "algorithm.gamma")
    assert [line.split()[0] for line in text.splitlines()[1:4]] == ["low", "high", "top"]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["ls", "--where", "algorithm.gama>1"], "'algorithm.gamma'"),
        (["ls", "--sort", "afte"], "'after'"),
        (["ls", "--where", "gamma"], "KEY SIGN VALUE"),
        (["sl"], "'sl'"),
        (["ls", "nowhere"], "nowhere"),
        (["show", "nowhere"], "nowhere"),
        (["diff", "low"], "RUN"),
    ],
)
def test_a_wrong_word_is_an_error_that_names_it(three, monkeypatch, capsys, words, named):
    monkeypatch.chdir(three)
    words = [*words[:1], ".", *words[1:]] if words[1:2] and words[1][0] == "-" else words
    assert main(["runs", *words]) == 2
    assert named in capsys.readouterr().err


def test_no_condition_is_evaluated(refused):
    with refused(ConfigError, "print(1)"):
        Condition.read("print(1)")
    assert Condition.read("a.b>=1").value == "1"


# -- reading ------------------------------------------------------------------------------------


@pytest.mark.parametrize("recipe", ["quickstart", "metaworld_grpo_openvlaoft_tiny"])
def test_a_configuration_is_read_as_a_parser_of_yaml_reads_it(tmp_path, recipe):
    file = tmp_path / "config.yaml"
    config = compose([f"experiment={recipe}"])
    for written in (config, recipe_of(config)):
        file.write_text(to_yaml(written))
        assert read_config(file) == read_yaml(file)


@pytest.mark.parametrize(
    "text",
    [
        "a: &x {b: 1}\nc: *x\n",
        "a:\n    b: 1\n    c: 2\nd: 3\n",
        "a:\n- b: 1\n  c: 2\nd: 3\n",
        "a:\n  - 1\n  - 2\nb: 1\n",
        'a: "x\n  y"\nb: 1\n',
        "a: |\n  b:\n    c: 1\nd: 2\n",
        "# note\na:\n  # note\n  b: 1\n",
        "---\na: 1\n",
        "'a b':\n  c: 1\n1: 2\n",
        "a:\n  plain\n  text\nb: 1\n",
        "a:\n  b: 1\n  b:\n    c: 2\n",
        "a:\n\n  b: 1\n",
        "{a: {b: 1}}\n",
        "a:\nb: 1\n",
        "a: -1.50\nb: 010\nc: 1e5\nd: 1.\ne: 1:30\nf: 1_0\ng: -0\nh: 1.5.2\n",
        "a: Yes\nb: OFF\nc: Null\nd: True\ne: on/off\nf: nan\non: 1\nn: y\n",
    ],
)
def test_other_yaml_is_read_as_a_parser_of_yaml_reads_it(tmp_path, text):
    file = tmp_path / "config.yaml"
    file.write_text(text)
    assert read_config(file) == read_yaml(file)


@pytest.mark.parametrize("text", ["a:\n    b: 1\n  c: 2\n", "- 1\n", "", "a: [\n", "a\n" * 9])
def test_a_file_that_is_no_configuration_is_refused(refused, tmp_path, text):
    (tmp_path / "config.yaml").write_text(text)
    with refused(CheckpointError, "config.yaml", text=False):  # the parser words the causes
        _ = RunRecord(RunFolder(tmp_path)).config


# -- best ---------------------------------------------------------------------------------------


def starts(won: int, of: int = 40) -> dict[tuple[str, int], bool]:
    return {("pull", n): n < won for n in range(of)}


@pytest.mark.long
def test_the_best_setting_over_its_seeds_and_the_undecided(log_path, capsys):
    figures = {(0.9, 1): 36, (0.9, 2): 34, (0.95, 1): 35, (0.95, 2): 33, (0.5, 1): 3, (0.5, 2): 4}
    for (gamma, seed), won in figures.items():
        words = (f"algorithm.gamma={gamma}", f"runner.seed={seed}")
        make_run(log_path, *words, before=None, after=starts(won), name=f"{gamma}-{seed}")
    make_run(log_path, "algorithm.gamma=0.7", before=None, after=starts(9, 9), name="other starts")
    text = shown(capsys, "best", str(log_path))
    (best,) = [line for line in text.splitlines() if line.startswith("Best: ")]
    assert "algorithm.gamma=0.9." in best and "algorithm.gamma=0.95" in best
    assert "left out: other starts" in text
    found = json.loads(shown(capsys, "best", str(log_path), "--json"))
    undecided = [(one["values"]["algorithm.gamma"], one["undecided"]) for one in found["settings"]]
    assert undecided == [(0.9, False), (0.95, True), (0.5, False), (0.7, False)]
    assert found["settings"][0]["rate"]["rate"] == 0.875  # (36 + 34) / 80
    assert found["settings"][0]["seeds"] == [1, 2]


@pytest.mark.long
def test_a_component_stands_for_the_keys_that_come_with_it(log_path):
    runs = {
        "0-a": ["algorithm=ppo"],
        "1-b": ["algorithm=grpo", "algorithm.group_size=4"],
        "2-c": ["algorithm=ppo", "env.*.max_episode_steps=8"],
    }
    for name, words in runs.items():
        make_run(log_path, *words, name=name)
    value_head = "actor.model.add_value_head"  # of the recipe of an algorithm
    assert [one.label for one in grouped(runs_below(log_path))] == [
        f"env.*.max_episode_steps={steps}, {value_head}={head}, algorithm.name={name}"
        for steps, head, name in ((20, "true", "ppo"), (20, "false", "grpo"), (8, "true", "ppo"))
    ]
    (log_path / ".jobs").mkdir()
    for number, (name, words) in enumerate(runs.items()):
        note = {"folder": str(log_path / name), "words": words[:1], "state": "done"}
        (log_path / ".jobs" / f"{number}.json").write_text(json.dumps(note))
    rows = [row for row in runs_below(log_path) if row.name != "2-c"]
    assert [one.label for one in grouped(rows)] == ["algorithm=ppo", "algorithm=grpo"]


@pytest.mark.long
def test_a_damaged_configuration_is_left_out_and_makes_no_key_differ(log_path, capsys):
    for gamma in (0.5, 0.9):
        make_run(
            log_path, f"algorithm.gamma={gamma}", before=None, after=starts(9), name=f"{gamma}"
        )
    for number, text in enumerate(("a: [", "runner: {seed: {}}\nalgorithm: 3\n")):
        make_run(log_path, before=None, after=starts(9), name=f"damaged-{number}")
        (log_path / f"damaged-{number}/config.yaml").write_text(text)
    labels = [setting.label for setting in ranked(runs_below(log_path)).settings]
    assert labels == ["algorithm.gamma=0.5", "algorithm.gamma=0.9"]
    text = shown(capsys, "best", str(log_path))
    assert all(f"damaged-{n}" in text for n in (0, 1))


@pytest.mark.long
def test_the_machine_makes_a_setting_where_a_sweep_varies_it(log_path):
    backends = {"0-a": "local", "1-b": "ray", "2-c": "local"}
    for number, (name, backend) in enumerate(backends.items()):
        make_run(log_path, f"cluster.backend={backend}", f"runner.seed={number // 2}", name=name)
    assert len(grouped(runs_below(log_path))) == 1  # nobody has ordered them as a comparison
    (log_path / ".jobs").mkdir()
    for number, (name, backend) in enumerate(backends.items()):
        words = ["cluster.num_nodes=1", f"cluster.backend={backend}", f"runner.seed={number // 2}"]
        note = {"folder": str(log_path / name), "words": words, "state": "done"}
        (log_path / ".jobs" / f"{number}.json").write_text(json.dumps(note))
    sizes = {setting.label: len(setting.rows) for setting in grouped(runs_below(log_path))}
    assert sizes == {"cluster.backend=local": 2, "cluster.backend=ray": 1}


def test_a_seed_counts_once(log_path, capsys):
    make_run(log_path, after=ALL_LOST, name="first")
    make_run(log_path, after=ALL_WON, name="again")
    (setting,) = ranked(runs_below(log_path)).settings
    assert len(setting.seeds) == 1
    make_run(log_path / "none", finished=False, after=None)
    assert "Best: " not in shown(capsys, "best", str(log_path / "none"))


def test_runs_are_listed_by_default_from_logs(elsewhere, capsys):
    assert main(["runs", "ls"]) == 2
    assert "logs" in capsys.readouterr().err
    make_run(elsewhere / "logs", before=BEFORE)
    assert "1 finished" in shown(capsys, "ls")
    assert RunFolder(elsewhere / "logs" / "run").config.is_file()
