"""Compute sizes and digests of a folder's files, and compare them later."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rlcore.contracts.errors import CheckpointError
from rlcore.files.damaged_files import blaming, damaged, read_mapping
from rlcore.files.reading import open_regular

DIGEST = "sha256"
"""Of the digests, in the words of hashlib; `sha256sum` prints the same."""
BLOCK_BYTES = 1 << 20
READ_ALWAYS = 256 << 20
"""Bytes. Smaller files are compared with their digests each time, larger ones only by `--verify`:
the optimizer state of a large model takes minutes to read."""
SEAL = "rlcore_contents.json"


def sizes(folder: Path) -> dict[str, int]:
    """`{name: bytes}` of all files below a folder."""
    return {name: file.stat().st_size for name, file in _files(folder)}


def digests(folder: Path, ends: tuple[str, ...] = ("",)) -> dict[str, str]:
    """`{name: hex digest}` of all files below a folder whose names end so."""
    return {name: _digest(file) for name, file in _files(folder) if name.endswith(ends)}


def check_sizes(folder: Path, expected: Mapping[str, int]) -> None:
    """Raise CheckpointError where a file is missing or of another size; quick."""
    for name, size in expected.items():
        file = folder / name
        if not file.is_file():
            raise CheckpointError(f"{folder} is incomplete: {name} is missing")
        if file.stat().st_size != size:
            raise damaged(file, f"{file.stat().st_size} bytes instead of {size}")


def check_digests(folder: Path, expected: Mapping[str, str], *, verify: bool = False) -> None:
    """Raise CheckpointError where a file has other content.

    Args:
        verify: read files of any size, not only those below :data:`READ_ALWAYS`.
    """
    for name, digest in expected.items():
        with blaming(folder / name):
            if (folder / name).stat().st_size >= READ_ALWAYS and not verify:
                continue
            found = _digest(folder / name)
        if found != digest:
            raise damaged(folder / name, f"its {DIGEST} is {found}, it was written with {digest}")


def seal(folder: Path, seed: int) -> None:
    """Store digests of all files of a folder in it, with the seed of its run."""
    text = json.dumps({"seed": seed, DIGEST: digests(folder)}, indent=1)
    (folder / SEAL).write_text(text, encoding="utf-8")


def check_seal(folder: Path, seed: int, *, verify: bool = False) -> None:
    """Raise CheckpointError where a sealed folder is not as it was, was never sealed, or is of a
    run with another seed. For `verify` see :func:`check_digests`."""
    path = folder / SEAL
    content = read_mapping(path)
    with blaming(path):
        expected = {str(name): str(digest) for name, digest in content[DIGEST].items()}
        of = content["seed"]
    if of != seed:
        raise CheckpointError(
            f"{folder} is of a run with seed {of!r}, runner.seed is {seed}",
            hint="put back the run's own; if it is missing it is made again",
        )
    check_digests(folder, expected, verify=verify)


@dataclass(frozen=True)
class Extent:
    """Size and digest of a file's beginning when something that relies on it was written; data may
    have been appended.

    Attributes:
        size: bytes.
        sha256: hex digest of them.
    """

    size: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> Extent:
        """Describe the present content of a file."""
        size = path.stat().st_size
        return cls(size, _digest(path, size))

    def fault(self, path: Path) -> str | None:
        """Describe what is wrong with a file that should begin so; None if nothing is."""
        try:
            size = path.stat().st_size
            if size < self.size:
                return f"is cut off: {size} bytes instead of {self.size}"
            if _digest(path, self.size) != self.sha256:
                return f"does not begin with the {self.size} bytes that it had"
        except FileNotFoundError:
            return "is missing"
        except (OSError, ValueError) as error:
            return f"can't be read ({error})"
        return None


def text_digest(text: str) -> str:
    """Hex digest of a text, in UTF-8."""
    return hashlib.new(DIGEST, text.encode()).hexdigest()


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            yield file.relative_to(folder).as_posix(), file


def _digest(path: Path, size: int | None = None) -> str:
    """Of the first `size` bytes, or of all; read in blocks, as it may be larger than memory."""
    digest, left = hashlib.new(DIGEST), size
    with open_regular(path) as file:
        while block := file.read(BLOCK_BYTES if left is None else min(left, BLOCK_BYTES)):
            digest.update(block)
            left = None if left is None else left - len(block)
    return digest.hexdigest()
