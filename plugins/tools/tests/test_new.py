"""New packages: complete, listed, checked, planned, and what docs/plugin*.md show."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from rlcore_tools.cli import new
from rlcore_tools.new import make
from rlcore_tools.new.make import SUMMARIES, New, write

from rlcore.contracts.errors import ConfigError

ROOT = Path(__file__).parents[3]


def importable(folder: Path, package: str) -> dict[str, str]:
    """The environment of a process that finds it as if pip had installed it."""
    facts = folder / f"{package}-1.0.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0.0\n")
    (facts / "entry_points.txt").write_text(f"[rlcore.plugins]\n{package} = {package}.plugin\n")
    return os.environ | {"PYTHONPATH": str(folder)}


def rlcore(*words: str, env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rlcore.cli.main", *words]
    return subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True)


@pytest.mark.quick(3)
@pytest.mark.parametrize("kind", SUMMARIES)
def test_every_kind_is_listed_and_in_style(kind, tmp_path):
    folder = tmp_path / f"my-{kind}"
    files = {str(file.relative_to(folder)) for file in write(New(kind, f"my-{kind}", {}), folder)}
    assert {"pyproject.toml", "README.md", f"my_{kind}/plugin.py"} <= files
    assert not [file for file in files if "{" in file or file.endswith(".jinja")]
    answers = (folder / ".copier-answers.yml").read_text()
    assert "_src_path: rlcore_tools/new/template\n" in answers
    left = [file for file in files if "{{" in (folder / file).read_text()]
    assert left == []
    # the order of imports is that of an author's own tool, which knows what is whose
    style = ["check", "--isolated", "--line-length=100", "--select=E,F,UP,B,SIM", str(folder)]
    subprocess.run([sys.executable, "-m", "ruff", *style], check=True)
    listed = rlcore("plugins", env=importable(folder, f"my_{kind}"), cwd=tmp_path)
    assert re.search(rf"my_{kind} +my.{kind} +1.0.0 +ok", listed.stdout), listed.stdout


@pytest.mark.long
@pytest.mark.parametrize("kind", ["env", "model", "algorithm", "replay"])
def test_the_recipe_of_a_new_package_is_trained(kind, tmp_path):
    folder = tmp_path / f"my-{kind}"
    write(New(kind, f"my-{kind}", {}), folder)
    small = (
        "runner.max_epochs=1",
        "env.eval.trials_per_task=1",
        f"runner.logger.log_path={tmp_path}",
    )
    env = importable(folder, f"my_{kind}")
    done = rlcore("train", f"my_{kind}", *small, env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / f"my_{kind}/summary.json").is_file()


def test_imitation_in_a_new_env_needs_no_algorithm(tmp_path):
    """The lines that its README shows, without workers."""
    write(New("env", "my-env", {}), tmp_path / "my-env")
    readme = (tmp_path / "my-env/README.md").read_text()
    lines = re.findall(r"^    rlcore ((?:collect|sft) .+?) +#", readme, re.MULTILINE)
    assert lines == ["collect env=my_env", "sft env=my_env model=toy"]
    env = importable(tmp_path / "my-env", "my_env")
    for line in lines:
        done = rlcore(*line.split(), "--dry-run", env=env, cwd=tmp_path)
        assert done.returncode == 0, done.stderr


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "kind",
    [
        *("hook", "tracker", "command", "placement", "replay"),
        *(pytest.param(kind, marks=pytest.mark.long) for kind in ("env", "model", "algorithm")),
    ],
)
def test_the_tests_of_a_new_package_pass(kind, tmp_path):
    folder = tmp_path / f"my-{kind}"
    write(New(kind, f"my-{kind}", {}), folder)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    env = importable(folder, f"my_{kind}")
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_command_of_the_template_names_the_first_of_equals(tmp_path, monkeypatch, capsys):
    write(New("command", "my-first", {}), tmp_path / "it")
    monkeypatch.syspath_prepend(tmp_path / "it")
    command = importlib.import_module("my_first.command")
    run = SimpleNamespace(metrics=lambda: [{"step": step, "x": 0.5} for step in range(3)])
    monkeypatch.setattr(command, "open_run", lambda folder: run)
    assert command.main(["RUN", "x"]) == 0
    assert capsys.readouterr().out == "x was best after update 0: 0.5\n"


@pytest.mark.parametrize(
    ("page", "kinds"),
    [
        ("env", {"env": "my-reach"}),
        ("model", {"model": "my-policy"}),
        ("algorithm", {"algorithm": "my-algorithm", "replay": "my-replay"}),
        ("tracker", {"tracker": "my-board", "command": "my-best"}),
    ],
)
def test_a_page_shows_its_templates(tmp_path, page, kinds):
    for kind, name in kinds.items():
        write(New(kind, name, {}), tmp_path / kind)
    templates = "\n".join(file.read_text() for file in sorted(tmp_path.rglob("*.py")))
    text = (ROOT / f"docs/plugin-{page}.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len(blocks) > 1
    for block in blocks:
        assert block in templates


def test_the_hook_of_the_template_is_the_example(tmp_path):
    write(New("hook", "early_stopping", {}), tmp_path / "new")
    made = (tmp_path / "new/early_stopping/plugin.py").read_text()
    assert made == (ROOT / "examples/early_stopping.py").read_text()


def test_the_placement_of_the_template_is_the_page_s(tmp_path):
    write(New("placement", "last", {}), tmp_path / "new")
    function = (tmp_path / "new/last/placement.py").read_text().partition("\n\n\n")[2]
    indented = "".join(f"    {line}\n" for line in function.splitlines())
    assert indented in (ROOT / "docs/plugin-others.md").read_text()


@pytest.mark.parametrize("name", ["My", "2d", "a--b", "", "a.b"])
def test_an_invalid_name_is_refused(refused, name, tmp_path):
    with refused(ConfigError, repr(name)):
        write(New("env", name, {}), tmp_path / "new")


@pytest.mark.parametrize(
    ("kind", "name", "owner"),
    [
        ("env", "torch", "distribution"),
        ("hook", "rlcore", "distribution"),
        ("env", "rlcore-env-libero", "distribution"),
        ("model", "py_yaml", ""),
        ("model", "pyyaml", "distribution"),  # whose module is yaml
        ("model", "yaml", "installed module"),
        ("tracker", "json", "standard library"),
        ("command", "import", "keyword"),
        ("model", "none", "keyword"),  # its class would be None
        ("env", "tests", "folder of the package"),
        ("env", "toy", "env 'toy'"),
        ("env", "metaworld-50", "env 'metaworld_50'"),
        ("algorithm", "quickstart", "experiment 'quickstart'"),
        ("command", "train", "command 'train'"),
        ("tracker", "testing", "installed plugin"),
        ("hook", "my-hook", ""),
    ],
)
def test_a_name_that_is_taken_is_refused(refused, kind, name, owner, tmp_path):
    if not owner:
        assert write(New(kind, name, {}), tmp_path / "new")
        return
    with refused(ConfigError, name, owner, f"rlcore new {kind} my-{name}", text=False):
        write(New(kind, name, {}), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_folder_of_that_name_takes_no_name(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_arm").mkdir()
    assert write(New("env", "my-arm", {}), tmp_path / "my_arm/new")


def test_compiled_files_beside_the_template_are_not_copied(tmp_path, monkeypatch):
    """pip compiles what it installs, templates too."""
    template = tmp_path / "template"
    shutil.copytree(make.TEMPLATE, template)
    compiled = [place / "__pycache__" for place in (template / "env", *template.rglob("conf"))]
    for folder in compiled:
        folder.mkdir(exist_ok=True)
        (folder / "__init__.cpython-311.pyc").write_bytes(b"")
    (template / "env/left.pyc").write_bytes(b"")
    monkeypatch.setattr(make, "TEMPLATE", template)
    files = write(New("env", "my-arm", {}), tmp_path / "new")
    left = [file for file in (tmp_path / "new").rglob("*") if "pyc" in file.name]
    assert len(compiled) > 1 and len(files) > 8 and left == []


def test_only_a_folder_of_rlcore_new_is_overwritten_on_request(refused, tmp_path):
    tracker = New("tracker", "board", {})
    write(tracker, tmp_path / "new")
    (tmp_path / "new/board/tracker.py").write_text("mine\n")
    (tmp_path / "new/mine.txt").write_text("mine\n")
    with refused(ConfigError, tmp_path / "new"):
        write(tracker, tmp_path / "new")
    write(tracker, tmp_path / "new", again=True)
    assert "class Board" in (tmp_path / "new/board/tracker.py").read_text()
    assert (tmp_path / "new/mine.txt").read_text() == "mine\n"
    (tmp_path / "other").mkdir()
    with refused(ConfigError, tmp_path / "other"):
        write(tracker, tmp_path / "other", again=True)


def test_an_env_of_gymnasium_is_configuration_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert new.main(["env", "my-pole", "--from", "gymnasium:CartPole-v1"]) == 0
    assert "rlcore check env my_pole" in capsys.readouterr().out
    env = importable(tmp_path / "my-pole", "my_pole")
    done = rlcore("check", "my_pole", env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    done = rlcore("train", "my_pole", "--cfg", "job", env=env, cwd=tmp_path)
    assert done.returncode == 0 and "id: CartPole-v1" in done.stdout, done.stderr


def test_an_algorithm_with_a_replay_is_one_of_the_kinds(refused, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert new.main(["algorithm", "my-own", "--replay"]) == 0
    assert "rlcore check algorithm my_own" in capsys.readouterr().out
    assert "replay=ReplayNeeds" in (tmp_path / "my-own/my_own/learning.py").read_text()
    with refused(ConfigError, "--replay", "env"):
        new.main(["env", "my-arm", "--replay"])


def test_another_source_is_refused(refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with refused(ConfigError, "--from", "gymnasium:ID"):
        new.main(["env", "my-pole", "--from", "CartPole-v1"])
