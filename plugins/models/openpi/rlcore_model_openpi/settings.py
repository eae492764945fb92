"""The keys of `actor.model` for π0 and π0.5. Light: no tensor library.

Names under `openpi:` are those of other RL configs for openpi; :mod:`rlcore_model_openpi.flow` has
the formulas.
"""

from __future__ import annotations

from dataclasses import dataclass

from rlcore.config.schema import ModelConfig, When, key

WITH_CRITIC = When("actor.model.add_value_head", (True,))
EXPLORES_BY_LEVEL = When("noise_method", ("flow_sde", "flow_cps"))


@dataclass
class OpenPIConfig:
    """Keys for the network, the robot, the exploration and the critic's input."""

    config_name: str = key("robot and generation: pi0_metaworld, pi05_libero, ...", "pi0_metaworld")
    size: str | None = key(
        "tiny, tiny_two_arms, small, pi0 or pi05; null: the published size of config_name's "
        "generation"
    )
    action_horizon: int | None = key(
        "H: actions predicted per decision; null: config_name's", minimum=1, magnitude_limit=4096
    )
    max_token_len: int | None = key(
        "L: prompt tokens after padding; null: the size's, or 200 with discrete_state_input",
        minimum=2,
        magnitude_limit=65_536,
    )
    num_images_in_input: int | None = key(
        "cameras the policy reads; null: actor.model.num_images_in_input", minimum=1, maximum=3
    )
    discrete_state_input: bool | None = key(
        "π0.5: write the state into the prompt as 256 bins (false: don't use the state); "
        "null: config_name's"
    )
    asset_id: str | None = key(
        "folder of norm_stats.json below the checkpoint; null: config_name's, or the only one"
    )
    num_steps: int = key("K: denoising steps per decision", 10, minimum=1, magnitude_limit=10_000)
    noise_method: str = key(
        "exploration in training rollouts; flow_ode: none",
        "flow_sde",
        choices=("flow_sde", "flow_noise", "flow_cps", "flow_ode"),
    )
    noise_level: float = key(
        "flow_sde, flow_cps: scale of the exploration noise",
        0.5,
        minimum=0,
        when=(EXPLORES_BY_LEVEL, When("noise_anneal", (False,))),
    )
    noise_anneal: bool = key(
        "flow_sde, flow_cps: anneal the level by noise_params instead",
        False,
        when=EXPLORES_BY_LEVEL,
    )
    noise_params: list[float] = key(
        "level at the start, level at the end, updates in between",
        [0.7, 0.3, 400.0],
        minimum=0,
        when=(EXPLORES_BY_LEVEL, When("noise_anneal", (True,))),
    )
    noise_logvar_range: list[float] = key(
        "flow_noise: minimum and maximum std of the noise head",
        [0.08, 0.16],
        exclusive_minimum=0,
        when=When("noise_method", ("flow_noise",)),
    )
    joint_logprob: bool = key(
        "all K steps are stochastic and log-probs averaged; false: one step, drawn per row",
        False,
    )
    ignore_last: bool = key(
        "the last denoising step is never the stochastic one (flow_cps: in any case)", False
    )
    train_expert_only: bool = key("freeze the VLM, train the action expert and heads", True)
    value_type: str = key(
        "one value per decision or per executed action (algorithm.reward_type=action_level)",
        "chunk_level",
        choices=("chunk_level", "action_level"),
        when=WITH_CRITIC,
    )
    value_after_vlm: bool = key(
        "the critic reads the VLM's output, not the action expert's", False, when=WITH_CRITIC
    )
    value_vlm_mode: str = key(
        "value_after_vlm: which tokens of the VLM's output the critic reads",
        "mean_token",
        choices=("mean_token", "last_token", "first_token"),
        when=(WITH_CRITIC, When("value_after_vlm", (True,))),
    )
    detach_critic_input: bool = key(
        "the value loss trains only the critic (no effect with value_after_vlm)",
        False,
        when=(WITH_CRITIC, When("value_after_vlm", (False,))),
    )
    critic_elapsed: bool = key(
        "the critic also reads the elapsed fraction of the episode", False, when=WITH_CRITIC
    )
    critic_hidden: list[int] | None = key(
        "hidden widths of the critic; null: config_name's",
        minimum=1,
        magnitude_limit=65_536,
        when=WITH_CRITIC,
    )


@dataclass
class OpenPIModelConfig(ModelConfig):
    """`actor.model` with the keys of this model under `openpi`."""

    model_type: str = key("registered name of the model", "openpi")
    openpi: OpenPIConfig = key("π0 and π0.5", OpenPIConfig())
