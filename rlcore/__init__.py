"""rlcore: fine-tune vision-language-action robot policies with reinforcement learning.

Importing this package loads neither torch nor ray; numpy and the standard library are all that a
simulator process needs of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlcore.numerics import mkl

if TYPE_CHECKING:
    from rlcore.contracts.hookspecs import hookimpl, observer

__version__ = "0.1.0"
__all__ = ["__version__", "hookimpl", "observer"]

mkl.choose()  # MKL looks at its first call, so before anything else of rlcore is imported


def __getattr__(name: str) -> Any:
    """The markers of hooks when a plugin asks for them: only those who list plugins need pluggy."""
    if name in ("hookimpl", "observer"):
        from rlcore.contracts import hookspecs

        return getattr(hookspecs, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
