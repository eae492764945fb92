"""Weights of a policy that no object store holds, over every way, between real processes.

It takes minutes: `pytest -m long -n0 tests/e2e/test_weight_sync.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from internals import assemble, compose, make_group
from rlcore_testing.toy_settings import WEIGHTS
from safetensors.torch import load_file, save_file
from simulated_nodes import STORE, nodes

from rlcore.checks.facts import gather_facts
from rlcore.placement.routes import plan_weight_routes
from rlcore.plugins.registry import load_plugins

HIDDEN = 9000  # a layer of 9000 x 9000 numbers: 324 MB, four times the store


@pytest.mark.long
def test_a_policy_of_four_stores_goes_every_way(tmp_path: Path):
    """Each way in turn brings new weights to the rollout, which the actor was given as a file."""
    with nodes({}) as cluster:
        config = compose(
            ["env=toy", "model=toy", "algorithm=ppo", f"actor.model.hidden={HIDDEN}",
             "cluster.component_placement={env: 0, rollout: 0, actor: 1}",
             f"cluster.address={cluster.address}", "cluster.torch_threads=1",
             f"runner.logger.log_path={tmp_path}"],
        )  # fmt: skip
        assembly = assemble(config)
        assert gather_facts(config, load_plugins()).policy.parameters * 4 > 4 * STORE
        allocations = [assembly.placement.allocations(name) for name in ("actor", "rollout")]
        with make_group(assembly.worker_specs) as group:
            group.start()
            assert group.weight_sync() == ["object_store"]
            for number, way in enumerate(("object_store", "broadcast")):
                group.routes = plan_weight_routes(*allocations, sync=way)
                folder = tmp_path / way
                group.save(folder)
                file = folder / WEIGHTS
                changed = {name: one + 1 for name, one in load_file(file).items()}
                save_file(changed, file)
                group._call_actors("load", path=str(folder))
                group.sync()
                assert group.version() == number + 1
                group._call("rollout", "save", [{"path": str(folder)}])
                acts = load_file(file)
                assert set(acts) == set(changed)
                assert all(acts[name].equal(changed[name]) for name in acts)
                file.unlink()
