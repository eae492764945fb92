"""Compute sizes and digests of a folder's files, and compare them later."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rlcore.contracts.errors import CheckpointError
from rlcore.files.damaged_files import damaged_error, damaged_on, read_mapping
from rlcore.files.reading import open_regular

DIGEST = "sha256"
"""Name of the digests' algorithm in hashlib; `sha256sum` prints the same digests."""
BLOCK_BYTES = 1 << 20
READ_ALWAYS = 256 << 20
"""Size in bytes from which on a file's digest is checked only with `--verify`.

The optimizer state of a large model takes minutes to read.
"""
SEAL = "rlcore_contents.json"
"""Name of the file that contains the digests of a sealed folder."""


def sizes(folder: Path) -> dict[str, int]:
    """Return the sizes in bytes of all files below a folder, by relative path."""
    return {name: file.stat().st_size for name, file in _files(folder)}


def digests(folder: Path, ends: tuple[str, ...] = ("",)) -> dict[str, str]:
    """Return the hex digests of the files below a folder, by relative path.

    Args:
        ends: suffixes of the paths to include; by default all files are included.
    """
    return {name: _digest(file) for name, file in _files(folder) if name.endswith(ends)}


def check_sizes(folder: Path, expected: Mapping[str, int]) -> None:
    """Raise CheckpointError if a file is missing or has another size. Reads no content.

    Args:
        expected: sizes in bytes, by relative path.
    """
    for name, size in expected.items():
        file = folder / name
        if not file.is_file():
            raise CheckpointError(f"{folder} is incomplete: {name} is missing")
        if file.stat().st_size != size:
            raise damaged_error(file, f"{file.stat().st_size} bytes instead of {size}")


def check_digests(folder: Path, expected: Mapping[str, str], *, verify: bool = False) -> None:
    """Raise CheckpointError if a file has other content.

    Args:
        expected: hex digests, by relative path.
        verify: read files of any size, not only those below :data:`READ_ALWAYS`.
    """
    for name, digest in expected.items():
        with damaged_on(folder / name):
            if (folder / name).stat().st_size >= READ_ALWAYS and not verify:
                continue
            actual = _digest(folder / name)
        if actual != digest:
            raise damaged_error(
                folder / name, f"its {DIGEST} is {actual}, it was written with {digest}"
            )


def seal(folder: Path, seed: int) -> None:
    """Write the digests of a folder's files and the seed of its run to the file `SEAL` in it."""
    text = json.dumps({"seed": seed, DIGEST: digests(folder)}, indent=1)
    (folder / SEAL).write_text(text, encoding="utf-8")


def check_seal(folder: Path, seed: int, *, verify: bool = False) -> None:
    """Check a folder against its seal.

    Args:
        seed: seed of the run that reads the folder.
        verify: see :func:`check_digests`.

    Raises:
        CheckpointError: a file changed, the folder has no seal, or it belongs to a run with another
            seed.
    """
    path = folder / SEAL
    content = read_mapping(path)
    with damaged_on(path):
        expected = {str(name): str(digest) for name, digest in content[DIGEST].items()}
        sealed_seed = content["seed"]
    if sealed_seed != seed:
        raise CheckpointError(
            f"{folder} is of a run with seed {sealed_seed!r}, runner.seed is {seed}",
            hint="put back the run's own; if it is missing it is made again",
        )
    check_digests(folder, expected, verify=verify)


@dataclass(frozen=True)
class Extent:
    """Size and digest that a file had when another file that depends on it was written.

    Data may have been appended since, so only the first `size` bytes are compared.

    Attributes:
        size: size in bytes.
        sha256: hex digest of the first `size` bytes.
    """

    size: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> Extent:
        """Return the size and digest of a file's current content."""
        size = path.stat().st_size
        return cls(size, _digest(path, size))

    def fault(self, path: Path) -> str | None:
        """Return how a file differs from the recorded content; None if its beginning is the same.

        The text is a predicate, whose subject is the file.
        """
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
    """Return the hex digest of a text in UTF-8."""
    return hashlib.new(DIGEST, text.encode()).hexdigest()


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the relative path, with slashes, and the path of each file below a folder."""
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            yield file.relative_to(folder).as_posix(), file


def _digest(path: Path, size: int | None = None) -> str:
    """Return the hex digest of a file, or of its first `size` bytes.

    The file is read in blocks, because it may be larger than memory.
    """
    digest = hashlib.new(DIGEST)
    remaining = size
    with open_regular(path) as file:
        while block := file.read(BLOCK_BYTES if remaining is None else min(remaining, BLOCK_BYTES)):
            digest.update(block)
            remaining = None if remaining is None else remaining - len(block)
    return digest.hexdigest()
