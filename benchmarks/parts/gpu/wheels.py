"""Gather what a machine with torch of its own lacks, as wheels in a folder.

Run where rlcore is installed and tested: the versions are those that are installed there. Torch,
numpy and what torch brings are the machine's own and are left out.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

WANTED = (
    "hydra-core", "omegaconf", "pluggy", "pyyaml", "rich", "safetensors", "psutil", "packaging",
    "transformers", "tokenizers", "sentencepiece", "pillow", "peft",
)  # fmt: skip
OF_THE_MACHINE = frozenset({"torch", "numpy", "setuptools"})
"""What the machine has itself; nothing that only they require is gathered."""
UNUSED = frozenset({"hf-xet", "typer"})
"""Required by a distribution of the list, but only to download models, and for command lines."""
SOURCES_ONLY = frozenset({"antlr4-python3-runtime"})
"""Distributions without wheels on the index: pure Python, built here."""
MOST = 35 * 2**20
"""Bytes that all wheels may have."""


def gather(folder: Path, python: str) -> int:
    """Download the wheels into a folder, and return their bytes.

    Args:
        python: version of the interpreter that will use them, as "3.12".

    Raises:
        RuntimeError: pip failed; its last lines are in the message.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pinned = closure(python)
    binary = [word for name, word in pinned.items() if name not in SOURCES_ONLY]
    sources = [word for name, word in pinned.items() if name in SOURCES_ONLY]
    kind = ["--only-binary=:all:", "--python-version", python]
    words = ("download", "--no-deps", *kind, *_platforms(), "--dest", str(folder))
    try:
        _pip(*words, *binary)
    except RuntimeError:  # a version of here has no wheel for that Python: take the newest that has
        for word in binary:
            try:
                _pip(*words, word)
            except RuntimeError:
                _pip(*words, word.partition("==")[0])
    if sources:
        _pip("wheel", "--no-deps", "--wheel-dir", str(folder), *sources)
    return sum(file.stat().st_size for file in folder.glob("*.whl"))


def closure(python: str) -> dict[str, str]:
    """Return `{name: requirement}` of what is wanted and of all that it requires, each pinned to
    the version that is installed here. What only another Python needs is not pinned.

    Raises:
        RuntimeError: something that is wanted is not installed here.
    """
    found: dict[str, str] = {}
    waiting = [*WANTED]
    while waiting:
        name = normal(waiting.pop())
        if name in found or name in OF_THE_MACHINE or name in UNUSED:
            continue
        try:
            there = distribution(name)
        except PackageNotFoundError:
            if name in WANTED:
                raise RuntimeError(
                    f"{name} is not installed here, so its tested version is unknown: make install"
                ) from None
            found[name] = name
        else:
            found[name] = f"{name}=={there.version}"
            waiting += _required(there.requires or (), python)
    return dict(sorted(found.items()))


def _required(lines: Iterable[str], python: str) -> list[str]:
    """Return the names that are required under a Python on Linux."""
    from packaging.requirements import Requirement

    under = {"extra": "", "python_version": python, "python_full_version": f"{python}.0"}
    requirements = [Requirement(line) for line in lines]
    return [one.name for one in requirements if one.marker is None or one.marker.evaluate(under)]


def normal(name: str) -> str:
    """Return the canonical form of a distribution's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _platforms() -> list[str]:
    """Return the arguments of pip for Linux machines of the last years."""
    tags = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
    return [word for tag in tags for word in ("--platform", tag)]


def _pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = "\n".join(done.stderr.strip().splitlines()[-6:])
        raise RuntimeError(f"pip {words[0]} failed:\n{last}")
