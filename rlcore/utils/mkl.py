"""Select batch-invariant matrix kernels: a row's result, bit for bit, is the same in any batch.

    processor --setting--> MKL_CBWR in the environment --> read by MKL at its first call

`import rlcore` selects kernels for its own process (:func:`choose`). Workers use the best kernels
that all their processors support; a resumed run uses the kernels that it started with
(:func:`choose_for_workers`, :func:`apply_kernels`). The variables are set before the workers
compute. docs/repeatability.md describes what this guarantees.

This module identifies processors by their features and imports no tensor library.
:mod:`rlcore.rollout.batch_invariance` checks the results of the selected kernels.

Environment variables:
    MKL_CBWR              setting of MKL; not changed if the user has set it
    ATEN_CPU_CAPABILITY   setting of torch; set only to limit a better processor to the common
                          features
    ONEDNN_MAX_CPU_ISA    setting of oneDNN; set in the same case
    RLCORE_KERNELS        the MKL_CBWR that rlcore chose, which tells a child process that the user
                          did not set it
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rlcore.files import cpuinfo

MKL = "MKL_CBWR"
ATEN = "ATEN_CPU_CAPABILITY"
ONEDNN = "ONEDNN_MAX_CPU_ISA"
VARIABLES = (MKL, ATEN, ONEDNN)
OURS = "RLCORE_KERNELS"

NONE = "none"
COMPATIBLE = "COMPATIBLE"
AVX2 = "AVX2"
AVX512 = "AVX512"
LEVELS = (NONE, COMPATIBLE, AVX2, AVX512)  # from least to best
"""Instruction set levels for which MKL has batch-invariant kernels; "none" without MKL."""
NEEDED = {  # processor flags that a level requires, as Linux names them
    AVX512: {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma"},
    AVX2: {"avx2", "fma"},
}
HELD = {  # settings that limit torch and oneDNN to a level
    AVX512: {ATEN: "avx512", ONEDNN: "AVX512_CORE"},
    AVX2: {ATEN: "avx2", ONEDNN: "AVX2"},
    COMPATIBLE: {ATEN: "default", ONEDNN: "SSE41"},
}
BF16_UNITS = {"amx_bf16": "AVX512_CORE_AMX", "avx512_bf16": "AVX512_CORE_BF16"}  # best first
ANY_MAKER = "any"
X86 = ("x86_64", "amd64", "i386", "i686")


@dataclass(frozen=True)
class Processor:
    """The features of a processor, or the common ones of several.

    Attributes:
        level: one of LEVELS.
        maker: its vendor string, e.g. "GenuineIntel": MKL selects kernels by vendor.
        units: the keys of BF16_UNITS that it has.
    """

    level: str
    maker: str
    units: tuple[str, ...] = ()

    @property
    def setting(self) -> str:
        """MKL_CBWR for this processor; "" without MKL.

        STRICT makes the kernels batch-invariant. MKL has it for AVX2 and AVX512 only. The
        COMPATIBLE kernels, which run on any processor, are batch-invariant without it but slow.
        """
        if self.level == NONE:
            return ""
        if self.level == COMPATIBLE or self.maker == ANY_MAKER:
            return COMPATIBLE
        return f"{self.level},STRICT"


@dataclass(frozen=True)
class Kernels:
    """The CPU kernels of a run.

    Attributes:
        processor: features that the processors of all workers have.
        environment: values of those VARIABLES that are set, by name.
        by_hand: whether the user set MKL_CBWR.
    """

    processor: Processor
    environment: Mapping[str, str]
    by_hand: bool = False


@dataclass(frozen=True)
class BatchInvariance:
    """Results of the checks for batch invariance in one process.

    Attributes:
        rows: batch size of the checks.
        kernels: operations in which a row's result depends on its position or on other rows.
        decisions: parts of the policy's decisions that depend on these too; checked only with a
            fixed forward batch.
        digest: digest of the operations' results; equal if two processes round the same way.
    """

    rows: int
    kernels: tuple[str, ...]
    decisions: tuple[str, ...]
    digest: str


@lru_cache(maxsize=1)
def local_processor() -> Processor:
    """Return the features of this machine's processor."""
    machine = os.uname().machine.lower()
    if machine not in X86:
        return Processor(NONE, machine or ANY_MAKER)
    properties = cpuinfo.processor()
    return from_flags(
        properties.get("vendor_id", ANY_MAKER), set(properties.get("flags", "").split())
    )


def from_flags(maker: str, flags: set[str]) -> Processor:
    """Return the features of an x86 processor with these flags, as Linux names them."""
    level = next((name for name in (AVX512, AVX2) if flags >= NEEDED[name]), COMPATIBLE)
    return Processor(level, maker, tuple(unit for unit in BF16_UNITS if unit in flags))


def common_features(processors: Sequence[Processor]) -> Processor:
    """Return the features that all processors have."""
    first, *others = processors
    return Processor(
        min((processor.level for processor in processors), key=LEVELS.index),
        first.maker if all(processor.maker == first.maker for processor in others) else ANY_MAKER,
        tuple(unit for unit in first.units if all(unit in processor.units for processor in others)),
    )


def common_environment(processors: Sequence[Processor]) -> dict[str, str]:
    """Return the environment variables under which all processors compute the same bits.

    They limit better processors to the common features.
    """
    common = common_features(processors)
    environment = {MKL: common.setting} if common.setting else {}
    if any(processor != common for processor in processors) and common.level in HELD:
        environment |= HELD[common.level]
        if common.level == AVX512 and common.units:
            environment[ONEDNN] = BF16_UNITS[common.units[0]]
    return environment


def choose() -> None:
    """Select this processor's best batch-invariant kernels, unless the user set MKL_CBWR."""
    setting = local_processor().setting
    if setting and MKL not in os.environ:
        os.environ |= {MKL: setting, OURS: setting}


def user_setting() -> str | None:
    """Return the MKL_CBWR that the user set; None if rlcore set it, or if it is unset."""
    setting = os.environ.get(MKL)
    return None if setting == os.environ.get(OURS) else setting


def choose_for_workers(offered: Sequence[Processor], begun: Kernels | None = None) -> Kernels:
    """Return the kernels of a run.

    Args:
        offered: features of the workers' processors.
        begun: kernels that a resumed run started with; used again if every processor has them.
    """
    common = common_features(offered)
    if user_setting() is not None:
        return Kernels(common, current_environment(), by_hand=True)
    if begun is None or common_features([begun.processor, common]) != begun.processor:
        return Kernels(common, common_environment(offered))
    environment = {**common_environment([begun.processor, *offered]), **begun.environment}
    return Kernels(begun.processor, environment)


def apply_kernels(kernels: Kernels) -> None:
    """Set the environment variables of these kernels.

    A library that has already computed in this process does not read them again.
    """
    os.environ |= kernels.environment
    if not kernels.by_hand and MKL in kernels.environment:
        os.environ[OURS] = kernels.environment[MKL]


def current_environment() -> dict[str, str]:
    """Return the values of those VARIABLES that are set."""
    return {name: os.environ[name] for name in VARIABLES if name in os.environ}
