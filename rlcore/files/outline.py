"""Write large files without their data, to test quickly whether they can be written and read.

    with without_data():
        policy.save_pretrained(folder)      writes names, shapes and settings, but no weights

Code that writes large tensors must check :func:`skips_data`. Such a file is written at once,
and takes no space on a file system with sparse files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_left_out: ContextVar[bool] = ContextVar("left_out", default=False)


@contextmanager
def without_data() -> Iterator[None]:
    """Make writers of large tensors omit the data within this context."""
    token = _left_out.set(True)
    try:
        yield
    finally:
        _left_out.reset(token)


def skips_data() -> bool:
    """Check whether writers of large tensors must omit the data now."""
    return _left_out.get()
