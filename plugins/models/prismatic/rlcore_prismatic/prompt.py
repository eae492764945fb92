"""Build the prompt from an instruction and tokenize it. No torch.

Checkpoints have Llama's tokenizer as `tokenizer.json`. A model from scratch gets a small tokenizer
of the same kind, which is trained on the env's instructions and saved with the checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from rlcore.contracts.errors import CheckpointError, ConfigError
from rlcore.files.reading import read_text
from rlcore_prismatic.sizes import BOS, EOS, PrismaticSize

FILE_NAME = "tokenizer.json"
SPACE = "▁"
"""The token for a space in Llama's tokenizer (id 29871). A prompt ends with it."""
STEP = 32
"""Derived lengths are multiples of this, so that a further instruction seldom changes them."""
_SPECIAL = ("<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)))


def prompt_text(sentence: str) -> str:
    """Return the prompt for an instruction, in the form that OpenVLA was trained on."""
    return f"In: What action should the robot take to {sentence.lower()}?\nOut: "


class PromptTokenizer:
    """Converts instructions to padded token ids [BOS, padding, prompt].

    Padding is on the left, so every prompt ends in the last column.

    Args:
        tokenizer: Llama's, or one made by :func:`train_tokenizer`.
        max_length: L, tokens per prompt with BOS.
        size: of the network that embeds them.

    Raises:
        CheckpointError: the tokenizer does not fit the network's vocabulary.
    """

    def __init__(self, tokenizer: Tokenizer, max_length: int, size: PrismaticSize) -> None:
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.pad = size.pad
        self._check(size)
        space = tokenizer.token_to_id(SPACE)
        assert space is not None  # _check refuses tokenizers without it
        self.space: int = space
        self._ids = lru_cache(maxsize=4096)(self._encode)

    def __call__(self, sentences: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return token ids int32 `[B, L]`, and a mask bool `[B, L]`, false where padded.

        Raises:
            ConfigError: a prompt has more than L tokens.
        """
        tokens = np.full((len(sentences), self.max_length), self.pad, dtype=np.int32)
        mask = np.zeros(tokens.shape, dtype=bool)
        tokens[:, 0] = BOS
        mask[:, 0] = True
        for row, sentence in enumerate(sentences):
            ids = self._ids(sentence)
            tokens[row, -len(ids) :] = ids
            mask[row, -len(ids) :] = True
        return tokens, mask

    def checked(self, sentences: Iterable[str]) -> PromptTokenizer:
        """Check that the prompts of all instructions fit into L tokens; return the tokenizer.

        Raises:
            ConfigError: the longest prompt has more than L tokens.
        """
        longest = max(sentences, key=lambda sentence: len(self._tokens(sentence)), default=None)
        if longest is not None:
            self._encode(longest)
        return self

    def needed(self, sentences: Iterable[str]) -> int:
        """Return the number of tokens of the longest prompt, with BOS."""
        return 1 + max((len(self._tokens(sentence)) for sentence in sentences), default=0)

    def save(self, folder: Path) -> None:
        """Write `tokenizer.json` into `folder`."""
        self.tokenizer.save(str(folder / FILE_NAME))

    def _encode(self, sentence: str) -> list[int]:
        """Return the token ids of the prompt after BOS.

        Raises:
            ConfigError: there are more than L - 1.
        """
        ids = self._tokens(sentence)
        if len(ids) + 1 > self.max_length:
            raise ConfigError(
                f"actor.model.max_prompt_length must be at least {len(ids) + 1}, the tokens of "
                f"{prompt_text(sentence)!r}, got {self.max_length}"
            )
        return ids

    def _tokens(self, sentence: str) -> list[int]:
        """Return the token ids of the prompt, and add the final space if the tokenizer drops it."""
        ids = list(self.tokenizer.encode(prompt_text(sentence), add_special_tokens=False).ids)
        return ids if ids[-1] == self.space else [*ids, self.space]

    def _check(self, size: PrismaticSize) -> None:
        ids = self.tokenizer.get_vocab(with_added_tokens=True)
        for token, expected in (("<s>", BOS), ("</s>", EOS)):
            if ids.get(token) != expected:
                raise CheckpointError(
                    f"{token} has id {ids.get(token)} in the tokenizer, {expected} in the network"
                )
        if SPACE not in ids:
            raise CheckpointError(f"the tokenizer has no token {SPACE!r} for a space")
        # a padding token may use one of the rows after the vocabulary
        largest = max(ids.values())
        if largest >= size.rows or self.tokenizer.get_vocab_size(False) > size.vocab:
            raise CheckpointError(
                f"the tokenizer has {self.tokenizer.get_vocab_size(False)} tokens and ids up to "
                f"{largest}, the network {size.vocab} tokens and {size.rows} rows"
            )


def load_tokenizer(folder: Path, max_length: int, size: PrismaticSize) -> PromptTokenizer:
    """Load the tokenizer of a checkpoint.

    Raises:
        CheckpointError: it is missing, damaged, or does not fit the network's vocabulary.
    """
    tokenizer = _read(folder)
    try:
        return PromptTokenizer(tokenizer, max_length, size)
    except CheckpointError as error:
        raise CheckpointError(
            f"{folder / FILE_NAME}: {error.message}",
            hint="check actor.model.size, which fixes the vocabulary",
        ) from error


def _read(folder: Path) -> Tokenizer:
    path = folder / FILE_NAME
    if not path.is_file():
        raise CheckpointError(
            f"{folder} has no {FILE_NAME}",
            hint=f"hf download openvla/openvla-7b {FILE_NAME} --local-dir {folder}; or copy the "
            "file of the model that it was trained from",
        )
    try:
        tokenizer = Tokenizer.from_str(read_text(path))
        tokenizer.no_padding()  # files keep the settings of their last use
        tokenizer.no_truncation()
    except Exception as error:  # the library raises nothing more specific
        raise CheckpointError(f"{path} is damaged: {error}", hint="copy it again") from error
    return tokenizer


def derived_length(
    sentences: tuple[str, ...], folder: Path | None, size: PrismaticSize, least: int = STEP
) -> int:
    """Return an L that fits all prompts: `least`, or the next multiple of :data:`STEP`.

    Args:
        folder: folder of the tokenizer; None: a tokenizer is trained, for a model from scratch.
        least: smallest L.

    Raises:
        CheckpointError, ConfigError: there is no such tokenizer.
    """
    tokenizer = _fresh(sentences, size) if folder is None else _read(folder)
    needed = PromptTokenizer(tokenizer, least, size).needed(sentences)
    return least if needed <= least else -(-needed // STEP) * STEP


def fresh_tokenizer(
    sentences: tuple[str, ...], max_length: int, size: PrismaticSize
) -> PromptTokenizer:
    """Return a tokenizer for a model from scratch, trained on these instructions.

    Raises:
        ConfigError: a prompt is too long, or the vocabulary has no room for all bytes.
    """
    return PromptTokenizer(_fresh(sentences, size), max_length, size).checked(sentences)


@lru_cache(maxsize=8)
def _fresh(sentences: tuple[str, ...], size: PrismaticSize) -> Tokenizer:
    return train_tokenizer(sentences, size)


def train_tokenizer(sentences: Iterable[str], size: PrismaticSize) -> Tokenizer:
    """Train a byte-pair tokenizer with Llama's special tokens on these instructions.

    Text outside the vocabulary is encoded as bytes, so any prompt can be encoded and no two
    different prompts get equal tokens. All ids are below those of the action tokens.

    Raises:
        ConfigError: the vocabulary has no room for all bytes.
    """
    room = size.first_action
    corpus = sorted({prompt_text(sentence) for sentence in sentences})
    alphabet = sorted(set("".join(corpus).replace(" ", SPACE)) | {SPACE})
    if room < len(_SPECIAL) + len(alphabet):
        raise ConfigError(
            f"a vocabulary must have {len(_SPECIAL) + len(alphabet)} tokens before the action "
            f"tokens, got {room}"
        )
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(replacement=SPACE), pre_tokenizers.Punctuation()]
    )
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(SPACE)])
    trainer = trainers.BpeTrainer(
        vocab_size=room,
        special_tokens=list(_SPECIAL),
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer
