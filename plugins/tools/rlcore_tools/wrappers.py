"""Wrap envs and algorithms: the chains of `env.*.wrappers` and `algorithm.wrappers`.

    the env -> wrapper -> wrapper -> the run         changes rewards and observations alone

A wrapper is a component of kind `wrapper`. Its `config` is a dataclass that extends
:class:`EnvWrapping` or :class:`AlgorithmWrapping`, which determines what it can wrap. Wrappers of
envs can't change success, termination or truncation, so that success is measured by the env itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlcore.checks.limits import violations
from rlcore.config.bind import check_choices
from rlcore.config.schema import Settings, key
from rlcore.contracts.errors import ConfigError, PluginError
from rlcore.contracts.protocols import ChunkResult, Demonstration, Env, Observation
from rlcore.contracts.rng import generator
from rlcore.contracts.specs import AlgorithmNeeds, ComponentSpec, EnvSpec, Episode
from rlcore.plugins.import_target import load_target
from rlcore.plugins.registry import load_plugins


class EnvWrapping(Settings):
    """Base of the settings of a wrapper of envs.

    Its `target(env, settings)` makes an :class:`EnvWrapper`; its `spec(spec, settings)`, if it has
    one, gives the :class:`EnvSpec` around it.
    """


class AlgorithmWrapping(Settings):
    """Base of the settings of a wrapper of algorithms.

    Its `target(algorithm, settings)` gives an algorithm, as a rule the same with another `loss`;
    its `spec(needs, settings)`, if it has one, what that needs.
    """


class EnvWrapper:
    """An env with changed rewards or observations, B rows and chunks of C steps.

    A subclass overrides some of the first four methods: :meth:`begin`, :meth:`rewards`,
    :meth:`observe` and :meth:`demonstration`.
    """

    def __init__(self, env: Env, spec: EnvSpec) -> None:
        self._env, self.spec, self.num_envs = env, spec, env.num_envs
        self._episodes = [Episode(0, 0)] * env.num_envs
        self._steps = np.zeros(env.num_envs, dtype=np.int64)

    def begin(self, rows: np.ndarray) -> None:
        """Clear any state of these rows, int64 `[n]`, in which new episodes start."""

    def rewards(self, actions: np.ndarray, result: ChunkResult) -> np.ndarray:
        """Return the rewards `[B, C]` of a chunk.

        Rewards of steps that were not executed (`result.valid` is False) are ignored.

        Args:
            actions: float32 `[B, C, A]`.
            result: result of the wrapped env.
        """
        return result.rewards

    def observe(
        self, observation: Observation, episodes: Sequence[Episode], steps: np.ndarray
    ) -> Observation:
        """Return the observation for the policy, without changing `observation` in place.

        Args:
            observation: observation of the wrapped env.
            episodes: current episode of each row.
            steps: int64 `[B]`, env steps executed in each row's episode.
        """
        return observation

    def demonstration(self, demonstration: Demonstration) -> Demonstration:
        """Return a demonstration with the observations' layout that :meth:`observe` returns."""
        return demonstration

    # -- not overridden by subclasses ------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        observation, infos = self._env.reset(seed=seed, options=options)
        options = options or {}
        rows = np.flatnonzero(options.get("reset_mask", np.ones(self.num_envs, dtype=bool)))
        for row in rows.tolist():
            if "episodes" in options:
                self._episodes[row] = options["episodes"][row]
        self._steps[rows] = 0
        self.begin(rows)
        return self.observe(observation, self._episodes, self._steps), infos

    def step(
        self, actions: np.ndarray
    ) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        result = self.chunk_step(actions[:, None])
        ends = result.terminated[:, 0], result.truncated[:, 0]
        return result.observation, result.rewards[:, 0], *ends, {"success": result.success}

    def chunk_step(self, actions: np.ndarray) -> ChunkResult:
        result = self._env.chunk_step(actions)
        self._steps += result.valid.sum(1)
        rewards = np.where(result.valid, self.rewards(actions, result), 0)
        seen = self.observe(result.observation, self._episodes, self._steps)
        return replace(result, rewards=rewards.astype(np.float32), observation=seen)

    def demonstrate(self, episodes: Sequence[Episode], **settings: Any) -> Iterator[Demonstration]:
        return map(self.demonstration, self._env.demonstrate(episodes, **settings))

    def record(self, rows: Sequence[int]) -> None:
        self._env.record(rows)

    def recorded(self) -> dict[int, list[np.ndarray]]:
        return self._env.recorded()

    def suspend(self) -> None:
        self._env.suspend()  # type: ignore[attr-defined]  # asked only where its spec says so

    def resume(self) -> None:
        self._env.resume()  # type: ignore[attr-defined]

    def close(self) -> None:
        self._env.close()


FIXED = ("reset", "step", "chunk_step")


# -- chains -----------------------------------------------------------------------------------


def wrapped(inner: Any, chain: Sequence[Any], part: Literal["target", "spec"]) -> Any:
    """Apply a chain of wrappers to an env, an algorithm, or the spec of either.

    This is the function component `wrapped` that rlcore's core looks up.

    Args:
        inner: the env, algorithm, :class:`EnvSpec` or :class:`AlgorithmNeeds` to wrap.
        chain: entries NAME or `{NAME: {key: value}}`, the innermost wrapper first.
        part: field of the components that names the function to apply: "target" for an env or
            algorithm, "spec" for a spec.

    Raises:
        UserError: a wrapper does not exist, is for another kind of object, has wrong settings, or
            overrides methods that must not change.
    """
    around = EnvWrapping if isinstance(inner, EnvSpec) or _is_env(inner) else AlgorithmWrapping
    for entry in chain:
        component, settings = _chosen(entry, around)
        made = component.target if part == "target" else component.spec
        if made is not None:
            inner = load_target(made)(inner, settings)
        if part == "target" and around is EnvWrapping:
            _require_sealed(inner, component)
    return inner


def _is_env(inner: Any) -> bool:
    return not isinstance(inner, AlgorithmNeeds) and isinstance(vars(inner).get("spec"), EnvSpec)


def _chosen(entry: Any, around: type[Settings]) -> tuple[ComponentSpec, Any]:
    """Return the component that an entry of a chain names, and its settings.

    Raises:
        ConfigError: the entry is malformed, or the wrapper is not for this or has wrong settings.
        PluginError: the wrapper is unusable, or its settings class extends neither base.
    """
    named = {entry: {}} if isinstance(entry, str) else entry
    if not isinstance(named, Mapping) or len(named) != 1:
        raise ConfigError(
            f"an entry of wrappers must be NAME or {{NAME: {{key: value}}}}, got {entry!r}"
        )
    ((name, values),) = named.items()
    spec = load_plugins().usable("wrapper", str(name)).spec
    cls = load_target(spec.config) if spec.config else None
    if not (isinstance(cls, type) and issubclass(cls, (EnvWrapping, AlgorithmWrapping))):
        raise PluginError(
            f"wrapper {name!r}: {spec.config} must be a dataclass that extends EnvWrapping or "
            "AlgorithmWrapping"
        )
    if not issubclass(cls, around):
        wanted = "algorithm.wrappers" if around is EnvWrapping else "env.train.wrappers"
        raise ConfigError(f"wrapper {name!r} is not for this: it goes into {wanted}")
    try:
        made: Any = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(cls), values or {}))
        check_choices(made)
        for sentence in violations(made):
            raise ConfigError(sentence)
        return spec, made
    except (OmegaConfBaseException, ConfigError) as error:
        reason = str(error).split("\n", 1)[0]
        keys = ", ".join(vars(cls()))
        raise ConfigError(f"wrapper {name!r}: {reason}", hint=f"its keys: {keys}") from None


def _require_sealed(made: Any, component: ComponentSpec) -> None:
    """Raise PluginError for a wrapper that could change success, termination or truncation."""
    sealed = isinstance(made, EnvWrapper) and all(
        vars(EnvWrapper)[name] is next(vars(c)[name] for c in type(made).__mro__ if name in vars(c))
        for name in FIXED
    )
    if not sealed:
        raise PluginError(
            f"wrapper {component.name!r}: {component.target} must make an EnvWrapper that leaves "
            f"{', '.join(FIXED)} as they are, so that success is measured below it"
        )


# -- wrappers of this package -----------------------------------------------------------------


@dataclass
class ActionCost(EnvWrapping):
    """Takes coef times the mean square of the action from each reward; units: half a range."""

    coef: float = key("what an action at the end of its range costs", 0.01, minimum=0)


class CostlyActions(EnvWrapper):
    """Subtracts a quadratic action cost from rewards, like the control cost of many benchmarks."""

    def __init__(self, env: Env, settings: ActionCost) -> None:
        super().__init__(env, env.spec)
        channels = [each for each in env.spec.actions for _ in range(each.size)]
        self._low = np.array([each.low for each in channels])
        self._high = np.array([each.high for each in channels])
        self._coef = settings.coef

    def rewards(self, actions: np.ndarray, result: ChunkResult) -> np.ndarray:
        """Return r - coef mean_a ((2 a - low - high) / (high - low))^2, with clipped actions a."""
        clipped = np.clip(actions, self._low, self._high)
        scaled = (2 * clipped - self._low - self._high) / (self._high - self._low)
        cost: np.ndarray = result.rewards - self._coef * np.square(scaled).mean(-1)
        return cost


@dataclass
class StateNoise(EnvWrapping):
    """Adds Gaussian noise to the state, so that a policy does not rely on its last digits."""

    std: float = key("its standard deviation, in the env's units", 0.01, minimum=0)


def noisy_spec(spec: EnvSpec, settings: StateNoise) -> EnvSpec:
    """Add the noise to `render_settings`, which evaluations record, as observations change."""
    return replace(spec, render_settings={**spec.render_settings, "state_noise": settings.std})


class NoisyStates(EnvWrapper):
    """Adds noise to states, keyed by episode and step, so that a replay has the same noise."""

    def __init__(self, env: Env, settings: StateNoise) -> None:
        super().__init__(env, noisy_spec(env.spec, settings))
        self._std = settings.std

    def observe(
        self, observation: Observation, episodes: Sequence[Episode], steps: np.ndarray
    ) -> Observation:
        """Return states s + std n, with n drawn from N(0, 1) for each entry."""
        shape = observation["states"].shape[1]
        drawn = [
            generator("state_noise", one.task, one.trial, one.replica, int(step)).normal(size=shape)
            for one, step in zip(episodes, steps, strict=True)
        ]
        noise = self._std * np.array(drawn).reshape(observation["states"].shape)
        return {**observation, "states": (observation["states"] + noise).astype(np.float32)}


@dataclass
class EpisodeShift(AlgorithmWrapping):
    """Explores around the policy: all actions of a training episode are moved by one draw."""

    std: float = key("of the draw, in units of half of each entry's range", 0.1, minimum=0)


def shifted_needs(needs: AlgorithmNeeds, settings: EpisodeShift) -> AlgorithmNeeds:
    """Return the algorithm's needs with the shift as exploration.

    Raises:
        ConfigError: the algorithm uses log-probs of the executed actions, which the shift changes.
    """
    if needs.exact_logprobs:
        raise ConfigError(
            "wrapper 'episode_shift' changes actions after they were drawn, so it does not go with "
            "an algorithm that compares their log-probs",
            hint="algorithm=rft",
        )
    return replace(needs, episode_shift=settings.std)


def shifted(algorithm: Any, settings: EpisodeShift) -> Any:
    """Set `algorithm.needs` in place to the needs with the shift, and return the algorithm."""
    algorithm.needs = shifted_needs(algorithm.needs, settings)
    return algorithm
