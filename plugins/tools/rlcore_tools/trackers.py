"""Log to TensorBoard, Weights & Biases and SwanLab. A library is imported when a run uses it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from string import ascii_lowercase, digits
from types import ModuleType
from typing import Any

from rlcore.config.schema import LoggerConfig
from rlcore.contracts.errors import PluginError
from rlcore.files.atomic import write_text

SERVICE_ID = "run_id"
"""File with the id of a run at a service."""
UPDATE = "update"
"""Metric of W&B with the number of the update, which :meth:`Tracker.log` gets as its step."""


class TensorBoardTracker:
    """Event files in `<run>/tensorboard/`, written without torch.

    Scalars are stored as `simple_value`, which all readers understand. The file is created with the
    first scalar, so that a run which fails to start leaves no file.
    """

    def __init__(self, config: LoggerConfig, run_dir: Path) -> None:
        writers = _import_library("tensorboard.summary.writer.event_file_writer", "tensorboard")
        self._open = partial(writers.EventFileWriter, str(run_dir / "tensorboard"))
        self._writer: Any = None
        self._event = import_module("tensorboard.compat.proto.event_pb2").Event
        self._summary = import_module("tensorboard.compat.proto.summary_pb2").Summary

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        if self._writer is None:
            self._writer = self._open()
        values = [
            self._summary.Value(tag=name, simple_value=float(value))
            for name, value in metrics.items()
        ]
        self._writer.add_event(
            self._event(wall_time=time.time(), step=step, summary=self._summary(value=values))
        )
        self._writer.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class _Service:
    """Tracker whose library provides a run object with `log` and `finish`."""

    _run: Any

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self._run.log(dict(metrics), step=step)

    def close(self) -> None:
        self._run.finish()


class WandbTracker(_Service):
    """Logs to Weights & Biases; WANDB_MODE=offline writes to `<run>/wandb/` alone.

    The update is a metric of its own, the x-axis of all others, because W&B drops what is logged
    below its last step, as after a resume from an earlier checkpoint.
    """

    def __init__(self, config: LoggerConfig, run_dir: Path) -> None:
        library = _import_library("wandb", "wandb")
        self._run = library.init(
            project=config.project_name,
            name=run_dir.name,
            dir=str(run_dir),
            id=_service_id(run_dir / "wandb"),
            resume="allow",
        )
        self._run.define_metric(UPDATE)
        self._run.define_metric("*", step_metric=UPDATE)

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self._run.log({**metrics, UPDATE: step})


class SwanLabTracker(_Service):
    """Logs to SwanLab; SWANLAB_MODE=offline writes to `<run>/swanlab/` alone."""

    def __init__(self, config: LoggerConfig, run_dir: Path) -> None:
        library = _import_library("swanlab", "swanlab")
        folder = run_dir / "swanlab"
        self._run = library.init(
            project=config.project_name,
            experiment_name=run_dir.name,
            logdir=str(folder),
            id=_service_id(folder),
            resume="allow",
        )


def _service_id(folder: Path) -> str:
    """Return the id of the run at a service: drawn once, and again the same after a resume.

    Both services take 21 lower-case letters and digits.

    Args:
        folder: the library's folder in the run, which is made here.
    """
    file = folder / SERVICE_ID
    if not file.is_file():
        folder.mkdir(exist_ok=True)
        drawn = "".join(secrets.choice(ascii_lowercase + digits) for _ in range(21))
        write_text(file, drawn)
    return file.read_text().strip()


def _import_library(module: str, package: str) -> ModuleType:
    try:
        return import_module(module)
    except ImportError as error:
        raise PluginError(
            f"runner.logger.logger_backends needs {package}, but importing it failed: {error}",
            hint=f"pip install {package}",
        ) from error
