"""Define the base classes of the settings of wrappers."""

from __future__ import annotations

from rlcore.config.schema.keys import Settings


class EnvWrapping(Settings):
    """Base class of the settings of a wrapper of envs.

    The component's `target(env, settings)` makes an :class:`rlcore.contracts.wrappers.EnvWrapper`.
    Its optional `spec(spec, settings)` returns the :class:`rlcore.contracts.specs.EnvSpec` of the
    wrapped env.
    """


class AlgorithmWrapping(Settings):
    """Base class of the settings of a wrapper of algorithms.

    The component's `target(algorithm, settings)` returns an algorithm, usually the same one with
    another `loss`. Its optional `spec(needs, settings)` returns the
    :class:`rlcore.contracts.specs.AlgorithmNeeds` of the wrapped algorithm.
    """
