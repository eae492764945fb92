"""Build samplers and pruners of Optuna from a name and options that are plain values."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from typing import Any, TypeVar

import optuna
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler

from rlcore.contracts.errors import ConfigError, choices_message, did_you_mean
from rlcore.contracts.rng import generator

# CmaEsSampler is left out: it stores a pickle, and a sweep's folder may come from other people
SAMPLERS = {
    "tpe": "TPESampler",
    "gp": "GPSampler",
    "nsgaii": "NSGAIISampler",
    "random": "RandomSampler",
}
NO_PRUNER = "none"
PRUNERS = {
    "median": "MedianPruner",
    "percentile": "PercentilePruner",
    "hyperband": "HyperbandPruner",
    "successive_halving": "SuccessiveHalvingPruner",
    "threshold": "ThresholdPruner",
    NO_PRUNER: "NopPruner",
}
Method = TypeVar("Method", BaseSampler, BasePruner)


def sampler_of(
    name: str, options: Mapping[str, Any], seed: int = 0, number: int = 0
) -> BaseSampler:
    """Build the sampler that proposes one trial.

    Its random draws are seeded by `seed` and `number` alone, so that a resumed study proposes the
    same settings.

    Args:
        name: a key of :data:`SAMPLERS`.
        options: keyword arguments of Optuna's class, without its seed.
        seed: seed of the study.
        number: number of the trial.

    Raises:
        ConfigError: an unknown name or option, an invalid value, or a sampler whose library is not
            installed.
    """
    drawn = int(generator("study", seed, number).integers(2**31))
    cls = _find("sampler", name, SAMPLERS, optuna.samplers)
    return _build("sampler", cls, options, {"seed": drawn})


def pruner_of(name: str, options: Mapping[str, Any]) -> BasePruner:
    """Build a pruner.

    Args:
        name: a key of :data:`PRUNERS`.
        options: keyword arguments of Optuna's class; ignored for "none".

    Raises:
        ConfigError: an unknown name or option, or an invalid value.
    """
    cls = _find("pruner", name, PRUNERS, optuna.pruners)
    return _build("pruner", cls, {} if name == NO_PRUNER else options, {})


def _find(role: str, name: str, classes: Mapping[str, str], module: Any) -> Any:
    if name not in classes:
        raise ConfigError(f"there is no {role} {name!r}{choices_message(name, classes)}")
    return getattr(module, classes[name])


def _build(
    role: str, cls: type[Method], options: Mapping[str, Any], fixed: Mapping[str, Any]
) -> Method:
    key = f"hydra.sweeper.{role}_options"
    names = [name for name in inspect.signature(cls).parameters if name not in fixed]
    for name in options:
        if name not in names:
            raise ConfigError(
                f"unknown key '{key}.{name}'.{did_you_mean(name, names)}",
                hint=f"{cls.__name__} of Optuna has: {', '.join(names)}",
            )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        try:
            return cls(**options, **fixed)
        except ImportError as error:
            raise ConfigError(f"hydra.sweeper.{role}: {error}".split("\n")[0]) from None
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{key}: {error}") from None
