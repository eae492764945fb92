"""rlcore: fine-tune vision-language-action robot policies with reinforcement learning.

Importing this package loads neither torch nor ray.
"""

import os

from rlcore.hookspecs import hookimpl

__version__ = "0.1.0"
__all__ = ["__version__", "hookimpl"]

# MKL reads this at its first call. Its AVX512 kernels round a row by its place in the batch where a
# layer has few outputs (docs/repeatability.md). No slower at the sizes we measured.
os.environ.setdefault("MKL_CBWR", "AVX2")
