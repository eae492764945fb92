"""Restart a run after a failure, on the nodes that are still there.

On a joined cluster, nodes may have left, or the head may be restarting. After running out of
memory, micro-batches get smaller.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

from rlcore.config.schema import ClusterConfig, RunConfig
from rlcore.contracts.errors import PlacementError, UserError, WorkerError, warn
from rlcore.placement import find_inventory, joins
from rlcore.session.assembly import Assembly, assemble
from rlcore.workers.backend import backend_of

POLL_SECONDS = 0.5


def on_remaining_nodes(assembly: Assembly) -> Assembly:
    """The same run placed again: over as many nodes as it was made for if they are there within
    `cluster.timeouts.nodes`, else over those that are.

    Args:
        assembly: the run as it was laid out first, however often nodes have left since.

    Raises:
        UserError: nobody answers, or it can't be laid out over what is left; says what was waited
            for.
    """
    config, cluster = assembly.config, assembly.config.cluster
    if not joins(cluster):
        return assembly
    _await_head(assembly.placement.inventory.head or cluster.address or "", cluster)
    try:
        return _laid_out(assembly, config)
    except PlacementError as error:
        missing = error
    left = len(find_inventory(replace(cluster, num_nodes=1)).nodes)
    if left == cluster.num_nodes:  # they have joined meanwhile, or the error was another one
        return _laid_out(assembly, config)
    try:
        found = _laid_out(assembly, replace(config, cluster=replace(cluster, num_nodes=left)))
    except UserError as error:
        raise PlacementError(
            f"{missing.message}; the run can't go on over {left}: {error.message}",
            hint=missing.hint,
        ) from None
    warn(f"{missing.message}; the run goes on over {left}")
    return found


def with_smaller_micro_batches(assembly: Assembly, ranks: int) -> Assembly:
    """The same run with micro-batches of half the size, or the next one below that into which the
    global batch can be dealt out. All workers are started anew with it: of ranks that make their
    forwards together none could change its own. Over a cluster that was joined it is laid out when
    it is known what is left of that (:func:`on_remaining_nodes`).

    Args:
        ranks: number of actor processes when memory ran out.
    """
    config, actor = assembly.config, assembly.config.actor
    tried = min(actor.micro_batch_size, actor.share_of_each(ranks))
    size = actor.micro_batch_within(tried // 2, ranks) or 1
    warn(f"memory ran out; the run goes on with actor.micro_batch_size={size}")
    smaller = replace(config, actor=replace(actor, micro_batch_size=size))
    if joins(config.cluster):
        return replace(assembly, config=smaller)
    return _laid_out(assembly, smaller)


def _laid_out(assembly: Assembly, config: RunConfig) -> Assembly:
    return assemble(config, further=assembly.further)


def _await_head(address: str, cluster: ClusterConfig) -> None:
    """Wait until somebody answers there, `cluster.timeouts.nodes` seconds at most. It is the
    address at which the cluster was found: `cluster.address=auto` finds none while it is down.

    Raises:
        WorkerError: nobody does.
    """
    backend, patience = backend_of(cluster), cluster.timeouts.nodes
    deadline, warned = time.monotonic() + patience, False
    while True:
        try:
            return backend.require_answer(address, cluster.timeouts.ray)
        except WorkerError as error:
            if not warned:
                words = f"{error.message}; waiting up to {patience:g} s (cluster.timeouts.nodes)"
                print(words, file=sys.stderr)
                warned = True
            if time.monotonic() >= deadline:
                raise
        time.sleep(POLL_SECONDS)
