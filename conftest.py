"""Fixtures of all tests, of core and of plugins, and the machine that tests see.

A run takes all that its machine has, unless it is told otherwise. So that tests are the same ones
everywhere, each of their processes has two cores and no GPU, and so has whatever it starts
(CUDA_VISIBLE_DEVICES=0, set by hand, is kept). One core will do: what needs a second is skipped.
Variables by which users set how and with which plugins commands answer them are left out.

Environments besides .venv, in which tests let simulators run, are `.venv-NAME` beside it. In a run
with long tests the first one that asks for one has it made (:func:`other_venv`, as `rlcore venv
create` does); later runs find it there. The last lines of a run of the tests say how long making
each took. `make clean` leaves them.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import textwrap
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from rlcore_simulation import venvs
from syrupy.assertion import SnapshotAssertion

from rlcore.contracts.errors import AssetError, ConfigError
from rlcore.contracts.specs import ComponentSpec
from rlcore.placement.inventory import local_cpus
from rlcore.plugins import trial_import

BESIDE = Path(__file__).parent
CORES = 2
CACHES = ("HF_HUB_CACHE", "OPENPI_DATA_HOME")
"""Where checkpoints and tokenizers are found that the user has downloaded: in tests, nothing."""
OF_THE_USER = ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "RLCORE_PLUGINS", "RLCORE_BLOCK_PLUGINS")

# A shell's background jobs begin with Ctrl-C ignored, and jobs under nohup with SIGHUP; a run heeds
# that, and so would all runs that tests start and strike.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_configure(config: pytest.Config) -> None:
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None and config.getoption("numprocesses", None):
        return  # it hands tests out, and runs none
    for name in OF_THE_USER:
        os.environ.pop(name, None)
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    os.environ.update(dict.fromkeys(CACHES, os.devnull))
    if sys.platform == "linux":
        allowed = sorted(os.sched_getaffinity(0))
        # other runs of tests on this machine, also in containers, should get other cores
        run = f"{socket.gethostname()} {os.getppid() if worker else os.getpid()}"
        first = zlib.crc32(run.encode()) + CORES * int((worker or "gw0").removeprefix("gw"))
        with suppress(OSError):
            os.sched_setaffinity(0, {allowed[(first + n) % len(allowed)] for n in range(CORES)})


@pytest.hookimpl(tryfirst=True)  # before -m leaves tests out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`@pytest.mark.quick(n)`: of a test's cases, n evenly spread ones; the others are long."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("quick") and not item.get_closest_marker("long"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for several in cases.values():
        number = several[0].get_closest_marker("quick").args[0]  # type: ignore[union-attr]
        for place, item in enumerate(several):
            if place * number % len(several) >= number:
                item.add_marker(pytest.mark.long)


def pytest_collection_finish() -> None:
    """What was collected stays to the end: the garbage collector need not look through it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def two_cores() -> None:
    """For tests of placements with two ranks."""
    if local_cpus() < CORES:
        pytest.skip("a placement of two ranks needs two cores")


@pytest.fixture
def probed() -> None:
    """Ask for this before `install` where a plugin is to be imported apart first."""


@pytest.fixture
def install(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Path]]:
    """`install(distribution, module, source, version="1.0")` puts a plugin on sys.path, a module
    and its dist-info as pip would leave them. Its entry point is called like the module."""
    if "probed" not in request.fixturenames:  # a process for each would take seconds
        monkeypatch.setattr(trial_import, "require_importable", lambda plugin: None)
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    before = set(sys.modules)

    def make(distribution: str, module: str, source: str, version: str = "1.0") -> Path:
        (site / f"{module}.py").write_text(textwrap.dedent(source), encoding="utf-8")
        info = site / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n", encoding="utf-8"
        )
        (info / "entry_points.txt").write_text(
            f"[rlcore.plugins]\n{module} = {module}\n", encoding="utf-8"
        )
        importlib.invalidate_caches()
        return site

    yield make
    for module in set(sys.modules) - before:  # the next test's plugin may have the same name
        if getattr(sys.modules[module], "__file__", None) == str(site / f"{module}.py"):
            del sys.modules[module]


@pytest.fixture
def refused(snapshot: SnapshotAssertion, tmp_path: Path) -> Callable[..., Any]:
    """Check that a block is refused: `with refused(ConfigError, "env.train") as error:`.

    The error's class must be exactly the one named, and its text must contain every word given
    (the key, the value, a choice). The whole text is kept in the test file's snapshot, in
    `__snapshots__`, so that a test does not repeat a sentence: after one was reworded,
    `pytest FILE --snapshot-update` writes it anew. `text=False` keeps no text, for one that depends
    on the machine or on versions. `error.value` is the error.
    """

    @contextmanager
    def refusal(
        error_class: type[BaseException], *words: object, text: bool = True
    ) -> Iterator[pytest.ExceptionInfo[BaseException]]:
        with pytest.raises(error_class) as error:
            yield error
        message = str(error.value)
        assert type(error.value) is error_class, f"{type(error.value).__name__}: {message}"
        missing = [str(word) for word in words if str(word) not in message]
        assert not missing, f"{missing} not in: {message}"
        if text:
            message = message.replace(str(tmp_path), "TMP").replace(str(BESIDE), "ROOT")
            assert message == snapshot

    return refusal


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    """An empty folder for `runner.logger.log_path`."""
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Run the test from an empty folder, so that what it leaves behind is seen."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    yield folder


@pytest.fixture(autouse=True, scope="session")
def notes_of_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Interpreters that tests make or name are not noted among the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture(autouse=True, scope="module")
def notes_of_one_file(
    notes_of_tests: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Nor among those of another file: a run would find its environment there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield


@contextmanager
def exclusively(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, for which other processes of the tests wait."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@pytest.fixture(scope="session")
def other_venv(request: pytest.FixtureRequest) -> Callable[..., Path]:
    """`other_venv(NAME, *REQUIREMENTS, requires_python=None)`: the folder of an environment of its
    own with these; see the top of this file. One process makes it, others wait. One that was
    interrupted is made to its end. Where none can be made (no network, no such Python), or long
    tests are left out and it is not there, the test is skipped with the reason; a folder that is
    in the way fails it, as it would be skipped for good.
    """
    makes = "not long" not in request.config.option.markexpr

    def made(name: str, *requirements: str, requires_python: str | None = None) -> Path:
        folder = BESIDE / f".venv-{name}"
        if not makes and not venvs.stamp(folder):
            pytest.skip(f"{folder.name} is not there: make test-all makes it")
        spec = ComponentSpec(
            "env", name, "-:-", requirements=requirements, requires_python=requires_python
        )
        try:
            with exclusively(BESIDE):
                venvs.make(spec, folder)
        except (AssetError, ConfigError) as error:
            if folder.exists() and not venvs.stamp(folder):
                pytest.fail(f"{error.message}\n  hint: rm -r {folder}; tests make it again")
            pytest.skip(f"{folder.name} can't be made here: {error.message}")
        return folder

    return made


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What making the environments of tests has cost, whichever process it was."""
    for folder in sorted(BESIDE.glob(".venv-*")):
        if (seconds := venvs.stamp(folder).get("seconds")) is not None:
            terminalreporter.write_line(f"{folder.name}: made once, in {seconds} s")


@pytest.fixture(scope="session")
def twin_venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment of its own with the very packages of this one, but for those of ours: it looks
    them up where they are. Made in a moment, without a network."""
    folder = tmp_path_factory.mktemp("venv") / "twin"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    here = sysconfig.get_paths()["purelib"]
    # listed by hand: a folder on the path whose own .pth files are not followed, so that nothing
    # that is installed editable is found
    (packages / "twin.pth").write_text(f"{here}\n")
    return folder
