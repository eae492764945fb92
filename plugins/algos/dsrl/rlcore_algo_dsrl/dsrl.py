"""Experimental: two runs of about 270 episodes did not learn (docs/algorithms.md). DSRL: a frozen
flow policy is steered by its initial noise.

inputs -> critic's features -> actor -> noise -> policy -> chunk
                                 ^------- Q(features, noise), learned from the replay
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from rlcore_off_policy.critic import Critic
from rlcore_off_policy.encoder import draw_shift
from torch import Tensor, nn

from rlcore.contracts import metric
from rlcore.contracts.errors import ConfigError
from rlcore.contracts.learning import Step, Terms
from rlcore.contracts.protocols import Acting, Inputs, Learning, Policy, PolicyOutput, TakesNoise
from rlcore.contracts.rng import RowKeys
from rlcore.contracts.specs import EnvSpec, PolicySpec
from rlcore_algo_dsrl.networks import LEARNED, SEEN, UNTRAINED, NoiseActor, Temperature
from rlcore_algo_dsrl.settings import NOISE, DSRLConfig, needs


class DSRL:
    """Diffusion steering via reinforcement learning (Wagenmaker et al. 2025, arXiv 2506.15799), in
    its form DSRL-SAC: soft actor-critic whose action is the noise, by decisions of a chunk."""

    def __init__(self, config: DSRLConfig) -> None:
        self._config = config
        self.needs = needs(config)

    def networks(self, policy: PolicySpec, inputs: Inputs) -> Mapping[str, nn.Module]:
        """Actor, critic, and the weight of the entropy where it is learned.

        Raises:
            ConfigError: more rows are to be decided than there are.
        """
        config, (horizon, *_) = self._config, policy.noise
        if config.noise_rows > horizon:
            raise ConfigError(
                f"algorithm.noise_rows must be at most {horizon}, the rows of {policy.name}'s "
                f"noise, or 0 for all of them, got {config.noise_rows}"
            )
        hidden, rows = tuple(config.hidden), config.noise_rows or horizon
        entries = rows * int(np.prod(policy.noise[1:]))
        critic = Critic(inputs, entries, heads=config.heads, hidden=hidden)
        actor = NoiseActor(
            critic.encoder.size, rows, policy.noise, bound=config.bound, hidden=hidden
        )
        made: dict[str, nn.Module] = {"actor": actor, "critic": critic}
        return made | ({"temperature": Temperature(config.alpha)} if config.alpha_lr else {})

    def acting(self, policy: PolicySpec, env: EnvSpec, networks: Mapping[str, nn.Module]) -> Acting:
        return Steering(cast(NoiseActor, networks["actor"]), cast(Critic, networks["critic"]))

    def updates(self, learning: Learning) -> Iterator[Step]:
        """Steps of the critic, and of the actor after every so many; none before there is enough
        to learn from, by noise of the form that the actor decides."""
        config, actor = self._config, cast(NoiseActor, learning.networks["actor"])
        kept = learning.replay.count()
        learning.numbers["rollout/replay_decisions"] = float(kept)
        learning.numbers["rollout/replay_successes"] = float(learning.replay.count("successes"))
        if actor.stage == UNTRAINED:
            actor.stage.fill_(SEEN)
            if config.noise_rows:
                return
        if kept < config.start:
            return
        sac = SoftActorCritic(config, learning)
        for step in range(config.steps):
            rows = learning.draw(config.batch_size)
            yield learning.step(rows, sac.critic_loss, trains=["critic"])
            if step % config.actor_every == config.actor_every - 1:
                rows = learning.draw(config.batch_size)
                yield learning.step(rows, sac.actor_loss, trains=sac.trained_with_actor)
        actor.stage.fill_(LEARNED)


class SoftActorCritic:
    """Losses of rows of a replay."""

    def __init__(self, config: DSRLConfig, learning: Learning) -> None:
        self._config, self._replay = config, learning.replay
        self._actor = cast(NoiseActor, learning.networks["actor"])
        self._critic = cast(Critic, learning.networks["critic"])
        self._lagged = cast(Critic, learning.lagged["critic"])
        self._temperature = cast("Temperature | None", learning.networks.get("temperature"))

    @property
    def trained_with_actor(self) -> list[str]:
        return ["actor", "temperature"] if self._temperature else ["actor"]

    def critic_loss(self, rows: Tensor, keys: RowKeys) -> Terms:
        """Squared errors `[B]` to the targets, the mean over the heads; 0 where what came then was
        not seen, or the noise was of another form than the actor's."""
        seen = self._replay.inputs(rows)
        noise, steered = self._actor.decided(seen[NOISE])
        targets, known = self.targets(rows, keys)
        features = self._critic.features(seen, self._shift(keys, "shift"))
        values = self._critic.values(features, noise)
        used = steered & known
        numbers = {
            "train/critic/value": metric.mean(values.mean(0), used),
            "train/critic/target": metric.mean(targets, used),
            "train/critic/spread": metric.mean(values.std(0, correction=0), used),
        }
        return torch.where(used, (values - targets).square().mean(0), 0.0), numbers

    @torch.no_grad()
    def targets(self, rows: Tensor, keys: RowKeys) -> tuple[Tensor, Tensor]:
        """Targets `[B]`, and whether what came then was seen:
        y = R - penalty + gamma m (Q'(s', w') [- alpha log pi(w' | s')]), with the undiscounted
        reward R of the chunk, m 0 where the episode ended, and w' of the actor."""
        config = self._config
        then = self._replay.following(rows, chunks=1, gamma=1.0)
        shift = self._shift(keys, "shift_then")
        noise, density = self._sample(self._critic.features(then.inputs, shift), keys, "noise_then")
        features = self._lagged.features(then.inputs, shift)
        ahead = self._judged(self._lagged.values(features, noise))
        if config.backup_entropy:
            ahead = ahead - self._alpha * density
        rewards = then.rewards - config.step_penalty
        return rewards + config.gamma * then.discounts * ahead, then.known

    def actor_loss(self, rows: Tensor, keys: RowKeys) -> Terms:
        """alpha log pi(w | s) - Q(s, w), and where alpha is learned the loss of that."""
        with torch.no_grad():
            inputs = self._replay.inputs(rows)
            features = self._critic.features(inputs, self._shift(keys, "shift"))
        noise, density = self._sample(features, keys, "noise")
        values = self._judged(self._critic.values(features, noise))
        alpha, every = self._alpha, torch.ones_like(density, dtype=torch.bool)
        losses = alpha * density - values
        numbers = {
            "train/actor/value": metric.mean(values, every),
            "train/actor/entropy": metric.mean(-density, every),
            "train/actor/alpha": metric.mean(alpha.expand_as(density), every),
            "train/actor/noise": metric.mean(noise.abs().mean(1), every),
        }
        if self._temperature is not None:
            wanted = self._config.target_entropy
            wanted = -self._actor.entries / 2 if wanted is None else wanted
            losses = losses - self._temperature.log * (density.detach() + wanted)
        return losses, numbers

    @property
    def _alpha(self) -> Tensor:
        if self._temperature is None:
            return next(self._actor.parameters()).new_tensor([self._config.alpha])
        return self._temperature.log.detach().exp()

    def _judged(self, values: Tensor) -> Tensor:
        """`[B]` of the heads `[E, B]`."""
        return values.mean(0) if self._config.target == "mean" else values.min(0).values

    def _sample(self, features: Tensor, keys: RowKeys, stream: str) -> tuple[Tensor, Tensor]:
        normal = torch.from_numpy(keys.normal(stream, (self._actor.entries,)))
        return self._actor.sample(features, normal.to(features.device))

    def _shift(self, keys: RowKeys, stream: str) -> Tensor | None:
        return draw_shift(keys, stream) if self._config.augment else None


class Steering:
    """See :class:`rlcore.contracts.protocols.Acting`. What each decision started from is among its
    `replay`."""

    def __init__(self, actor: NoiseActor, critic: Critic) -> None:
        self._actor, self._critic = actor, critic

    @torch.no_grad()
    def act(
        self, policy: Policy, inputs: Inputs, keys: RowKeys, *, deterministic: bool
    ) -> PolicyOutput:
        """Decide from the actor's noise, its mean where nothing is explored; the rest of the policy
        adds none. Before the actor has made a step, from normal noise: as the policy does itself;
        where it then explores, of the form that the actor will decide."""
        actor, decides = self._actor, bool(self._actor.stage == LEARNED)
        explores = not deterministic and bool(actor.stage != UNTRAINED)
        noise = keys.normal("initial", policy.spec.noise)
        if decides:
            device = next(actor.parameters()).device
            tensors: Any = {name: torch.from_numpy(array) for name, array in inputs.items()}
            features = self._critic.features(tensors)
            if explores:
                normal = torch.from_numpy(keys.normal("steering", (actor.entries,)))
                steered = actor.sample(features, normal.to(device))[0]
            else:
                steered = actor.mean(features)
            noise = actor.unrolled(steered).cpu().numpy()
        elif explores:
            own, _ = actor.decided(torch.from_numpy(noise))
            noise = actor.unrolled(own).numpy()
        output = cast(TakesNoise, policy).act(
            inputs, keys, deterministic=deterministic or explores, noise=noise
        )
        return replace(output, replay={**output.replay, NOISE: torch.from_numpy(noise)})
