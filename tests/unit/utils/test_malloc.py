"""Memory that is freed among things that stay."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

PROBE = """
import sys
from pathlib import Path
from rlcore.utils.malloc import set_mmap_threshold

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


FAULTS = """
import resource, sys
from rlcore.utils.malloc import keep_freed_memory

if sys.argv[1] == "kept":
    keep_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for size in range(1, 31):
    b"x" * (size * 2**20)  # freed at once
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _counts_pages_of_4_kib() -> bool:
    """Return whether each fault brings a page of 4 KiB: no larger pages, none chosen unasked."""
    huge = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    always = huge.exists() and "[always]" in huge.read_text()
    return os.sysconf("SC_PAGE_SIZE") == 4096 and not always


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of GNU's C library")
@pytest.mark.skipif(not _counts_pages_of_4_kib(), reason="a fault brings more than 4 KiB here")
def test_freed_memory_is_kept_for_the_next_allocation() -> None:
    faults = {}
    own = {"MALLOC_TRIM_THRESHOLD_": str(2**17)}  # glibc's default, set by a user
    others = {name: value for name, value in os.environ.items() if name not in own}
    for case, word, more in (("kept", "kept", {}), ("returned", "", {}), ("own", "kept", own)):
        probe = [sys.executable, "-c", FAULTS, word]
        ran = subprocess.run(probe, check=True, capture_output=True, text=True, env=others | more)
        faults[case] = int(ran.stdout)
    # in pages of 4 KiB, the largest allocation is 7,680, and all of them are 119,040
    assert faults["kept"] < 20_000 < 100_000 < faults["returned"]
    assert faults["own"] > 100_000
