"""Implement rlcore's policy protocol for models that write actions as tokens.

The policy combines the network (network/), conversions between env and network (processor.py) and
files (checkpoint.py), and draws the random numbers of each row from its key. Legend, in addition to
rlcore's:

    M  entries of the model's action, the A of which in `action_entries` the env executes
    N  = C M, tokens of a decision, step by step
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rlcore_weights.chunks import demonstrated
from rlcore_weights.critic import parameter_groups
from torch import Tensor, nn

from rlcore.contracts.protocols import (
    Demonstration,
    Evaluation,
    Inputs,
    Observation,
    PolicyOutput,
)
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import EnvSpec, PolicySpec
from rlcore.files.atomic import write_text
from rlcore_prismatic import checkpoint, sampling, statistics
from rlcore_prismatic.base_files import base_config, copy_base_files
from rlcore_prismatic.config_files import (
    PREPROCESSOR_FILE,
    preprocessor_config,
    transformers_config,
)
from rlcore_prismatic.network.actor import ActorInputs, Decision, TokenActor, Writing
from rlcore_prismatic.network.adapt import add_lora, freeze_unused, set_precision
from rlcore_prismatic.network.heads import ValueHead
from rlcore_prismatic.network.model import PrismaticModel
from rlcore_prismatic.processor import Processor
from rlcore_prismatic.prompt import FILE_NAME as TOKENIZER_FILE
from rlcore_prismatic.prompt import fresh_tokenizer, load_tokenizer
from rlcore_prismatic.resolved import Resolved
from rlcore_prismatic.scaling import load_statistics, scaling
from rlcore_prismatic.settings import PrismaticModelConfig
from rlcore_prismatic.spec import load_adapters

MakeActor = Callable[[PrismaticModel, ValueHead | None, Writing], TokenActor]


def make_policy(
    config: PrismaticModelConfig,
    spec: PolicySpec,
    resolved: Resolved,
    env_spec: EnvSpec,
    make_actor: MakeActor,
    kind: type[TokenPolicy] | None = None,
) -> TokenPolicy:
    """Build a policy from its checkpoint, or from scratch.

    A policy from scratch has random weights (from torch's global generator), statistics that scale
    actions to the env's range, and a tokenizer trained on the env's instructions.

    Args:
        make_actor: builds the actor with its components from network and critic.
        kind: class of the policy; None: TokenPolicy.

    Raises:
        CheckpointError: the checkpoint is missing, damaged, or has other shapes.
    """
    size = resolved.size
    film = resolved.film
    head = None
    if resolved.values:
        head = ValueHead(
            size.width, config.critic_hidden, outputs=resolved.values, elapsed=config.critic_elapsed
        )
    writing = Writing(
        slots=config.num_action_chunks * resolved.action_dim,
        temperature=config.temperature,
        top_k=config.top_k,
        detach_critic_input=config.detach_critic_input,
        idle=resolved.idle(config.num_action_chunks),
    )
    folders = resolved.folders
    adapters = None
    if folders is None:
        actor = make_actor(PrismaticModel(size, film=film), head, writing)
        processor = _fresh_processor(config, resolved, env_spec)
    else:
        adapters = load_adapters(config, resolved)
        with torch.device("meta"):  # the files' weights replace its own
            network = PrismaticModel(size, film=film)
        actor = make_actor(network, head, writing)
        # with is_lora the adapters remain separate, because they are trained further
        checkpoint.load_network(
            actor, folders, resolved.components, adapters, merge=not config.is_lora
        )
        checkpoint.load_value_head(actor, folders)
        place = folders.find(TOKENIZER_FILE).parent
        prompts = load_tokenizer(place, resolved.prompt_length, size)
        processor = Processor(config, resolved, prompts, load_statistics(config, resolved))
    set_precision(actor.network, config.precision)
    if config.is_lora and adapters is not None:
        settings = adapters.settings
        add_lora(actor.network, settings.rank, settings.plain_alpha, adapters.modules)
        checkpoint.fill_adapters(actor, adapters)
    elif config.is_lora:
        add_lora(actor.network, config.lora_rank, config.lora_rank)
    freeze_unused(actor.network, size)
    return (kind or TokenPolicy)(config, spec, actor, processor, env_spec)


class TokenPolicy(nn.Module):
    """A policy that writes actions as tokens; see :class:`rlcore.contracts.protocols.Policy`.

    Args:
        config: settings; :meth:`save_pretrained` writes them too.
        spec: facts of the policy under these settings.
        actor: network and heads, already in their precision, untrained parts frozen.
        processor: conversions between the env's numbers and the network's.
        env_spec: of the env it acts in.
    """

    def __init__(
        self,
        config: PrismaticModelConfig,
        spec: PolicySpec,
        actor: TokenActor,
        processor: Processor,
        env_spec: EnvSpec,
    ) -> None:
        super().__init__()
        self.spec = spec
        self.config = config
        self.actor = actor
        self.processor = processor
        self._env_spec = env_spec
        self._entries = list(processor.resolved.entries)

    # -- acting -------------------------------------------------------------------------------

    def prepare(self, observation: Observation) -> Inputs:
        """Return the inputs of B rows, as they are stored; see :meth:`Processor.inputs`."""
        return self.processor.inputs(observation)

    @torch.no_grad()
    def act(self, inputs: Inputs, keys: RowKeys, *, deterministic: bool = False) -> PolicyOutput:
        """Sample tokens by the inverse CDF of one uniform number each, or take the likeliest ones.

        `replay` holds action_tokens int64 `[B, C, M]`, indices of bins. With `top_k` it also holds
        allowed_tokens int64 `[B, C, M, words]`, the masks of the tokens that could be drawn; see
        :func:`sampling.packed`.
        """
        tensors = {name: torch.from_numpy(array) for name, array in inputs.items()}
        uniform = None if deterministic else self._uniform(keys)
        decision, score = self.actor.decide(self.actor_inputs(tensors), uniform)
        tokens = decision.indices.unflatten(1, self._tokens)
        replay = {"action_tokens": tokens}
        if decision.allowed is not None:
            replay["allowed_tokens"] = sampling.packed(decision.allowed).unflatten(1, self._tokens)
        logprobs = self._executed(score.logprobs)
        return PolicyOutput(
            actions=self.processor.to_env_actions(tokens.cpu().numpy()),
            logprobs=torch.zeros_like(logprobs) if deterministic else logprobs,
            values=score.values,
            replay=replay,
        )

    def evaluate(self, inputs: Mapping[str, Tensor], replay: Mapping[str, Tensor]) -> Evaluation:
        """Return log-probs, values and elementwise entropy of decisions at current weights."""
        score = self.actor.score(self.actor_inputs(inputs), self._decision(replay))
        return Evaluation(
            logprobs=self._executed(score.logprobs),
            values=score.values,
            entropy=self._executed(score.entropy),
        )

    def set_progress(self, update: int) -> None:
        """Do nothing, as no setting is annealed."""

    def set_checkpointing(self, enabled: bool) -> None:
        """Recompute the activations of transformer blocks in the backward pass, to save memory."""
        self.actor.network.set_checkpointing(enabled)

    def blocks(self) -> Sequence[nn.Module]:
        """Return the transformer blocks of towers and Llama."""
        return self.actor.network.blocks()

    def set_temperature(self, temperature: float | None) -> None:
        """Sample tokens at this temperature; None: at `actor.model.temperature`."""
        self.actor.temperature = self.config.temperature if temperature is None else temperature

    # -- supervised learning ------------------------------------------------------------------

    def fit_normalizer(self, demonstrations: Sequence[Demonstration]) -> None:
        """Fit statistics of actions and states. Inputs that were prepared before become invalid."""
        self.processor.fit(demonstrations)

    def sft_batch(
        self, demonstration: Demonstration, frame_index: Sequence[int]
    ) -> tuple[Inputs, np.ndarray, np.ndarray]:
        """Return inputs, target actions float32 `[B, C, A]` of the env, and mask bool `[B, C]`."""
        observation, actions, mask = demonstrated(
            demonstration,
            frame_index,
            self.spec.action_horizon,
            self._env_spec.max_episode_steps,
        )
        return self.prepare(observation), actions, mask

    def sft_loss(
        self, inputs: Mapping[str, Tensor], actions: Tensor, mask: Tensor, keys: RowKeys
    ) -> Tensor:
        """Return the cross-entropy of the demonstrated tokens per sample `[B]`.

        It is the mean over the sample's valid steps and executed entries. Nothing is random.
        """
        device = self.actor.network.device
        targets = torch.from_numpy(self.processor.to_indices(actions.cpu().numpy())).to(device)
        tokens = targets.new_zeros(*targets.shape[:2], self._tokens[1])
        tokens[..., self._entries] = targets
        losses = self.actor.cross_entropy(self.actor_inputs(inputs), tokens.flatten(1))
        losses = self._executed(losses)
        weight = mask.to(device, torch.float32)
        return (losses.mean(dim=-1) * weight).sum(dim=1) / weight.sum(dim=1)

    # -- parameters ---------------------------------------------------------------------------

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """Return the trainable parameters in two groups: the critic's, and all others."""
        return parameter_groups(self, self.actor.value_head)

    def save_pretrained(self, path: Path) -> None:
        """Write a checkpoint folder in OpenVLA's layout (see files.py), or only the adapters."""
        path.mkdir(parents=True, exist_ok=True)
        config = self.config
        resolved = self.processor.resolved
        checkpoint.save_value_head(self.actor, path)
        if config.save_adapters_only:
            assert resolved.folders is not None
            checkpoint.save_adapters(self.actor, path, str(resolved.folders.base.resolve()))
        else:
            checkpoint.save_network(self.actor, path)
        # components inside the network are not adapters: they are in the network's folder
        components = [
            component
            for component in resolved.components
            if not (config.save_adapters_only and component.in_network)
        ]
        checkpoint.save_components(self.actor, path, components)
        all_statistics = self.processor.scaling.all
        statistics.write(path, all_statistics)
        self.processor.prompts.save(path)
        # the folder it was loaded from is not a property of the policy
        settings = dataclasses.asdict(dataclasses.replace(config, model_path=None, lora_path=None))
        settings["max_prompt_length"] = resolved.prompt_length
        settings["unnorm_key"] = self.processor.scaling.key
        settings["num_images_in_input"] = resolved.num_images
        content = preprocessor_config(resolved.size)
        write_text(path / PREPROCESSOR_FILE, json.dumps(content, indent=2) + "\n")
        base: dict[str, Any] = {}
        if resolved.folders is not None:
            copy_base_files(resolved.folders, path)
            base = base_config(resolved.folders, path)
        content = {**base, **transformers_config(resolved.size, all_statistics, settings)}
        write_text(path / statistics.CONFIG_FILE, json.dumps(content, indent=2) + "\n")

    # -- helpers ------------------------------------------------------------------------------

    @property
    def _tokens(self) -> tuple[int, int]:
        """The shape (C, M) of the tokens of a decision."""
        return self.spec.num_action_chunks, self.processor.resolved.action_dim

    def _uniform(self, keys: RowKeys) -> Tensor:
        chunk, entries = self._tokens
        drawn = keys.uniform("action_tokens", (chunk * entries,))
        return torch.from_numpy(drawn).to(self.actor.network.device)

    def _decision(self, replay: Mapping[str, Tensor]) -> Decision:
        """Rebuild the decision from the `replay` of :meth:`act`."""
        device = self.actor.network.device
        stored = {name: tensor.to(device).flatten(1, 2) for name, tensor in replay.items()}
        allowed = stored.get("allowed_tokens")
        if allowed is not None:
            allowed = sampling.unpacked(allowed, self.processor.resolved.size.action_bins)
        return Decision(stored["action_tokens"], allowed)

    def _executed(self, values: Tensor) -> Tensor:
        """Select the entries that the env executes: `[B, N]` -> `[B, C, A]`."""
        return values.unflatten(1, self._tokens)[..., self._entries]

    def actor_inputs(self, inputs: Mapping[str, Tensor]) -> ActorInputs:
        """Move stored inputs to the network's device."""
        device = self.actor.network.device
        return ActorInputs(
            images=inputs["images"].to(device),
            tokens=inputs["tokens"].to(device, torch.int64),
            token_mask=inputs["token_mask"].to(device),
            proprio=inputs["proprio"].to(device),
            elapsed=inputs["elapsed"].to(device),
        )


def _fresh_processor(
    config: PrismaticModelConfig, resolved: Resolved, env_spec: EnvSpec
) -> Processor:
    """Return the processor of a model from scratch.

    Its statistics are named `unnorm_key`, or else like the env, so that a checkpoint of the policy
    is loaded with them.
    """
    size = resolved.size
    prompts = fresh_tokenizer(env_spec.all_instructions, resolved.prompt_length, size)
    key = config.unnorm_key or env_spec.name
    low, high = np.repeat([[-1.0], [1.0]], resolved.action_dim, axis=1)
    entries = list(resolved.entries)
    low[entries] = env_spec.action_low
    high[entries] = env_spec.action_high
    unfitted = {
        key: {
            "action": statistics.of_range(low, high),
            "proprio": statistics.of_range(
                np.full(resolved.proprio_dim, -1.0), np.full(resolved.proprio_dim, 1.0)
            ),
        }
    }
    return Processor(
        config,
        resolved,
        prompts,
        scaling(config, resolved, unfitted, key, origin="a fresh model"),
    )
