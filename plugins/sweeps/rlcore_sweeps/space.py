"""Turn words in Hydra's grammar into distributions of Optuna, and what it proposes into words.

a=1,2  a=choice(x,y)  a=glob(x*)             one of these
a=range(1,9,2)  a=range(0.1,0.5,0.1)         a number of these, with an order
a=interval(0,1)  a=int(interval(1,8))        any number between, both ends included
a=tag(log,interval(1e-6,1e-3))               likewise, by its logarithm
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
from rlcore_sweeps.request import flat, for_hydra, for_job, key_of

SEED = "runner.seed"
LOG = "log"
DIGITS = 6  # of a proposed number: enough for any setting, and short in names and tables


@dataclass(frozen=True)
class Choice:
    """A key or group that is searched over.

    Attributes:
        start: how its word begins, e.g. "+actor.x".
        distribution: its values.
        texts: how each value of a categorical one is written.
    """

    start: str
    distribution: BaseDistribution
    texts: tuple[str, ...] = ()

    def word(self, value: Any) -> str:
        """The word that sets it, in Hydra's grammar."""
        if isinstance(self.distribution, CategoricalDistribution):
            value = self.texts[int(self.distribution.to_internal_repr(value))]
        return f"{self.start}={value}"

    def short(self, value: Any) -> Any:
        """A proposed value with so many digits as are worth writing, inside the bounds."""
        its = self.distribution
        if not isinstance(its, FloatDistribution):
            return value
        return min(max(float(f"{value:.{DIGITS}g}"), its.low), its.high)


@dataclass(frozen=True)
class Space:
    """What is searched, and what is the same in all runs.

    Attributes:
        choices: by key, as a command line has it.
        fixed: words of all runs.
    """

    choices: Mapping[str, Choice]
    fixed: tuple[str, ...]

    @classmethod
    def of(
        cls, words: Sequence[str], params: Mapping[str, Any], loader: ConfigLoader | None = None
    ) -> Space:
        """Read the words of a sweep, and those of `hydra.sweeper.params` that they don't set.

        Raises:
            ConfigError: a distribution that Optuna does not have, or none at all.
        """
        given = {key_of(word) for word in words}
        further = [f"{key}={_text(value)}" for key, value in flat(params)]
        every = [word for word in for_hydra(further) if key_of(word) not in given] + [*words]
        parser = OverridesParser.create(config_loader=loader)
        choices: dict[str, Choice] = {}
        fixed: list[str] = []
        for word, override in zip(every, parser.parse_overrides(every), strict=True):
            if not override.is_sweep_override():
                fixed.append(word)
                continue
            (key,) = map(key_of, for_job([word]))
            if key == SEED:
                raise ConfigError(
                    f"{word}: seeds are not searched", hint="sweep.seeds=0,1,2 plays each setting"
                )
            choices[key] = _choice(word, override)
        if not choices:
            raise ConfigError(
                "a study needs something to search over",
                hint="'actor.optim.lr=tag(log,interval(1e-6,1e-4))', algorithm.gae_lambda=0.9,0.95",
            )
        return cls(choices, tuple(fixed))

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        """By key."""
        return {key: one.distribution for key, one in self.choices.items()}

    def words(self, setting: Mapping[str, Any]) -> list[str]:
        """Those of a setting."""
        return [self.choices[key].word(value) for key, value in setting.items()]


def _choice(word: str, override: Override) -> Choice:
    start, value = word.partition("=")[0], override.value()
    try:
        if isinstance(value, IntervalSweep):
            return Choice(start, _numeric(value.start, value.end, log=LOG in value.tags))
        if isinstance(value, RangeSweep):
            numbers: list[Any] = list(override.sweep_iterator())  # with its start and not its stop
            how = {"log": LOG in value.tags, "step": abs(value.step)}
            return Choice(start, _numeric(min(numbers), max(numbers), **how))
        its = [_plain(one) for one in override.sweep_iterator(transformer=Transformer.identity)]
        texts = tuple(map(str, override.sweep_string_iterator()))
        return Choice(start, CategoricalDistribution(its), texts)
    except (ValueError, IndexError, HydraException) as error:
        raise ConfigError(f"{word}: {error}") from None


def _plain(value: Any) -> Any:
    """A value of a choice as Optuna and JSON have it."""
    return value.text if isinstance(value, QuotedString) else Transformer.encode(value)


def _numeric(low: Any, high: Any, **how: Any) -> BaseDistribution:
    whole = isinstance(low, int) and isinstance(high, int)
    return (IntDistribution if whole else FloatDistribution)(low, high, **how)


def _text(value: Any) -> str:
    """A value of a file as a word has it: a list is a choice."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
