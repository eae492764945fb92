"""Build the prompt from an instruction and a state, and tokenize it. No torch.

Published checkpoints use PaliGemma's SentencePiece model, which is stored in the checkpoint folder.
A model from scratch gets a small SentencePiece model, which is trained on the env's instructions
and saved with the checkpoint.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import sentencepiece

from rlcore.contracts.errors import CheckpointError, ConfigError
from rlcore.files.damaged_files import damaged_error
from rlcore.files.reading import UnreadableError, error_reason, read_bytes
from rlcore_model_openpi.sizes import NetworkSize
from rlcore_model_openpi.tokenizer_files import TOKENIZER_FILES, find_tokenizer

STATE_BINS = 256
# PaliGemma's special token ids, which :func:`train_tokenizer` uses too.
_PAD, _EOS, _BOS, _UNKNOWN = range(4)
# 256 bytes, 4 control symbols and the newline; the learnt pieces come after these.
_LEAST_VOCABULARY = 256 + 4 + 1

_log = logging.getLogger(__name__)


def clean(sentence: str) -> str:
    """Return the instruction as openpi's prompts have it: one line, spaces for underscores."""
    return sentence.strip().replace("_", " ").replace("\n", " ")


def bin_state(state: np.ndarray) -> np.ndarray:
    """Bin a normalised state `[S]` into 256 equal bins of [-1, 1]: int64 `[S]` in [-1, 255].

    As in openpi, values below -1 give -1, and values above 1 give 255.
    """
    edges = np.linspace(-1, 1, STATE_BINS + 1)[:-1]
    return np.digitize(state, edges) - 1


def state_prompt(sentence: str, state: np.ndarray) -> str:
    """Return π0.5's prompt, which holds the binned state.

    Args:
        sentence: the instruction.
        state: `[S]`, normalised and not padded.
    """
    numbers = " ".join(map(str, bin_state(state)))
    return f"Task: {clean(sentence)}, State: {numbers};\nAction: "


class PromptTokenizer:
    """Converts instructions, and states for prompts that hold them, to padded token ids.

    Args:
        model: bytes of a SentencePiece model.
        max_length: L, tokens per prompt; longer prompts are truncated, with a warning.
        vocabulary: rows of the network's embedding, the largest vocabulary that is accepted.

    Raises:
        CheckpointError: `model` is not a SentencePiece model, or its vocabulary is larger than
            `vocabulary`.
    """

    def __init__(self, model: bytes, max_length: int, vocabulary: int) -> None:
        self.model = model
        self.max_length = max_length
        try:
            if not model:  # SentencePiece accepts empty bytes and loads nothing
                raise RuntimeError
            self._pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise CheckpointError("the tokenizer is damaged: not a SentencePiece model") from error
        if self._pieces.vocab_size() > vocabulary:
            raise CheckpointError(
                f"the tokenizer has {self._pieces.vocab_size()} tokens, "
                f"the network embeds {vocabulary}"
            )
        self._plain = lru_cache(maxsize=4096)(self._encode_plain)

    def __call__(
        self, sentences: Sequence[str], states: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Tokenize the prompts of B rows.

        Args:
            sentences: B instructions.
            states: `[B, S]`, normalised and not padded, for prompts that hold the state; else None.

        Returns:
            Token ids int32 `[B, L]`, 0 where padded, and mask bool `[B, L]`, false where padded.
        """
        numbers: Iterable[np.ndarray | None] = [None] * len(sentences) if states is None else states
        rows = [
            self._row(sentence, state) for sentence, state in zip(sentences, numbers, strict=True)
        ]
        tokens = np.full((len(rows), self.max_length), _PAD, dtype=np.int32)
        mask = np.zeros((len(rows), self.max_length), dtype=bool)
        for row, ids in enumerate(rows):
            length = min(len(ids), self.max_length)
            tokens[row, :length] = ids[:length]
            mask[row, :length] = True
        self._warn_if_cut(sentences, rows)
        return tokens, mask

    def checked(self, sentences: Iterable[str], state_size: int | None) -> PromptTokenizer:
        """Check that the prompts of all instructions fit into L tokens, and return the tokenizer.

        Args:
            sentences: the instructions.
            state_size: S for prompts that hold the state; else None.

        Raises:
            ConfigError: the longest prompt has more than L tokens.
        """
        # 0 falls into bin 128: three digits, the most that a bin number has
        state = None if state_size is None else np.zeros(state_size)
        lengths = {sentence: len(self._row(sentence, state)) for sentence in sentences}
        longest = max(lengths, key=lambda sentence: lengths[sentence], default=None)
        if longest is not None and lengths[longest] > self.max_length:
            raise ConfigError(
                f"actor.model.openpi.max_token_len must be at least {lengths[longest]}, the tokens "
                f"of the prompt of {longest!r}, got {self.max_length}"
            )
        return self

    def save(self, folder: Path) -> None:
        """Write the SentencePiece model into `folder`, as `paligemma_tokenizer.model`."""
        (folder / TOKENIZER_FILES[0]).write_bytes(self.model)

    def _row(self, sentence: str, state: np.ndarray | None) -> list[int]:
        """Return all token ids of one prompt, without padding or truncation."""
        if state is None:
            return self._plain(sentence)
        return list(self._pieces.encode(state_prompt(sentence, state), add_bos=True))

    def _encode_plain(self, sentence: str) -> list[int]:
        """Return the token ids of a prompt without a state.

        The newline that ends it marks the start of PaliGemma's answer. It is encoded separately, so
        that it is always a token by itself.
        """
        start = self._pieces.encode(clean(sentence), add_bos=True)
        return [*start, *self._pieces.encode("\n")]

    def _warn_if_cut(self, sentences: Sequence[str], rows: list[list[int]]) -> None:
        longest = max(range(len(rows)), key=lambda row: len(rows[row]), default=None)
        if longest is not None and len(rows[longest]) > self.max_length:
            _log.warning(
                "the prompt of %r has %d tokens and is cut to %d",
                sentences[longest],
                len(rows[longest]),
                self.max_length,
            )


def load_tokenizer(folder: Path, size: NetworkSize) -> PromptTokenizer:
    """Load the tokenizer of a checkpoint folder.

    Raises:
        CheckpointError: it is missing, damaged, or has more tokens than the network embeds.
    """
    path = find_tokenizer(folder)
    try:
        return PromptTokenizer(read_bytes(path), size.max_token_len, size.vocab)
    except OSError as error:
        raise CheckpointError(f"{path} can't be read: {error_reason(error)}") from error
    except UnreadableError as error:
        raise damaged_error(path, str(error)) from error
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error.message}", hint=error.hint) from error


@lru_cache(maxsize=8)
def fresh_tokenizer(sentences: tuple[str, ...], size: NetworkSize) -> PromptTokenizer:
    """Return a tokenizer for a model from scratch, trained on these instructions. Cached.

    Raises:
        ConfigError: the vocabulary has no room for all bytes.
    """
    model = train_tokenizer(sentences, size.vocab)
    return PromptTokenizer(model, size.max_token_len, size.vocab)


def train_tokenizer(sentences: Iterable[str], vocabulary: int) -> bytes:
    """Train a byte-pair SentencePiece model of at most `vocabulary` tokens; return its bytes.

    Training is deterministic: equal sets of instructions give equal models. Text outside the
    vocabulary is encoded as bytes, so any prompt can be encoded and no two different prompts get
    equal tokens.

    Raises:
        ConfigError: `vocabulary` has no room for the 256 bytes and the special tokens.
    """
    if vocabulary <= _LEAST_VOCABULARY:
        raise ConfigError(f"a vocabulary must be over {_LEAST_VOCABULARY}, got {vocabulary}")
    corpus = sorted({clean(sentence) for sentence in sentences})
    corpus.append("Task: , State: 0 1 2 3 4 5 6 7 8 9;")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus),
        model_writer=model,
        vocab_size=vocabulary,
        hard_vocab_limit=False,
        model_type="bpe",
        byte_fallback=True,
        character_coverage=1.0,
        normalization_rule_name="identity",
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        split_digits=True,
        user_defined_symbols=["\n"],
        pad_id=_PAD,
        eos_id=_EOS,
        bos_id=_BOS,
        unk_id=_UNKNOWN,
        num_threads=1,
        minloglevel=2,
    )
    return model.getvalue()
