"""Convert overrides in Hydra's grammar to Optuna's distributions, and proposals to overrides.

a=1,2  a=choice(x,y)  a=glob(x*)             categorical
a=range(1,9,2)  a=range(0.1,0.5,0.1)         numeric with a step
a=interval(0,1)  a=int(interval(1,8))        numeric, both bounds included
a=tag(log,interval(1e-6,1e-3))               numeric on a log scale, both bounds included
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import (
    IntervalSweep,
    Override,
    QuotedString,
    RangeSweep,
    Transformer,
)
from hydra.errors import HydraException
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from rlcore.contracts.errors import ConfigError
from rlcore_sweeps.request import flatten_leaves, key_of, to_hydra, to_rlcore

SEED = "runner.seed"
LOG = "log"
DIGITS = 6  # significant digits of a proposed number, so that names and tables are short


@dataclass(frozen=True)
class Choice:
    """A key or group that is searched over.

    Attributes:
        start: the part of its override before `=`, e.g. "+actor.x".
        distribution: distribution of its values.
        texts: text of each value of a categorical distribution, in order.
    """

    start: str
    distribution: BaseDistribution
    texts: tuple[str, ...] = ()

    def word(self, value: Any) -> str:
        """Return the override that sets a value, in Hydra's grammar."""
        if isinstance(self.distribution, CategoricalDistribution):
            value = self.texts[int(self.distribution.to_internal_repr(value))]
        return f"{self.start}={value}"

    def short(self, value: Any) -> Any:
        """Round a proposed float to :data:`DIGITS` significant digits, within the bounds."""
        bounds = self.distribution
        if not isinstance(bounds, FloatDistribution):
            return value
        return min(max(float(f"{value:.{DIGITS}g}"), bounds.low), bounds.high)


@dataclass(frozen=True)
class Space:
    """A search space, and the overrides that all runs share.

    Attributes:
        choices: searched keys and groups, by key in the grammar of rlcore's command line.
        fixed: overrides of all runs, in Hydra's grammar.
    """

    choices: Mapping[str, Choice]
    fixed: tuple[str, ...]

    @classmethod
    def parse(
        cls, words: Sequence[str], params: Mapping[str, Any], loader: ConfigLoader | None = None
    ) -> Space:
        """Build the space from a sweep's overrides and the entries of `hydra.sweeper.params`.

        Args:
            words: overrides in Hydra's grammar; they win over `params`.
            params: content of `hydra.sweeper.params`.
            loader: resolves globs over config groups.

        Raises:
            ConfigError: Optuna has no such distribution, nothing is searched, or the seed is.
        """
        set_keys = {key_of(word) for word in words}
        from_params = [f"{key}={_text(value)}" for key, value in flatten_leaves(params)]
        overrides = [word for word in to_hydra(from_params) if key_of(word) not in set_keys]
        overrides += words
        parser = OverridesParser.create(config_loader=loader)
        choices: dict[str, Choice] = {}
        fixed: list[str] = []
        for word, override in zip(overrides, parser.parse_overrides(overrides), strict=True):
            if not override.is_sweep_override():
                fixed.append(word)
                continue
            (key,) = map(key_of, to_rlcore([word]))
            if key == SEED:
                raise ConfigError(
                    f"{word}: seeds are not searched over",
                    hint="sweep.seeds=0,1,2 runs each setting with these seeds",
                )
            choices[key] = _choice(word, override)
        if not choices:
            raise ConfigError(
                "a study needs a key to search over",
                hint="'actor.optim.lr=tag(log,interval(1e-6,1e-4))', algorithm.gae_lambda=0.9,0.95",
            )
        return cls(choices, tuple(fixed))

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        """Distributions of the searched keys, by key."""
        return {key: choice.distribution for key, choice in self.choices.items()}

    def words(self, setting: Mapping[str, Any]) -> list[str]:
        """Return the overrides of a setting, in Hydra's grammar.

        Args:
            setting: values by key.
        """
        return [self.choices[key].word(value) for key, value in setting.items()]


def _choice(word: str, override: Override) -> Choice:
    start, value = word.partition("=")[0], override.value()
    try:
        if isinstance(value, IntervalSweep):
            return Choice(start, _numeric(value.start, value.end, log=LOG in value.tags))
        if isinstance(value, RangeSweep):
            # the iterator excludes the stop, which Optuna's bounds would include
            numbers: list[Any] = list(override.sweep_iterator())
            how = {"log": LOG in value.tags, "step": abs(value.step)}
            return Choice(start, _numeric(min(numbers), max(numbers), **how))
        values = [
            _plain(value) for value in override.sweep_iterator(transformer=Transformer.identity)
        ]
        texts = tuple(map(str, override.sweep_string_iterator()))
        return Choice(start, CategoricalDistribution(values), texts)
    except (ValueError, IndexError, HydraException) as error:
        raise ConfigError(f"{word}: {error}") from None


def _plain(value: Any) -> Any:
    """Return a value of a choice as a plain value, which Optuna and JSON can store."""
    return value.text if isinstance(value, QuotedString) else Transformer.encode(value)


def _numeric(low: Any, high: Any, **how: Any) -> BaseDistribution:
    whole = isinstance(low, int) and isinstance(high, int)
    return (IntDistribution if whole else FloatDistribution)(low, high, **how)


def _text(value: Any) -> str:
    """Return a value from a file as the text of an override: a list becomes a choice."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
