"""Write large files without their data, where only their form is tried.

    with without_data():
        policy.save_pretrained(folder)      names, shapes and settings are there, weights are not

Whoever writes large tensors asks :func:`leaves_data_out`. Such a file takes no room on a disk that
knows holes, and no time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_left_out: ContextVar[bool] = ContextVar("left_out", default=False)


@contextmanager
def without_data() -> Iterator[None]:
    """Have writers of large tensors leave their data out, within this context."""
    token = _left_out.set(True)
    try:
        yield
    finally:
        _left_out.reset(token)


def leaves_data_out() -> bool:
    """Return whether the data of large tensors is left out of what is written now."""
    return _left_out.get()
