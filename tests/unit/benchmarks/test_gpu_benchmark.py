"""The driver of benchmarks/gpu.py keeps what was measured whatever a row does; its parts run."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
GPU = ROOT / "benchmarks/gpu.py"
PATHS = os.pathsep.join([str(ROOT / "benchmarks"), str(HERE)])

DRIVE = """
import sys
from pathlib import Path
from parts.gpu.driver import Driver, Limits
from parts.gpu.record import Record
from parts.gpu.rows import Row

record = Record(Path(sys.argv[1]), {"quick": True})
driver = Driver(record, Limits(60, 60), {}, quick=True, breaks={}, say=print)
for name in ("well", "hangs", "well"):
    driver.run(Row("test", name, f"rows_for_tests:{name}", 1))
"""


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The modules of the script are importable here and in rows."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setenv("PYTHONPATH", PATHS)
    yield


@pytest.fixture
def models(gpu: None) -> None:
    """The models of the page are installed."""
    pytest.importorskip("rlcore_model_openpi")
    pytest.importorskip("rlcore_prismatic")


def _row(name: str, **more: Any) -> Any:
    from parts.gpu.rows import Row

    return Row("test", name, f"rows_for_tests:{name}", 1, **more)


def _driver(path: Path, row: float = 60, whole: float = 120) -> tuple[Any, Any]:
    """A driver, and the record that it writes."""
    from parts.gpu.driver import Driver, Limits
    from parts.gpu.record import Record

    record = Record(path, {"quick": True})
    limits = Limits(row, whole)
    return Driver(record, limits, {}, quick=True, breaks={}, say=lambda _: None), record


def _rows(path: Path) -> dict[str, Any]:
    """The rows of a file of figures, by name."""
    return {row["row"]: row for row in json.loads(path.read_text())["rows"]}


def _driven(path: Path, *rows: Any, **limits: float) -> dict[str, Any]:
    """Run the rows; the rows of the file at the end, by name."""
    driver, _ = _driver(path, **limits)
    for row in rows:
        driver.run(row)
    return _rows(path)


def test_a_row_that_goes_wrong_keeps_its_figures_and_the_next_one_runs(gpu, tmp_path):
    names = ("fails", "needs_too_much", "dies", "hangs", "odd_numbers", "well")
    kept = _driven(tmp_path / "gpu.json", *map(_row, names), row=6)
    assert {name.removeprefix("test/"): row["status"] for name, row in kept.items()} == {
        "fails": "failed",
        "needs_too_much": "out of memory",
        "dies": "died",
        "hangs": "stopped",
        "odd_numbers": "done",
        "well": "done",
    }
    for name in ("fails", "needs_too_much", "dies"):
        assert kept[f"test/{name}"]["figures"] == [{"before": 1}]
    assert kept["test/fails"]["why"] == "ZeroDivisionError: on purpose"
    assert "printed by the row" in kept["test/fails"]["output"]
    assert kept["test/dies"]["why"] == "signal 9"
    # where it hung is in the record, and neither it nor what it started is left
    assert any("in hangs" in line for line in kept["test/hangs"]["output"])
    (pids,) = kept["test/hangs"]["figures"]
    assert not any(_alive(pid) for pid in pids.values())
    # JSON has no infinity
    (odd,) = kept["test/odd_numbers"]["figures"]
    assert odd == {"infinite": "inf", "many": [1.5, {"a": [True, None]}]}


def test_a_row_without_its_library_names_it(gpu, tmp_path):
    kept = _driven(tmp_path / "gpu.json", _row("well", needs=("json", "not_there")))
    assert kept["test/well"]["status"] == "lacking"
    assert "not_there" in kept["test/well"]["why"]
    assert "json" not in kept["test/well"]["why"]


def test_rows_beyond_the_limit_of_the_whole_are_not_begun(gpu, tmp_path):
    kept = _driven(tmp_path / "gpu.json", _row("well"), whole=1)
    assert kept["test/well"]["status"] == "not reached"


def test_a_driver_that_is_killed_leaves_finished_rows_and_no_process(tmp_path):
    file = tmp_path / "gpu.json"
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVE, file],
        env={**os.environ, "PYTHONPATH": PATHS},
        stdout=subprocess.DEVNULL,
    )
    _until(lambda: file.exists() and _rows(file).get("test/hangs", {}).get("figures"))
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    rows = _rows(file)
    assert rows["test/well"]["status"] == "done"
    assert rows["test/hangs"]["status"] == "running"
    (pids,) = rows["test/hangs"]["figures"]
    _until(lambda: not _alive(pids["pid"]))
    if _alive(pids["child"]):  # it made a session of its own: nobody is left to end it
        os.kill(pids["child"], signal.SIGKILL)


def test_a_full_disk_stops_no_row_and_loses_no_figure(gpu, tmp_path, monkeypatch):
    file = tmp_path / "gpu.json"
    driver, record = _driver(file)
    driver.run(_row("well"))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        driver.run(_row("odd_numbers"))
    assert "No space left" in record.unwritten
    assert len(_rows(file)) == 1 and list(tmp_path.iterdir()) == [file]
    record.write()
    assert not record.unwritten
    assert len(_rows(file)) == 2


def test_each_part_fails_on_purpose_and_the_next_one_still_runs(tmp_path):
    hows = ("raise", "exit", "memory", "raise", "exit", "memory")
    parts = ("correctness", "memory", "speed", "simulators", "weights", "run")
    words = [f"--break={part}={how}" for part, how in zip(parts, hows, strict=True)]
    done = _called(tmp_path, "--quick", *words)
    assert done.returncode == 1, done.stderr
    rows = json.loads((tmp_path / "gpu.json").read_text())["rows"]
    ended = {"raise": "failed", "exit": "died", "memory": "out of memory"}
    expected = {part: ended[how] for part, how in zip(parts, hows, strict=True)}
    assert rows[0]["row"] == "machine/device"
    assert rows[0]["status"] == "done"
    lacking = {row["row"] for row in rows if row["status"] == "lacking"}
    found = {r["row"].partition("/")[0]: r["status"] for r in rows[1:] if r["row"] not in lacking}
    assert found.items() <= expected.items()
    assert found.keys() >= {"correctness", "memory", "speed", "weights"}


def test_a_wrong_command_is_one_error(tmp_path):
    (tmp_path / "gpu.json").write_text("{}")
    for words, named in (
        (["--quick"], "gpu.json"),
        (["--quick", "--continue"], "gpu.json"),
        (["nothing"], "'nothing'"),
        (["--wheels", str(tmp_path / "none"), "--json", str(tmp_path / "b.json")], "none"),
        (["--json", str(tmp_path / "no" / "b.json")], "b.json"),
    ):
        done = _called(tmp_path, *words)
        assert done.returncode == 2, (words, done.stderr)
        assert done.stderr.startswith("error: ")
        assert named in done.stderr.splitlines()[0]
        assert "Traceback" not in done.stderr


def test_the_list_shows_when_each_row_would_begin(tmp_path):
    lines = _called(tmp_path, "--list").stdout.splitlines()
    assert lines[1].split() == ["0", "8", "machine/device"]
    # the next one begins when the machine has been looked at
    assert lines[2].split()[0] == "8"


def test_the_source_tree_offers_the_plugins_that_an_installation_does(gpu, tmp_path, monkeypatch):
    from parts.gpu.tree import python_path

    from rlcore.plugins.entry_points import installed

    names = {(plugin.name, plugin.value) for plugin in installed({}) if plugin.distribution != "?"}
    folders = python_path(tmp_path, None).split(os.pathsep)
    monkeypatch.setattr(sys, "path", [folders[0]])
    found = {(plugin.name, plugin.value) for plugin in installed({})}
    assert ("core", "rlcore.plugins.builtin") in found
    assert names <= found


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("rich-15.0.0-py3-none-any.whl", True),
        ("six-1.17.0-py2.py3-none-any.whl", True),
        ("safetensors-0.8.0-cp310-abi3-manylinux_2_17_x86_64.whl", True),
        ("regex-1-cp39-cp39-manylinux_2_17_x86_64.whl", False),
        ("later-1-cp399-abi3-manylinux_2_17_x86_64.whl", False),
        ("no_wheel.tar.gz", False),
    ],
)
def test_wheels_that_fit_this_python(gpu, name, fits):
    from parts.gpu.tree import fits_python

    assert fits_python(name) is fits


def test_wheels_leave_out_packages_of_the_machine(gpu):
    from parts.gpu.wheels import closure

    found = closure("{}.{}".format(*sys.version_info))
    assert {"hydra-core", "transformers", "antlr4-python3-runtime", "accelerate"} <= found.keys()
    assert not {"torch", "numpy", "sympy", "pyarrow", "ray"} & found.keys()
    assert found["pluggy"].startswith("pluggy==")


# -- the page -----------------------------------------------------------------------------------

GIB = 2**30
RECORD = {
    "format": 1,
    "quick": False,
    "rows": [
        {
            "row": "machine/device",
            "status": "done",
            "figures": [
                {
                    "device": "NVIDIA H100 80GB HBM3",
                    "memory_gib": 79.1,
                    "cores": 16,
                    "date": "2026-12-01",
                    "packages": {"torch": "2.11"},
                }
            ],
        },
        {
            "row": "memory/pi05 lora",
            "status": "stopped",
            "figures": [
                {"parameters": 1},
                {
                    "micro_batch": 8,
                    "gradient_checkpointing": False,
                    "fits": True,
                    "tensors_gib": 30.04,
                    "reserved_gib": 71.0,
                    "planned_gib": 20.0,
                },
                {"micro_batch": 16, "gradient_checkpointing": False, "fits": False},
            ],
        },
        {
            "row": "speed/pi05 update",
            "status": "done",
            "figures": [
                {"micro_batch": 8, "fits": True, "samples_per_second": 8.0},
                {"micro_batch": 32, "fits": False},
            ],
        },
    ],
}


def _case() -> Any:
    """A process of 10 GiB of weights and 2 of learning, and 1 GiB a sample, or a quarter."""
    from parts.gpu.page import Case

    from rlcore.placement.memory import MemoryNeed

    kept = MemoryNeed(weights=10 * GIB, state=2 * GIB, sample=GIB, acts=True, learns=True)
    recomputed = replace(kept, sample=GIB // 4)
    return Case("pi05", "lora", {False: kept, True: recomputed})


def test_a_page_without_figures_shows_the_plan(models):
    from parts.gpu.page import Measured, _fits, _memory, _minutes, _status

    found = Measured(None)
    assert len(list(_status(found))) == 1
    # 12.5 GiB with CUDA; of 24 GB 22.5 GiB are found and 20.25 filled: 7.75 samples, or 31 of them
    # recomputed; of 48 GB 40.05: 27.55, or more than 32; of 80 GB 71.19: 58 samples
    (row,) = list(_fits([_case()], found))[2:]
    cells = [cell.strip() for cell in row.strip("| ").split("|")]
    assert cells[2:] == ["4, 16 recomputed", "16, 32 recomputed", "32, 32 recomputed", "planned"]
    rows = list(_memory([_case()], found))[2:]
    assert rows == [
        "| π0.5, 3.4 B | adapters | kept | 13.0 | 20.0 | 44.0 | planned |",
        "| π0.5, 3.4 B | adapters | recomputed | 12.2 | 14.0 | 20.0 | planned |",
    ]
    (minutes,) = list(_minutes([_case()], found))[2:]
    # 1024 x 9.758e12 / (0.3 x speed) / 60, with 165e12, 362e12 and 989e12 operations a second
    assert minutes == "| π0.5, 3.4 B | adapters | 3.4 | 1.5 | 0.56 | planned |"


def test_measured_figures_stand_with_device_date_and_command(models):
    from parts.gpu.page import Measured, _fits, _further, _memory, _minutes, _status

    found = Measured(RECORD)
    by = "NVIDIA H100 80GB HBM3, 2026-12-01, `python benchmarks/gpu.py {}`"
    assert "NVIDIA H100 80GB HBM3 (79 GiB), 16 cores, torch 2.11" in next(_status(found))
    rows = list(_memory([_case()], found))[2:]
    one = by.format("'memory/pi05 lora'")
    assert rows[0].endswith(f"| kept | 13.0 | 20.0 (measured: 30.0) | 44.0 | {one} |")
    assert rows[1].endswith("| planned |")
    # 71 GiB that torch held and CUDA's are more than 71.19: a micro-batch of 4 is left of 80 GB
    (row,) = list(_fits([_case()], found))[2:]
    assert row.split("|")[5].strip() == "4, 32 recomputed"
    assert row.endswith(f"| {one} |")
    # 1024 / 8 / 60 minutes
    (minutes,) = list(_minutes([_case()], found))[2:]
    measured = by.format("'speed/pi05 update'")
    assert minutes.endswith(f"| planned; measured: 2.1 on {measured} |")
    assert any("samples_per_second 8" in line for line in _further(found))


def test_figures_of_quick_come_on_no_page(models, tmp_path):
    from parts.gpu.page import written_page

    with pytest.raises(ValueError):
        written_page(tmp_path / "page.md", {**RECORD, "quick": True})


@pytest.mark.long
def test_the_page_of_the_documents_is_up_to_date(gpu):
    pytest.importorskip("rlcore_env_libero")
    from parts.gpu.page import written_page
    from parts.gpu.record import read_record

    page, figures = ROOT / "docs/hardware.md", ROOT / "docs/results/hardware.json"
    measured = read_record(figures) if figures.exists() else None
    assert written_page(page, measured) == page.read_text(encoding="utf-8")


# -- each part, on CPUs ------------------------------------------------------------------------


def _quick(folder: Path, *rows: str) -> dict[str, list[dict[str, Any]]]:
    """Figures by row, all of which are done."""
    done = _called(folder, "--quick", *rows, "--row-limit", "900", "--limit", "3600")
    kept = _rows(folder / "gpu.json")
    assert done.returncode == 0, (done.stderr, kept)
    assert {row["status"] for row in kept.values()} == {"done"}, kept
    return {name: row["figures"] for name, row in kept.items()}


@pytest.mark.long
def test_correctness_compares_a_network_with_itself(tmp_path):
    pytest.importorskip("rlcore_model_openpi")
    figures = _quick(tmp_path, "correctness/pi0")["correctness/pi0"]
    fp32, bf16, repeated, *gaps = figures
    # the CPU against the CPU
    for precision in (fp32, bf16):
        for key in ("logprobs_differ", "values_differ", "gradient_differs"):
            assert precision[key] == 0
        assert precision["gradient_norm"] > 0
    assert repeated["repeat_equal"] and repeated["resume_equal"]
    for figure in gaps:
        assert figure["logprob_gap_by_batch"]["8"] == 0
        assert all(0 <= gap < 0.1 for gap in figure["logprob_gap_by_batch"].values())


@pytest.mark.long
def test_memory_stands_beside_the_plan(tmp_path):
    pytest.importorskip("rlcore_model_openpi")
    figures = _quick(tmp_path, "memory")["memory/pi05 lora"]
    built, *_ = figures
    assert built["parameters"] == built["planned_parameters"]
    assert built["trained"] == built["planned_trained"]
    learned = [figure for figure in figures if "micro_batch" in figure]
    settings = [(figure["micro_batch"], figure["gradient_checkpointing"]) for figure in learned]
    assert settings == [(1, True), (2, True), (1, False), (2, False)]
    assert all(figure["fits"] and figure["planned_gib"] > 0 for figure in learned)


@pytest.mark.long
def test_speed_is_of_the_network_and_of_the_network_alone(tmp_path):
    pytest.importorskip("rlcore_model_openpi")
    found = _quick(tmp_path, "speed")
    for update in found["speed/pi05 update"]:
        assert update["samples_per_second"] == pytest.approx(2 / update["seconds"])
        assert update["over_plain"] == pytest.approx(update["seconds"] / update["plain_seconds"])
        assert update["flops"] > 0
        assert "share_of_peak" not in update  # the peak of a CPU is not known
    plain, compiled = found["speed/pi05 compiled"]
    assert (plain["compiled"], compiled["compiled"]) == (False, True)
    optimizers = found["speed/optimizer and transfers"][:2]
    assert {figure["optimizer"] for figure in optimizers} == {"foreach", "fused"}


@pytest.mark.long
def test_frames_are_drawn_in_software_where_there_is_no_card(tmp_path):
    pytest.importorskip("rlcore_env_metaworld")
    pytest.importorskip("metaworld")
    (drawn,) = _quick(tmp_path, "simulators")["simulators/metaworld"]
    assert (drawn["way"], drawn["frames"], drawn["size"]) == ("software", 3, "32x32")
    assert drawn["ms_a_frame"] > 0


@pytest.mark.long
def test_weights_arrive_and_come_back(tmp_path):
    found = _quick(tmp_path, "weights")
    sent = {(way["way"], way["mib"]): way["seconds"] for way in found["weights/ways"]}
    # less, and more than a bucket
    assert sent.keys() == {(w, s) for w in ("object_store", "broadcast") for s in (0.5, 70)}
    assert all(seconds > 0 for seconds in sent.values())
    assert [figure["first"] for figure in found["weights/offload"]] == [True, False]


@pytest.mark.long
def test_a_recipe_is_run_short(tmp_path):
    pytest.importorskip("metaworld")
    pytest.importorskip("rlcore_algo_expo")
    *updates, ended = _quick(tmp_path, "run/quickstart_expo")["run/quickstart_expo"]
    assert ended["ended"]
    assert len(updates) == 1


@pytest.mark.long
def test_maniskill_is_run_by_phase(tmp_path):
    pytest.importorskip("mani_skill")
    pytest.importorskip("rlcore_model_openvla_oft")
    row = "run/maniskill on the card"
    figures = _quick(tmp_path, row)[row][-1]
    # one episode of two chunks of 8; a third frame is decided on for the value after the time limit
    assert figures["work"] == {"env_steps": 16, "episodes": 1, "decisions": 3}
    assert figures["samples"] == 2
    phases = figures["phases"]
    rollout = [phases[name]["calls"] for name in ("simulate", "render", "prepare", "act")]
    assert rollout == [16, 3, 3, 3]
    # both chunks are one micro-batch
    assert [phases[name]["calls"] for name in ("evaluate", "backward", "optimizer")] == [1, 1, 1]
    assert phases["evaluate"]["rows"] == 2
    assert all(phase["seconds"] > 0 for phase in phases.values())
    simulation, policy = figures["alone"]["simulation"], figures["alone"]["policy"]
    needed = simulation["reset"] + 16 * simulation["step"] + 3 * simulation["frame"]
    needed += 3 * policy["1"]
    speeds = figures["env_steps_per_second"]
    assert speeds["bound"] == pytest.approx(16 / needed)
    assert speeds["rollout"] == pytest.approx(16 / figures["seconds"]["rollouts"][0])
    assert speeds["rollout/bound"] == pytest.approx(speeds["rollout"] / speeds["bound"])
    assert figures["peak_gib"]["update"]["host"] >= figures["peak_gib"]["rollout"]["host"] > 0


@pytest.mark.long
def test_a_machine_without_a_gpu_is_refused(tmp_path):
    done = _called(tmp_path, "memory", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 2
    error, hint = done.stderr.strip().splitlines()
    assert "CUDA" in error and "--quick" in hint


def _called(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, GPU, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
    )


def _alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def _until(condition: Callable[[], object], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
