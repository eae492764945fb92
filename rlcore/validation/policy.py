"""Check types, shapes and finiteness of what a policy returns, against its spec.

Without these checks, a `[B]` tensor in place of `[B, C, A]` would be broadcast silently, and NaN
would go unnoticed. Whether the result of `evaluate` is finite is checked where it is used. Depends
on no env and no algorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError

from rlcore.contracts.errors import PolicyError, UserError
from rlcore.contracts.protocols import Evaluation, Inputs, PolicyOutput
from rlcore.contracts.specs import PolicySpec
from rlcore.utils.text import abbreviate_list
from rlcore.validation.faults import describe

NUMBERS = "biufc"  # numpy dtype kinds of numbers, including bool and complex


@dataclass(frozen=True)
class _Call:
    """A call of a method of a policy, whose answer is checked.

    Attributes:
        spec: the policy's spec.
        method: name of the method.
    """

    spec: PolicySpec
    method: str

    def require(self, right: bool, what: str, value: Any, expected: str) -> None:
        """Raise PolicyError unless `right`; see :meth:`error`."""
        if not right:
            raise self.error(what, describe_answer(value), expected)

    def require_floats(self, what: str, value: Any, shape: tuple[int, ...]) -> None:
        """Raise PolicyError unless a value is a floating-point tensor of a shape."""
        floats = isinstance(value, torch.Tensor) and value.is_floating_point()
        expected = f"a tensor of floats {list(shape)}"
        self.require(floats and value.shape == shape, what, value, expected)

    def error(self, what: str, actual: str, expected: str) -> PolicyError:
        """Return the error about a part of the answer that is invalid."""
        return PolicyError(
            f"model {self.spec.name}: {what} of {self.method} is {actual}, expected {expected}",
            hint="the model is at fault, not a training setting: see "
            "rlcore.contracts.protocols.Policy; rlcore check model NAME finds more such mistakes",
        )


def check_inputs(spec: PolicySpec, rows: int, inputs: Any) -> Inputs:
    """Check and return what `prepare` returned for an observation of `rows` rows.

    Raises:
        PolicyError: the value is not a mapping of numeric numpy arrays `[rows, ...]`.
    """
    call = _Call(spec, "prepare")
    right = isinstance(inputs, Mapping)
    call.require(right, "its answer", inputs, "a dict of numpy arrays")
    for name, array in inputs.items():
        right = isinstance(array, np.ndarray) and array.dtype.kind in NUMBERS
        right = right and array.shape[:1] == (rows,)
        call.require(right, repr(name), array, f"a numpy array of numbers with {rows} rows")
    return dict(inputs)


def check_output(spec: PolicySpec, rows: int, output: Any) -> PolicyOutput:
    """Check and return what `act` returned for `rows` rows.

    Raises:
        PolicyError: the value breaks the contract of
            :class:`rlcore.contracts.protocols.PolicyOutput`, or actions, log-probs or values are
            not finite.
    """
    call = _Call(spec, "act")
    call.require(isinstance(output, PolicyOutput), "its answer", output, "a PolicyOutput")
    shape = (rows, spec.num_action_chunks, spec.action_dim)
    actions = output.actions
    expected = f"float32 {list(shape)}"
    call.require(describe(actions) == expected, "actions", actions, expected)
    call.require_floats("logprobs", output.logprobs, shape)
    call.require_floats("values", output.values, (rows, spec.value_dim))
    _require_finite(spec, "actions", torch.from_numpy(actions.copy()))  # strides may be < 0
    _require_finite(spec, "logprobs", output.logprobs)
    _require_finite(spec, "values", output.values)
    right = isinstance(output.replay, Mapping)
    call.require(right, "replay", output.replay, "a dict of tensors")
    for name, tensor in output.replay.items():
        right = isinstance(tensor, torch.Tensor) and tensor.shape[:1] == (rows,)
        call.require(right, f"replay[{name!r}]", tensor, f"a tensor with {rows} rows")
    return output


def check_evaluation(spec: PolicySpec, rows: int, evaluation: Any) -> Evaluation:
    """Check and return what `evaluate` returned for `rows` rows.

    Raises:
        PolicyError: the value breaks the contract of
            :class:`rlcore.contracts.protocols.Evaluation`.
    """
    call = _Call(spec, "evaluate")
    call.require(isinstance(evaluation, Evaluation), "its answer", evaluation, "an Evaluation")
    shape = (rows, spec.num_action_chunks, spec.action_dim)
    entropy = evaluation.entropy
    call.require_floats("logprobs", evaluation.logprobs, shape)
    call.require_floats("values", evaluation.values, (rows, spec.value_dim))
    right = isinstance(entropy, torch.Tensor) and entropy.dim() == 3 and len(entropy) == rows
    right = right and all(n in (1, m) for n, m in zip(entropy.shape, shape, strict=True))
    expected = f"floats {list(shape)}, or one entry per chunk {[rows, 1, 1]}"
    call.require(right, "entropy", entropy, expected)
    return evaluation


@contextmanager
def saving_errors(spec: PolicySpec) -> Iterator[None]:
    """Convert exceptions of a `save_pretrained` call in the block to errors about the model.

    UserError, OSError and SafetensorError pass unchanged, because they may be due to the disk.

    Raises:
        PolicyError: any other exception was raised; the error names it.
    """
    try:
        yield
    except (UserError, OSError, SafetensorError):
        raise
    except Exception as error:  # a plugin's code may raise anything
        actual = f"{type(error).__name__}: {error}"
        raise _Call(spec, "save_pretrained").error("the end", actual, "a checkpoint") from error


def checked_files(spec: PolicySpec, folder: Path) -> None:
    """Check that `save_pretrained` wrote something to a folder that was empty before.

    Raises:
        PolicyError: the folder has no file with contents, so a checkpoint could not be loaded.
    """
    if not any(file.is_file() and file.stat().st_size for file in folder.rglob("*")):
        call = _Call(spec, "save_pretrained")
        raise call.error("what it wrote", "nothing", "weights and settings")


def checked_saved(policy: Any, load: Callable[[], Any]) -> None:
    """Check that a policy that was saved and loaded again has bitwise the same weights and buffers.

    Adapters and the layers that they adapt are not compared, because they are merged when saved.

    Args:
        policy: the policy that was saved.
        load: function that loads the saved policy.

    Raises:
        PolicyError: weights or buffers differ, or loading fails; a checkpoint would hold another
            policy.
    """
    call = _Call(policy.spec, "save_pretrained")
    try:
        saved = load().state_dict()
    except Exception as error:  # a plugin's code may raise anything
        actual = f"not to be loaded ({type(error).__name__}: {error})"
        raise call.error("what it wrote", actual, "a policy") from error
    merged = ("lora_", ".base_layer.")
    different = [
        name
        for name, tensor in policy.state_dict().items()
        if not any(part in name for part in merged) and not _same_bits(tensor, saved.get(name))
    ]
    if different:
        actual = f"another policy: {abbreviate_list(different)} differ once it is loaded"
        raise call.error("what it wrote", actual, "the weights it has")


def _same_bits(first: Any, second: Any) -> bool:
    if not isinstance(first, torch.Tensor) or not isinstance(second, torch.Tensor):
        return type(first) is type(second)
    if (first.shape, first.dtype) != (second.shape, second.dtype):
        return False
    bits = (tensor.detach().cpu().flatten().view(torch.uint8) for tensor in (first, second))
    return torch.equal(*bits)


def check_parameter_groups(policy: Any) -> dict[str, list[torch.nn.Parameter]]:
    """Check and return what `parameter_groups` returned.

    Raises:
        PolicyError: the groups are not "policy" and "value"; or a parameter belongs to none of the
            policy's modules, so that it would be trained but not saved; or it occurs twice, so that
            it would be trained twice; or a parameter that requires gradients is in no group, so
            that it would never be trained.
    """
    call = _Call(policy.spec, "parameter_groups")
    groups = policy.parameter_groups()
    right = isinstance(groups, Mapping) and set(groups) == {"policy", "value"}
    call.require(right, "its answer", groups, 'a dict of lists, "policy" and "value"')
    own = {id(parameter) for parameter in policy.parameters()}
    grouped = set()
    for group, parameters in groups.items():
        for index, parameter in enumerate(parameters):
            name = f"{group}[{index}]"
            if id(parameter) not in own:
                expected = "a parameter of the policy (policy.parameters())"
                raise call.error(name, "another's", expected)
            if id(parameter) in grouped:
                raise call.error(name, "there twice", "each parameter once")
            grouped.add(id(parameter))
    free = [
        name
        for name, parameter in policy.named_parameters()
        if parameter.requires_grad and parameter.numel() and id(parameter) not in grouped
    ]
    if free:
        expected = "all that require gradients; freeze others with requires_grad_(False)"
        raise call.error("its answer", f"without {abbreviate_list(free)}", expected)
    return {group: list(parameters) for group, parameters in groups.items()}


def _require_finite(spec: PolicySpec, what: str, tensor: torch.Tensor) -> None:
    """Check that all numbers are finite; rows that only padded a batch were removed before."""
    finite = tensor.isfinite()
    if not finite.all():
        index = (~finite).nonzero()[0].tolist()
        raise PolicyError(
            f"model {spec.name}: {what} of act in row {index[0]} is {float(tensor[tuple(index)])}, "
            "expected finite numbers",
            hint="training has diverged (look at train/actor/grad_norm, and lower actor.optim.lr), "
            "or the model is at fault: rlcore check model NAME shows which",
        )


def describe_answer(value: Any) -> str:
    """Return a text that follows "is", as :func:`rlcore.validation.faults.describe`, but with the
    dtype and shape of tensors too."""
    if isinstance(value, torch.Tensor):
        return f"a tensor {str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    return describe(value)
