"""Find the virtual environment of an env's simulators if none is configured. Light to import.

If rlcore's own environment lacks a requirement, it is the newest one that `rlcore venv create ENV`
made (:mod:`rlcore_simulation.known_interpreters` lists them). Folders that are not on that list are
never used, because anyone who can write to such a folder could execute code.
"""

from __future__ import annotations

from pathlib import Path

from rlcore.config.old_names import warn
from rlcore.contracts.specs import ComponentSpec
from rlcore_simulation.interpreters import executable_of, venv_of
from rlcore_simulation.known_interpreters import noted
from rlcore_simulation.requirements import lacking, own_interpreter
from rlcore_simulation.venvs import STAMP, lacks, making, stamp, usual


def environment_for(spec: ComponentSpec) -> str | None:
    """Return the folder of the newest complete environment that was made for an env.

    The function warns if there are several, or if it skips an incomplete one. It returns None if
    rlcore's own environment has all that the env's simulators need, or if there is no other one.
    """
    if not any(lacking(own_interpreter(spec), spec)):
        return None
    made = _made_for(spec)
    while made:
        folder = made.pop(0)
        complete = "requirements" in stamp(folder)
        wrong = lacks(folder, spec) if complete else ["it was never completed"]
        if not wrong:
            if made:
                warn(
                    f"{spec.name} is simulated in {folder}, the newest environment that was made "
                    f"for it (others: {', '.join(map(str, made))}); 'env.*.python=FOLDER' names one"
                )
            return str(folder)
        warn(f"{folder} is passed over: {'; '.join(wrong)} ({making(spec, folder)} mends it)")
    return None


def _made_for(spec: ComponentSpec) -> list[Path]:
    """Return the folders of environments whose stamp names this env, the newest first."""
    known = {venv_of(executable_of(path)) for path in noted()} | {usual(spec.name)}
    mine = [folder for folder in known if folder and stamp(folder).get("env") == spec.name]
    return sorted(mine, key=lambda folder: (folder / STAMP).stat().st_mtime, reverse=True)
