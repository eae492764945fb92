"""Save the state of supervised training in the run folder, and find the latest saved state.

    sft_steps/step_00001000/
      policy/                 the policy, as `save_pretrained` wrote it
      learner.safetensors     the optimizer's state
      learner.json            its counters, and the history of the training

Each state is sealed, and either complete or absent. All are removed when supervised training ends.
"""

from __future__ import annotations

from pathlib import Path

from rlcore.files.atomic import new_folder, remove_folder
from rlcore.files.damaged_files import damaged_on, read_mapping
from rlcore.files.digests import check_seal, seal
from rlcore.runs.checkpoint import writing
from rlcore.runs.folder import SUPERVISED_POLICY, RunFolder
from rlcore.runs.learner_state import COUNTERS, check_learner
from rlcore.training.session import Session
from rlcore.training.supervised_steps import write_steps

STEP = "step_"


def latest_state(folder: RunFolder, first: int | None = None) -> Path | None:
    """Return the folder of the latest saved state of supervised training, or None without one.

    Args:
        folder: the run folder.
        first: number of the training's first step; a state of another round
            (:mod:`rlcore.training.plateau`), which a kill may leave, is ignored. None: any state.

    Raises:
        CheckpointError: the state is damaged.
    """
    path = max(_states(folder), key=_step, default=None)
    if path is None or first is None:
        return path
    counters = read_mapping(path / COUNTERS)
    with damaged_on(path / COUNTERS):
        return path if counters["state"]["first"] == first else None


def check_state(path: Path, seed: int, *, verify: bool = False) -> None:
    """Check that the files of a state are complete, undamaged and of this run.

    Args:
        seed: seed of the run.
        verify: see :func:`rlcore.files.digests.check_digests`.

    Raises:
        CheckpointError: a file is damaged, or of a run with another seed.
    """
    check_seal(path, seed, verify=verify)
    check_learner(path)


def save_state(session: Session, steps: int, total: int) -> None:
    """Save the state of supervised training, and remove earlier states.

    Args:
        session: the run's session.
        steps: supervised steps of this run so far.
        total: supervised steps, of all runs, that led to the policy.

    Raises:
        CheckpointError: the state can't be written.
    """
    target = session.folder.sft_steps / f"{STEP}{steps:08d}"
    with session.clock.measure("checkpoint"), writing(target):
        with new_folder(target) as partial:
            session.group.save_supervised(partial)
            write_steps(partial / SUPERVISED_POLICY, total)
            seal(partial, session.config.runner.seed)
        for path in _states(session.folder):
            if path != target:
                remove_folder(path)


def saved_progress(folder: RunFolder) -> tuple[bool, int]:
    """Return whether supervised training is complete, and the steps up to its latest round or
    saved state, which grow from attempt to attempt."""
    rounds = [int(path.name) for path in folder.sft_rounds.glob("*") if path.name.isdecimal()]
    return folder.sft.is_dir(), max([*rounds, *map(_step, _states(folder))], default=0)


def _states(folder: RunFolder) -> list[Path]:
    """Return the folders of all states. A user may have put copies with other names there."""
    folders = folder.sft_steps.glob(f"{STEP}*")
    return [path for path in folders if path.name.removeprefix(STEP).isdecimal()]


def _step(path: Path) -> int:
    return int(path.name.removeprefix(STEP))
