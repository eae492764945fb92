"""`rlcore sweep VERB ...`, which `rlcore VERB ... -m` is short for, and `rlcore resume SWEEP`.

words --> the configuration of Hydra --> its sweeper --batches of words--> its launcher --> jobs

A sweeper says which jobs there are, a launcher where they run: ours, Hydra's, or those of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hydra import version
from hydra.core.utils import JobRuntime, setup_globals
from hydra.types import RunMode
from omegaconf import OmegaConf

from rlcore.cli.main import main as rlcore
from rlcore.config.catalog import named_recipe
from rlcore.config.compose import yaml_below
from rlcore.contracts.errors import ConfigError
from rlcore.utils.stdio import tolerate_broken_output
from rlcore.utils.text import shorten
from rlcore_sweeps import table
from rlcore_sweeps.job_record import JobRecord
from rlcore_sweeps.loader import SweepLoader
from rlcore_sweeps.recipe import with_recipe
from rlcore_sweeps.request import (
    CFG,
    CONFIG_NAME,
    DIR,
    FILE,
    MULTIRUN,
    PACKAGE,
    SweepRequest,
    key_of,
    to_hydra,
)
from rlcore_sweeps.run import run_in_folder
from rlcore_sweeps.safe_overrides import is_safe

SHOWN = 200  # characters of an argument that an error message shows
HARMLESS_FLAGS = (*CONFIG_NAME, "-v", "--verbose", "--verify", "--trust", "--format")
"""Flags that a sweep's folder may contain. A resume passes `--trust` on only if it is given again.
"""
VERBS = ("train", "eval", "sft", "collect")
EXAMPLE = "rlcore sweep train quickstart runner.seed=0,1,2"


def main(arguments: Sequence[str]) -> int:
    """Run or resume a sweep, or print its configuration (`--cfg`); return the exit code.

    Args:
        arguments: a verb and its arguments, or "resume" and the sweep's folder.
    """
    if not arguments or arguments[0] in ("-h", "--help"):
        print(f"{EXAMPLE}\nrlcore train ... -m is short for it; --help of the verb has its keys")
        return 0
    version.setbase("1.3")
    with tolerate_broken_output():
        if arguments[0] == "resume":
            return _resume(arguments[1:])
        request = with_recipe(SweepRequest.parse(arguments))
        if (cfg_values := request.values(*CFG)) and cfg_values[-1] != "job":
            multirun = not {*MULTIRUN}.isdisjoint(arguments)
            return _show(request, whole=cfg_values[-1] == "all", multirun=multirun)
        return _run_and_report(request)


def run_sweep(
    verb: str, words: Sequence[str], *, config_dirs: Sequence[str | Path] = ()
) -> list[Path]:
    """Run a sweep as the command does; return the folders of the runs that succeeded.

    Args:
        verb: the command that each job runs, e.g. "train".
        words: arguments of the sweep.
        config_dirs: the user's folders of config groups.

    Raises:
        UserError: see :func:`rlcore.api.sweep`.
    """
    version.setbase("1.3")
    folders = [f"--config-dir={folder}" for folder in config_dirs]
    place, _ = run_in_folder(with_recipe(SweepRequest.parse([verb, *folders, *words])))
    table.print_table(place)
    return [
        Path(record.folder)
        for record in JobRecord.load_all(place)
        if record.state == "done" and record.folder
    ]


def _show(request: SweepRequest, *, whole: bool, multirun: bool) -> int:
    """Print the configuration that Hydra's plugins see (`--cfg hydra`); return the exit code.

    Args:
        whole: also print the configurations of the jobs (`--cfg all`).
        multirun: print the configuration of a sweep in place of that of a single run.
    """
    setup_globals()
    JobRuntime.instance().set("name", request.verb)
    mode = RunMode.MULTIRUN if multirun else RunMode.RUN
    first = ["hydra.job.num=0", "hydra.job.id='0'", *request.hydra]
    loader = SweepLoader(request.config_dirs, typed=request.typed.union(first[:2]))
    config = loader.load_configuration(None, [*first, *to_hydra(request.words)], mode)
    text = OmegaConf.to_yaml(config, resolve="--resolve" in request.flags)
    (package,) = request.values(*PACKAGE)[-1:] or (None,)
    if not whole or (package or "").startswith("hydra"):
        print(yaml_below(text, package), end="")
        return 0
    print(text if package is None else "", end="")
    flags = tuple(
        "job" if flag == "all" else flag.replace("=all", "=job") for flag in request.flags
    )
    request = replace(request, flags=flags)
    return _run_and_report(request) if multirun else rlcore([request.verb, *flags, *request.words])


def _resume(arguments: Sequence[str]) -> int:
    """Resume the jobs of a sweep that are not done; return the exit code.

    Raises:
        UserError: no sweep is named, an argument would change its jobs, or its folder would load
            code and `--trust` is not given.
    """
    trust, words = "--trust" in arguments, [word for word in arguments if word != "--trust"]
    for word in words:
        if word in MULTIRUN:
            raise ConfigError("rlcore resume accepts one run or one sweep at a time")
    changes = SweepRequest.parse(["resume", *words])
    if len(changes.flags) != 1 or changes.words:
        rejected = [*changes.words, *changes.flags[1:]]
        raise ConfigError(
            "a sweep is resumed with its own arguments: "
            f"{' '.join(rejected) or 'its folder is missing'}",
            hint="rlcore resume SWEEP [sweep.parallel=N] [--trust]",
        )
    folder = Path(changes.flags[0]).expanduser().absolute()
    request = SweepRequest.load(folder)
    if not trust:
        _require_plain(request, folder)
    flags = tuple(flag for flag in request.flags if flag != "--trust")
    flags = (*flags, "--trust") if trust and "--trust" in request.flags else flags
    replaced = {key_of(word) for word in changes.hydra} | {DIR}
    hydra = [word for word in request.hydra if key_of(word) not in replaced]
    typed = frozenset(changes.hydra).union(hydra if trust else ())
    return _run_and_report(
        replace(request, flags=flags, hydra=(*hydra, *changes.hydra), typed=typed),
        folder,
        untrusted=not trust,
    )


def _require_plain(request: SweepRequest, folder: Path) -> None:
    """Reject a sweep's folder that decides which code is loaded.

    The overrides of the jobs are checked job by job (:meth:`rlcore_sweeps.task.JobTask.command`).

    Raises:
        ConfigError: an override of Hydra's keys, an interpolation, a flag or a verb could run code.
    """
    rejected = [word for word in request.hydra if not is_safe(word)]
    rejected += [word for word in request.words if "${" in word]
    rejected += [flag for flag in request.flags if not _is_harmless(flag)]
    rejected += [] if request.verb in VERBS else [request.verb]
    if rejected:
        raise ConfigError(
            f"{folder / FILE} holds {shorten(rejected[0], SHOWN)}, which can run any code",
            hint="--trust, if you trust the author of the folder",
        )


def _is_harmless(flag: str) -> bool:
    """Return whether a flag or a flag's value cannot make rlcore read a folder of configurations.

    A flag must be in :data:`HARMLESS_FLAGS`; a value must not name a recipe by its file.
    """
    name, _, value = flag.partition("=") if flag.startswith("-") else ("", "", flag)
    return (not name or name in HARMLESS_FLAGS) and (not value or not named_recipe(value)[1])


def _run_and_report(
    request: SweepRequest, folder: Path | None = None, *, untrusted: bool = False
) -> int:
    """Run a sweep in `folder`, or in a new one, and print its table; return the exit code."""
    place, failed = run_in_folder(request, folder, untrusted=untrusted)
    return max(int(failed), 0 if request.is_preview else table.print_table(place))
