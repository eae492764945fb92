"""requirements/vulkan.sh on systems of all kinds: the script itself, its files and the package
manager moved into a folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[3] / "requirements"
FAKES = {
    "id": 'echo "$USER_ID"',
    "sudo": '[ -z "$MAY_SUDO" ] && exit 1\nshift\necho sudo "$@" >>"$LOG"\nexec "$@"',
    "ldconfig": "true",
    "dpkg-query": '[ -f "$MESA" ] || exit 1\n'
    'case "$*" in *Status*) echo "install ok installed" ;; *) cat "$MESA" ;; esac',
    # `install` brings the version that is offered, if any
    "apt-get": 'echo apt-get "$@" >>"$LOG"\n'
    'case "$*" in\n'
    "  *REPO_URI*) echo http://mirror.example/debian ;;\n"
    '  install*) [ -n "$OFFERED" ] || exit 100; echo "$OFFERED" >"$MESA" ;;\n'
    "esac",
}

pytestmark = pytest.mark.skipif(not shutil.which("dpkg"), reason="a system without dpkg")


@dataclass
class System:
    folder: Path

    @property
    def backports(self) -> Path:
        return self.folder / "etc/apt/sources.list.d/rlcore-backports.list"

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def run(
        self, *words: object, script: str = "vulkan.sh", **settings: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a script as a user who is not root, with settings of the fakes."""
        environment = {
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "USER_ID": "1000",
            "MAY_SUDO": "",
            "OFFERED": "",
            "MESA": str(self.folder / "mesa"),
            "LOG": str(self.folder / "log"),
        }
        command = ["bash", str(self.folder / script), *map(str, words)]
        env = environment | settings
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True)


@pytest.fixture
def system(tmp_path: Path) -> System:
    """Debian 12 without any driver."""
    script = (SCRIPTS / "vulkan.sh").read_text()
    for place in ("/etc/", "/usr/share/"):
        script = script.replace(f" {place}", f" {tmp_path}{place}")
        script = script.replace(f"={place}", f"={tmp_path}{place}")
    (tmp_path / "vulkan.sh").write_text(script)
    shutil.copy(SCRIPTS / "apt.sh", tmp_path)
    (tmp_path / "bin").mkdir()
    for name, body in FAKES.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    made = System(tmp_path)
    made.backports.parent.mkdir(parents=True)
    (tmp_path / "etc/os-release").write_text("VERSION_CODENAME=bookworm\n")
    (tmp_path / "log").touch()
    return made


def test_sudo_that_asks_for_no_password_installs_from_backports(system: System) -> None:
    done = system.run(MAY_SUDO="yes", OFFERED="25.0.7-2~bpo12+1")
    assert done.stderr == ""
    line = "deb http://mirror.example/debian bookworm-backports main\n"
    assert system.backports.read_text() == line
    assert "sudo env DEBIAN_FRONTEND=noninteractive apt-get install" in system.log
    assert "-t bookworm-backports mesa-vulkan-drivers libvulkan1" in system.log


def test_root_needs_no_sudo(system: System) -> None:
    assert system.run(USER_ID="0", OFFERED="25.0.7-2~bpo12+1").stderr == ""
    assert "sudo" not in system.log and "apt-get install" in system.log


def test_a_user_who_may_not_install_is_shown_the_commands(system: System) -> None:
    shown = system.run(OFFERED="25.0.7-2~bpo12+1").stderr
    assert f"bookworm-backports main' > {system.backports}" in shown
    assert "apt-get install -y -t bookworm-backports mesa-vulkan-drivers" in shown
    assert "apt-get install" not in system.log and not system.backports.exists()


def test_a_mirror_without_backports_leaves_no_list_behind(system: System) -> None:
    shown = system.run(MAY_SUDO="yes").stderr
    assert "bookworm-backports" in shown and "as root:" in shown
    assert not system.backports.exists()


def test_a_version_that_is_still_too_old_is_named(system: System) -> None:
    (system.folder / "etc/os-release").write_text("VERSION_CODENAME=jammy\n")
    (system.folder / "mesa").write_text("22.0.1-1ubuntu2\n")
    shown = system.run(MAY_SUDO="yes", OFFERED="23.2.1-1ubuntu3.1~22.04.3").stderr
    assert "Mesa 24" in shown and "23.2.1-1ubuntu3.1~22.04.3" in shown
    assert "apt-get install" in system.log


def test_a_recent_version_is_left_alone(system: System) -> None:
    (system.folder / "mesa").write_text("25.0.7-2\n")
    done = system.run(USER_ID="0")
    assert (done.stdout, done.stderr, system.log) == ("", "", "")


def test_commands_of_root_are_shown_first(system: System) -> None:
    lines = system.run(USER_ID="0", OFFERED="25.0.7-2~bpo12+1").stdout.splitlines()
    assert "as root: echo 'deb http://mirror.example/debian" in lines[0]
    assert "apt-get install -y -t bookworm-backports mesa-vulkan-drivers libvulkan1" in lines[1]
    assert all("INSTALL_SYSTEM=no" in line for line in lines)


@pytest.mark.parametrize("rights", [{"USER_ID": "0"}, {"MAY_SUDO": "yes"}])
def test_the_system_is_left_alone_where_the_user_wants_that(system: System, rights) -> None:
    done = system.run(OFFERED="25.0.7-2~bpo12+1", INSTALL_SYSTEM="no", **rights)
    assert "apt-get install -y -t bookworm-backports mesa-vulkan-drivers" in done.stderr
    assert "install" not in system.log and "update" not in system.log
    assert not system.backports.exists()


@pytest.mark.parametrize(("asked", "installs"), [("no", False), ("yes", True)])
def test_installing_rlcore_leaves_the_system_alone_too(system: System, asked, installs) -> None:
    """With a Python that does nothing, there is only the system left to change."""
    shutil.copytree(SCRIPTS, system.folder / "requirements")
    shutil.copy(system.folder / "vulkan.sh", system.folder / "requirements")  # of this folder
    python = system.folder / "venv/bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to(shutil.which("true") or "/bin/true")
    words = ("--venv", system.folder / "venv")
    settings = {"USER_ID": "0", "OFFERED": "25", "INSTALL_SYSTEM": asked}
    done = system.run(*words, script="requirements/install.sh", **settings)
    assert ("apt-get install" in system.log) == installs
    if not installs:
        assert "libegl1" in done.stderr
        assert "libx11-6 libgl1 libsm6 libxext6" in done.stderr
        assert "as root: apt-get" not in done.stdout
