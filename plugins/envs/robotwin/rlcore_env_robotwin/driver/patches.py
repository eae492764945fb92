"""Apply in memory the edits that RoboTwin's installation makes in files of SAPIEN and mplib.

Other patches here make RoboTwin's starts independent of the process's history and of the node.
Placeholders replace two large packages that RoboTwin imports but whose functions its simulation
hardly needs.
"""

from __future__ import annotations

import copy
import functools
import glob
import importlib.util
import inspect
import multiprocessing
import sys
import textwrap
import types
from collections.abc import Iterator
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

from rlcore.contracts.errors import AssetError

COLLIDES = " or collide or "
EDITED = " (edited)"
# Default arguments of RoboTwin's functions, as its files have them.
_DEFAULTS: WeakKeyDictionary[types.FunctionType, Any] = WeakKeyDictionary()


def apply(*, ray_tracing: bool) -> None:
    """Patch modules in this process; a second call has no effect."""
    _read_utf8()
    _drive_through_contact()
    _list_in_order()
    if not ray_tracing:
        _rasterize()
    for name, needed in PLACEHOLDERS.items():
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            sys.modules[name] = _Placeholder(name, needed)


def _read_utf8() -> None:
    """Make SAPIEN read URDF files as UTF-8 instead of in the machine's default encoding."""
    from sapien.wrapper import urdf_loader

    urdf_loader.open = functools.partial(open, encoding="utf-8")


def _drive_through_contact() -> None:
    """Make mplib's screw motion ignore collisions: it would stop at a contact, as in grasping."""
    from mplib.planner import Planner

    if Planner.plan_screw.__code__.co_filename.endswith(EDITED):
        return
    source = inspect.getsource(Planner.plan_screw)
    if COLLIDES not in source:
        return  # another version, or a file that was edited as RoboTwin says
    space: dict[str, Any] = {}
    module = sys.modules[Planner.__module__]
    edited = textwrap.dedent(source).replace(COLLIDES, " or ")
    exec(compile(edited, f"{module.__file__}{EDITED}", "exec"), vars(module), space)
    setattr(Planner, "plan_screw", space["plan_screw"])  # noqa: B010 (mypy keeps methods as they are)


def forget_starts(seed: int) -> None:
    """Undo the effects of earlier starts on this process, before the start of `seed`.

    RoboTwin's `get_cluttered_table` adds the offset of the table to its own default arguments at
    every start. For the expert's plans mplib uses a generator that RoboTwin never seeds.
    """
    import mplib

    for function in _functions():
        first = _DEFAULTS.setdefault(function, copy.deepcopy(function.__defaults__))
        function.__defaults__ = copy.deepcopy(first)
    mplib.set_global_seed(max(1, seed))  # it takes no 0


def _functions() -> Iterator[types.FunctionType]:
    """Yield the functions that RoboTwin's modules and their classes define."""
    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] == "envs"]
    for module in modules:
        for thing in list(vars(module).values()):
            for function in vars(thing).values() if isinstance(thing, type) else [thing]:
                if (
                    isinstance(function, types.FunctionType)
                    and function.__module__ == module.__name__
                ):
                    yield function


def _list_in_order() -> None:
    """Make `glob.glob` return sorted lists.

    Some tasks choose a model by its index in a list of files, whose order depends on the file
    system.
    """

    def sorted_glob(*pattern: Any, **options: Any) -> list[Any]:
        return sorted(unsorted_glob(*pattern, **options))

    unsorted_glob = glob.glob
    if unsorted_glob.__name__ != sorted_glob.__name__:
        glob.glob = sorted_glob


def _rasterize() -> None:
    """Replace the ray tracing that RoboTwin requests, which software drivers do not support."""
    from sapien import render

    def as_default(shader: str) -> None:
        set_shader("default")

    set_shader = render.set_camera_shader_dir
    if set_shader.__name__ != as_default.__name__:
        render.set_camera_shader_dir = as_default


class _Placeholder(types.ModuleType):
    """Stands in for a package that is not installed; access to its attributes raises AssetError."""

    def __init__(self, name: str, needed: str) -> None:
        super().__init__(name)
        self.__spec__ = None
        self.__path__: list[str] = []
        if name == "torch":
            self.manual_seed = lambda seed: None
            self.multiprocessing = multiprocessing
            self.Tensor = type("Tensor", (), {})  # scipy uses it in isinstance checks
            sys.modules["torch.multiprocessing"] = multiprocessing

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # Python's own questions
            raise AttributeError(name)
        package = self.__name__
        raise AssetError(
            f"{PLACEHOLDERS[package]} of RoboTwin need {package}, which {sys.executable} lacks",
            hint=f"{sys.executable} -m pip install {package}",
        )


PLACEHOLDERS = {"torch": "point clouds and curobo", "open3d": "point clouds"}
