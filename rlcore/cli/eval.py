"""`rlcore eval [RUN | EXPERIMENT] [overrides]`.

With the folder of a run (or of one of its checkpoints) the run's own configuration is taken, and
its latest checkpoint (or that one) is evaluated under the same protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rlcore.cli.main import VERBS
from rlcore.cli.request import EXPERIMENT, Request
from rlcore.cli.verbs import Verb, run_verb
from rlcore.config.compose import load
from rlcore.config.schema import RunConfig
from rlcore.errors import CheckpointError

EVAL = Verb("eval", VERBS["eval"], "rlcore.loop.evaluate:run", require=("env", "model"))


def main(arguments: Sequence[str]) -> int:
    """Evaluate; see :func:`rlcore.cli.verbs.run_verb`."""
    return run_verb(EVAL, arguments, configure)


def configure(request: Request, overrides: Sequence[str]) -> RunConfig:
    """The configuration of a run's folder where one is named first, else a composed one.

    Raises:
        UserError: the folder holds no run, or no checkpoint.
    """
    first = overrides[0].removeprefix(EXPERIMENT) if overrides else ""
    if overrides and overrides[0].startswith(EXPERIMENT):
        if Path(first).is_dir():
            return of_run(Path(first), overrides[1:])
        if "/" in first:  # no name of an experiment has one
            raise CheckpointError(f"there is no run at {first!r}: it is no folder")
    return EVAL.compose(request, ["runner.only_eval=true", *overrides])


def of_run(folder: Path, overrides: Sequence[str] = ()) -> RunConfig:
    """The run's configuration with its checkpoint as the model, under a name of its own."""
    from rlcore.track.checkpoint import POLICY, find_checkpoint
    from rlcore.track.folder import RunFolder

    checkpoint = find_checkpoint(folder.resolve())
    run = RunFolder.containing(checkpoint)
    own = [
        "runner.only_eval=true",
        f"actor.model.model_path='{checkpoint / POLICY}'",
        f"runner.logger.experiment_name='{run.name}-eval'",
        "runner.resume_dir=null",
        "rollout.model.model_path=null",
    ]
    return load(run.config, [*own, *overrides])
