"""Choose the matrix kernels of a process, so that a row's bits depend neither on its place in a
batch nor on the other rows (docs/repeatability.md).

    processor --setting--> MKL_CBWR in the environment --> read by MKL at its first call

`import rlcore` chooses for its own process (:func:`choose`). Workers use what all their processors
support, and a resumed run the kernels that it started with (:func:`choose_for_workers`,
:func:`apply`). Both are set before the workers compute.

Knows processors by their features. Loads no tensor library: :mod:`rlcore.numerics.batch_invariance`
checks what the kernels really do.

Environment variables:
    MKL_CBWR              of MKL; not changed if the user has set it
    ATEN_CPU_CAPABILITY   of torch and
    ONEDNN_MAX_CPU_ISA    of oneDNN; set only to limit a better processor to the common features
    RLCORE_KERNELS        the MKL_CBWR that rlcore chose, so that a child process can tell it from a
                          user's
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rlcore.files import cpuinfo

MKL, ATEN, ONEDNN = "MKL_CBWR", "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA"
VARIABLES = (MKL, ATEN, ONEDNN)
OURS = "RLCORE_KERNELS"

NONE, COMPATIBLE, AVX2, AVX512 = "none", "COMPATIBLE", "AVX2", "AVX512"
LEVELS = (NONE, COMPATIBLE, AVX2, AVX512)  # from least to best
"""What MKL has kernels of its own for that it can be strict with; "none" without MKL."""
NEEDED = {  # flags of a level, as Linux calls them
    AVX512: {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma"},
    AVX2: {"avx2", "fma"},
}
HELD = {  # what holds torch and oneDNN to a level
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
        maker: its vendor string, e.g. "GenuineIntel": MKL has other kernels for other makers'.
        units: those of BF16_UNITS that it has.
    """

    level: str
    maker: str
    units: tuple[str, ...] = ()

    @property
    def setting(self) -> str:
        """The MKL_CBWR for it; "" without MKL.

        STRICT is what makes a row's place and company not matter. MKL knows it for AVX2 and
        AVX512 only; the kernels for any processor keep rows apart by themselves, and are slow.
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
        processor: what its workers' processors have in common.
        environment: those of VARIABLES that decide.
        by_hand: whether a user set MKL_CBWR.
    """

    processor: Processor
    environment: Mapping[str, str]
    by_hand: bool = False


@dataclass(frozen=True)
class BatchInvariance:
    """Whether the results of a process depend on its batches, as checked.

    Attributes:
        rows: of the batches that were checked.
        kernels: sums whose rows got other bits at another place or beside other rows.
        decisions: parts of the policy's decisions of which the same is true; checked only with a
            fixed forward batch.
        digest: of the sums' results: equal where two processes round them the same way.
    """

    rows: int
    kernels: tuple[str, ...]
    decisions: tuple[str, ...]
    digest: str


@lru_cache(maxsize=1)
def local_processor() -> Processor:
    """This machine's."""
    machine = os.uname().machine.lower()
    if machine not in X86:
        return Processor(NONE, machine or ANY_MAKER)
    told = cpuinfo.processor()
    return from_flags(told.get("vendor_id", ANY_MAKER), set(told.get("flags", "").split()))


def from_flags(maker: str, flags: set[str]) -> Processor:
    """The x86 processor with those flags, as Linux calls them."""
    level = next((each for each in (AVX512, AVX2) if flags >= NEEDED[each]), COMPATIBLE)
    return Processor(level, maker, tuple(unit for unit in BF16_UNITS if unit in flags))


def common_features(processors: Sequence[Processor]) -> Processor:
    """The features that all of them have."""
    first, *others = processors
    return Processor(
        min((each.level for each in processors), key=LEVELS.index),
        first.maker if all(each.maker == first.maker for each in others) else ANY_MAKER,
        tuple(unit for unit in first.units if all(unit in each.units for each in others)),
    )


def common_environment(processors: Sequence[Processor]) -> dict[str, str]:
    """The environment under which all of them compute the same bits: better processors are limited
    to the common features."""
    common = common_features(processors)
    found = {MKL: common.setting} if common.setting else {}
    if any(each != common for each in processors) and common.level in HELD:
        found |= HELD[common.level]
        if common.level == AVX512 and common.units:
            found[ONEDNN] = BF16_UNITS[common.units[0]]
    return found


def choose() -> None:
    """Choose this processor's best kernels, unless the user has chosen."""
    setting = local_processor().setting
    if setting and MKL not in os.environ:
        os.environ |= {MKL: setting, OURS: setting}


def user_setting() -> str | None:
    """The MKL_CBWR that a user set; None where it is rlcore's choice."""
    setting = os.environ.get(MKL)
    return None if setting == os.environ.get(OURS) else setting


def choose_for_workers(offered: Sequence[Processor], begun: Kernels | None = None) -> Kernels:
    """The kernels of a run whose workers sit on these processors.

    Args:
        offered: their features.
        begun: what the run computed with before; used again if every worker can.
    """
    common = common_features(offered)
    if user_setting() is not None:
        return Kernels(common, current_environment(), by_hand=True)
    if begun is None or common_features([begun.processor, common]) != begun.processor:
        return Kernels(common, common_environment(offered))
    again = {**common_environment([begun.processor, *offered]), **begun.environment}
    return Kernels(begun.processor, again)


def apply(kernels: Kernels) -> None:
    """Use these kernels from now on; without effect on a library that has computed already."""
    os.environ |= kernels.environment
    if not kernels.by_hand and MKL in kernels.environment:
        os.environ[OURS] = kernels.environment[MKL]


def current_environment() -> dict[str, str]:
    """Those of VARIABLES that are set."""
    return {name: os.environ[name] for name in VARIABLES if name in os.environ}
