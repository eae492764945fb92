"""Try what a checkpoint needs before the first rollout: what can't be saved is all lost later.

A policy is saved and loaded once, into a folder that is removed again, on the disk of the run. Up
to :data:`rlcore.workers.policy_worker.TRIED_WHOLE` bytes, all of it is written, loaded by the model
and compared bit for bit. A larger one takes minutes and fills the disk: the model writes settings,
statistics, tokenizer and the names and shapes of its weights
(:func:`rlcore.files.outline.without_data`), and its spec function reads these as a resume does. The
data itself is compared at the first checkpoint.
"""

from __future__ import annotations

from rlcore.checks.facts import with_policy
from rlcore.files.atomic import scratch_folder
from rlcore.plugins.registry import load_plugins
from rlcore.run_folder.checkpoint import POLICY
from rlcore.session.session import Session
from rlcore.workers.policy_worker import TRIED_WHOLE


def try_policy(session: Session) -> None:
    """Save and load the fresh policy, before demonstrations, evaluations and rollouts.

    Raises:
        CheckpointError: the disk refuses it, or what was saved does not load.
        PolicyError: the model can't save or load it, or loads another policy.
    """
    with (
        session.clock.measure("checkpoint"),
        session.progress.phase("try a checkpoint", quiet=True),
        scratch_folder(session.folder.checkpoints) as scratch,
    ):
        folder = scratch / POLICY
        folder.mkdir()
        session.group.save(folder, trial=True)
        model = session.config.actor.model.beginning_with(folder)
        with_policy(session.assembly.facts, model, load_plugins())


def try_learner(session: Session) -> None:
    """Save and load what the algorithm has learned so far, which is nothing: its optimizer,
    networks and replay. Not if it has a copy of a large policy.

    Raises:
        CheckpointError: the disk refuses it, or what was saved does not load.
    """
    if session.group.learner_bytes() > TRIED_WHOLE:
        return
    with session.clock.measure("checkpoint"), scratch_folder(session.folder.checkpoints) as scratch:
        session.group.save_learner(scratch)
        session.group.try_learner(scratch)
