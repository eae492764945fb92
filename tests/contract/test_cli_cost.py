"""What the command line pays for: listing and planning load nothing heavy."""

from __future__ import annotations

import subprocess
import sys

import pytest

REPORT = """
import sys
from rlcore.cli.main import main
code = main(sys.argv[1:])
heavy = {"torch", "ray", "numpy", "hydra", "omegaconf", "gymnasium", "transformers", "mujoco"}
heavy |= {"rlcore.config.schema", "rlcore.contracts.specs"}  # classes take long to make
print("LOADED", len(sys.modules), *sorted(heavy & set(sys.modules)))
raise SystemExit(code)
"""
DRY_RUN = ["collect", "env=toy", "--dry-run"]
SCHEMA = {"rlcore.config.schema", "rlcore.contracts.specs"}
CLUSTER = ["cluster", "env=toy"]
PLAN = ["plan", "env=toy", "model=toy", "algorithm=ppo"]


def loaded_by(*arguments: str, most: int | None = None) -> set[str]:
    """Which heavy modules a command loads, after a look at how many it loads in all."""
    done = subprocess.run(
        [sys.executable, "-c", REPORT, *arguments], capture_output=True, text=True, check=True
    )
    word, number, *heavy = done.stdout.splitlines()[-1].split()
    assert word == "LOADED"
    assert most is None or int(number) <= most
    return set(heavy)


@pytest.mark.parametrize("listing", ["plugins", "--help"])
def test_listing_loads_neither_configuration_nor_tensors(listing):
    """Nor much else: `plugins` comes to 293 modules under Python 3.11, of which an interpreter
    that does nothing has 33, and each plugin three; importing numpy alone takes 140."""
    assert loaded_by(listing, most=350) == set()


@pytest.mark.quick(1)
@pytest.mark.parametrize("arguments", [DRY_RUN, CLUSTER, PLAN, ["train", "--help"]])
def test_planning_loads_neither_tensors_nor_workers(arguments):
    assert loaded_by(*arguments) <= {"hydra", "omegaconf", "numpy", *SCHEMA}


def test_a_report_loads_neither_configuration_nor_tensors(tmp_path):
    (tmp_path / "config.yaml").write_text("runner: {seed: 0}\n")
    assert loaded_by("report", str(tmp_path)) <= {"numpy", *SCHEMA}
    assert (tmp_path / "report.html").is_file()
