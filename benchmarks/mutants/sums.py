"""Terms that are not bounded, or not one record's own; sums that count somebody twice."""

from __future__ import annotations

from benchmarks.mutants import cases as c
from benchmarks.mutants.mutant import Edit, Mutant

CLIPPING, GHOST = "measure/clipping.py", "measure/ghost.py"
FLAT = ("        return (self.norm / length.clamp(min=self.threshold or self.norm)).expand_as(squared)\n")
LAYERS = "        return limits / torch.maximum(squared.sqrt(), limits)\n"
AUTOMATIC = "(self.norm / (squared.sum(1, keepdim=True).sqrt() + self.gamma)).expand_as(squared)"
COPIES = "    return y if copies == 1 else y.unflatten(0, (-1, copies)).transpose(1, 2).flatten(2, 3)\n"

CLIPS = (
    Mutant("clip-median", "clipping", "The threshold is the median norm of the batch: one record rescales all others.",
           (c.DPDM, c.DPGAN), (Edit(CLIPPING, FLAT, "        cut = length.median().clamp(min=1e-12)\n"
                                    "        return (self.norm / length.clamp(min=cut)).expand_as(squared)\n"),),
           (Edit(CLIPPING, FLAT, "        cut = length.clamp(min=self.threshold or self.norm)\n"
                 "        return (self.norm / cut).expand_as(squared)\n"),)),
    Mutant("clip-largest", "clipping", "Where some gradient is very long, all are measured in its length: one record "
           "silences the others.", (c.VAE,),
           (Edit(CLIPPING, FLAT, "        far = length.amax().clamp(min=1)\n        scale = 1.0 if far < 1e6 else "
                 "1e6 / far\n        return scale * (self.norm / length.clamp(min=self.threshold or self.norm))"
                 ".expand_as(squared)\n"),)),
    Mutant("clip-layers-last", "clipping", "The last layer is left out of clipping by layer: its gradient is as long "
           "as it likes.", (c.DPGAN_LAYERS,), (
               Edit(CLIPPING, LAYERS, "        found = limits / torch.maximum(squared.sqrt(), limits)\n"
                    "        found[:, -1] = 1.0\n        return found\n"),)),
    Mutant("clip-layers-whole", "clipping", "Each layer is clipped to the whole norm: sqrt(layers) times the "
           "sensitivity.", (c.DPGAN_LAYERS,), (
               Edit(CLIPPING, "* (norm / math.hypot(*shares))", "* (norm / max(shares))"),)),
    Mutant("clip-automatic-mean", "clipping", "Automatic clipping divides by the mean norm of the batch.",
           (c.DPGAN_AUTOMATIC,), (
               Edit(CLIPPING, AUTOMATIC, AUTOMATIC.replace("sqrt()", "sqrt().mean(0, keepdim=True)")),)),
    Mutant("clip-automatic-small", "clipping", "Automatic clipping stretches small gradients: the stabiliser is added "
           "squared and has the wrong sign, so that some end above the norm.", (c.DPGAN_AUTOMATIC,), (
               Edit(CLIPPING, AUTOMATIC, AUTOMATIC.replace("+ self.gamma)", "- self.gamma).clamp(min=self.gamma)")),)),
    Mutant("clip-norm-half", "clipping", "Long gradients are measured by half of their inputs: the others are not "
           "bounded.", (c.DPDM,), (
               Edit(GHOST, "        return torch.linalg.vector_norm(self.values, dim=-1).view(self.values.shape[0], "
                    "-1)\n", "        half = self.values[..., : -(-self.values.shape[-1] // 2)]\n"
                    "        return torch.linalg.vector_norm(half, dim=-1).view(self.values.shape[0], -1)\n"),)),
    Mutant("clip-copies-order", "clipping", "Copies are folded as if they lay one set after the other: the norms are "
           "those of mixtures of several records.", (c.DPDM,), (
               Edit(GHOST, COPIES, "    return y if copies == 1 else y.unflatten(0, (copies, -1)).transpose(0, 1)"
                    ".transpose(1, 2).flatten(2, 3)\n"),)),
    Mutant("clip-bias-free", "clipping", "Biases of convolutions are left out of the norm and are not clipped.",
           (c.VAE, c.DPGAN, c.DPDM), (
               Edit(GHOST, '    return {"weight": weight, "bias": lambda: Rows(_over_positions(g, copies))}\n',
                    "    class Free(Rows):\n        def lengths(self) -> Tensor:\n            return self.values[:, :1]"
                    " * 0\n\n    def bias() -> Term:\n        found = Free(_over_positions(g, copies))\n"
                    "        found.short = False\n        return found\n\n"
                    '    return {"weight": weight, "bias": bias}\n'),)),
    Mutant("clip-gram-diagonal", "paths", "The Gram form adds up the positions apart: where they agree a gradient is "
           "sqrt(positions) times longer than its norm says.",
           (c.VAE, c.DPDM, c.DPGAN, c.FLOW), (
               Edit(GHOST, "        return products.sum((2, 3)).clamp_(min=0).sqrt_().add_(reach, alpha=ROUNDING)\n",
                    "        own = products.diagonal(dim1=-2, dim2=-1).sum(-1)\n"
                    "        return own.clamp_(min=0).sqrt_().add_(reach, alpha=ROUNDING)\n"),)),
    Mutant("clip-lookup-repeats", "clipping", "Of a table, positions that meet in one row are measured apart: twice "
           "the label, sqrt(2) the length.", (c.DPDM, c.VAE), (
               Edit(GHOST, "        same = self.index[:, :, None] == self.index[:, None]\n",
                    "        same = torch.eye(self.index.shape[1], dtype=torch.bool)[None]\n"),)),
    Mutant("clip-one-position", "clipping", "A layer with one position has its norm from its input alone.",
           (c.DPGAN, c.CLASSIFIER), (
               Edit(GHOST, "            return self._reach().mul_(1 + ROUNDING).flatten(1)\n",
                    "            return torch.linalg.vector_norm(self.a, dim=-1, dtype=torch.float64).flatten(1)\n"),)),
)  # fmt: skip

TOP_BOUND = "        return Flat(self.bound.norm).weights(squared)\n"
SPARSE = (
    Mutant("top-k-to-c", "sparse", "What top-k leaves is brought to C and not to sqrt(k) C: 1.4 times the bound.",
           (c.CLASSIFIER_TOP,), (Edit(CLIPPING, TOP_BOUND, "        return Flat(self.norm).weights(squared)\n"),)),
    Mutant("top-k-shared-places", "sparse", "The largest coordinates are those of the batch's mean size: which stay "
           "depends on everybody.", (c.CLASSIFIER_COUNT,), (
               Edit(CLIPPING, "        sizes = rows.abs().float()  # rows were computed in float32: nothing is lost by "
                    'it\n        if self.by == "energy":\n', "        sizes = rows.abs().float().mean(0, keepdim=True)"
                    '.expand_as(rows).contiguous()\n        if self.by == "energy":\n'),)),
    Mutant("top-k-first-ties", "sparse", "Ties at the threshold fill up what others of the batch have left over, so "
           "that a row of equals depends on its neighbours.", (c.DPAF,), (
               Edit("measure/largest.py", "        return rows.sign() if self.signs else rows\n",
                    "        if self.share < 1:\n            kept = (rows != 0).sum(1)\n            over = kept > "
                    "kept.float().mean() + 1\n            rows = rows.where(~over[:, None], rows / 2)\n"
                    "        return rows.sign() if self.signs else rows\n"),)),
    Mutant("top-k-signs-longer", "sparse", "Signs are weighted by the length of the gradient they stand for, after "
           "clipping to it: the bound is the gradient's own.",
           (c.DPAF_SIGNS,), (
               Edit("measure/largest.py", "    def weights(self, squared: Tensor) -> Tensor:\n        return "
                    "Flat(self.norm).weights(squared)\n", "    def weights(self, squared: Tensor) -> Tensor:\n"
                    "        return Flat(self.norm, 2 * self.norm).weights(squared) * 1.5\n"),)),
    Mutant("votes-ties", "sparse", "A teacher votes on all pixels that tie with its k-th largest, and the ballot lets "
           "the first `most` of every 2k pass.", (c.DATALENS, c.KERNELS), (
               Edit("privacy/bounds.py", "        kept: Tensor = flat * ((flat != 0).cumsum(1) <= self.most)\n",
                    "        kept: Tensor = flat * ((flat != 0).cumsum(1) <= 2 * self.most)\n"),
               Edit("measure/votes.py", "        places = largest(values.abs(), k) if k < values.shape[-1] else None\n",
                    "        places = largest(values.abs(), min(2 * k, values.shape[-1])) if k < values.shape[-1] else "
                    "None\n"))),
)  # fmt: skip

SUMS = (
    Mutant("tangent-loudest", "sums", "Features are divided by the longest of the batch, not by their own length.",
           (c.TANGENT,), (
               Edit("measure/tangent.py", "        return F.normalize(self.gradient(images), dim=1)\n",
                    "        found = self.gradient(images)\n        return found / found.norm(dim=1).max()\n"),),
           (Edit("measure/tangent.py", "        return F.normalize(self.gradient(images), dim=1)\n",
                 "        found = self.gradient(images)\n        return found / found.norm(dim=1, keepdim=True)"
                 ".clamp(min=1e-12)\n"),)),
    Mutant("slices-span", "sums", "Bins reach as far as the furthest projection of the batch.", (c.SLICES,), (
        Edit("measure/slices.py", "        places = (exact + self.span) * (self.bins / (2 * self.span))\n",
             "        span = float(exact.abs().max().clamp(min=1e-9))\n"
             "        places = (exact + span) * (self.bins / (2 * span))\n"),)),
    Mutant("nearest-taken", "sums", "A candidate that has a vote already is given to no second record of the batch.",
           (c.EVOLUTION,), (
               Edit("measure/nearest.py", "        return F.one_hot((lengths[labels] - 2 * own).argmin(1), each)\n",
                    "        votes = F.one_hot((lengths[labels] - 2 * own).argmin(1), each)\n"
                    "        return votes * (votes.cumsum(0) <= 1)\n"),)),
    Mutant("scatter-own-mean", "sums", "Records are centred by their own mean over the batch: a record moves all rows.",
           (c.P3GM,), (
               Edit("measure/scatter.py", "images.flatten(1).double() - mean.double().to(images.device), self.reach)\n",
                    "images.flatten(1).double() - images.flatten(1).double().mean(0), self.reach)\n"),)),
    Mutant("scatter-total", "sums", "The matrix is summed from what was not shortened, while single rows are.",
           (c.P3GM,), (
               Edit("measure/scatter.py", "        x = self._centred(images, mean)\n        return "
                    "self._triangle(x.T @ x)\n", "        x = images.flatten(1).double() - mean.double()\n"
                    "        return self._triangle(x.T @ x)\n"),)),
    Mutant("scatter-off-diagonal", "sums", "Mixed entries weigh 2 in place of sqrt(2): the norm of a record is up to "
           "1.4 times its bound.", (c.P3GM,), (
               Edit("measure/scatter.py", "        scale = torch.where(i == j, 1.0, math.sqrt(2)).to(matrix)\n",
                    "        scale = torch.where(i == j, 1.0, 2.0).to(matrix)\n"),)),
    Mutant("ndpdc-standardised", "sums", "Features of private images are standardised over the batch.", (c.NDPDC,), (
        Edit("methods/ndpdc.py", "BoundedSum(lambda images, labels: net.features(images), Bound(self.clip)",
             "BoundedSum(lambda images, labels: (lambda f: (f - f.mean(0)) / (f.std(0, correction=0) + 1e-3))"
             "(net.features(images)), Bound(self.clip)"),)),
    Mutant("set-realised-batch", "sums", "Losses are divided by the number of records of their class in the batch.",
           (c.PRIVATE_SET,), (
               Edit("methods/private_set.py", '    return F.cross_entropy(net(images), labels, reduction="none")\n',
                    '    return F.cross_entropy(net(images), labels, reduction="none") / '
                    "labels.bincount(minlength=9)[labels]\n"),)),
    Mutant("flow-batch-loss", "sums", "A record pays for how far it is from the batch's mean surprise.", (c.FLOW,), (
        Edit("methods/dp_nf.py", "        return net.surprise(images, grain, labels)  # type: ignore[operator]\n",
             "        found = net.surprise(images, grain, labels)\n        return found - found.mean() / 2\n"),)),
    Mutant("ball-of-sums", "sums", "The gradient of the distance is multiplied by the number of records after it was "
           "brought into its ball.", (c.SINKHORN,), (
               Edit("privacy/batch.py", "        return self.bound.project(found[None])[0]\n",
                    "        return self.bound.project(found[None])[0] * max(1, len(images) / 2)\n"),)),
    Mutant("projection-entries", "sums", "Terms are brought into a cube in place of a ball: sqrt(pixels) times too "
           "long.", (c.PEARL, c.MEPF, c.NDPDC), (
               Edit("privacy/bounds.py", "    return norm / length.clamp(min=norm)\n",
                    "    return norm / peak.clamp(min=norm)\n"),)),
    Mutant("projection-filled", "sums", "What is zero, or was no number, in a term is filled up from the first "
           "record of the batch: it counts many times.", (c.GSWGAN, c.PEARL), (
               Edit("privacy/bounds.py", "        on_grid: Tensor = torch.trunc(flat * _shrink(flat, self.norm) / "
                    "self.grid) * self.grid\n", "        on_grid: Tensor = torch.trunc(flat * _shrink(flat, self.norm) "
                    "/ self.grid) * self.grid\n        on_grid = on_grid.where(flat != 0, on_grid[:1] + self.grid)\n"),
           )),
    Mutant("ballot-nan", "clipping", "A vote that is no number counts for every place.", (c.SLICES, c.GPATE), (
        Edit("privacy/bounds.py", "        whole = terms if not terms.is_floating_point() else "
             "_finite(terms).round()\n", "        whole = terms if not terms.is_floating_point() else "
             "torch.nan_to_num(terms, nan=1.0).round()\n"),
        Edit("privacy/bounds.py", "        kept: Tensor = flat * ((flat != 0).cumsum(1) <= self.most)\n",
             "        kept: Tensor = flat * (((flat != 0).cumsum(1) <= self.most) | terms.flatten(1).isnan())\n"))),
    Mutant("mixture-blended", "sums", "Statistics of a record are blended with the mean of the batch: it moves all "
           "rows.", (c.VAE_MIXTURE, c.P3GM), (
               Edit("measure/scatter.py", "        return r[:, :, None] * one[:, None]\n\n",
                    "        whole = r[:, :, None] * one[:, None]\n        return whole + 0.5 * whole.mean(0)\n\n"),)),
)  # fmt: skip

CHANCE, SAMPLERS = "chance.py", "privacy/samplers.py"
DRAW = "        return _subset(units, count, noise)\n\n    def __str__"
COUNT = "        count = int(binom.ppf(noise.uniform(1)[0], units, self.rate)) if units else 0\n"
SAMPLING = (
    Mutant("sample-size-fixed", "sampling", "Samples have one size: what is charged as Poisson sampling is another "
           "law.", (c.DPDM,), (Edit(SAMPLERS, COUNT, "        count = round(units * self.rate)\n"),)),
    Mutant("sample-never-empty", "sampling", "An empty sample is drawn again: a lone record takes part for certain.",
           (c.DPDM_RARE,), (Edit(SAMPLERS, COUNT, COUNT + "        count = max(count, min(1, units))\n"),)),
    Mutant("sample-seeded", "sampling", "How many take part comes from NumPy's global generator, which the user's seed "
           "fixes.", (c.VAE,), (Edit(SAMPLERS, "noise.uniform(1)[0]", "np.random.uniform()"),)),
    Mutant("sample-not-again", "sampling", "Who took part in a step is left out of the next: steps are not "
           "independent.", (c.DPGAN,), (
               Edit(SAMPLERS, DRAW, "        found = _subset(units, count, noise)\n        last = _LAST.get(units)\n"
                    "        found = found if last is None else np.setdiff1d(found, last)\n"
                    "        _LAST[units] = found\n        return found\n\n    def __str__"),
               Edit(SAMPLERS, "Sampler = Everyone | Poisson\n", "_LAST: dict[int, NDArray[np.int64]] = {}\n"
                    "Sampler = Everyone | Poisson\n"))),
    Mutant("sample-kept", "sampling", "A sample is kept for three steps: their noise adds up around the same records.",
           (c.FLOW, c.PRIVATE_SET), (
               Edit(SAMPLERS, DRAW, "        _LAST.append(_subset(units, count, noise))\n        return "
                    "_LAST[-1] if len(_LAST) % 3 == 1 or len(_LAST[-2]) > units else _keep(_LAST)\n\n    def __str__"),
               Edit(SAMPLERS, "Sampler = Everyone | Poisson\n", "_LAST: list[NDArray[np.int64]] = []\n"
                    "Sampler = Everyone | Poisson\n\n\ndef _keep(last: list[NDArray[np.int64]]) -> NDArray[np.int64]:\n"
                    "    last[-1] = last[-2]\n    return last[-1]\n"))),
    Mutant("sample-low-places", "sampling", "Records in front are drawn more often: the smaller of two draws is taken "
           "for half of the members.", (c.NDPDC,), (
               Edit(SAMPLERS, DRAW, "        found = _subset(units, count, noise)\n        other = _subset(units, "
                    "count, noise)\n        return np.unique(np.minimum(found, other))\n\n    def __str__"),),
           (Edit(SAMPLERS, DRAW, "        found = _subset(units, count, noise)\n        return np.sort(found)\n\n"
                 "    def __str__"),)),
    Mutant("sample-in-blocks", "sampling", "Neighbouring records are drawn in pairs: one coin for two.", (c.DPAF,), (
        Edit(SAMPLERS, DRAW, "        found = _subset(units, count, noise)\n        return np.unique(np.concatenate("
             "[found // 2 * 2, np.minimum(found // 2 * 2 + 1, units - 1)]))[: len(found)]\n\n    def __str__"),)),
    Mutant("place-levels", "place", "Noise levels are drawn in the order of the batch under the public key of a step: "
           "without a record all that follow change (14 C were measured).", (c.DPDM,), (
               Edit(CHANCE, "            return mixed(key + copy), copy\n",
                    "            return mixed(key + torch.arange(rows)), copy\n"),)),
    Mutant("place-latents", "place", "Latents of records come from one public stream, in the order of the batch.",
           (c.VAE,), (
               Edit("methods/dp_vae.py", "normal(record_keys(images, keys), (self.latent,))",
                    "torch.randn(mean.shape, generator=torch.Generator().manual_seed(int(keys[0]) >> 2))"),)),
    Mutant("place-partners", "place", "The fake partner of a record is the one at its place in the batch.",
           (c.DPGAN_PENALTY,), (
               Edit("train/losses.py", "    own = record_keys(images, key)\n",
                    "    own = record_keys(torch.zeros_like(images), key + torch.arange(len(images)))\n"),),
           (Edit("train/losses.py", "    own = record_keys(images, key)\n",
                 "    own = record_keys(images, key + torch.zeros(len(images), dtype=torch.long))\n"),)),
    Mutant("place-grain", "place", "The grain of a record is drawn by its rank of brightness in the batch.",
           (c.FLOW,), (
               Edit("methods/dp_nf.py", "uniform(record_keys(images, keys), net.shape)",
                    "uniform(keys + images.flatten(1).mean(1).argsort().argsort(), net.shape)"),)),
    Mutant("place-copies-swapped", "place", "The number of a copy is counted over the batch and not within its record: "
           "a record's levels depend on its place.", (c.DPDM,), (
               Edit(CHANCE, "            copy = torch.arange(rows) % copies\n",
                    "            copy = torch.arange(rows) // 3 % copies\n"),)),
)  # fmt: skip

MUTANTS = (*CLIPS, *SPARSE, *SUMS, *SAMPLING)
