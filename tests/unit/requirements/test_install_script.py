"""requirements/install.sh, switch_env and the Dockerfile, without installing anything."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rlcore.plugins import extras, system_libraries

ROOT = Path(__file__).parents[3]
ENVIRONMENT = {"PATH": os.environ["PATH"], "INSTALL_SYSTEM": "no"}
TUNA = "https://pypi.tuna.tsinghua.edu.cn/simple"


def run(*command: object, root: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    return subprocess.run(words, cwd=root, env=ENVIRONMENT | env, capture_output=True, text=True)


def install(*words: str, root: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
    return run("bash", "requirements/install.sh", *words, root=root, **env)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone as far as the scripts look at it, and a python that only notes its arguments."""
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    for file in [ROOT / "pyproject.toml", *ROOT.glob("plugins/**/pyproject.toml")]:
        to = tmp_path / file.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, to)
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(
        '#!/bin/bash\necho "$PIP_INDEX_URL|$*" >>"$(dirname "$0")/log"\n'
        f'case "$1" in requirements/*) exec {sys.executable} "$@" ;; esac\n'
    )
    python.chmod(0o755)
    return tmp_path


def pip_lines(clone: Path) -> list[str]:
    lines = (clone / ".venv/bin/log").read_text().splitlines()
    return [line for line in lines if "install" in line]


@pytest.mark.parametrize(
    ("line", "extras", "others"),
    [
        ("embodied --model openpi --env metaworld", "metaworld,openpi", "envs/mujoco"),
        ("embodied --model openvla --env maniskill", "maniskill,openvla", "models/prismatic"),
        ("--model OpenPI --env MetaWorld", "metaworld,openpi", "simulation"),
        (
            "embodied --env metaworld_maniskill --model openvla_oft",
            "metaworld,maniskill,openvla-oft",
            "envs/maniskill",
        ),
        ("embodied --model openvla-oft --env robotwin", "robotwin,openvla-oft", "envs/sapien"),
    ],
)
def test_the_lines_of_the_documents_install_what_they_name(clone, line, extras, others):
    done = install(*line.split(), root=clone)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("source .venv/bin/activate\n")
    torch, _, everything = (each.partition("-m pip install ")[2] for each in pip_lines(clone)[-3:])
    assert torch.endswith("-r requirements/torch.txt")
    assert f"-e .[{extras}] " in everything and f"-e plugins/{others}" in everything
    assert "plugins/testing" not in everything and "dev.txt" not in everything
    unnamed = {"metaworld", "maniskill"} - set(extras.split(","))
    assert not any(f"plugins/envs/{name}" in everything for name in unnamed)
    assert (clone / ".venv/bin/switch_env").is_file()
    sentences = any("--no-deps lerobot==" in line for line in pip_lines(clone))
    assert sentences == ("metaworld" in extras)
    # nothing but a python is in this .venv, so the command that was tried is shown
    shown = ".venv/bin/rlcore venv create robotwin\n" in done.stderr
    assert shown == ("robotwin" in extras)


@pytest.mark.parametrize(
    ("names", "brought"),
    [
        (["libero"], "-e .[libero] "),
        (["maniskill", "openvla-oft", "ppo"], "-e .[maniskill,openvla-oft] "),
        (["tools"], "requirements/install.txt"),
    ],
)
def test_the_command_of_a_hint_in_a_clone_is_accepted(clone, names, brought):
    """The test runs in a clone, and the script is the clone's own."""
    assert extras.SCRIPT == ROOT / "requirements/install.sh"
    words = extras.install_command(names).split()[2:]
    done = install(*words, root=clone)
    assert done.returncode == 0, done.stderr
    assert brought in pip_lines(clone)[-1]


def test_without_words_everything_is_installed(clone):
    assert install(root=clone).returncode == 0
    everything = pip_lines(clone)[-1]
    assert "-r requirements/install.txt -r requirements/dev.txt" in everything


def test_the_mirror_is_that_of_pips_variable_or_of_the_page(clone):
    words = ("embodied", "--model", "openpi", "--env", "metaworld", "--use-mirror")
    done = install(*words, root=clone)
    assert {line.split("|")[0] for line in pip_lines(clone)} == {TUNA}
    assert "export HF_ENDPOINT=https://hf-mirror.com" in done.stdout
    assert TUNA in (ROOT / "docs/china.md").read_text()
    (clone / ".venv/bin/log").unlink()
    install(*words, root=clone, PIP_INDEX_URL="https://mirror.example/simple")
    assert {line.split("|")[0] for line in pip_lines(clone)} == {"https://mirror.example/simple"}
    (clone / ".venv/bin/log").unlink()
    install(*words[:-1], root=clone)
    assert {line.split("|")[0] for line in pip_lines(clone)} == {""}


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("embodied --model openpi --env metawold", ["env 'metawold'", "gym"]),
        ("embodied --model pi0 --env metaworld", ["model 'pi0'", "openpi"]),
        ("embodied --env maniskill_nowhere", ["env 'nowhere'", "maniskill_nowhere"]),
        ("embodied --modle openpi", ["'--modle'", "--model --env"]),
        ("embodied --model", ["--model"]),
        ("embodied --env=metaworld", ["'--env=metaworld'"]),
        ("my-venv", ["--venv my-venv"]),
    ],
)
def test_an_unknown_word_is_refused_before_anything_is_made(clone, line, named):
    before = sorted(clone.rglob("*"))
    done = install(*line.split(), root=clone)
    assert done.returncode == 2 and done.stdout == ""
    assert not [word for word in named if word not in done.stderr], done.stderr
    assert len(done.stderr.splitlines()) <= 2
    assert sorted(clone.rglob("*")) == before


def test_a_dry_run_does_nothing(clone):
    shutil.rmtree(clone / ".venv")
    before = sorted(clone.rglob("*"))
    done = install("embodied", "--model", "openpi", "--env", "metaworld", "--dry-run", root=clone)
    assert done.returncode == 0, done.stderr
    assert "would run: .venv/bin/python -m pip install" in done.stdout
    assert sorted(clone.rglob("*")) == before


def test_all_extras_are_what_a_clone_installs():
    """One list is written by hand, the other one is found."""
    text = (ROOT / "requirements/install.txt").read_text()
    listed = [line for line in text.splitlines() if line.startswith("-e")]
    extras = listed[0].partition("[")[2].strip("]").split(",")
    found = run(sys.executable, "requirements/projects.py", *extras).stdout.splitlines()
    assert sorted(found) == sorted(listed)


@pytest.fixture
def switched(clone: Path):
    """`switched(WORD)`: source it, as from a shell that has it on its path."""
    bin = clone / ".venv/bin"
    shutil.copy(ROOT / "requirements/switch_env", bin)
    (bin / "activate").write_text(f"VIRTUAL_ENV={clone / '.venv'}\n")
    (bin / "python").write_text(
        f'#!/bin/bash\n[[ "$2" != *extras* ]] || exec {sys.executable} "$@"\n'
        '[[ "$2" == *rlcore-model-openvla-oft* ]]\n'
    )

    def source(word: str) -> subprocess.CompletedProcess[str]:
        script = f'source switch_env {word}; code=$?; echo "$VIRTUAL_ENV"; exit $code'
        return run("bash", "-c", script, PATH=f"{bin}{os.pathsep}{os.environ['PATH']}")

    return source


def test_switch_env_activates_the_environment_of_a_model(switched, clone):
    for word in ("openvla-oft", "openvla_oft", "OpenVLA-OFT"):
        done = switched(word)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{clone / '.venv'}\n", "")


def test_switch_env_names_the_command_that_installs_a_missing_model(switched):
    done = switched("OpenPI")
    assert done.returncode == 2 and done.stdout == "\n"
    assert "bash requirements/install.sh embodied --model openpi" in done.stderr


def test_switch_env_offers_the_models_that_install_sh_takes(switched, clone):
    done = switched("gr00t")
    assert done.returncode == 2 and done.stdout == "\n"
    refused = install("--model", "gr00t", root=clone)
    for output in (done.stderr, refused.stderr):
        (line,) = [line for line in output.splitlines() if "'gr00t'" in line]
        assert line.endswith(": gaussian lerobot openpi openvla openvla-oft smolvla")


def linked_libraries() -> dict[str, str]:
    """The libraries that install.sh looks for: file name -> package."""
    text = (ROOT / "requirements/install.sh").read_text()
    (table,) = re.findall(r"^LIBRARIES=\((.*?)^\)", text, re.MULTILINE | re.DOTALL)
    return dict(line.split("=") for line in table.split())


def test_install_sh_and_error_messages_know_the_same_system_libraries():
    assert linked_libraries() == system_libraries.PACKAGES


def test_a_library_is_found_however_long_the_linkers_list_is(tmp_path):
    """The library stands first, and more follows than a pipe holds."""
    list_it = "echo 'libX11.so.6 (libc6) => /lib/libX11.so.6'; seq 100000"
    (tmp_path / "ldconfig").write_text(f"#!/bin/sh\n{list_it}\n")
    (tmp_path / "ldconfig").chmod(0o755)
    script = (
        "set -euo pipefail; . requirements/apt.sh; "
        "has_library libX11.so.6 && ! has_library libGL.so.1 && echo right"
    )
    done = run("bash", "-c", script, PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert done.stdout == "right\n", done.stderr


@pytest.mark.parametrize(
    ("python", "named"),
    [
        ({}, "apt-get install -y python3 python3-venv"),
        ({"PYTHON": "/nowhere/python3"}, "PYTHON=/nowhere/python3"),
    ],
)
def test_a_system_without_python_is_met_with_the_command_that_installs_it(tmp_path, python, named):
    """The path holds only the programs that the script itself calls."""
    for name in ("dirname", "id"):
        (tmp_path / name).symlink_to(shutil.which(name) or name)
    script = (shutil.which("bash") or "bash", "requirements/venv.sh", tmp_path / "venv")
    done = run(*script, PATH=str(tmp_path), **python)
    assert done.returncode == 1 and named in done.stderr
    assert not (tmp_path / "venv").exists()


@pytest.fixture(scope="module")
def dockerfile() -> str:
    """Comments left out, and lines joined that go on."""
    text = (ROOT / "requirements/Dockerfile").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return "\n".join(lines).replace("\\\n", " ")


def test_the_image_has_the_system_packages_that_the_scripts_ask_for(dockerfile):
    (listed,) = re.findall(r"--no-install-recommends(.*?)&&", dockerfile)
    gl = re.search(r"for package in (lib.*?);", (ROOT / "requirements/install.sh").read_text())
    vulkan = re.search(r"PACKAGES=\((.*?)\)", (ROOT / "requirements/vulkan.sh").read_text())
    assert gl and vulkan
    linked = set(linked_libraries().values())
    wanted = {*gl[1].split(), *vulkan[1].split(), *linked, "python3", "python3-venv"}
    assert set(listed.split()) - {"ca-certificates", "git", "make", "wget"} == wanted


def test_the_image_answers_kuberay(dockerfile):
    """Its probes ask the dashboard of Ray, which plain Ray lacks, in older versions by wget."""
    (listed,) = re.findall(r"--no-install-recommends(.*?)&&", dockerfile)
    assert "wget" in listed.split()
    assert re.search(r'^RUN /opt/rlcore/\S+ -m pip .*"ray\[default\]"', dockerfile, re.MULTILINE)


@pytest.mark.parametrize(
    ("models", "envs"),
    [(None, None), ("openpi openvla-oft", "metaworld maniskill")],
    ids=["as it stands", "several"],
)
def test_install_sh_accepts_the_install_line_of_the_image(dockerfile, clone, models, envs):
    arguments = dict(re.findall(r"^ARG (\w+)=?(.*)$", dockerfile, re.MULTILINE))
    assert set(arguments) == {"BASE", "MODELS", "ENVS", "PIP_INDEX_URL"}
    given = {"MODELS": models or arguments["MODELS"], "ENVS": envs or arguments["ENVS"]}
    (line,) = re.findall(r"^RUN (words=.*)$", dockerfile, re.MULTILINE)
    line = re.sub(r"&& ln -s .*", "", line).replace("--venv", "--dry-run --venv")
    done = run("sh", "-ec", line, root=clone, **given)
    assert done.returncode == 0, done.stderr
    extras = ",".join([*given["ENVS"].split(), *given["MODELS"].split()])
    assert f"-e .[{extras}] " in done.stdout
    assert "/opt/rlcore/.venv/bin/python -m pip install" in done.stdout


def test_the_docker_page_and_the_file_have_the_same_arguments(dockerfile):
    page = (ROOT / "docs/docker.md").read_text()
    given = {*re.findall(r"--build-arg (\w+)=", page), *re.findall(r"^\| `(\w+)` \|", page, re.M)}
    assert given == set(re.findall(r"^ARG (\w+)", dockerfile, re.MULTILINE))
    assert re.search(r"^WORKDIR (.+)$", dockerfile, re.M)[1] == re.search(r"-v \.:(\S+)", page)[1]


def docker_builds() -> bool:
    """Whether a daemon answers, and the builder that can check a file is there."""
    asked = (["docker", "info"], ["docker", "buildx", "version"])
    return bool(shutil.which("docker")) and not any(
        subprocess.run(line, capture_output=True, timeout=30).returncode for line in asked
    )


@pytest.mark.skipif(not docker_builds(), reason="no docker builds here; the file is read above")
def test_docker_accepts_the_file():
    done = run("docker", "build", "--check", "-f", "requirements/Dockerfile", ".")
    assert done.returncode == 0, done.stderr
