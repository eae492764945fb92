"""Keys and needs of the algorithm. Imports no tensor library: every dry run reads this."""

from dataclasses import dataclass

from rlcore_policy_gradient.settings import OnPolicyNeeds, PolicyGradientConfig

from rlcore.config.schema import key


@dataclass
class RLOOConfig(PolicyGradientConfig):
    """REINFORCE with a leave-one-out baseline."""

    name: str = key("registered name of the algorithm", "rloo")
    group_size: int = key("episodes of an update that share one start", 4, minimum=2)


def needs(config: RLOOConfig) -> OnPolicyNeeds:
    return OnPolicyNeeds.of(config, groups=True)
