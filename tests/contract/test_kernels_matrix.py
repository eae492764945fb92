"""With all kernels that this processor has, rows come out the same everywhere and runs repeat.

MKL follows MKL_CBWR on processors of Intel only; on others' a test has it take this one
for theirs, which needs a C compiler. What is not strict is no promise of ours: there it is held
that the look before a run sees what a policy would suffer from.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from internals import MKL, OURS

from rlcore.utils.mkl import AVX2, AVX512, COMPATIBLE, LEVELS, NONE, VARIABLES, local_processor

HERE = local_processor()
PROGRAM = Path(__file__).with_name("kernels_here.py")
SUPPORT = Path(__file__).parents[1] / "support"
OFFERED = LEVELS[: LEVELS.index(HERE.level) + 1]
SETTINGS = {  # those that keep rows apart, by what they need
    NONE: {},
    COMPATIBLE: {"COMPATIBLE": COMPATIBLE},
    AVX2: {"AVX2,STRICT": AVX2, "COMPATIBLE": COMPATIBLE},
    AVX512: {"AVX512,STRICT": AVX512, "AVX2,STRICT": AVX2, "COMPATIBLE": COMPATIBLE},
}[HERE.level]
ATEN = [name for name, level in (("default", COMPATIBLE), ("avx2", AVX2), ("avx512", AVX512))
        if level in OFFERED]  # fmt: skip
ONEDNN = [name for name, level in (("SSE41", COMPATIBLE), ("AVX2", AVX2), ("AVX512_CORE", AVX512))
          if level in OFFERED]  # fmt: skip
LOOSE = ("", "SSE4_2", "AVX2", "AVX512")
INTEL = "int mkl_serv_intel_cpu(void){return 1;}\nint mkl_serv_intel_cpu_true(void){return 1;}\n"


@pytest.fixture(scope="session")
def as_intel(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which MKL takes this processor for one of Intel."""
    if HERE.maker == "GenuineIntel":
        return {}
    if (compiler := shutil.which("cc")) is None or sys.platform != "linux":
        pytest.skip("MKL can't be shown another processor here: no C compiler")
    folder = tmp_path_factory.mktemp("intel")
    (folder / "intel.c").write_text(INTEL)
    command = [compiler, "-shared", "-fPIC", "-o", str(folder / "intel.so"), "intel.c"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return {"LD_PRELOAD": str(folder / "intel.so")}


def found(environment: dict[str, str], *words: str) -> dict[str, Any]:
    """What :data:`PROGRAM` sees in an interpreter of its own."""
    plain = {name: value for name, value in os.environ.items() if name not in (*VARIABLES, OURS)}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *words],
        env=plain | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(SUPPORT)} | environment,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return seen


def assert_kept(seen: dict[str, Any]) -> None:
    assert seen["moved"] == {} and seen["decisions"] == []
    one, again = seen["digests"]
    assert one == again
    if "runs" in seen:
        whole, apart = seen["runs"]
        assert whole and whole == apart


@pytest.mark.long
def test_as_rlcore_chooses(two_cores: None):
    """Whatever the processor."""
    assert_kept(found({}, "play"))


if HERE.setting:  # elsewhere there is no MKL to ask

    @pytest.mark.long
    @pytest.mark.parametrize("mkl", SETTINGS)
    def test_strict_kernels(mkl: str, as_intel: dict[str, str]):
        """Of the best processors down, as MKL has them for Intel's; the rest of torch held down
        likewise."""
        at = OFFERED.index(SETTINGS[mkl]) - 1
        aten, onednn = ATEN[at], ONEDNN[at]
        held = {MKL: mkl, "ATEN_CPU_CAPABILITY": aten, "ONEDNN_MAX_CPU_ISA": onednn}
        assert_kept(found({**held, **as_intel}))

    @pytest.mark.exhaustive
    @pytest.mark.parametrize("onednn", ONEDNN)
    @pytest.mark.parametrize("aten", ATEN)
    @pytest.mark.parametrize("mkl", SETTINGS)
    @pytest.mark.parametrize("shown", ["as it is", "as Intel's"])
    def test_all_kernels(
        mkl: str, aten: str, onednn: str, shown: str, request: pytest.FixtureRequest,
        two_cores: None,
    ):  # fmt: skip
        if shown == "as it is" and HERE.maker == "GenuineIntel":
            pytest.skip("the same")
        held = {MKL: mkl, "ATEN_CPU_CAPABILITY": aten, "ONEDNN_MAX_CPU_ISA": onednn}
        preload = request.getfixturevalue("as_intel") if shown == "as Intel's" else {}
        assert_kept(found({**held, **preload}, "play"))

    @pytest.mark.long
    @pytest.mark.parametrize(("mkl", "aten"), list(product(LOOSE, ATEN)))
    def test_the_look_sees_what_a_policy_suffers_from(
        mkl: str, aten: str, as_intel: dict[str, str]
    ):
        """Kernels that are not strict: decisions move only where the look saw sums that do."""
        seen = found({MKL: mkl, "ATEN_CPU_CAPABILITY": aten, **as_intel})
        assert seen["moved"] or not seen["decisions"]
