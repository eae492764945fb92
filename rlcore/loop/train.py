"""The main job: a starting policy, an evaluation, reinforcement, an evaluation, a summary.

demonstrations -> supervised --> [ rollout -> update ]* --> checkpoint, summary
                        |                           |
                     evaluate (before)           evaluate (after)
"""

from __future__ import annotations

from rlcore.config.schema import RunConfig
from rlcore.loop import sft
from rlcore.loop.evaluate import conclude, evaluate, film
from rlcore.loop.gather import Gathered, GatherOrder, gather
from rlcore.loop.session import Session, open_session
from rlcore.rollout.schedule import training_columns
from rlcore.track.checkpoint import save_checkpoint
from rlcore.track.metrics import env_metrics
from rlcore.track.summary import Summary


def run(config: RunConfig) -> Summary:
    """`rlcore train`: the whole story; returns what `summary.json` holds."""
    with open_session(config) as session:
        if config.runner.only_eval:
            return conclude(session, after=evaluate(session, "eval"))
        start = sft.starting_policy(session) if config.sft.enabled else None
        before = evaluate(session, "before") if config.runner.val_before_train else None
        updates = reinforce(session)
        checkpoint(session, updates)
        after = evaluate(session, "after", update=updates)
        control = None
        if start is not None and config.sft.control:
            spent = session.clock.seconds["rollout"] + session.clock.seconds["update"]
            sft.go_on(session, start, seconds=spent)
            control = evaluate(session, "control", update=updates)
        return conclude(session, before=before, after=after, control=control)


def reinforce(session: Session) -> int:
    """Rollouts and updates until the configured number is reached; returns updates done."""
    runner = session.config.runner
    update = 0
    while update != runner.max_epochs and (
        runner.max_steps < 0 or session.totals.env_steps < runner.max_steps
    ):
        metrics = rollout(session, update)
        metrics |= improve(session, update)
        update += 1
        session.trackers.log(metrics, step=update)
        session.progress.update_line(update, runner.max_epochs, metrics)
        last = update == runner.max_epochs
        if runner.val_check_interval > 0 and update % runner.val_check_interval == 0 and not last:
            evaluate(session, f"step_{update:06d}", update=update)
        if runner.save_interval > 0 and update % runner.save_interval == 0 and not last:
            checkpoint(session, update)
    return update


def rollout(session: Session, update: int) -> dict[str, float]:
    """Gather one update's episodes; the trajectory stays with the workers that acted."""
    config, assembly = session.config, session.assembly
    columns = training_columns(
        assembly.env_specs["train"],
        config.env.train,
        seed=config.runner.seed,
        update=update,
        num_action_chunks=assembly.policy_spec.num_action_chunks,
    )
    video = config.env.train.video_cfg
    session.hooks.rlcore_before_rollout(run=session, update=update)
    with (
        session.clock.measure("rollout") as took,
        session.progress.phase(f"rollout {update + 1}", total=len(columns), quiet=True) as phase,
    ):
        gathered = gather(
            session.group,
            assembly,
            GatherOrder(
                side="train",
                columns=columns,
                phase="train",
                update=update,
                deterministic=False,
                keep=True,
                record=frozenset(range(video.num_episodes if video.save_video else 0)),
            ),
            phase.counts,
        )
    if gathered.videos:
        film(session, gathered, "train", f"update_{update + 1:06d}")
    session.totals.env_steps += gathered.env_steps
    session.totals.episodes += sum(outcome.finished for outcome in gathered.outcomes)
    metrics = env_metrics(gathered.outcomes, prefix="env") | _times(gathered, took.seconds)
    session.hooks.rlcore_after_rollout(run=session, update=update, metrics=metrics)
    return metrics


def improve(session: Session, update: int) -> dict[str, float]:
    """One policy update from what was gathered."""
    session.hooks.rlcore_before_update(run=session, update=update)
    with session.clock.measure("sync") as moved:
        session.group.hand_over()
    with (
        session.clock.measure("update") as took,
        session.progress.phase(f"update {update + 1}", quiet=True) as phase,
    ):
        metrics: dict[str, float] = session.group.actor("update", update=update)[0]
        phase.note(f"KL {metrics['train/actor/approx_kl']:.4f}")
    with session.clock.measure("sync") as told:
        session.group.sync()
    metrics["time/update"] = took.seconds
    metrics["time/sync"] = moved.seconds + told.seconds
    session.hooks.rlcore_after_update(run=session, update=update, metrics=metrics)
    return metrics


def checkpoint(session: Session, update: int) -> None:
    """Policy, optimizer and counters under `checkpoints/step_XXXXXX`; `latest` points to it."""
    session.hooks.rlcore_before_checkpoint(run=session, update=update)
    with session.clock.measure("checkpoint"):
        path = save_checkpoint(
            session.folder.checkpoints,
            update,
            save_policy=lambda path: session.group.actor_on_first("save", path=str(path)),
            optimizer=session.group.actor_on_first("optimizer_state"),
            state={"seed": session.config.runner.seed, **vars(session.totals)},
        )
    session.hooks.rlcore_after_checkpoint(run=session, update=update, path=path)


def _times(gathered: Gathered, seconds: float) -> dict[str, float]:
    return {
        "time/rollout": seconds,
        "time/env": gathered.seconds["env"],
        "time/policy": gathered.seconds["policy"],
        "rollout/env_steps_per_second": gathered.env_steps / seconds,
    }
