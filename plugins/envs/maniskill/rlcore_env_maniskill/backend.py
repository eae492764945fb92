"""Choose the device that ManiSkill renders with. Loads SAPIEN."""

from __future__ import annotations

from rlcore_sapien import vulkan


def rendering_device() -> str:
    """Return the rendering device as a value of ManiSkill's `render_backend`.

    Also patches ManiSkill's parser of that value in this process.

    Raises:
        AssetError: the Vulkan driver offers no device.
    """
    _mend_backend_parser()
    device = vulkan.rendering_device()
    return "gpu" if device == "cuda" else device


def _mend_backend_parser() -> None:
    """Patch the parser: ManiSkill splits names at every colon, but PCI addresses contain colons."""
    from mani_skill.envs.utils.system import backend

    def parse_backend_device_id(name: str) -> tuple[str, str | None]:
        if name.startswith("pci:"):
            return name, None
        kind, _, number = name.partition(":")
        return kind, number or None

    backend.parse_backend_device_id = parse_backend_device_id
