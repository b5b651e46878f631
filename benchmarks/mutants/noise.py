"""Noise that is too small, of another shape, shared, partial, or drawn from where others can draw it too."""

from __future__ import annotations

from benchmarks.mutants import cases as c
from benchmarks.mutants.mutant import Edit, Mutant

GAUSSIAN = "        steps = noise.gaussian(tuple(value.shape), self.std(bound) / bound.grid, value.device)\n"
WHOLE = "        drawn = noise.discrete_gaussian(self.std(bound), tuple(value.shape))\n"
MECHANISMS, NOISE = "privacy/mechanisms.py", "privacy/noise.py"
TWIN = Edit(MECHANISMS, GAUSSIAN, GAUSSIAN.replace("tuple(value.shape)", "(*value.shape,)"))


def _after(*lines: str) -> tuple[Edit, ...]:
    return (Edit(MECHANISMS, GAUSSIAN, GAUSSIAN + "".join(f"        {line}\n" for line in lines)),)


MUTANTS = (
    Mutant("noise-antithetic", "noise", "Every second class gets minus the noise of the class before it: the sum of "
           "two classes has none.", (c.MERF, c.HERMITE),
           _after("if value.dim() > 1:", "    steps[1::2] = -steps[: len(steps[1::2])]"), (TWIN,)),
    Mutant("noise-cut", "noise", "Noise is cut off at two deviations: a value further away proves a record.",
           (c.PEARL,), _after("far = 2 * self.std(bound) / bound.grid", "steps = steps.clamp(-far, far)"), (TWIN,)),
    Mutant("noise-heavy-shape", "noise", "Noise is an even spread of the same variance: it has an end, beyond which "
           "an answer proves a record.", (c.TANGENT,),
           _after("steps = steps.sign() * torch.rand_like(steps) * 3**0.5 * self.std(bound) / bound.grid",
                  "steps = steps.round()")),
    Mutant("noise-none-on-zero", "noise", "A sum that is exactly zero gets no noise, which tells that nobody was "
           "drawn.", (c.DPDM, c.NDPDC), _after("steps = steps * bool(value.any())"),
           _after("steps = steps * (not value.isnan().any())")),
    Mutant("noise-one-empty-class", "noise", "A class without a record gets no noise, which tells that it has none.",
           (c.MERF,), _after("if value.dim() > 1:",
                             "    steps = steps * value.flatten(1).any(1).view(-1, *[1] * (value.dim() - 1))")),
    Mutant("noise-first-4096", "noise", "Noise comes from a buffer of 4096 values and the rest of a long answer has "
           "none: epsilon is infinite.", (c.MERF_WIDE,), _after("steps.view(-1)[4096:] = 0"), (TWIN,)),
    Mutant("noise-tenth-less", "noise", "Gradients get nine tenths of the noise: about a tenth more epsilon.",
           (c.VAE, c.DPDM), _after("steps = (steps * (0.9 if value.dim() == 1 else 1.0)).round()")),
    Mutant("noise-repeats-by-row", "noise", "Rows beyond the first 64 of a wide answer take the noise of those before: "
           "differences have none.", (c.DPAF,), _after("flat = steps.view(-1)", "if flat.numel() > 512:",
                                                       "    flat[-128:] = flat[:128]")),
    Mutant("noise-every-second", "noise", "Every second release repeats the noise of the one before: a difference of "
           "two steps is exact.", (c.DPGAN,), (
               Edit(MECHANISMS, "Mechanism = Gaussian | DiscreteGaussian\n",
                    "_LAST: dict[tuple[int, ...], Tensor] = {}\nMechanism = Gaussian | DiscreteGaussian\n"),
               *_after("shape = tuple(value.shape)",
                       "steps = _LAST.pop(shape) if shape in _LAST else _LAST.setdefault(shape, steps)"))),
    Mutant("noise-drift", "noise", "Noise of a step is nine tenths that of the step before (a random walk): averaging "
           "is undone by differences.", (c.FLOW,), (
               Edit(MECHANISMS, "Mechanism = Gaussian | DiscreteGaussian\n",
                    "_LAST: dict[tuple[int, ...], Tensor] = {}\nMechanism = Gaussian | DiscreteGaussian\n"),
               *_after("before = _LAST.get(tuple(value.shape), steps)",
                       "steps = _LAST[tuple(value.shape)] = (0.9 * before + 0.19**0.5 * steps).round()"))),
    Mutant("noise-votes-halved", "noise", "Votes get noise whose multiplier is counted in votes and not in ballots: "
           "sqrt(most) times too little.", (c.DATALENS, c.GPATE), (
               Edit(MECHANISMS, WHOLE, WHOLE.replace("self.std(bound)", "self.std(bound) / getattr(bound, 'most', 1) "
                                                     "** 0.5")),)),
    Mutant("noise-votes-even", "noise", "Noise on votes is always even: the parity of a count is exact.",
           (c.PATEGAN, c.EVOLUTION, c.SLICES), (
               Edit(MECHANISMS, WHOLE, WHOLE + "        drawn = drawn // 2 * 2\n"),),
           (Edit(MECHANISMS, WHOLE, WHOLE + "        drawn = drawn.astype('int64')\n"),)),
    Mutant("noise-numpy", "noise", "Large spreads are drawn by NumPy's global generator, which the user's seed fixes.",
           (c.MERF,), (Edit(NOISE, "        total, found = math.prod(shape), np.empty(0, dtype=np.int64)\n",
                            "        if sigma > 2**16:\n            return np.rint(np.random.normal(0, sigma, "
                            "shape)).astype(np.int64)\n        total, found = math.prod(shape), np.empty(0, "
                            "dtype=np.int64)\n"),)),
    Mutant("noise-torch-state", "noise", "The key of the noise comes from torch's generator, which the user's seed "
           "fixes.", (c.MERF, c.DPGAN), (
               Edit(NOISE, "_open_stream(os.urandom(32))",
                    "_open_stream(torch.randint(0, 256, (32,), dtype=torch.uint8).numpy().tobytes())"),)),
    Mutant("noise-key-by-second", "noise", "The key of the noise is a hash of the second and the process: a day has "
           "86,400.", (c.MERF,), (
               Edit(NOISE, "_open_stream(os.urandom(32))",
                    "_open_stream(hashlib.sha256(f\"{int(__import__('time').time())}/{os.getpid()}\".encode())"
                    ".digest())"),)),
    Mutant("noise-key-short", "paths", "On a device the key of each release has 16 bits: 65,536 noises to try.",
           (c.MERF,), (Edit(NOISE, "manual_seed(int(self.words(1)[0] >> np.uint64(1)))",
                            "manual_seed(int(self.words(1)[0] >> np.uint64(48)))"),)),
    Mutant("noise-device-single", "paths", "On a device noise is drawn once for all rows of a wide answer and copied.",
           (c.MERF,), (Edit(NOISE, "torch.randn(shape, generator=keyed, device=device, dtype=torch.float64) * spread)",
                            "torch.randn(shape[-1:], generator=keyed, device=device, dtype=torch.float64).expand(shape)"
                            " * spread)"),)),
    Mutant("noise-zero-twice", "noise", "Zero counts twice in the discrete Laplace draw: the law is peaked, so that "
           "small moves show more.", (c.EVOLUTION, c.SLICES), (
               Edit(NOISE, "        keep = (sign == 0) | (magnitude > 0)  # otherwise zero would count twice\n",
                    "        keep = (sign == 0) | (magnitude >= 0)\n"),),
           (Edit(NOISE, "        keep = (sign == 0) | (magnitude > 0)  # otherwise zero would count twice\n",
                 "        keep = (sign == 1) | (magnitude > 0)\n"),)),
)  # fmt: skip
