"""rlcore: fine-tune vision-language-action robot policies with reinforcement learning.

Importing this package loads neither torch nor ray.
"""

from rlcore import kernels
from rlcore.hookspecs import hookimpl

__version__ = "0.1.0"
__all__ = ["__version__", "hookimpl"]

kernels.choose()  # MKL looks at its first call, so before anything else of rlcore is imported
