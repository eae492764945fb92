"""Inputs, targets and statistics, against the steps done by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sentencepiece
from rlcore_flow.normalize import Z_SCORE, Normalizer, Stats
from rlcore_model_openpi.pretrained import fresh_processor
from rlcore_model_openpi.resolved import resolve
from rlcore_model_openpi.settings import OpenPIConfig, OpenPIModelConfig
from rlcore_model_openpi.sizes import SIZES

from rlcore.contracts.specs import ActionChannel


def processor(env_spec, config_name="pi0_metaworld", **openpi):
    config = OpenPIModelConfig(
        num_images_in_input=len(env_spec.cameras),
        openpi=OpenPIConfig(
            config_name=config_name, **{"size": "tiny", "max_token_len": 48, **openpi}
        ),
    )
    return fresh_processor(resolve(config, env_spec), env_spec)


def test_inputs_shapes_types_and_order(other_env, observe):
    env_spec = other_env(cameras=2)
    observation = observe(env_spec, 3)
    observation["cameras"]["camera1"][:] = 77
    inputs = processor(env_spec).inputs(observation)
    shapes = {name: (array.shape, array.dtype.name) for name, array in inputs.items()}
    assert shapes == {
        "images": ((3, 2, 64, 64, 3), "uint8"),
        "tokens": ((3, 48), "int32"),
        "token_mask": ((3, 48), "bool"),
        "state": ((3, 8), "float32"),
        "robot_state": ((3, 4), "float32"),
        "elapsed": ((3,), "float32"),
    }
    # 48 x 64 into 64 x 64: 8 black rows above and below; the second camera stands second
    assert (inputs["images"][:, 1, 8:56] == 77).all()
    assert (inputs["images"][:, :, :8] == 0).all()
    np.testing.assert_array_equal(inputs["images"][:, 0, 8:56], observation["cameras"]["camera0"])


def test_state_is_normalised_then_padded(env_spec, observe):
    made = processor(env_spec)
    stats = Stats(mean=np.full(4, 0.5), std=np.full(4, 2.0))
    made.normalizer = Normalizer(stats, stats, Z_SCORE, Z_SCORE)
    observation = observe(env_spec, 1)
    observation["states"][:] = [2.5, 0.5, -1.5, 4.5]
    inputs = made.inputs(observation)
    # (x - 0.5) / 2 = 1, 0, -1, 2, then four zeros
    np.testing.assert_allclose(inputs["state"], [[1, 0, -1, 2, 0, 0, 0, 0]], atol=1e-5)
    np.testing.assert_allclose(inputs["robot_state"], [[2.5, 0.5, -1.5, 4.5]])


def test_pi05_reads_the_state_in_its_prompt_or_not_at_all(env_spec, observe, tmp_path):
    observation = observe(env_spec, 2)
    observation["task_descriptions"] = [observation["task_descriptions"][0]] * 2
    without = processor(env_spec, "pi05_metaworld").inputs(observation)
    assert (without["tokens"][0] == without["tokens"][1]).all()
    assert (without["state"] == 0).all()
    made = processor(env_spec, "pi05_metaworld", discrete_state_input=True, max_token_len=96)
    within = made.inputs(observation)
    assert (within["tokens"][0] != within["tokens"][1]).any()
    # the statistics do (nearly) nothing here, so bin = floor((x + 1) * 128); padding is not binned
    bins = " ".join(str(int((x + 1) * 128)) for x in observation["states"][0])
    made.tokenizer.save(tmp_path)
    (model,) = tmp_path.iterdir()
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(model))
    text = pieces.decode(within["tokens"][0][within["token_mask"][0]].tolist())
    assert text == f"Task: push the red button down, State: {bins};\nAction: "


def test_targets_and_actions_are_each_others_inverse(other_env):
    rng = np.random.default_rng(0)
    for name, size in (
        ("pi0_metaworld", 4),
        ("pi05_metaworld", 4),
        ("pi0_libero", 7),
        ("pi05_libero", 7),
        ("pi0_aloha_robotwin", 14),
        ("pi05_aloha_robotwin", 14),
    ):
        made = processor(other_env(state=size, action=size), name, size="small")
        values = rng.normal(size=(100, size))
        made.normalizer = replace(
            made.normalizer, state=Stats.fit(values), actions=Stats.fit(values * 2 + 1)
        )
        actions = rng.uniform(0, 1, (3, 5, size)).astype(np.float32)
        states = rng.uniform(0, 1, (3, size)).astype(np.float32)
        targets = made.to_model_actions(actions, states)
        assert targets.shape == (3, 5, 32) and (targets[..., size:] == 0).all(), name
        back = made.to_env_actions(targets, states)
        assert back.shape == (3, 5, size) and back.dtype == np.float32
        np.testing.assert_allclose(back, actions, atol=1e-4, err_msg=name)


def test_fit_measures_what_the_network_sees(other_env, demonstrate):
    env_spec = other_env(state=7, action=7)
    made = processor(env_spec, "pi0_libero", action_horizon=3)
    demonstrations = [demonstrate(env_spec, length, seed) for seed, length in enumerate((9, 14))]
    made.fit(demonstrations)
    states, deltas = [], []
    for demonstration in demonstrations:
        length = len(demonstration.actions)
        for step in range(length):
            states.append(demonstration.states[step])
            for ahead in range(step, min(step + 3, length)):
                delta = demonstration.actions[ahead].astype(np.float64).copy()
                delta[:6] -= demonstration.states[step][:6]
                deltas.append(delta)
    np.testing.assert_allclose(made.normalizer.state.mean, np.mean(states, axis=0), atol=1e-6)
    np.testing.assert_allclose(made.normalizer.actions.mean, np.mean(deltas, axis=0), atol=1e-6)
    np.testing.assert_allclose(made.normalizer.actions.std, np.std(deltas, axis=0), atol=1e-6)


def test_instructions_of_many_tasks_stay_apart(other_env):
    # like a suite of 50 tasks: five verbs, ten things
    verbs = ("push", "pull", "open", "close", "reach")
    things = ("drawer", "door", "window", "lever", "handle", "peg", "mug", "ball", "box", "plug")
    texts = [f"{verb} the {thing} with care" for verb in verbs for thing in things]
    made = processor(replace(other_env(), tasks=tuple(texts), instructions=tuple(texts)))
    tokens, mask = made.tokenizer(texts)
    assert len({row.tobytes() for row in tokens}) == 50
    assert mask.sum(axis=1).max() <= 12


def test_instructions_of_metaworld_stay_apart_and_fit(env_spec):
    tasks = pytest.importorskip("rlcore_env_metaworld.tasks", reason="MetaWorld plugin is absent")
    instructions = tuple(tasks.SENTENCES.values())
    spec = replace(env_spec, tasks=tuple(tasks.SENTENCES), instructions=instructions)
    made = processor(spec, max_token_len=None)
    tokens, mask = made.tokenizer(instructions)
    assert len({row.tobytes() for row in tokens}) == len(instructions) == 50
    assert mask.sum(axis=1).max() < SIZES["tiny"].max_token_len  # none is cut


@pytest.mark.parametrize("config_name", ["pi0_metaworld", "pi05_metaworld"])
def test_without_statistics_actions_have_the_range_of_the_env(env_spec, config_name):
    """A pusher's place in [0, 512], two joints that move by up to 0.05, and a gripper."""
    actions = (
        ActionChannel("joint_position", 1, 0.0, 512.0),
        ActionChannel("joint_delta", 2, -0.05, 0.05),
        ActionChannel("gripper", 1),
    )
    made = processor(replace(env_spec, actions=actions), config_name)
    decided = np.array([[[-1.0] * 8, [0.0] * 8, [1.0] * 8]])
    executed = made.to_env_actions(decided, np.zeros((1, 4)))
    expected = [[0, -0.05, -0.05, -1], [256, 0, 0, 0], [512, 0.05, 0.05, 1]]
    # openpi adds 1e-6 to scales, of which one action unit is at most 512 + 1e-6 away
    np.testing.assert_allclose(executed, [expected], atol=1e-5)
