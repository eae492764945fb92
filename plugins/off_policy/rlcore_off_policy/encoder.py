"""Encode a policy's inputs as features for critics and small actors, on few CPU cores.

    uint8 images [.., h, w, 3]   -> shrunk to 64 px, strided convolutions -> features
    floats [n]                   -> one layer
    integers (token ids)         -> mean of learned embeddings
    a float                      -> itself, on request: such as the elapsed share of the time limit

Other arrays, such as masks, are ignored. Knows no policy: dtypes and shapes alone decide how an
array is encoded. Legend: B rows, F features.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from rlcore.contracts.protocols import Inputs
from rlcore.contracts.rng import RowKeys
from rlcore_off_policy.sizes import EMBEDDING_WIDTH, PIXELS, VOCABULARY, WIDTH, convolutions

SHIFT = 4
"""Largest random shift of an image in pixels, in each direction, for augmentation (DrQ, arXiv
2004.13649)."""


class Encoder(nn.Module):
    """An encoder of inputs.

    Args:
        inputs: inputs of one row, for names, shapes and dtypes.
        width: features of each image, and of all float inputs together.
        scalars: whether single floats are features too; else they are ignored.

    Attributes:
        size: F.
        scalars: names of the single floats that are features.
    """

    def __init__(self, inputs: Inputs, *, width: int = WIDTH, scalars: bool = False) -> None:
        super().__init__()
        rows = {name: array[0] for name, array in inputs.items() if array[0].size}
        self._images = [n for n, a in rows.items() if a.dtype == np.uint8 and a.ndim >= 3]
        self._states = [n for n, a in rows.items() if a.dtype.kind == "f" and a.ndim == 1]
        self._token_names = [n for n, a in rows.items() if a.dtype.kind == "i" and a.ndim <= 1]
        floats = [n for n, a in rows.items() if a.dtype.kind == "f" and a.ndim == 0]
        self.scalars = floats if scalars else []
        self.image_encoders = nn.ModuleDict(
            {name: _convolutions(rows[name], width) for name in self._images}
        )
        states = sum(rows[name].size for name in self._states)
        self.state_encoder = _bounded(states, width) if states else None
        self.token_embedding = (
            nn.Embedding(VOCABULARY, EMBEDDING_WIDTH) if self._token_names else None
        )
        outputs = len(self._images) + bool(states)
        words = len(self._token_names) * EMBEDDING_WIDTH
        self.size = outputs * width + words + len(self.scalars)

    def forward(self, inputs: Mapping[str, Tensor], shift: Tensor | None = None) -> Tensor:
        """Return features float32 `[B, F]`.

        Args:
            shift: random shift of the images, int64 `[B, 2]`, see :func:`draw_shift`; None: no
                augmentation.
        """
        device = next(self.parameters()).device
        features = []
        for name in self._images:
            features.append(self.image_encoders[name](_pixels(inputs[name].to(device), shift)))
        if self.state_encoder is not None:
            numbers = torch.cat([inputs[name] for name in self._states], dim=1)
            features.append(self.state_encoder(numbers.to(device, torch.float32)))
        if self.token_embedding is not None:
            for name in self._token_names:
                ids = inputs[name].to(device, torch.int64).reshape(len(inputs[name]), -1)
                features.append(self.token_embedding(ids.remainder(VOCABULARY)).mean(1))
        for name in self.scalars:
            features.append(inputs[name].to(device, torch.float32)[:, None])
        return torch.cat(features, dim=1)


def draw_shift(keys: RowKeys, stream: str) -> Tensor:
    """Draw (row, column) offsets int64 `[B, 2]` in [0, 2 SHIFT]; SHIFT leaves an image in place."""
    side = 2 * SHIFT + 1
    drawn = torch.from_numpy(keys.integers(stream, side * side))
    return torch.stack([drawn // side, drawn % side], dim=1)


def shift_images(inputs: Mapping[str, Tensor], shift: Tensor) -> dict[str, Tensor]:
    """Return inputs whose images are shifted, for networks of several kinds that see one view.

    Args:
        inputs: `{name: [B, ...]}`; images are uint8 `[B, h, w, 3]`, all else stays as it is.
        shift: int64 `[B, 2]`, see :func:`draw_shift`.
    """
    return {
        name: _shifted(array, shift) if array.dtype == torch.uint8 and array.ndim == 4 else array
        for name, array in inputs.items()
    }


def _pixels(images: Tensor, shift: Tensor | None) -> Tensor:
    """Convert n images uint8 `[B, ..., h, w, 3]` to float32 `[B, 3 n, h', w']` in [-0.5, 0.5].

    Images are downscaled to at most PIXELS on a side and shifted with replicated edges. Images that
    need no downscaling are shifted as uint8, which copies less.
    """
    rows = len(images)
    height, width = images.shape[-3:-1]
    images = images.reshape(rows, -1, height, width, 3).permute(0, 2, 3, 1, 4).flatten(3)
    large = max(height, width) > PIXELS
    if shift is not None and not large:
        images = _shifted(images, shift)
    pixels = images.permute(0, 3, 1, 2).float().div_(255.0).sub_(0.5)
    if large:
        pixels = functional.adaptive_avg_pool2d(pixels, (min(height, PIXELS), min(width, PIXELS)))
        if shift is not None:
            pixels = _shifted(pixels.permute(0, 2, 3, 1), shift).permute(0, 3, 1, 2)
    return pixels


def _shifted(images: Tensor, shift: Tensor) -> Tensor:
    """Shift each of the images `[B, h, w, n]` by its own offset, replicating edge pixels.

    All lines of all images are gathered at once, each from where it begins: a loop over images
    takes twice as long on a CPU, and a kernel per image on an accelerator.
    """
    rows, height, width, channels = images.shape
    shift = shift.to(images.device)
    left = images[:, :, :1].expand(-1, -1, SHIFT, -1)
    right = images[:, :, -1:].expand(-1, -1, SHIFT, -1)
    padded = torch.cat([left, images, right], dim=2)
    line_numbers = torch.arange(height, device=images.device) + shift[:, :1] - SHIFT
    first_lines = torch.arange(rows, device=images.device)[:, None] * height
    lines = first_lines + line_numbers.clamp(0, height - 1)
    begins = lines * padded[0, 0].numel() + shift[:, 1:] * channels
    windows = padded.flatten().unfold(0, width * channels, 1)
    return windows.index_select(0, begins.flatten()).view(images.shape)


def _convolutions(image: np.ndarray, width: int) -> nn.Sequential:
    """Build the layers from an image uint8 `[..., h, w, 3]` to `width` features: convolutions
    (:func:`rlcore_off_policy.sizes.convolutions`), then a bounded linear layer."""
    height, across = image.shape[-3:-1]
    sizes, left = convolutions(height, across, image.size // (height * across))
    layers: list[nn.Module] = []
    for size in sizes:
        layers += [nn.Conv2d(*size), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.Flatten(), _bounded(left, width))


def _bounded(size: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(size, width), nn.LayerNorm(width), nn.Tanh())
