"""Tokenize instructions. No torch.

Published policies use the tokenizer of SmolVLM2, a file `tokenizer.json` of the library tokenizers.
A model from scratch gets a small one, which is trained on the env's instructions and saved with the
checkpoint.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer

from rlcore.contracts.errors import CheckpointError, ConfigError
from rlcore.files import hub
from rlcore.files.damaged_files import damaged_error
from rlcore.files.reading import UnreadableError, error_reason, read_bytes

TOKENIZER_FILE = "tokenizer.json"
_PAD = 0
_log = logging.getLogger(__name__)


class PromptTokenizer:
    """Converts instructions to padded token ids.

    Args:
        model: bytes of a `tokenizer.json`.
        max_length: L, tokens per prompt; longer prompts are truncated, with a warning.
        vocabulary: rows of the network's embedding, the largest vocabulary that is accepted.

    Raises:
        CheckpointError: `model` is not a tokenizer, or its vocabulary is larger than `vocabulary`.
    """

    def __init__(self, model: bytes, max_length: int, vocabulary: int) -> None:
        self.model = model
        self.max_length = max_length
        try:
            self._tokenizer = Tokenizer.from_buffer(model)
        except Exception as error:  # the library raises no narrower class
            raise CheckpointError(f"the tokenizer is damaged: {error}") from error
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        count = self._tokenizer.get_vocab_size()
        if count > vocabulary:
            raise CheckpointError(
                f"the tokenizer has {count} tokens, the network embeds {vocabulary}"
            )
        self._ids = lru_cache(maxsize=4096)(self._encode)

    def __call__(self, sentences: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Tokenize the instructions of B rows.

        Returns:
            Token ids int32 `[B, L]`, 0 where padded, and mask bool `[B, L]`, false where padded.
        """
        tokens = np.full((len(sentences), self.max_length), _PAD, dtype=np.int32)
        mask = np.zeros((len(sentences), self.max_length), dtype=bool)
        for row, sentence in enumerate(sentences):
            ids = self._ids(sentence)
            length = min(len(ids), self.max_length)
            tokens[row, :length] = ids[:length]
            mask[row, :length] = True
            if len(ids) > self.max_length:
                _log.warning(
                    "the prompt of %r has %d tokens and is cut to %d",
                    sentence,
                    len(ids),
                    self.max_length,
                )
        return tokens, mask

    def check(self, sentences: Iterable[str]) -> None:
        """Check that all instructions fit into L tokens.

        Raises:
            ConfigError: the longest has more than L tokens.
        """
        lengths = {sentence: len(self._ids(sentence)) for sentence in sentences}
        longest = max(lengths, key=lambda sentence: lengths[sentence], default=None)
        if longest is not None and lengths[longest] > self.max_length:
            raise ConfigError(
                f"actor.model.smolvla.max_token_len must be at least {lengths[longest]}, the "
                f"tokens of the prompt of {longest!r}, got {self.max_length}"
            )

    def save(self, folder: Path) -> None:
        """Write `tokenizer.json` into `folder`."""
        (folder / TOKENIZER_FILE).write_bytes(self.model)

    def _encode(self, sentence: str) -> list[int]:
        """Return all token ids of a prompt: the instruction, which ends with a newline."""
        prompt = sentence if sentence.endswith("\n") else f"{sentence}\n"
        ids: list[int] = self._tokenizer.encode(prompt).ids
        return ids


def find_tokenizer(folder: Path, vlm: str) -> Path:
    """Return the `tokenizer.json` of a checkpoint.

    Args:
        folder: the checkpoint.
        vlm: name on the hub, or path, of the model whose tokenizer the policy uses.

    Raises:
        CheckpointError: it is neither in the folder, nor in that of the VLM, nor in the hub's
            cache.
    """
    places = [folder, Path(vlm)]
    cached = hub.find(vlm) if hub.is_name(vlm) else None
    places += [] if cached is None else [cached]
    for place in places:
        if (place / TOKENIZER_FILE).is_file():
            return place / TOKENIZER_FILE
    raise CheckpointError(
        f"{folder} has no {TOKENIZER_FILE}: LeRobot takes it from {vlm!r}, which is not in Hugging "
        "Face's cache",
        hint=f"hf download {vlm} {TOKENIZER_FILE} --local-dir {folder}",
    )


def load_tokenizer(folder: Path, vlm: str, max_length: int, vocabulary: int) -> PromptTokenizer:
    """Load the tokenizer of a checkpoint; see :func:`find_tokenizer`.

    Raises:
        CheckpointError: it is missing, damaged, or has more tokens than the network embeds.
    """
    path = find_tokenizer(folder, vlm)
    try:
        return PromptTokenizer(read_bytes(path), max_length, vocabulary)
    except OSError as error:
        raise CheckpointError(f"{path} can't be read: {error_reason(error)}") from error
    except UnreadableError as error:
        raise damaged_error(path, str(error)) from error
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error.message}", hint=error.hint) from error


@lru_cache(maxsize=8)
def fresh_tokenizer(
    sentences: tuple[str, ...], max_length: int, vocabulary: int
) -> PromptTokenizer:
    """Return a tokenizer for a model from scratch, trained on these instructions. Cached."""
    return PromptTokenizer(train_tokenizer(sentences, vocabulary), max_length, vocabulary)


def train_tokenizer(sentences: Iterable[str], vocabulary: int) -> bytes:
    """Train a byte-level BPE tokenizer of at most `vocabulary` tokens; return its `tokenizer.json`.

    Every text can be encoded, as all 256 bytes are tokens. Equal sets of instructions give equal
    tokenizers.
    """
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = ByteLevelDecoder()
    trainer = BpeTrainer(
        vocab_size=vocabulary,
        initial_alphabet=ByteLevel.alphabet(),
        special_tokens=["<pad>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(sorted({f"{text}\n" for text in sentences}), trainer)
    return str(tokenizer.to_str()).encode()
