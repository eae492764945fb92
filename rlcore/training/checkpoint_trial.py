"""Save and load a trial checkpoint before the first rollout, so that a run fails early.

Otherwise a policy that can't be saved would be noticed only at the first checkpoint, after hours of
training. The policy is saved and loaded once, in a temporary folder on the disk of the run, and
compared bit for bit. Then the model's spec function reads the files as a resume does.
"""

from __future__ import annotations

from rlcore.checks.facts import with_policy
from rlcore.files.atomic import scratch_folder
from rlcore.plugins.registry import load_plugins
from rlcore.runs.checkpoint import POLICY
from rlcore.training.session import Session


def try_policy(session: Session) -> None:
    """Save and load the fresh policy, before demonstrations, evaluations and rollouts.

    Raises:
        CheckpointError: the files can't be written, or the saved files can't be read.
        PolicyError: the model can't save or load the policy, or the loaded policy differs.
    """
    with (
        session.clock.measure("checkpoint"),
        session.progress.phase("try a checkpoint", quiet=True),
        scratch_folder(session.folder.checkpoints) as scratch,
    ):
        folder = scratch / POLICY
        folder.mkdir()
        session.group.save(folder, trial=True)
        model = session.config.actor.model.with_weights_from(folder)
        with_policy(session.assembly.facts, model, load_plugins())


def try_learner(session: Session) -> None:
    """Save and load the initial learner state: optimizer, networks and replay.

    Raises:
        CheckpointError: the files can't be written, or the saved files can't be read.
    """
    with session.clock.measure("checkpoint"), scratch_folder(session.folder.checkpoints) as scratch:
        session.group.save_learner(scratch)
        session.group.try_learner(scratch)
