"""The scattering transform of Bruna and Mallat: fixed wavelet features of an image, two layers deep, nothing learned.

    S0 = phi x        S1 = phi |psi_1 x|        S2 = phi | psi_2 |psi_1 x| |             (x, psi, phi: convolutions)

psi are Morlet wavelets of J = 2 scales and L = 8 angles, the second one coarser than the first; phi is a Gaussian, and
its answer is kept at every fourth pixel: 1 + 16 + 64 = 81 maps of 7 x 7 for a channel of 28 x 28. A wavelet of the
coarse scale is kept at every second pixel: what its spectrum folds over is the spectrum of that sample, not a loss.

Each image is transformed alone, by constants that no data went into. A CPU convolves by spectra. On a GPU images of up
to 32 pixels take matrices of the same convolutions, which its matrix units are ten times faster at.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ANGLES = 8
CELL = 4  # pixels between two answers: 2^J
# of the wavelet of the finest scale
WIDTH = 0.8
FREQUENCY = 3 * math.pi / 4
SLANT = 4 / ANGLES  # how much longer a wavelet is across its waves than along them, inverted
CHUNK = 64  # images at a time on a CPU: their spectra stay in the cache
DENSE = 40  # pixels of a padded side up to which a GPU takes matrices
TINY = 1e-12  # under the root where a gradient is wanted: there is none at zero
MAPS = 1 + 2 * ANGLES + ANGLES**2
LEAST = 2 * CELL


def outputs(side: int) -> int:
    """Answers along a side of so many pixels.

    >>> outputs(28), outputs(32), outputs(9)
    (7, 8, 3)
    """
    return -(-side // CELL)


class Scattering(nn.Module):
    """(B, C, H, W) -> (B, 81 C, H/4, W/4), for images of at least 8 x 8 pixels.

    >>> Scattering((1, 28, 28))(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 81, 7, 7])
    >>> Scattering((3, 32, 30))(torch.zeros(2, 3, 32, 30)).shape
    torch.Size([2, 243, 8, 8])
    """

    _psi0: Tensor
    _psi1: Tensor
    _full_y: Tensor
    _full_x: Tensor
    _half_y: Tensor
    _half_x: Tensor

    def __init__(self, shape: tuple[int, int, int]) -> None:
        super().__init__()
        if min(shape[1:]) < LEAST:
            raise ValueError(f"Expected images of at least {LEAST}x{LEAST} pixels, found {shape[2]}x{shape[1]}.")
        self.shape = shape
        padded = [(outputs(side) + 2) * CELL for side in shape[1:]]  # a cell more on either end, left out again
        self._pads = tuple(
            n for side, all_ in zip(shape[:0:-1], padded[::-1], strict=True) for n in (CELL, all_ - side - CELL)
        )
        angles = [math.pi * at / ANGLES for at in range(ANGLES)]
        for scale in range(2):
            self._keep(f"_psi{scale}", torch.stack([torch.fft.fft2(morlet(padded, scale, a)) for a in angles]))
        for name, step in (("full", 1), ("half", 2)):
            for axis, side in zip("yx", padded, strict=True):
                self._keep(f"_{name}_{axis}", smoothing(side, step))
        self._padded = padded
        self._matrices: dict[torch.device, Matrices] = {}

    def _keep(self, name: str, value: Tensor) -> None:
        kind = torch.complex64 if value.is_complex() else torch.float32
        self.register_buffer(name, value.to(kind), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        if not len(images):
            sides = [outputs(side) for side in self.shape[1:]]
            return images.new_zeros(0, MAPS * self.shape[0], *sides)
        size = CHUNK if images.device.type == "cpu" else 16 * CHUNK
        some = self._by_matrices if images.is_cuda and max(self._padded) <= DENSE else self._some
        # In float32 whatever the caller's precision is.
        return torch.cat([some(piece.float()) for piece in torch.split(images, size)]).to(images.dtype)

    def _by_matrices(self, images: Tensor) -> Tensor:
        """The same maps."""
        if images.device not in self._matrices:
            self._matrices[images.device] = Matrices(self)
        return self._matrices[images.device](images)

    def _some(self, images: Tensor) -> Tensor:
        """Maps of some images: channel after channel, its 81 maps in the order S0, S1 fine, S1 coarse, S2."""
        x = F.pad(images, self._pads, mode="reflect")
        spectrum = torch.fft.fft2(x)[:, :, None]
        fine = _modulus(torch.fft.ifft2(spectrum * self._psi0))
        coarse = _modulus(_halved(spectrum, self._psi1))
        second = _modulus(_halved(torch.fft.fft2(fine)[:, :, :, None], self._psi1)).flatten(2, 3)
        full = (self._full_y, self._full_x)
        half = (self._half_y, self._half_x)
        maps = [_smooth(x[:, :, None], *full), _smooth(fine, *full), _smooth(coarse, *half), _smooth(second, *half)]
        return torch.cat(maps, 2).flatten(1, 2)


class Matrices:
    """The convolutions of a `Scattering` as matrices on its device, from padded or plain pixels to all answers."""

    def __init__(self, of: Scattering) -> None:
        height, width = of.shape[1:]
        device = of._psi0.device
        self.shape = of.shape
        pixels = torch.eye(height * width, device=device).view(-1, 1, height, width)
        torus = torch.eye(math.prod(of._padded), device=device).view(-1, 1, *of._padded)
        x = F.pad(pixels, of._pads, mode="reflect")
        spectrum = torch.fft.fft2(x)[:, :, None]
        full = (of._full_y, of._full_x)
        half = (of._half_y, of._half_x)
        self.low = _smooth(x, *full).flatten(1)
        self.fine = _parts(torch.fft.ifft2(spectrum * of._psi0)[:, 0])
        self.coarse = _parts(_halved(spectrum, of._psi1)[:, 0])
        self.second = _parts(_halved(torch.fft.fft2(torus)[:, :, None], of._psi1)[:, 0])
        self.smooth = _smooth(torus[:, 0], *full).flatten(1)
        quarter = [side // 2 for side in of._padded]
        small = torch.eye(math.prod(quarter), device=device).view(-1, *quarter)
        self.smooth_half = _smooth(small, *half).flatten(1)

    def __call__(self, images: Tensor) -> Tensor:
        batch, channels = images.shape[:2]
        x = images.flatten(2)
        fine = self._modulus(x, self.fine)
        coarse = self._modulus(x, self.coarse)
        second = self._modulus(fine, self.second).flatten(2, 3)
        low = (x @ self.low)[:, :, None]
        maps = [low, fine @ self.smooth, coarse @ self.smooth_half, second @ self.smooth_half]
        sides = [outputs(side) for side in self.shape[1:]]
        return torch.cat(maps, 2).view(batch, channels * MAPS, *sides)

    @staticmethod
    def _modulus(x: Tensor, matrix: Tensor) -> Tensor:
        """(..., inputs) -> (..., angles, answers): the modulus of the wavelets' answers."""
        z = (x @ matrix).unflatten(-1, (2, ANGLES, -1))
        re, im = z.unbind(-3)
        modulus: Tensor = (re.square() + im.square() + TINY).sqrt()
        return modulus


def _parts(waves: Tensor) -> Tensor:
    """Answers (inputs, angles, h, w) as a matrix (inputs, 2 angles h w), real parts before imaginary ones."""
    return torch.stack([waves.real, waves.imag], 1).flatten(1).contiguous()


def morlet(sides: list[int], scale: int, angle: float) -> Tensor:
    """A wavelet around the origin of a torus of these sides, in float64; its mean is zero."""
    sigma = WIDTH * 2**scale
    frequency = FREQUENCY / 2**scale
    y, x = torch.meshgrid(*(torch.arange(-2 * n, 3 * n, dtype=torch.float64) for n in sides), indexing="ij")
    along = x * math.cos(angle) + y * math.sin(angle)
    across = y * math.cos(angle) - x * math.sin(angle)
    bump = torch.exp(-(along**2 + (SLANT * across) ** 2) / (2 * sigma**2))
    wave = _round(bump * torch.exp(1j * frequency * along), sides)
    bump = _round(bump, sides)
    wavelet: Tensor = (wave - bump * (wave.sum() / bump.sum())) * (SLANT / (2 * math.pi * sigma**2))
    return wavelet


def _round(plane: Tensor, sides: list[int]) -> Tensor:
    """Five times five copies of a torus, laid upon each other."""
    return plane.view(5, sides[0], 5, sides[1]).sum((0, 2))


def smoothing(side: int, step: int) -> Tensor:
    """The matrix of phi along an axis that was sampled at every `step` pixels: its answers at every cell but the ends.

    >>> smoothing(36, 2).shape, round(float(smoothing(36, 2).sum(1)[0]), 6)
    (torch.Size([7, 18]), 1.0)
    """
    places = torch.arange(side // step, dtype=torch.float64) * step
    cells = torch.arange(CELL, side - CELL, CELL, dtype=torch.float64)
    away = places - cells[:, None] + side * torch.arange(-2, 3, dtype=torch.float64)[:, None, None]
    bump = torch.exp(-(away**2) / (2 * (2 * WIDTH) ** 2)).sum(0)
    return bump / bump.sum(1, keepdim=True)


def _halved(spectrum: Tensor, wavelets: Tensor) -> Tensor:
    """wavelet * x at every second pixel, from the spectrum of x: (..., 1, H, W) -> (..., 8, H/2, W/2)."""
    height = spectrum.shape[-2] // 2
    width = spectrum.shape[-1] // 2
    parts = [
        (spectrum[..., a : a + height, b : b + width], wavelets[:, a : a + height, b : b + width])
        for a in (0, height)
        for b in (0, width)
    ]
    folded = parts[0][0] * parts[0][1]
    for one, other in parts[1:]:
        folded.addcmul_(one, other)
    answers: Tensor = torch.fft.ifft2(folded) / 4
    return answers


def _modulus(z: Tensor) -> Tensor:
    # A third of the time that abs takes, which guards against overflow.
    squared = z.real.square().addcmul_(z.imag, z.imag)
    modulus: Tensor = (squared.add_(TINY) if z.requires_grad else squared).sqrt_()
    return modulus


def _smooth(maps: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    return rows @ (maps @ columns.T)
