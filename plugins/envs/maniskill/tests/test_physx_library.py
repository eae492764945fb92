"""SAPIEN's PhysX library for GPUs: asked for before a run, and never downloaded by a worker."""

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
    assert found["status"] == "missing" and "this machine has none" in found["detail"]
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
    assert doctor(sim_backend="gpu")[ROW] == {
        "name": ROW,
        "status": "ok",
        "detail": str(file),
        "fix": "",
    }


@pytest.mark.parametrize("content", [b"", b"<html>404</html>"])
def test_what_is_no_library_is_refused(home: Path, content: bytes) -> None:
    file = placed(home, content)
    with pytest.raises(AssetError, match=f"{file} is not a library") as caught:
        require_library()
    assert "curl -fL" in (caught.value.hint or "")


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
    said = capsys.readouterr().err.replace("\n", " ")
    assert f"this machine lacks {ROW}" in said and "curl -fL" in said
    assert not (home / "logs").exists()


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A download is a failure."""
    sapien_physx = pytest.importorskip("sapien.physx")

    def download(url: str) -> None:
        raise AssertionError(f"SAPIEN downloads {url}")

    monkeypatch.setattr(sapien_physx.requests, "get", download)
    monkeypatch.setattr(sapien_physx, "is_gpu_enabled", lambda: False)


def test_a_worker_downloads_nothing(home: Path, no_network: None) -> None:
    from rlcore_env_maniskill.raw import make_raw

    with pytest.raises(AssetError, match=f"{home / LIBRARY} does not exist"):
        make_raw(small_config(tasks=[PICK], sim_backend="gpu"), PICK)


def test_what_can_not_be_loaded_is_said(
    home: Path, no_network: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SAPIEN loads it with ctypes, after libcuda.so."""
    placed(home, b"\x7fELF, cut off")
    real = ctypes.CDLL

    def load(name: str, *mode: int) -> ctypes.CDLL | None:
        return None if name == "libcuda.so" else real(name, *mode)

    monkeypatch.setattr(ctypes, "CDLL", load)
    with pytest.raises(AssetError, match=r"SAPIEN can't simulate on a GPU: .*libPhysXGpu_64") as e:
        enable_gpu()
    assert "NVIDIA's driver" in (e.value.hint or "") and "curl -fL" in (e.value.hint or "")


def test_version_place_and_address_are_those_of_sapien(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SAPIEN would fetch what our command fetches, and finds it where that unpacks it."""
    sapien_physx = pytest.importorskip("sapien.physx")
    assert sapien_physx.version() == VERSION
    asked: list[str] = []

    def fetch(url: str) -> None:
        asked.append(url)
        raise ConnectionError

    monkeypatch.setattr(sapien_physx, "is_gpu_enabled", lambda: False)
    monkeypatch.setattr(sapien_physx, "_enable_gpu", lambda: None)
    monkeypatch.setattr(sapien_physx.requests, "get", fetch)
    monkeypatch.setattr(ctypes, "CDLL", lambda name, *mode: asked.append(name))
    with pytest.raises(ConnectionError):
        sapien_physx.enable_gpu()
    (url,) = asked
    assert f" {url} && " in download_command(VERSION)
    file = placed(home, b"\x7fELF")
    sapien_physx.enable_gpu()
    assert asked[1:] == ["libcuda.so", str(file)] and require_library() == file
