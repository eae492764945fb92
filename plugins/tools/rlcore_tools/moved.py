"""Find plugins that import public names of rlcore by an old name, and give the new one. Light.

docs/api.md has the same table. Plugins are not imported, only their source files are read.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from rlcore.plugins import extras
from rlcore.plugins.entry_points import Installed, installed
from rlcore.terminal.text import abbreviate_list
from rlcore_tools.doctor import Row, row

MOVED = {
    "rlcore.activations": "rlcore_weights.activations",
    "rlcore.algo.advantage": "rlcore_policy_gradient.advantage",
    "rlcore.algo.advantage:Advantages": "rlcore_policy_gradient.minibatch:Advantages",
    "rlcore.algo.group": "rlcore_policy_gradient.group_relative",
    "rlcore.algo.loss": "rlcore_policy_gradient.loss",
    "rlcore.algo.metric": "rlcore.contracts.metric",
    "rlcore.algo.minibatch": "rlcore_policy_gradient.minibatch",
    "rlcore.algo.reduce": "rlcore_policy_gradient.reduce",
    "rlcore.algo.surrogate": "rlcore_policy_gradient.surrogate",
    "rlcore.api:KeptEvaluation": "rlcore.api:Evaluation",
    "rlcore.cluster.inventory": "rlcore.placement",
    "rlcore.config.imports": "rlcore_tools.import_rules",
    "rlcore.config.imports:drop_old_keys": "",
    "rlcore.config.imports:rules_of": "rlcore_tools.rlinf.translate:rules_of",
    "rlcore.config.tree": "rlcore.config.schema_tree",
    "rlcore.console": "rlcore.terminal.console",
    "rlcore.contracts.minibatch": "rlcore_policy_gradient.minibatch",
    "rlcore.contracts.protocols:OnPolicy": "rlcore_policy_gradient.on_policy:OnPolicy",
    "rlcore.data.chunks": "rlcore_weights.chunks",
    "rlcore.demonstrations.chunks": "rlcore_weights.chunks",
    "rlcore.demonstrations.demonstrations": "rlcore_demonstrations.dataset",
    "rlcore.demonstrations.layout": "rlcore_demonstrations.layout",
    "rlcore.env_answers": "rlcore.validation.env",
    "rlcore.episodes": "rlcore.contracts.episodes",
    "rlcore.errors": "rlcore.contracts.errors",
    "rlcore.hookspecs": "rlcore.contracts.hookspecs",
    "rlcore.hub": "rlcore.files.hub",
    "rlcore.interpreters": "rlcore_simulation.interpreters",
    "rlcore.libraries": "rlcore.plugins.system_libraries",
    "rlcore.loop.assembly:Assembly": "rlcore.api:Assembly",
    "rlcore.noted": "rlcore_simulation.known_interpreters",
    "rlcore.plugins:Registry": "rlcore.plugins.registry:Registry",
    "rlcore.plugins:load_plugins": "rlcore.plugins.registry:load_plugins",
    "rlcore.protocols": "rlcore.contracts.protocols",
    "rlcore.reading": "rlcore.files.reading",
    "rlcore.requirements": "rlcore_simulation.requirements",
    "rlcore.results.tables:headline": "rlcore_tools.protocol.table:headline",
    "rlcore.results.tables:protocol_rows": "rlcore_tools.protocol.table:protocol_rows",
    "rlcore.rng": "rlcore.contracts.rng",
    "rlcore.rollout.rng": "rlcore.contracts.rng",
    "rlcore.rollout.trajectory": "rlcore.contracts.trajectory",
    "rlcore.run": "rlcore.contracts.run",
    "rlcore.simulation": "rlcore_simulation",
    "rlcore.specs": "rlcore.contracts.specs",
    "rlcore.targets": "rlcore.plugins.import_target",
    "rlcore.testing": "rlcore_testing",
    "rlcore.text": "rlcore.terminal.text",
    "rlcore.track.damage": "rlcore.files.damaged_files",
    "rlcore.track.env_facts": "rlcore.run_folder.env_facts",
    "rlcore.track.files": "rlcore.files.atomic",
    "rlcore.track.folder": "rlcore.run_folder.folder",
    "rlcore.track.headers": "rlcore_weights.headers",
    "rlcore.track.links": "rlcore.files.symlinks",
    "rlcore.track.pickled": "rlcore_weights.torch_files",
    "rlcore.track.stored": "rlcore_weights.layouts",
    "rlcore.track.weights": "rlcore_weights.tensors",
    "rlcore.trajectory": "rlcore.contracts.trajectory",
}
"""`{old: new}` for every rename since the first API. An entry is a module, which stands for all its
names, or a single name ("module:name"). "" as new name means that it was removed."""


def rows() -> list[Row]:
    """Return a row of `rlcore doctor` for each third-party plugin that imports an old name."""
    found = []
    for plugin, places in outdated():
        newer = f"pip install --upgrade {plugin.distribution}"
        fix = f"{newer}; for its author: rlcore check {plugin.name}"
        found.append(row(plugin.name, abbreviate_list(places, 3), "missing", fix))
    return found


def outdated() -> Iterator[tuple[Installed, list[str]]]:
    """Yield the third-party plugins that import old names, with these imports; none if blocked."""
    for plugin in installed(os.environ):
        ours = plugin.left_out_by or extras.is_ours(plugin.distribution)
        places = [] if ours else outdated_imports(plugin.value.partition(":")[0])
        if places:
            yield plugin, places


def outdated_imports(module: str) -> list[str]:
    """List the imports of old names in the top-level package or module that `module` belongs to.

    Each is text such as `models/net.py:3 imports rlcore.old, which is rlcore.new now`. The files
    are parsed; nothing is imported.
    """
    name = module.partition(".")[0]
    top = find_spec(name) if name.isidentifier() else None
    if top is None or top.origin is None:  # a namespace package may hold unrelated distributions
        return []
    file = Path(top.origin)
    suspect = _suspect()
    files = sorted(file.parent.rglob("*.py")) if top.submodule_search_locations else [file]
    return [
        f"{each.relative_to(file.parent)}:{line} imports {_now(old)}"
        for each in files
        for line, old in _outdated(each, suspect)
    ]


def _suspect() -> re.Pattern[bytes]:
    """Return a pattern of lines that import an old name, or from a module that had one."""
    places = {part for old in MOVED for part in (old, re.split(r"[.:](?=\w+$)", old)[0])}
    named = "|".join(map(re.escape, sorted(places)))
    line = rf"^\s*(?:from|import)\b.*(?<![\w.])(?:{named})(?!\w)"
    return re.compile(line.encode(), re.MULTILINE)


def _now(old: str) -> str:
    return f"{old}, which is {MOVED[old]} now" if MOVED[old] else f"{old}, which is gone"


def _outdated(file: Path, suspect: re.Pattern[bytes]) -> Iterator[tuple[int, str]]:
    """Yield (line, old name) of each old import in a file; none if it can't be read or parsed."""
    try:
        text = file.read_bytes()
        if not suspect.search(text):  # parsing takes about a hundred times as long as the search
            return
        tree = ast.parse(text)
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((node.lineno, name) for name in _names(node) if name in MOVED)


def _names(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """Yield the names that an import statement may refer to, as :data:`MOVED` writes them.

    `from a import b` yields `a.b` and `a:b`, because b may be a module or a name in a module.
    """
    if isinstance(node, ast.Import):
        for each in node.names:
            yield from _above(each.name)
    elif node.module and not node.level:
        yield from _above(node.module)
        for each in node.names:
            yield from (f"{node.module}.{each.name}", f"{node.module}:{each.name}")


def _above(module: str) -> Iterator[str]:
    """Return a module's name and those of the packages that contain it, outermost first."""
    parts = module.split(".")
    return (".".join(parts[: end + 1]) for end in range(len(parts)))
