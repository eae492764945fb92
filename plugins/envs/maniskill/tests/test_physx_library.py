"""SAPIEN's PhysX library for GPUs: required before a run, and never downloaded by a worker."""

from __future__ import annotations

import ctypes
from pathlib import Path
from types import SimpleNamespace

import pytest
from maniskill_cases import PICK, small_config
from rlcore_env_maniskill import plugin
from rlcore_env_maniskill.physx_library import (
    VERSION,
    download_command,
    enable_gpu,
    require_library,
)

from rlcore.cli.main import main
from rlcore.config.schema import ClusterConfig
from rlcore.contracts.errors import AssetError

ROW = "maniskill: PhysX for GPUs"
LIBRARY = f".sapien/physx/{VERSION}/libPhysXGpu_64.so"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder without the library."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def placed(home: Path, content: bytes) -> Path:
    file = home / LIBRARY
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with one."""
    monkeypatch.setattr("rlcore_env_maniskill.doctor.local_gpus", lambda: (["0"], 80))


def doctor(address: str | None = None, **settings: object) -> dict[str, dict[str, str]]:
    played = {"train": small_config(tasks=[PICK], **settings)}
    cluster = ClusterConfig(address=address)
    rows = plugin.rlcore_doctor(SimpleNamespace(active_envs=played, cluster=cluster))
    return {row["name"]: row for row in rows}


def test_doctor_first_asks_for_a_gpu(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the one machine that a run has; of a cluster, other nodes may have some."""
    monkeypatch.setattr("rlcore_env_maniskill.doctor.local_gpus", lambda: ([], 0))
    found = doctor(sim_backend="gpu")[ROW]
    assert found["status"] == "missing"
    assert found["fix"].startswith("env.train.sim_backend=cpu env.eval.sim_backend=cpu")
    assert "curl -fL" in doctor("auto", sim_backend="gpu")[ROW]["fix"]


def test_doctor_asks_for_it_where_a_gpu_simulates(home: Path, gpu: None) -> None:
    assert ROW not in doctor()
    found = doctor(sim_backend="gpu")[ROW]
    assert found["status"] == "missing" and str(home / LIBRARY) in found["detail"]
    # the archive that SAPIEN itself would fetch, unpacked where SAPIEN looks
    archive = f"sapien-sim/physx-precompiled/releases/download/{VERSION}/linux-"
    assert archive in found["fix"] and found["fix"].endswith(str((home / LIBRARY).parent))
    file = placed(home, b"\x7fELF and so on")
    found = doctor(sim_backend="gpu")[ROW]
    assert (found["status"], found["detail"], found["fix"]) == ("ok", str(file), "")


@pytest.mark.parametrize("content", [b"", b"<html>404</html>"])
def test_a_file_that_is_no_library_is_refused(refused, home: Path, content: bytes) -> None:
    file = placed(home, content)
    with refused(AssetError, file, "curl -fL", text=False):  # for this processor
        require_library()


def test_a_run_ends_before_any_worker_starts(
    home: Path, gpu: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def started(*_: object, **__: object) -> None:
        raise AssertionError("a worker was started")

    monkeypatch.setattr("rlcore_env_maniskill.env.make_env", started)
    monkeypatch.setattr("rlcore_env_maniskill.doctor.tried_driver", lambda: "some driver")
    words = ["env=maniskill", "model=toy", "algorithm=ppo", "cluster.backend=local"]
    words += [f"env.{side}.tasks=[{PICK}]" for side in ("train", "eval")]
    words += [f"env.{side}.sim_backend=gpu" for side in ("train", "eval")]
    assert main(["train", *words, f"runner.logger.log_path={home}/logs"]) != 0
    error = capsys.readouterr().err.replace("\n", " ")
    assert ROW in error and "curl -fL" in error
    assert not (home / "logs").exists()


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A download is a failure."""
    sapien_physx = pytest.importorskip("sapien.physx")

    def download(url: str) -> None:
        raise AssertionError(f"SAPIEN downloads {url}")

    monkeypatch.setattr(sapien_physx.requests, "get", download)
    monkeypatch.setattr(sapien_physx, "is_gpu_enabled", lambda: False)


def test_a_worker_downloads_nothing(refused, home: Path, no_network: None) -> None:
    from rlcore_env_maniskill.raw import make_raw

    with refused(AssetError, home / LIBRARY, text=False):
        make_raw(small_config(tasks=[PICK], sim_backend="gpu"), PICK)


def test_a_library_that_can_not_be_loaded_is_refused(
    refused, home: Path, no_network: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SAPIEN loads it with ctypes, after libcuda.so."""
    placed(home, b"\x7fELF, cut off")
    real = ctypes.CDLL

    def load(name: str, *mode: int) -> ctypes.CDLL | None:
        return None if name == "libcuda.so" else real(name, *mode)

    monkeypatch.setattr(ctypes, "CDLL", load)
    with refused(AssetError, "libPhysXGpu_64", "NVIDIA's driver", "curl -fL", text=False):
        enable_gpu()


def test_version_place_and_address_are_those_of_sapien(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SAPIEN would fetch what our command fetches, and finds it where that unpacks it."""
    sapien_physx = pytest.importorskip("sapien.physx")
    assert sapien_physx.version() == VERSION
    opened: list[str] = []

    def fetch(url: str) -> None:
        opened.append(url)
        raise ConnectionError

    monkeypatch.setattr(sapien_physx, "is_gpu_enabled", lambda: False)
    monkeypatch.setattr(sapien_physx, "_enable_gpu", lambda: None)
    monkeypatch.setattr(sapien_physx.requests, "get", fetch)
    monkeypatch.setattr(ctypes, "CDLL", lambda name, *mode: opened.append(name))
    with pytest.raises(ConnectionError):
        sapien_physx.enable_gpu()
    (url,) = opened
    assert f" {url} && " in download_command(VERSION)
    file = placed(home, b"\x7fELF")
    sapien_physx.enable_gpu()
    assert opened[1:] == ["libcuda.so", str(file)] and require_library() == file
