"""Prompts and the tokenizer that is made for small models."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rlcore_prismatic.prompt import (
    PromptTokenizer,
    derived_length,
    fresh_tokenizer,
    load_tokenizer,
    prompt_text,
    train_tokenizer,
)
from rlcore_prismatic.sizes import SIZES

from rlcore.contracts.errors import CheckpointError, ConfigError

SIZE = SIZES["tiny"]
TEXTS = ("Press the red button", "open the drawer")


@pytest.fixture(scope="module")
def trained():
    return train_tokenizer(TEXTS, SIZE)


def test_the_prompt_is_that_of_the_checkpoints():
    text = "In: What action should the robot take to press the red button?\nOut: "
    assert prompt_text("Press the red BUTTON") == text


def test_rows_are_padded_behind_their_first_token(trained):
    prompts = PromptTokenizer(trained, 24, SIZE)
    tokens, mask = prompts(TEXTS)
    assert tokens.shape == (2, 24) and tokens.dtype == "int32"
    for row in range(2):
        ids = trained.encode(prompt_text(TEXTS[row]), add_special_tokens=False).ids
        pads = 24 - 1 - len(ids)
        assert tokens[row].tolist() == [1, *[SIZE.pad] * pads, *ids]
        assert mask[row].tolist() == [True, *[False] * pads, *[True] * len(ids)]
    assert (tokens[:, -1] == trained.token_to_id("▁")).all()
    alone, _ = prompts(TEXTS[1:])
    assert alone.tolist() == tokens[1:].tolist()


def test_training_repeats_and_keeps_prompts_apart(trained):
    assert train_tokenizer(TEXTS, SIZE).to_str() == trained.to_str()
    prompts = PromptTokenizer(trained, 60, SIZE)
    strange = ("übermütig 漢字", "übermütig 漢", TEXTS[0], "press the  red button")
    tokens, _ = prompts(strange)
    assert len({tuple(row) for row in tokens.tolist()}) == len(strange)
    assert tokens.max() <= SIZE.pad and (tokens[tokens != SIZE.pad] < SIZE.first_action).all()


def test_a_prompt_that_is_too_long_is_refused_with_the_length_it_needs(trained, refused):
    needed = int(PromptTokenizer(trained, 60, SIZE)(TEXTS)[1].sum(axis=1).max())
    with refused(ConfigError, "max_prompt_length", needed):
        PromptTokenizer(trained, 8, SIZE)(TEXTS)


def test_a_saved_tokenizer_gives_the_same_tokens(trained, tmp_path, refused):
    prompts = PromptTokenizer(trained, 24, SIZE)
    prompts.save(tmp_path)
    again = load_tokenizer(tmp_path, 24, SIZE)
    assert again(TEXTS)[0].tolist() == prompts(TEXTS)[0].tolist()
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0"}')
    with refused(CheckpointError, tmp_path / "tokenizer.json", "damaged", text=False):
        load_tokenizer(tmp_path, 24, SIZE)  # with the words of tokenizers


def test_how_a_saved_tokenizer_was_last_used_does_not_matter(tmp_path):
    used = train_tokenizer(TEXTS, SIZE)
    expected = PromptTokenizer(used, 24, SIZE)(TEXTS)
    used.enable_padding(length=20)
    used.enable_truncation(max_length=3)
    used.save(str(tmp_path / "tokenizer.json"))
    for ours, theirs in zip(load_tokenizer(tmp_path, 24, SIZE)(TEXTS), expected, strict=True):
        assert ours.tolist() == theirs.tolist()


def test_vocabularies_that_do_not_fit_are_refused(trained, refused):
    with refused(CheckpointError, "300"):
        PromptTokenizer(trained, 24, replace(SIZE, vocab=300, padding_rows=8))
    with refused(ConfigError, "44"):
        train_tokenizer(TEXTS, replace(SIZE, vocab=300))


def test_a_fresh_tokenizer_has_room_for_all_instructions(refused):
    """The longest prompt decides, wherever it stands; one token less is refused."""
    tokenizer = fresh_tokenizer(TEXTS, 60, SIZE)
    needed = int(tokenizer(TEXTS)[1].sum(axis=1).max())
    assert fresh_tokenizer(TEXTS, needed, SIZE).max_length == needed
    for instructions in (TEXTS, TEXTS[::-1]):
        with refused(ConfigError, needed, needed - 1):
            fresh_tokenizer(instructions, needed - 1, SIZE)


def test_a_length_that_is_derived_holds_the_longest_prompt_and_seldom_changes(tmp_path):
    needed = fresh_tokenizer(TEXTS, 60, SIZE).needed(TEXTS)
    assert needed == int(fresh_tokenizer(TEXTS, 60, SIZE)(TEXTS)[1].sum(axis=1).max()) <= 32
    assert derived_length(TEXTS, None, SIZE) == 32
    train_tokenizer(TEXTS, SIZE).save(str(tmp_path / "tokenizer.json"))
    long = ("zq" * 30,)  # 60 letters and what is around them: more than 64 tokens, fewer than 96
    assert derived_length((*TEXTS, *long), tmp_path, SIZE) == 96
    assert derived_length(TEXTS, tmp_path, SIZE, least=41) == 41  # as it was trained
    assert derived_length((*TEXTS, *long), tmp_path, SIZE, least=41) == 96
