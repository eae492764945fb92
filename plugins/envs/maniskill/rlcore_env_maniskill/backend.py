"""The device that ManiSkill renders with, in its words. Loads SAPIEN."""

from __future__ import annotations

from rlcore_sapien import vulkan


def rendering_device() -> str:
    """The device as ManiSkill's `render_backend` names it; mends ManiSkill's parser of that name.

    Raises:
        AssetError: the driver offers no device.
    """
    _mend_backend_parser()
    found = vulkan.rendering_device()
    return "gpu" if found == "cuda" else found


def _mend_backend_parser() -> None:
    """ManiSkill splits a backend's name at every colon, but PCI addresses contain colons."""
    from mani_skill.envs.utils.system import backend

    def parse_backend_device_id(name: str) -> tuple[str, str | None]:
        if name.startswith("pci:"):
            return name, None
        kind, _, number = name.partition(":")
        return kind, number or None

    backend.parse_backend_device_id = parse_backend_device_id
