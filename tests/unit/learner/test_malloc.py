"""Memory that is freed among things that stay."""

import platform
import subprocess
import sys

import pytest

PROBE = """
import sys
from pathlib import Path
from rlcore.learner.malloc import set_mmap_threshold

def held():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20

set_mmap_threshold(int(sys.argv[1]))
large, small = [], []
for _ in range(64):  # 2 MiB each, and beside each something that stays
    large.append(bytearray(b"x") * 2**21)
    small.append(bytearray(b"x") * 2**16)
before = held()
del large
print(before - held())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of GNU's C library")
def test_freed_memory_above_the_threshold_is_returned() -> None:
    probe = [sys.executable, "-c", PROBE, str(2**20)]
    ran = subprocess.run(probe, check=True, capture_output=True, text=True)
    assert float(ran.stdout) > 100  # of 128 MiB
