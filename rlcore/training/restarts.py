"""Run the stages of a verb, and again from the last checkpoint after a worker failed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TypeVar

from rlcore.contracts.errors import MicroBatchError, WorkerError
from rlcore.training import resume
from rlcore.training.after_node_loss import on_remaining_nodes, with_smaller_micro_batches
from rlcore.training.assembly import Assembly
from rlcore.training.session import Session, open_session

Result = TypeVar("Result")


def run_stages(
    assembly: Assembly, stages: Callable[[Session, resume.Saved | None], Result]
) -> Result:
    """Open a session, run the stages in it, and return their result.

    With `runner.auto_resume`, an unfinished run in the folder of the run is resumed, and so is this
    one after a worker failed or ran out of memory.

    Args:
        assembly: the checked configuration, from :func:`rlcore.training.assembly.assemble`.
        stages: takes the session and the run to resume, None for a new run; it rewinds the folder
            of that run.

    Raises:
        UserError: see :func:`rlcore.training.session.open_session`; or a worker failed.
        KeyboardInterrupt: the run was asked to stop.
    """
    runner = assembly.config.runner
    requested = assembly
    with contextlib.ExitStack() as holds:
        saved = None
        if runner.resume_dir is not None or runner.auto_resume:
            saved = resume.find(assembly, holds)
        while True:
            folder, at = (None, None) if saved is None else (saved.folder, saved.name)
            with open_session(assembly, folder=folder, at=at, holds=holds) as session:
                try:
                    return stages(session, saved)
                except (WorkerError, MicroBatchError) as error:
                    saved = resume.after_failure(session, error, saved)
                    out_of_memory = isinstance(error, MicroBatchError)
            if out_of_memory:
                requested = with_smaller_micro_batches(
                    requested, assembly.placement.world_size("actor")
                )
            assembly = on_remaining_nodes(requested)
