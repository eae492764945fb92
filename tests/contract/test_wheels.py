"""A stranger's packages, an example and what `rlcore new` writes: built, installed and used."""

from __future__ import annotations

import email
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import tomllib
from rlcore_tools.new.make import New, write

Done = subprocess.CompletedProcess[str]
ROOT = Path(__file__).parents[2]
SLIDER = ROOT / "examples/slider"


def done(*command: str | Path, cwd: Path, packages: Path | None = None) -> Done:
    """A command that ended; `packages` is put on the module path."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if packages is not None:
        environ["PYTHONPATH"] = str(packages)
    words = [sys.executable, *map(str, command)]
    return subprocess.run(words, cwd=cwd, env=environ, capture_output=True, text=True)


def run(*command: str | Path, cwd: Path, packages: Path | None = None) -> str:
    """Standard output of a command that must succeed."""
    ended = done(*command, cwd=cwd, packages=packages)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def build(project: Path, folder: Path) -> Path:
    """The wheel of a project."""
    run("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index",
        "--wheel-dir", folder, project, cwd=folder)  # fmt: skip
    (wheel,) = folder.glob("*.whl")
    return wheel


BOARD = {"package": "acme_board", "class_name": "Board"}
BOARD_PLUGIN = '''"""A tracker, a command and a hook in one package."""

from rlcore import hookimpl, observer
from rlcore.contracts.component import ComponentSpec

RLCORE_API = (0, 1)


@hookimpl
def rlcore_components():
    return [
        ComponentSpec(kind="tracker", name="board", target="acme_board.tracker:Board"),
        ComponentSpec(
            kind="command",
            name="board",
            target="acme_board.command:main",
            summary="the best value of a metric: board RUN METRIC",
        ),
    ]


@observer
def rlcore_after_run(run):
    if (run.folder / "board.csv").is_file():
        run.print_line(f"the best numbers: rlcore board {run.folder} METRIC")
'''


def board_package(folder: Path) -> Path:
    """What `rlcore new` writes for a tracker and for a command, as one package with a hook."""
    write(New("tracker", "board", BOARD), folder)
    write(New("command", "board", BOARD), folder.with_name("command"))
    command = folder.with_name("command") / "acme_board/command.py"
    shutil.copyfile(command, folder / "acme_board/command.py")
    (folder / "acme_board/plugin.py").write_text(BOARD_PLUGIN)
    return folder


def installed(source: Path, base: Path) -> Path:
    """A folder of installed packages that holds the project's."""
    (base / "dist").mkdir()
    wheel = build(source, base / "dist")
    packages = base / "packages"
    run("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", packages, wheel,
        cwd=base)  # fmt: skip
    return packages


@pytest.fixture(scope="module")
def stranger(tmp_path_factory) -> Path:
    """The env of examples/slider, installed."""
    return installed(SLIDER, tmp_path_factory.mktemp("stranger"))


@pytest.fixture(scope="module")
def board(tmp_path_factory) -> Path:
    """The tracker, the command and the hook, installed."""
    base = tmp_path_factory.mktemp("board")
    return installed(board_package(base / "source"), base)


def rlcore(*arguments: str, cwd: Path, packages: Path | None) -> str:
    return run("-m", "rlcore.cli.main", *arguments, cwd=cwd, packages=packages)


def refused(*arguments: str, cwd: Path, packages: Path) -> str:
    """What a command says that is wrong."""
    ended = done("-m", "rlcore.cli.main", *arguments, cwd=cwd, packages=packages)
    assert ended.returncode == 2, ended.stdout + ended.stderr
    assert ended.stderr.count("error: ") == 1 and "Traceback" not in ended.stderr
    return ended.stderr


CHOICE = ("env=slider", "model=toy", "algorithm=ppo")
SMALL = (
    "cluster.backend=local",
    "cluster.component_placement={env: '0:0', rollout: '0:0', actor: '0:0'}",
    "runner.max_epochs=1",
    "env.eval.trials_per_task=3",
    "env.train.total_num_envs=4",
    "env.eval.total_num_envs=4",
    "actor.global_batch_size=16",
    "actor.micro_batch_size=16",
    "runner.logger.log_path=logs",
    "runner.logger.experiment_name=run",
)


@pytest.mark.long
def test_it_is_listed(stranger, tmp_path):
    rows = json.loads(rlcore("plugins", "--json", cwd=tmp_path, packages=stranger))
    assert {
        "kind": "env",
        "name": "slider",
        "distribution": "slider-for-rlcore",
        "version": "1.0.0",
        "status": "ok",
        "reason": "",
    } in rows
    without = json.loads(rlcore("plugins", "--json", cwd=tmp_path, packages=None))
    assert "slider" not in {row["name"] for row in without}


@pytest.mark.long
def test_it_is_planned_with_its_own_keys(stranger, tmp_path):
    words = ("train", *CHOICE, "env.train.speed=0.3")
    plan, shown = (
        rlcore(*words, *flags, cwd=tmp_path, packages=stranger)
        for flags in (["--dry-run"], ["--cfg", "job"])
    )
    assert "env_type: slider" in shown
    # the override reaches one side, the default of its dataclass the other
    assert sorted(re.findall(r"^ +speed: (0\.\d)$", shown, flags=re.MULTILINE)) == ["0.2", "0.3"]
    assert "rollout+actor" in plan
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_it_is_trained_on(stranger, tmp_path):
    rlcore("train", *CHOICE, *SMALL, cwd=tmp_path, packages=stranger)
    summary = json.loads((tmp_path / "logs/run/summary.json").read_text())
    assert summary["success_after"]["n"] == 6  # 2 tasks of 3 trials
    assert summary["versions"]["slider-for-rlcore"] == "1.0.0"


@pytest.mark.long
def test_it_passes_the_checks_in_three_lines(stranger, tmp_path):
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib")
    shown = run(*words, SLIDER / "tests", cwd=tmp_path, packages=stranger)
    passed = re.search(r"(\d+) passed", shown)
    assert passed and int(passed[1]) > 20


@pytest.mark.long
def test_its_command_is_listed_and_misspelt_as_ours_are(board, tmp_path):
    listed = rlcore("--help", cwd=tmp_path, packages=board)
    assert re.search(r"\n  board +the best value of a metric", listed)
    rows = json.loads(rlcore("plugins", "--json", cwd=tmp_path, packages=board))
    brought = {(row["kind"], row["name"]) for row in rows if row["distribution"] == "board"}
    assert brought == {("tracker", "board"), ("command", "board")}
    assert "Did you mean 'board'?" in refused("baord", cwd=tmp_path, packages=board)
    assert "there is no run at" in refused("board", "nowhere", "x", cwd=tmp_path, packages=board)


@pytest.mark.long
def test_its_tracker_and_its_hook_are_told_of_a_run_and_its_command_reads_it(board, tmp_path):
    choice = ("env=toy", *CHOICE[1:], *SMALL, "runner.logger.logger_backends=[board]")
    text = rlcore("train", *choice, cwd=tmp_path, packages=board)
    run = tmp_path / "logs/run"
    assert f"the best numbers: rlcore board {run} METRIC\n" in text
    best = rlcore("board", str(run), "eval/success_once", cwd=tmp_path, packages=board)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    rates = [line["eval/success_once"] for line in lines if "eval/success_once" in line]
    assert len(rates) == 2  # before and after the update
    assert re.fullmatch(rf"eval/success_once was best after update [01]: {max(rates):g}\n", best)
    text = refused("board", str(run), "eval/sucess_once", cwd=tmp_path, packages=board)
    assert "there is no metric 'eval/sucess_once'. Did you mean 'eval/success_once'?" in text


@pytest.fixture(scope="module")
def wheelhouse(tmp_path_factory) -> Path:
    """What `make wheels` leaves, by the build tools of the environment that the tests run in."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        ["make", "--silent", "wheels", f"BUILD={sys.prefix}", f"DIST={folder}",
         f"--old-file={sys.prefix}/bin/hatchling"],  # there, whatever the files' times say
        cwd=ROOT, env=os.environ | {"PIP_NO_INDEX": "1", "MAKEFLAGS": ""}, check=True,
    )  # fmt: skip
    return folder


PROJECTS = [ROOT / "pyproject.toml", *sorted(ROOT.glob("plugins/**/pyproject.toml"))]
AUTHORS = [{"name": "rlcore maintainers"}]
CLASSIFIERS = (
    "Development Status :: 3 - Alpha",
    "Intended Audience :: Science/Research",
    "Operating System :: POSIX :: Linux",
    "Programming Language :: Python :: 3 :: Only",
    "Programming Language :: Python :: 3.11",
    "Topic :: Scientific/Engineering :: Artificial Intelligence",
    "Typing :: Typed",
)


def stated(project: Path) -> dict[str, Any]:
    """What a pyproject.toml says of its distribution."""
    return tomllib.loads(project.read_text())["project"]


@pytest.mark.parametrize("project", PROJECTS, ids=lambda file: file.parent.name)
def test_a_distribution_says_whose_it_is_and_what_it_is_for(project):
    content = stated(project)
    assert content["authors"] == AUTHORS and content["license"] == "Apache-2.0"
    assert tuple(content["classifiers"]) == CLASSIFIERS
    # the one address that the README names, whatever it is
    (address,) = set(re.findall(r"git clone (\S+)\.git", (ROOT / "README.md").read_text()))
    assert content["urls"] == {"Repository": address}
    assert 0 < len(content["description"]) <= 120
    text = (project.parent / content["readme"]).read_text()
    assert text.startswith(f"# {content['name']}\n") and len(text) > 200
    if project.parent != ROOT:
        assert len(text) < 1000
        (page,) = re.findall(r"`(docs/\S+\.md)`", text)
        assert (ROOT / page).is_file()
    (package,) = project.parent.glob("rlcore*/__init__.py")
    assert package.with_name("py.typed").is_file()


@pytest.mark.long
def test_a_wheel_says_what_its_project_states(wheelhouse):
    for project in PROJECTS:
        content = stated(project)
        (wheel,) = wheelhouse.glob(
            f"{content['name'].replace('-', '_')}-{content['version']}-*.whl"
        )
        archive = zipfile.ZipFile(wheel)
        (name,) = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
        told = email.message_from_string(archive.read(name).decode())
        assert told["Author"] == AUTHORS[0]["name"]
        assert told.get_all("Classifier") == sorted(CLASSIFIERS)
        assert told.get_all("Project-URL") == [f"Repository, {content['urls']['Repository']}"]
        assert told["Description-Content-Type"] == "text/markdown"
        assert told.get_payload().strip() == (project.parent / "README.md").read_text().strip()


@pytest.mark.long
def test_every_distribution_of_ours_has_a_wheel(wheelhouse):
    names = {stated(project)["name"].replace("-", "_") for project in PROJECTS}
    assert {wheel.name.split("-")[0] for wheel in wheelhouse.iterdir()} == names


@pytest.mark.long
@pytest.mark.parametrize(
    ("distribution", "present"),
    [
        ("rlcore", ("rlcore/configs/train.yaml", "rlcore/py.typed")),
        ("rlcore_testing", ("rlcore_testing/conf/env/toy.yaml", "rlcore_testing/py.typed")),
        ("rlcore_algo_ppo", ("rlcore_algo_ppo/conf/algorithm/ppo.yaml",)),
        ("rlcore_algo_grpo", ("rlcore_algo_grpo/conf/algorithm/grpo.yaml",)),
        ("rlcore_algo_rft", ("rlcore_algo_rft/conf/algorithm/rft.yaml",)),
        ("rlcore_algo_expo", ("rlcore_algo_expo/conf/algorithm/expo.yaml",)),
        ("rlcore_algo_dsrl", ("rlcore_algo_dsrl/conf/algorithm/dsrl.yaml",)),
        ("rlcore_algo_sac", ("rlcore_algo_sac/conf/algorithm/sac.yaml",)),
        ("rlcore_off_policy", ("rlcore_off_policy/py.typed",)),
        ("rlcore_policy_gradient", ("rlcore_policy_gradient/py.typed",)),
        ("rlcore_data_lerobot", ("rlcore_data_lerobot/py.typed",)),
        ("rlcore_ray", ("rlcore_ray/group.py", "rlcore_ray/py.typed")),
        ("rlcore_serve", ("rlcore_serve/platforms.yaml", "rlcore_serve/py.typed")),
        ("rlcore_simulation", ("rlcore_simulation/serve.py", "rlcore_simulation/py.typed")),
        ("rlcore_mujoco", ("rlcore_mujoco/py.typed",)),
        ("rlcore_sapien", ("rlcore_sapien/py.typed",)),
        ("rlcore_env_metaworld", ("rlcore_env_metaworld/conf/env/metaworld.yaml",)),
        ("rlcore_env_gymnasium", ("rlcore_env_gymnasium/conf/env/gymnasium.yaml",)),
        ("rlcore_env_maniskill", ("rlcore_env_maniskill/conf/env/maniskill.yaml",)),
        ("rlcore_model_openpi", ("rlcore_model_openpi/conf/model/pi0.yaml",)),
        ("rlcore_model_openvla", ("rlcore_model_openvla/conf/model/openvla.yaml",)),
        ("rlcore_model_openvla_oft", ("rlcore_model_openvla_oft/conf/model/openvla_oft.yaml",)),
        ("rlcore_model_gaussian", ("rlcore_model_gaussian/conf/model/gaussian.yaml",)),
        ("rlcore_model_smolvla", ("rlcore_model_smolvla/conf/model/smolvla.yaml",)),
        ("rlcore_model_lerobot", ("rlcore_model_lerobot/conf/model/lerobot.yaml",)),
        ("rlcore_flow", ("rlcore_flow/py.typed",)),
        ("rlcore_prismatic", ("rlcore_prismatic/py.typed",)),
        ("rlcore_weights", ("rlcore_weights/py.typed",)),
    ],
)
def test_our_wheels_hold_code_and_configuration_and_nothing_else(wheelhouse, distribution, present):
    (wheel,) = wheelhouse.glob(f"{distribution}-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert set(present) <= set(names)
    top = {name.split("/")[0] for name in names}
    version = wheel.name.split("-")[1]
    assert top == {distribution, f"{distribution}-{version}.dist-info"}
    assert not [name for name in names if "tests/" in name or name.endswith(".pyc")]
    # a rule of .gitignore that matches a folder of ours would leave it out
    (package,) = [*ROOT.glob(distribution), *ROOT.glob(f"plugins/**/{distribution}")]
    modules = {str(file.relative_to(package.parent)) for file in package.rglob("*.py")}
    assert modules == {name for name in names if name.endswith(".py")}
