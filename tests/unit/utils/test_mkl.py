"""The choice of matrix kernels: by the processor's features, and never over a user's."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from rlcore.utils.mkl import (
    ATEN,
    MKL,
    NEEDED,
    ONEDNN,
    OURS,
    Kernels,
    Processor,
    apply_kernels,
    choose_for_workers,
    common_environment,
    common_features,
    from_flags,
    local_processor,
    user_setting,
)

AVX512_FLAGS = NEEDED["AVX512"]
AVX2_FLAGS = NEEDED["AVX2"]
XEON = Processor("AVX512", "GenuineIntel", ("amx_bf16", "avx512_bf16"))
SKYLAKE = Processor("AVX512", "GenuineIntel")
DESKTOP = Processor("AVX2", "GenuineIntel")
EPYC = Processor("AVX512", "AuthenticAMD", ("avx512_bf16",))
ARM = Processor("none", "aarch64")


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing set; what a test sets is gone after it."""
    for name in (MKL, OURS, ATEN, ONEDNN):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("flags", "setting"),
    [
        (AVX512_FLAGS, "AVX512,STRICT"),
        (AVX512_FLAGS - {"avx512bw"}, "AVX2,STRICT"),  # Xeon Phi: MKL's kernels need them all
        (AVX2_FLAGS, "AVX2,STRICT"),
        (AVX2_FLAGS - {"fma"}, "COMPATIBLE"),
        ({"sse4_2", "avx"}, "COMPATIBLE"),  # MKL is not strict with these
        (set(), "COMPATIBLE"),
    ],
)
def test_the_best_strict_kernels_that_a_processor_has(flags, setting):
    assert from_flags("GenuineIntel", flags | {"sse2"}).setting == setting


def test_without_mkl_nothing_is_set():
    assert ARM.setting == "" and common_environment([ARM, ARM]) == {}


def test_common_features_are_those_of_all_processors():
    assert common_features([XEON]) == XEON
    assert common_features([XEON, SKYLAKE]) == SKYLAKE
    assert common_features([DESKTOP, XEON]) == DESKTOP
    assert common_features([XEON, EPYC]) == Processor("AVX512", "any", ("avx512_bf16",))


def test_a_better_processor_uses_the_common_features():
    assert common_environment([XEON, XEON]) == {MKL: "AVX512,STRICT"}  # alike: nothing to hold
    shared = common_environment([XEON, SKYLAKE])
    assert shared == {MKL: "AVX512,STRICT", ATEN: "avx512", ONEDNN: "AVX512_CORE"}
    assert common_environment([XEON, DESKTOP]) == {MKL: "AVX2,STRICT", ATEN: "avx2", ONEDNN: "AVX2"}
    # the only kernels of MKL that are the same on processors of two makers
    shared = common_environment([XEON, EPYC])
    assert shared == {MKL: "COMPATIBLE", ATEN: "avx512", ONEDNN: "AVX512_CORE_BF16"}


def test_a_resume_uses_the_kernels_of_the_start():
    begun = choose_for_workers([DESKTOP])
    assert begun == Kernels(DESKTOP, {MKL: "AVX2,STRICT"})
    again = choose_for_workers([XEON], begun)
    assert again.processor == DESKTOP
    assert again.environment == {MKL: "AVX2,STRICT", ATEN: "avx2", ONEDNN: "AVX2"}
    assert choose_for_workers([DESKTOP], again) == again  # and back where it began


def test_a_processor_without_the_earlier_kernels_uses_its_own_best():
    assert choose_for_workers([DESKTOP], choose_for_workers([XEON])) == choose_for_workers(
        [DESKTOP]
    )
    assert choose_for_workers([EPYC], choose_for_workers([XEON])) == choose_for_workers([EPYC])


def test_kernels_that_a_user_set_before_are_used_at_a_resume():
    begun = Kernels(XEON, {MKL: "AVX512"}, by_hand=True)
    assert choose_for_workers([XEON], begun).environment == {MKL: "AVX512"}


def test_kernels_that_a_user_sets_are_kept(monkeypatch):
    monkeypatch.setenv(MKL, "SSE4_2")
    assert user_setting() == "SSE4_2"
    assert choose_for_workers([XEON], choose_for_workers([XEON])) == Kernels(
        XEON, {MKL: "SSE4_2"}, by_hand=True
    )
    apply_kernels(choose_for_workers([XEON]))
    assert user_setting() == "SSE4_2"  # still known as theirs


def test_chosen_kernels_are_not_taken_for_a_user_s():
    apply_kernels(choose_for_workers([XEON, DESKTOP]))
    assert (os.environ[MKL], os.environ[ATEN]) == ("AVX2,STRICT", "avx2")
    assert user_setting() is None


def imported(**environment: str) -> list[str | None]:
    """Return MKL_CBWR and the user's setting after `import rlcore` in a fresh interpreter."""
    script = (
        "import json, os, rlcore, rlcore.utils.mkl as k;"
        "print(json.dumps([os.environ.get('MKL_CBWR'), k.user_setting()]))"
    )
    plain = {name: value for name, value in os.environ.items() if name not in (MKL, OURS)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=plain | environment, capture_output=True, check=True
    )
    found: list[str | None] = json.loads(done.stdout)
    return found


def test_import_chooses_kernels_unless_a_user_did():
    own = local_processor().setting or None
    assert imported() == [own, None]
    assert imported(MKL_CBWR="AVX2") == ["AVX2", "AVX2"]
    assert imported(MKL_CBWR="") == ["", ""]  # asked for none
    # as a worker inherits it from a driver that was held to something
    assert imported(MKL_CBWR="AVX2,STRICT", RLCORE_KERNELS="AVX2,STRICT") == ["AVX2,STRICT", None]
