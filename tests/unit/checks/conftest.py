"""Facts of toy runs on a machine of four GPUs, and the problems that checks find in them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from syrupy.assertion import SnapshotAssertion

from rlcore.checks import places
from rlcore.checks.facts import Facts, gather_facts
from rlcore.checks.run import CHECKS
from rlcore.config.compose import compose
from rlcore.config.ranges import range_violations
from rlcore.config.schema import RunConfig
from rlcore.placement import Inventory, Node, Plan, make_plan
from rlcore.plugins.registry import Registry

TOY = ["env=toy", "model=toy", "algorithm=plain"]
SHARED = "cluster.component_placement={env: 0-1, rollout: 2-3, actor: 2-3}"
FOUR_GPUS = Inventory.uniform(1, Node(cpus=16, gpus=4))


@pytest.fixture
def toy_run(registry: Registry) -> Callable[..., tuple[RunConfig, Plan]]:
    """`toy_run(*overrides)`: of the toy on 2 env and 2 actor workers of the machine."""

    def make(*overrides: str) -> tuple[RunConfig, Plan]:
        config = compose([*TOY, SHARED, *overrides], registry=registry)
        return config, make_plan(config.cluster, FOUR_GPUS, registry)

    return make


@pytest.fixture
def facts(
    toy_run: Callable[..., tuple[RunConfig, Plan]], registry: Registry
) -> Callable[..., Facts]:
    """`facts(*overrides)`: of such a run."""

    def make(*overrides: str) -> Facts:
        config, plan = toy_run(*overrides)
        return gather_facts(config, registry, plan)

    return make


@pytest.fixture
def problems() -> Callable[[Facts], list[str]]:
    """`problems(facts)`: all problems that the checks find."""

    def find(facts: Facts) -> list[str]:
        numbers = [*range_violations(facts.config), *places.folder_faults(facts.config)]
        return numbers + [problem for check in CHECKS for problem in check(facts)]

    return find


@pytest.fixture
def reported(
    problems: Callable[[Facts], list[str]], snapshot: SnapshotAssertion
) -> Callable[..., None]:
    """`reported(facts, *words)`: assert that one problem has all these words (key, value, choice).

    Its text is kept in the snapshot.
    """

    def look(facts: Facts, *words: object) -> None:
        found = problems(facts)
        named = [text for text in found if all(str(word) in text for word in words)]
        assert len(named) == 1, found
        assert named[0] == snapshot

    return look
