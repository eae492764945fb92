"""rlcore: fine-tune vision-language-action robot policies with reinforcement learning.

Importing this package loads neither torch nor ray; numpy and the standard library are all that a
simulator process needs of it. Its functions are those of :mod:`rlcore.api`, loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rlcore.contracts.version import __version__
from rlcore.utils import mkl

if TYPE_CHECKING:
    from rlcore.api import (
        compose,
        evaluate,
        load_policy,
        make_env,
        open_run,
        resume,
        sweep,
        train,
    )
    from rlcore.contracts.hookspecs import hookimpl, observer

__all__ = [
    "__version__",
    "compose",
    "evaluate",
    "hookimpl",
    "load_policy",
    "make_env",
    "observer",
    "open_run",
    "resume",
    "sweep",
    "train",
]
_MARKERS = ("hookimpl", "observer")  # only those who list plugins need pluggy

mkl.choose()  # MKL looks at its first call, so before anything else of rlcore is imported


def __getattr__(name: str) -> Any:
    """Load what is heavier than a simulator process needs, when it is asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "rlcore.contracts.hookspecs" if name in _MARKERS else "rlcore.api"
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return __all__
