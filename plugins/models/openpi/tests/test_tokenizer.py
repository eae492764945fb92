"""Prompt texts, token ids, masks, and the trained tokenizer."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import sentencepiece
from rlcore_model_openpi.tokenizer import (
    PromptTokenizer,
    bin_state,
    clean,
    state_prompt,
    train_tokenizer,
)
from rlcore_model_openpi.tokenizer_files import find_tokenizer

from rlcore.contracts.errors import CheckpointError, ConfigError

SENTENCES = ["push the button on top of the box", "open the drawer by its handle"]


@pytest.fixture(scope="module")
def model() -> bytes:
    return train_tokenizer(SENTENCES, 512)


def test_clean_makes_one_line_without_underscores():
    assert clean("  pick_up the\nred cup ") == "pick up the red cup"


def test_bins_worked_by_hand():
    # 256 bins of width 2/256 = 1/128 over [-1, 1): bin = floor((x + 1) * 128).
    # -1 -> 0; -0.5 -> 64; 0 -> 128; 0.999 -> floor(255.87) = 255; above 1 stays 255; below -> -1.
    states = np.array([-1.0, -0.5, 0.0, 0.999, 3.0, -1.01])
    assert bin_state(states).tolist() == [0, 64, 128, 255, 255, -1]


def test_state_prompt_text():
    prompt = state_prompt("close_the door\n", np.array([0.0, -1.0, 1.0]))
    assert prompt == "Task: close the door, State: 128 0 255;\nAction: "


def test_plain_prompt_is_bos_text_newline_then_padding(model):
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
    tokenize = PromptTokenizer(model, max_length=16, vocabulary=512)
    tokens, mask = tokenize(SENTENCES)
    assert tokens.shape == mask.shape == (2, 16)
    assert tokens.dtype == np.int32 and mask.dtype == bool
    length = int(mask[0].sum())
    assert mask[0].tolist() == [True] * length + [False] * (16 - length)
    assert tokens[0, 0] == 2  # BOS
    assert tokens[0, length - 1] == pieces.piece_to_id("\n")
    assert (tokens[0, length:] == 0).all()
    assert pieces.decode(tokens[0, 1 : length - 1].tolist()) == SENTENCES[0]


def test_state_changes_the_prompt_row_by_row(model):
    tokenize = PromptTokenizer(model, max_length=64, vocabulary=512)
    states = np.array([[0.0, 0.5], [0.0, 0.51]], dtype=np.float32)
    tokens, mask = tokenize([SENTENCES[0]] * 2, states)
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
    text = pieces.decode(tokens[0, 1 : mask[0].sum()].tolist())
    # (0 + 1) * 128 = 128, (0.5 + 1) * 128 = 192, (0.51 + 1) * 128 = 193.28
    assert text == "Task: push the button on top of the box, State: 128 192;\nAction: "
    assert (tokens[0] != tokens[1]).any()


def test_long_prompts_are_cut_with_a_warning(model, caplog):
    tokenize = PromptTokenizer(model, max_length=4, vocabulary=512)
    with caplog.at_level(logging.WARNING):
        tokens, mask = tokenize([SENTENCES[0]])
    assert tokens.shape == (1, 4) and mask.all()
    assert "4" in caplog.text


def test_training_is_deterministic_and_unknown_words_stay_apart(model):
    assert train_tokenizer(reversed(SENTENCES), 512) == model
    tokenize = PromptTokenizer(model, max_length=64, vocabulary=512)
    tokens, _ = tokenize(["stack the blöcks", "stack the blocks", "stack the clocks"])
    assert len({row.tobytes() for row in tokens}) == 3


def test_paligemmas_where_it_was_fetched_to(model, tmp_path, monkeypatch, refused):
    """By openpi, RLinf's installation, or the hub's command; the checkpoint's own goes before."""
    cache, hub, folder = (tmp_path / name for name in ("openpi", "hub", "checkpoint"))
    folder.mkdir()
    monkeypatch.setenv("OPENPI_DATA_HOME", str(cache))
    monkeypatch.setenv("HF_HUB_CACHE", str(hub))
    with refused(CheckpointError, cache):
        find_tokenizer(folder)
    repository = hub / "models--google--paligemma-3b-pt-224"
    places = [
        repository / "snapshots" / ("0" * 40) / "tokenizer.model",
        cache / "paligemma_tokenizer.model",
        cache / "big_vision" / "paligemma_tokenizer.model",
        folder / "tokenizer.model",
    ]
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("0" * 40)
    for place in places:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(model)
        assert find_tokenizer(folder) == place


def test_too_small_a_vocabulary_is_refused(refused):
    with refused(ConfigError, "64"):
        train_tokenizer(SENTENCES, 64)


def test_a_tokenizer_larger_than_the_embedding_is_refused(model, refused):
    with refused(CheckpointError, "32"):
        PromptTokenizer(model, max_length=8, vocabulary=32)


def test_files(model, tmp_path, refused):
    with refused(CheckpointError, "paligemma_tokenizer.model", "tokenizer.model"):
        find_tokenizer(tmp_path)
    PromptTokenizer(model, 8, 512).save(tmp_path)
    assert find_tokenizer(tmp_path).read_bytes() == model
    with refused(CheckpointError):
        PromptTokenizer(model[:100], 8, 512)
