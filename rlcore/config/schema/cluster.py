"""Keys of `cluster`: where the workers run, and how long each answer is waited for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlcore.config.schema.keys import Settings, TrustedKey, When, key


@dataclass
class TimeoutsConfig(Settings):
    """Seconds after which a wait ends with an error that names what was waited for."""

    nodes: float = key(
        "for cluster.num_nodes nodes to join",
        60.0,
        exclusive_minimum=0,
        when=When("cluster.address", unless=(None, "local")),
    )
    start: float = key("until all workers have started", 180.0, exclusive_minimum=0)
    env: float = key(
        "for one chunk of simulation, or a reset, in which a simulator that hangs is found and "
        "started anew: more than env.*.simulator_timeout; on the local backend, to close them too",
        300.0,
        exclusive_minimum=0,
    )
    policy: float = key("for one decision of the policy", 300.0, exclusive_minimum=0)
    update: float = key(
        "for one policy update, or part of supervised training", 7200.0, exclusive_minimum=0
    )
    sync: float = key(
        "for one bucket of weights, or one piece of a trajectory", 120.0, exclusive_minimum=0
    )
    stop: float = key(
        "for a worker to stop by itself before it is killed; for the whole run after a second "
        "Ctrl-C or SIGTERM",
        10.0,
        exclusive_minimum=0,
    )
    ray: float = key(
        "for Ray itself to answer: its processes, and the queues between workers",
        60.0,
        exclusive_minimum=0,
        when=When("cluster.backend", ("ray",)),
    )
    hook: float = key("for a hook of a plugin during a run", 3600.0, exclusive_minimum=0)
    tracker: float = key(
        "for a tracker to start, to take metrics, and to close", 60.0, exclusive_minimum=0
    )


@dataclass
class ClusterConfig(Settings):
    """Where the workers run."""

    backend: str = key(
        "ray: a process per worker; local: all in this process (pdb works); rlcore plugins lists "
        "others",
        "ray",
    )
    num_nodes: int = key(
        "number of nodes that must join the cluster",
        1,
        minimum=1,
        when=When("backend", unless=("local",)),
    )
    inventory: str | None = key(
        "plan for these machines instead of existing ones: 8x80GB, 2x8x80GB, 16cpu or a YAML file "
        "of nodes; --dry-run, rlcore cluster and rlcore plan only",
    )
    address: str | None = key(
        "address of a running Ray cluster, or auto; null starts a new one on this machine",
        trusted=TrustedKey("joins the Ray cluster at", (None, "auto", "local")),
        when=When("backend", unless=("local",)),
    )
    network_interface: str | None = key(
        "network interface between actor ranks on several nodes, e.g. eth0; null: on each node the "
        "one with its address in the cluster",
        when=When("address", unless=(None, "local")),
    )
    component_placement: Any = key(
        "names: ranks, e.g. {'env,rollout,actor': all} or {env: 0-3, rollout: 4-7, actor: 0-7}",
        {"env,rollout,actor": "all"},
    )
    node_groups: list[Any] = key(
        "named nodes for placements, e.g. [{label: big, node_ranks: 0-1}]: an entry "
        "{node_group: big, placement: 0-7} counts ranks within that group; node_labels instead of "
        "node_ranks selects nodes by label, ignore_hardware counts cores as ranks, env_vars are "
        "set in the processes",
        [],
    )
    timeouts: TimeoutsConfig = key("named timeouts in seconds", TimeoutsConfig())
    simulator_restarts: int = key(
        "how often in a row crashed or hanging simulators are restarted, with their episodes "
        "played again from the start, before the run ends",
        3,
        minimum=0,
    )
    torch_threads: int | None = key(
        "torch threads of a policy worker; null: all its CPU cores", minimum=1, magnitude_limit=1024
    )
