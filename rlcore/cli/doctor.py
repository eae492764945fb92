"""`rlcore doctor [EXPERIMENT] [overrides]`: what this machine lacks, and how to fix it.

Without a choice all plugins are asked; with one, those of its components.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from rlcore import extras
from rlcore.checks.ready import lacking_packages, look, of_row
from rlcore.cli.request import Request, parse_request, print_help
from rlcore.cli.verbs import composed
from rlcore.config.catalog import COMPONENT_GROUPS
from rlcore.config.compose import chosen, compose
from rlcore.config.schema import RunConfig
from rlcore.installed import installed
from rlcore.kernels import MKL, by_hand, in_effect, processor
from rlcore.moved import outdated_imports
from rlcore.plugins import Registry, load_plugins
from rlcore.text import some

BATCHES = (4, 8, 16, 64)  # of which rows are compared


def main(arguments: Sequence[str]) -> int:
    """Print the findings; exit code 1 if something is missing or a plugin is BAD."""
    request = parse_request("doctor", arguments)
    if request.help:
        print_help("doctor", request)
        return 0
    registry = load_plugins()
    if request.overrides:
        config, wrong = composed(_compose, request, request.overrides)
        whole = all(chosen(config, group) for group in COMPONENT_GROUPS)
        words = request.overrides
        _, found = look(config, registry, wrong=wrong, words=words, only_look=True, whole=whole)
    else:
        rows = [*registry.doctor(None), *(row for _, row in lacking_packages(registry))]
        found = [*map(of_row, [*rows, *_kinds(registry)])]
    found = [*found, *map(of_row, _outdated())]
    bad = [row for row in registry.rows() if row.status == "BAD"]
    for row in bad:
        print(f"BAD      {row.kind} {row.name} ({row.distribution} {row.version}): {row.reason}")
    print(*found, of_row(_kernels()), sep="\n")
    return 1 if bad or any(one.error for one in found) else 0


def _compose(request: Request, overrides: Sequence[str]) -> RunConfig:
    return compose(overrides, config_dirs=request.config_dirs, require=())


def _kinds(registry: Registry) -> list[dict[str, str]]:
    """What no run can do without, and nothing that is installed brings."""
    missing = [kind for kind in COMPONENT_GROUPS.values() if not registry.names(kind)]
    if not missing:
        return []
    found = {row.distribution for row in registry.rows()}
    named = ", ".join(extras.not_installed(found))
    absent = registry.absent()
    detail = f"no {' and no '.join(missing)} is loaded" + (
        f" ({'; '.join(absent)})" if absent else ""
    )
    fix = f'pip install "rlcore[NAME,...]", where NAME is one of: {named}'
    return [{"name": "plugins", "status": "missing", "detail": detail, "fix": fix}]


def _outdated() -> list[dict[str, str]]:
    """Plugins of others that import what core has under another name now."""
    rows = []
    for plugin in installed(os.environ):
        if plugin.left_out_by or extras.is_ours(plugin.distribution):
            continue
        if places := outdated_imports(plugin.point.value.partition(":")[0]):
            fix = (
                f"pip install --upgrade {plugin.distribution}; its author finds all in docs/api.md"
            )
            row = {"name": plugin.name, "status": "missing", "detail": some(places, 3), "fix": fix}
            rows.append(row)
    return rows


def _kernels() -> dict[str, str]:
    """Whether this machine can keep what `rollout.forward_batch` promises. Where it can't, nothing
    is missing that a run needs."""
    from rlcore.rollout.rounding import kernels_alone

    mkl = in_effect().get(MKL)
    using = (
        f"no {MKL}"
        if mkl is None
        else f"{MKL}={mkl}{' (set by hand)' if by_hand() is not None else ''}"
    )
    moved = {rows: names for rows in BATCHES if (names := kernels_alone(rows)[0])}
    if not moved:
        batches = ", ".join(map(str, BATCHES))
        held = f"a row has the same bits at every place in batches of {batches}"
        return {"name": "kernels", "status": "ok", "detail": f"{using}; {held}", "fix": ""}
    rows, names = next(iter(moved.items()))
    detail = (
        f"{using}; a row's bits depend on its place in a batch ({names[0]}, {rows} rows), so runs "
        "repeat up to rounding only, whatever rollout.forward_batch is"
    )
    fix = (
        f"unset {MKL}"
        if by_hand() is not None and processor().setting
        else f"export {MKL}=COMPATIBLE"
    )
    return {"name": "kernels", "status": "warning", "detail": detail, "fix": fix}
