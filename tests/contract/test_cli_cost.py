"""What the command line pays for: listing and planning load nothing heavy."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

REPORT = """
import sys
from rlcore.cli.main import main
code = main(sys.argv[1:])
heavy = {"torch", "ray", "hydra", "omegaconf", "gymnasium", "transformers", "mujoco"}
heavy |= {"rlcore.config.schema"}
print("LOADED", *sorted(heavy & set(sys.modules)))
raise SystemExit(code)
"""
DRY_RUN = ["collect", "env=toy", "--dry-run"]
CLUSTER = ["cluster", "env=toy"]
PLAN = ["plan", "env=toy", "model=toy", "algorithm=ppo"]


def loaded_by(*arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", REPORT, *arguments], capture_output=True, text=True, check=True
    )
    last = done.stdout.splitlines()[-1].split()
    assert last[0] == "LOADED"
    return set(last[1:])


@pytest.mark.parametrize("listing", ["plugins", "--help"])
def test_listing_loads_neither_configuration_nor_tensors(listing):
    assert loaded_by(listing) == set()


@pytest.mark.parametrize("arguments", [DRY_RUN, CLUSTER, PLAN, ["train", "--help"]])
def test_planning_loads_neither_tensors_nor_workers(arguments):
    assert loaded_by(*arguments) <= {"hydra", "omegaconf", "rlcore.config.schema"}


def test_a_report_loads_neither_configuration_nor_tensors(tmp_path):
    (tmp_path / "config.yaml").write_text("runner: {seed: 0}\n")
    assert loaded_by("report", str(tmp_path)) <= {"rlcore.config.schema"}
    assert (tmp_path / "report.html").is_file()


def test_listing_plugins_is_quick():
    """It takes at most four times as much of a processor as to import numpy, however fast that is
    here; the best of three, since what the machine does beside slows both down."""
    listing = min(processor_seconds("-m", "rlcore.cli.main", "plugins") for _ in range(3))
    numpy = min(processor_seconds("-c", "import numpy") for _ in range(3))
    assert 0 < listing < 4 * numpy


def processor_seconds(*words: str) -> float:
    """What an interpreter of its own takes, user and system."""
    before = os.times()
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])  # of children
