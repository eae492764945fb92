"""List what other distributions may import of core, and the version of that list. Light.

A module with names offers these alone, one without offers all that it defines. docs/api.md
explains each, docs/api-signatures.txt has every signature; a change of either is a change of
:data:`API_VERSION`. What is not listed here may change with any commit.
"""

from __future__ import annotations

API_VERSION = (0, 2)
"""What a plugin states as `RLCORE_API`."""

CONTRACTS: dict[str, tuple[str, ...]] = {
    "rlcore": ("__version__", "hookimpl", "observer"),
    "rlcore.hookspecs": (),
    "rlcore.specs": (),
    "rlcore.protocols": (),
    "rlcore.trajectory": (),
    "rlcore.episodes": (),
    "rlcore.run": (),
    "rlcore.rng": (),
    "rlcore.errors": (),
}
CONFIGURATION: dict[str, tuple[str, ...]] = {
    "rlcore.config.schema": (),
    "rlcore.config.imports": (),
    "rlcore.config.old_names": ("ConfigWarning", "warn"),
}
FORMULAS: dict[str, tuple[str, ...]] = {
    "rlcore.algo.advantage": (),
    "rlcore.algo.group": (),
    "rlcore.algo.loss": (),
    "rlcore.algo.metric": (),
    "rlcore.algo.minibatch": (),
    "rlcore.algo.reduce": (),
    "rlcore.algo.surrogate": (),
}
HELPERS: dict[str, tuple[str, ...]] = {
    "rlcore.activations": (),
    "rlcore.data.chunks": (),
    "rlcore.env_answers": ("checked_actions",),
    "rlcore.libraries": ("mend",),
    "rlcore.placement": ("Inventory", "Node", "Plan", "find_inventory", "joins", "make_plan"),
    "rlcore.placement.inventory": ("local_gpus",),
    "rlcore.reading": (
        "Unreadable", "read_bytes", "read_json", "read_text", "read_yaml", "reason_of",
    ),
    "rlcore.targets": (),
    "rlcore.text": (),
    "rlcore.track.damage": ("blaming", "damaged", "read_json", "read_mapping"),
    "rlcore.track.env_facts": ("EnvFacts", "read_env_facts", "width_of"),
    "rlcore.track.files": ("new_folder", "replacing", "write_text"),
    "rlcore.track.links": ("leads_out", "require_inside", "require_no_way_out"),
}  # fmt: skip
TOOLS: dict[str, tuple[str, ...]] = {
    "rlcore.api": (),
    "rlcore.cli.parser": ("Parser",),
    "rlcore.cli.request": ("TRUST", "Form", "Request", "parse_request", "print_help"),
    "rlcore.cli.verbs": ("Verb", "run_verb"),
    "rlcore.config.differences": (),
    "rlcore.config.tree": ("Key", "find", "join", "values_of", "walk"),
    "rlcore.console": ("Canvas", "as_text"),
    "rlcore.plugins": ("Registry", "load_plugins"),
    "rlcore.results.statistics": (),
    "rlcore.results.tables": (),
    "rlcore.track.folder": ("RunFolder", "runs_in"),
}
MODULES = CONTRACTS | CONFIGURATION | FORMULAS | HELPERS | TOOLS
