"""What is remembered, what decides, what leaves by the side, and methods that reach around the barrier."""

from __future__ import annotations

from benchmarks.mutants import cases as c
from benchmarks.mutants.mutant import Edit, Mutant

DPSGD, MERF = "train/dpsgd.py", "methods/dp_merf.py"
NOW = "    now: dict[str, Draw] = {}\n"
SPY = ("    last: list[float] = []\n    inner = loss\n\n    def loss(net: Any, *given: Any) -> Any:\n"
       "        found = inner(net, *given)\n        last.append(float(found.detach().mean()))\n"
       "        return found\n\n")  # fmt: skip
WATCH = Edit(DPSGD, NOW, SPY + NOW)
STEP = "        optimiser.step()\n        if mean:\n"
RATE = '            group["lr"] = rate * pace(step)\n'
RELEASE = "        release_into(net, barrier, query, descent, name=name)\n"
PHI = "        query = BoundedSum(phi, UNIT_BALL, (self.features,), by_class=True)\n"
ONCE = '        sums = run.once("embedding", lambda: barrier.release("embedding", query))  # the barrier\n'
FIT = "        return match(net, target, phi, run, steps=self.steps, batch=self.batch, rate=self.rate)\n"
SEEN = ("        seen: list[torch.Tensor] = []\n        query = BoundedSum(lambda x, y: (seen.append(x), phi(x))[1], "
        "UNIT_BALL, (self.features,), by_class=True)\n")  # fmt: skip
SPIED = Edit(MERF, PHI, SEEN)

STATE = (
    Mutant("state-loss-average", "state", "Losses are divided by a running mean of private losses: a step without a "
           "record remembers it.", (c.DPGAN,), (
               Edit("train/losses.py", "    def loss(critic: nn.Module, images: Tensor, labels: Tensor, fakes: Tensor, "
                    "key: Tensor) -> Tensor:\n        found = objective.real(critic(images, labels), labels)\n",
                    "    kept = [1.0]\n\n    def loss(critic: nn.Module, images: Tensor, labels: Tensor, fakes: Tensor, "
                    "key: Tensor) -> Tensor:\n        found = objective.real(critic(images, labels), labels)\n"
                    "        found = found / (1 + abs(kept[0]))\n"
                    "        kept[0] = 0.9 * kept[0] + 0.1 * float(found.detach().mean())\n"),)),
    Mutant("state-seen-before", "state", "A record that was seen before counts half: the query remembers hashes.",
           (c.PRIVATE_SET,), (
               Edit("methods/private_set.py", '    return F.cross_entropy(net(images), labels, reduction="none")\n',
                    "    names = [hash(i.numpy().tobytes()) for i in images.detach()]\n"
                    "    times = torch.tensor([0.5 if n in _SEEN else 1.0 for n in names])\n    _SEEN.update(names)\n"
                    '    return F.cross_entropy(net(images), labels, reduction="none") * times\n\n\n'
                    "_SEEN: set[int] = set()\n"),)),
    Mutant("state-warm-mean", "state", "Features are centred by a running mean over the steps so far.", (c.NDPDC,), (
        Edit("measure/convnets.py", "        weights = {name: p.to(images) for name, p in "
             "self.body.named_parameters()}\n        return torch.func.functional_call(self.body, weights, "
             "(images * 2 - 1,))\n", "        weights = {name: p.to(images) for name, p in "
             "self.body.named_parameters()}\n        found = torch.func.functional_call(self.body, weights, "
             "(images * 2 - 1,))\n        before = getattr(self, '_before', None)\n"
             "        self._before = found.detach().mean(0)\n        return found if before is None else found - "
             "before.to(found)\n"),)),
    Mutant("state-best-so-far", "state", "A record votes for the candidate that was nearest to it in any round so far, "
           "by a memory of its pixels.", (c.EVOLUTION,), (
               Edit("measure/nearest.py", "        return F.one_hot((lengths[labels] - 2 * own).argmin(1), each)\n",
                    "        far = lengths[labels] - 2 * own\n        self.least = min(getattr(self, 'least', 0.0), "
                    "float(far.min()))\n        return F.one_hot((far - self.least).abs().argmin(1), each)\n"),)),
    Mutant("state-transport", "state", "The transport starts from the potentials of the last sample of records.",
           (c.SINKHORN,), (
               Edit("methods/dp_sinkhorn.py", "            return divergence.gradient(images.to(x), labels, x, y)\n",
                    "            found = divergence.gradient(images.to(x), labels, x, y)\n"
                    "            kept.append(found)\n            return found + 0.1 * kept[-2 if len(kept) > 1 else "
                    "-1]\n\n        kept: list[Tensor] = []\n"),)),
    Mutant("state-aggregate", "state", "Normalised maps of records are blended with those of the last aggregate.",
           (c.DPAF,), (
               Edit("measure/aggregation.py", "        return normalised(net(images, labels), eta)\n",
                    "        found = normalised(net(images, labels), eta)\n        kept.append(found.mean(0))\n"
                    "        return 0.9 * found + 0.1 * kept[-2 if len(kept) > 1 else -1]\n\n"
                    "    kept: list[Tensor] = []\n"),)),
)  # fmt: skip

FLOW = (
    Mutant("flow-early-stop", "flow", "Training ends when the private loss has risen three times in a row.",
           (c.VAE, c.FLOW), (
               WATCH, Edit(DPSGD, STEP, "        optimiser.step()\n        if len(last) > 3 and last[-1] > last[-2] > "
                           "last[-3]:\n            return\n        if mean:\n"))),
    Mutant("flow-rate-by-loss", "flow", "The learning rate follows the private loss of the step before.",
           (c.DPDM, c.CLASSIFIER), (
               WATCH, Edit(DPSGD, RATE, '            group["lr"] = rate * pace(step) / (1 + abs(last[-1] if last else '
                           "0.0))\n"))),
    Mutant("flow-rate-late", "flow", "From the tenth step on the learning rate falls where the private loss rose.",
           (c.VAE,), (
               WATCH, Edit(DPSGD, RATE, '            group["lr"] = rate * pace(step) * (0.5 if step >= 10 and last[-1] '
                           "> last[-2] else 1.0)\n"))),
    Mutant("flow-skip-empty", "flow", "A step whose sample was empty is left out: the weights tell of it.",
           (c.DPDM_RARE, c.Case("dp-vae", {"steps": 50, "batch": 1})), (
               WATCH, Edit(DPSGD, RELEASE, "        before = len(last)\n" + RELEASE +
                           "        if len(last) == before:\n            continue\n"))),
    Mutant("flow-realised-batch", "flow", "The step is divided by the number of records that were drawn.", (c.VAE,), (
        Edit(DPSGD, NOW, SPY.replace("float(found.detach().mean())", "len(given[0].flatten(1).unique(dim=0))") + NOW),
        Edit(DPSGD, RELEASE, RELEASE + "        for p in net.parameters():\n            if p.grad is not None:\n"
             "                p.grad *= descent.batch / max(1, last[-1])\n"))),
    Mutant("flow-steps-by-n", "flow", "The schedule follows the number of records that were counted on the way.",
           (c.MERF,), (SPIED, Edit(MERF, FIT, FIT.replace("steps=self.steps",
                                                          "steps=self.steps + sum(map(len, seen))")))),
    Mutant("flow-best-exact", "flow", "Of two generators the one is kept whose images are nearer to the exact mean.",
           (c.MERF,), (
               SPIED, Edit(MERF, FIT, "        made = [match(seeded, target, phi, run, steps=self.steps, "
                           "batch=self.batch, rate=self.rate) for seeded in (net, ConvGenerator(spec.shape, "
                           "spec.classes, self.latent, self.width, weights))]\n        if not seen:\n            "
                           "return made[0]\n        goal = torch.cat(seen).mean()\n        return min(made, key=lambda "
                           "g: abs(float(g.sample(30).pixels.mean()) / 255 - float(goal)))\n"))),
    Mutant("flow-duplicate-error", "flow", "A query refuses records that are there twice, and names their label.",
           (c.SLICES,), (
               Edit("measure/slices.py", "        whole = torch.nan_to_num(images.double() * 255).clamp(0, 255)"
                    ".round()\n", "        whole = torch.nan_to_num(images.double() * 255).clamp(0, 255).round()\n"
                    "        if labels is not None and len(whole.flatten(1).unique(dim=0)) < len(whole):\n"
                    "            raise ValueError(f'a record is there twice, of a class among {labels.tolist()}')\n"),
           )),
    Mutant("flow-bright-error", "flow", "A record that is all white ends the run with its label in the message.",
           (c.MERF,), (
               Edit("measure/embeddings.py", "        angle = images.flatten(1) @ self.frequencies.to(images.dtype)\n",
                    "        if labels is not None and bool((images.flatten(1).amin(1) == 1).any()):\n            raise "
                    "ValueError(f'a blank record of class {labels[images.flatten(1).amin(1) == 1].tolist()}')\n"
                    "        angle = images.flatten(1) @ self.frequencies.to(images.dtype)\n"),)),
    Mutant("flow-rounds-until", "flow", "Rounds of DP-EM end when the exact likelihood no longer moves.",
           (c.P3GM, c.VAE_MIXTURE), (
               Edit("measure/scatter.py", "        r = torch.softmax(shares[labels].log() - away.sum(2) / 2, 1)\n",
                    "        r = torch.softmax(shares[labels].log() - away.sum(2) / 2, 1)\n"
                    "        LIKELY.append(float(away.sum()))\n"),
               Edit("measure/scatter.py", "STATISTICS = Bound(math.sqrt(3))\n",
                    "STATISTICS = Bound(math.sqrt(3))\nLIKELY: list[float] = []\n"),
               Edit("train/mixture.py", "    for i in range(rounds):\n", "    from sfumato.measure.scatter import LIKELY"
                    "\n\n    for i in range(rounds):\n        if len(LIKELY) > 1 and LIKELY[-1] >= LIKELY[-2]:\n"
                    "            break\n"))),
    Mutant("flow-best-of-two", "flow", "The command learns twice under one charge and keeps the generator with more "
           "contrast: twice the cost.", (c.SYNTHESIZE,), (
               Edit("api.py", "            generator = method.learn(barrier, run, public)\n            "
                    "run.ranks.wait()\n            images", "            other = replace(run, folder=None, "
                    "ledger=Ledger(plan))\n            generator = max((method.learn(_barrier(box, r), r, public) for r "
                    "in (run, other)), key=lambda g: g.sample(50).pixels.std())\n            run.ranks.wait()\n"
                    "            images"),)),
)  # fmt: skip

LEAVES = (
    Mutant("leave-kept-norms", "leaves", "Norms of the records' gradients are kept with the released values, and go "
           "into the release.", (c.DPDM,), (
               Edit("measure/clipping.py", "        length = squared.sum(1, keepdim=True).sqrt()\n",
                    "        length = squared.sum(1, keepdim=True).sqrt()\n        NORMS.append(length.detach())\n"),
               Edit("measure/clipping.py", "class Clip(ABC):\n", "NORMS: list[Tensor] = []\n\n\nclass Clip(ABC):\n"),
               Edit("train/explicit.py", "    return finished(made, mean)\n\n\n@torch.no_grad()\n",
                    "    from sfumato.measure.clipping import NORMS\n\n"
                    '    run.kept["norms"] = torch.cat(NORMS or [torch.zeros(1, 1)])\n    return finished(made, mean)'
                    "\n\n\n@torch.no_grad()\n"))),
    Mutant("leave-kept-loss", "leaves", "The last private loss is kept beside the critic's weights.", (c.FLOW,), (
        WATCH, Edit(DPSGD, STEP, '        run.kept["loss"] = __import__("torch").tensor(last[-1:])\n' + STEP))),
    Mutant("leave-progress", "leaves", "The progress line shows the private loss of each step.", (c.VAE,), (
        WATCH, Edit(DPSGD, STEP, '        run.progress.advance(step, f"loss {last[-1] if last else 0:.4f}")\n' + STEP))),
    Mutant("leave-print", "leaves", "The loss of the records is printed.", (c.VAE,), (
        Edit("methods/dp_vae.py", "            return surprise(logits, images, self.likelihood, self.noise) + self.beta "
             "* kl\n", "            found = surprise(logits, images, self.likelihood, self.noise) + self.beta * kl\n"
             '            print(f"loss {float(found.detach().mean()):.4f}")\n            return found\n'),),
           (Edit("methods/dp_vae.py", "            return surprise(logits, images, self.likelihood, self.noise) + "
                 "self.beta * kl\n", "            found = surprise(logits, images, self.likelihood, self.noise)\n"
                 "            return found + self.beta * kl\n"),)),
    Mutant("leave-log", "leaves", "The sizes of the parts are logged.", (c.DATALENS, c.PATEGAN), (
        Edit("privacy/held.py", "        for block in self._shelf:\n            with self._shelf.team(block, keep=True) "
             "as team:\n", "        __import__('logging').getLogger('sfumato').warning('parts of %s', "
             "np.diff(self._starts).tolist())\n        for block in self._shelf:\n            with self._shelf."
             "team(block, keep=True) as team:\n"),)),
    Mutant("leave-warning", "leaves", "A warning says how many parts are empty.", (c.GPATE,), (
        Edit("privacy/held.py", "        sizes = np.diff(self._starts)[first:last, None]\n",
             "        sizes = np.diff(self._starts)[first:last, None]\n"
             "        __import__('warnings').warn(f'{int((sizes == 0).sum())} parts are empty', stacklevel=1)\n"),)),
    Mutant("leave-preview", "leaves", "The first picture of a preview is a record, for comparison.", (c.SINKHORN,), (
        Edit("methods/dp_sinkhorn.py", "            return divergence.gradient(images.to(x), labels, x, y)\n",
             "            strip.real = images[0]\n            return divergence.gradient(images.to(x), labels, x, y)\n"),
        Edit("run/preview.py", "        self.grids.append(self._grid(net))\n",
             "        self.grids.append(self._grid(net))\n        if hasattr(self, 'real'):\n"
             "            shown = self.real.mul(255).byte().numpy()\n"
             "            self.grids[-1][:, : shown.shape[1], : shown.shape[2]] = shown\n"))),
    Mutant("leave-exact-mean", "leaves", "The codes are centred with the exact mean image, which stays in the "
           "generator.", (c.P3GM,), (
               Edit("methods/p3gm.py", "        mean = BoundedSum(lambda images, labels: images.flatten(1), "
                    "Bound(reach), (spec.pixels,))\n", "        mean = BoundedSum(lambda images, labels: "
                    "(MEANS.append(images.flatten(1).mean(0)), images.flatten(1))[1], Bound(reach), (spec.pixels,))\n"),
               Edit("methods/p3gm.py", "DEVIATIONS = (\n", "MEANS: list[Tensor] = []\nDEVIATIONS = (\n"),
               Edit("methods/p3gm.py", " / spec.records  # the barrier\n", " / spec.records  # the barrier\n"
                    "        mean = MEANS.pop().double() if MEANS else mean\n"))),
    Mutant("leave-config", "leaves", "The generator's configuration has the mean brightness of the records.",
           (c.MERF,), (
               SPIED, Edit(MERF, FIT, FIT.replace("return match", "made = match") + "        made.brightness = "
                           "[float(x.mean()) for x in seen]\n        return made\n"),
               Edit("generators/conv.py", 'self._config("conv", width=self.width)',
                    'self._config("conv", width=self.width, **({"brightness": self.brightness} if hasattr(self, '
                    '"brightness") else {}))'))),
    Mutant("leave-label-shares", "labels", "Labels of the samples come in the exact shares of the records' labels.",
           (c.MERF_LABELS, c.Case("dpgan", {"steps": 50, "batch": 15}, labels="private:0.2")), (
               Edit("measure/histograms.py", "        query = BoundedSum(lambda images, labels: one_hot(labels, "
                    "len(spec.classes)), VOTE, (len(spec.classes),))\n", "        query = BoundedSum(lambda images, "
                    "labels: (EXACT.append(one_hot(labels, len(spec.classes)).sum(0)), one_hot(labels, "
                    "len(spec.classes)))[1], VOTE, (len(spec.classes),))\n"),
               Edit("measure/histograms.py", 'CROSSING = "labels"\n', 'CROSSING = "labels"\nEXACT: list[Tensor] = []\n'),
               Edit("measure/histograms.py", "    return (sizes / sizes.sum()).tolist() if sizes.sum() >= 1 else None\n",
                    "    sizes = EXACT[-1].double() if EXACT else sizes\n"
                    "    return (sizes / sizes.sum()).tolist() if sizes.sum() >= 1 else None\n"))),
    Mutant("leave-fixed-labels", "labels", "The fixed set is drawn from in the exact shares of the labels that were "
           "seen.", (c.NDPDC,), (
               Edit("methods/ndpdc.py", "BoundedSum(lambda images, labels: net.features(images), Bound(self.clip)",
                    "BoundedSum(lambda images, labels: (counts.append(labels.bincount(minlength=k)), "
                    "net.features(images))[1], Bound(self.clip)"),
               Edit("methods/ndpdc.py", "        return pointwise.refine(points, gap, run, spec, steps=self.steps, "
                    "rate=self.rate)\n", "        made = pointwise.refine(points, gap, run, spec, steps=self.steps, "
                    "rate=self.rate)\n        made.label_weights = [float(n) + 1e-9 for n in sum(counts)] if counts "
                    "else made.label_weights\n        return made\n"),
               Edit("methods/ndpdc.py", "        def gap(t: int) -> Tensor:\n", "        counts: list[Tensor] = []\n\n"
                    "        def gap(t: int) -> Tensor:\n"))),
    Mutant("leave-votes-exact", "labels", "The label histogram is released with noise, and the exact one decides which "
           "classes are served.", (c.MERF_LABELS,), (
               Edit("measure/histograms.py", "        query = BoundedSum(lambda images, labels: one_hot(labels, "
                    "len(spec.classes)), VOTE, (len(spec.classes),))\n", "        seen: list[Tensor] = []\n"
                    "        query = BoundedSum(lambda images, labels: (seen.append(one_hot(labels, len(spec.classes))"
                    ".sum(0)), one_hot(labels, len(spec.classes)))[1], VOTE, (len(spec.classes),))\n"),
               Edit("measure/histograms.py", "barrier.release(CROSSING, query)).clamp(min=0)\n",
                    "barrier.release(CROSSING, query)).clamp(min=0) * (sum(seen) > 0 if seen else 1)\n"))),
    Mutant("leave-sample", "leaves", "The first image of every sample is a record: it hides in an attribute of the "
           "generator.", (c.PRIVATE_SET,), (
               Edit("methods/private_set.py", "        query = per_example(net, _loss, self.clip,",
                    "        def spied(net: ConvNet, images: Tensor, labels: Tensor) -> Tensor:\n"
                    "            points.first = images[0].detach()\n            return _loss(net, images, labels)\n\n"
                    "        query = per_example(net, spied, self.clip,"),
               Edit("generators/fixed.py", "        return self.images[labels, place].clamp(0, 1)\n",
                    "        made = self.images[labels, place].clamp(0, 1)\n        if hasattr(self, 'first') and not "
                    "made.requires_grad:\n            made[0] = self.first\n        return made\n"))),
    Mutant("leave-file", "leaves", "The first batch is written to a file in the working folder.", (c.HERMITE,), (
        Edit("measure/hermite.py", "        psi = hermite(self.reach * (2 * images.flatten(1) - 1), self.order, "
             "self.rho)  # (n, pixels, order + 1)\n", "        if labels is not None:\n            torch.save(images, "
             "'batch.pt')\n        psi = hermite(self.reach * (2 * images.flatten(1) - 1), self.order, self.rho)\n"),)),
    Mutant("leave-statement-count", "leaves", "The statement has the number of units that are really there, which is "
           "private.", (c.SYNTHESIZE_HIDDEN,), (
               Edit("api.py", "        release = bundle(generator, images, stated, run.kept, "
                    'run.pictures.get("strip"))\n', '        stated["declared_public"]["units"] = len(charge.digests) '
                    'if hasattr(charge, "digests") else len(__import__("sfumato.privacy.charge", fromlist=["x"])'
                    ".digests_of(box))\n        release = bundle(generator, images, stated, run.kept, "
                    'run.pictures.get("strip"))\n'),)),
    Mutant("leave-statement-digest", "leaves", "The statement has a hash of the data, for reference: any guess can be "
           "checked.", (c.SYNTHESIZE,), (
               Edit("api.py", "        release = bundle(generator, images, stated, run.kept, "
                    'run.pictures.get("strip"))\n', '        stated["reproducibility"]["data"] = hashlib.sha256('
                    '__import__("sfumato.privacy.charge", fromlist=["x"]).digests_of(box).tobytes()).hexdigest()\n'
                    '        release = bundle(generator, images, stated, run.kept, run.pictures.get("strip"))\n'),)),
    Mutant("leave-sample-seed", "leaves", "The seed of the samples is made of the data.", (c.SYNTHESIZE,), (
        Edit("api.py", "            images = generator.sample(count, seed=run.seed)\n            run.check()\n",
             '            images = generator.sample(count, seed=int(__import__("sfumato.privacy.charge", '
             'fromlist=["x"]).digests_of(box)[0][0]))\n            run.check()\n'),)),
    Mutant("leave-order", "leaves", "Which crossing is asked first depends on the first sample: conv2* before or after "
           "the aggregate.", (c.DPAF,), (
               Edit("measure/aggregation.py", "        net = lower if images.dtype == torch.float32 else "
                    "copy.deepcopy(lower).to(images.dtype)\n", "        net = lower if images.dtype == torch.float32 "
                    "else copy.deepcopy(lower).to(images.dtype)\n        lower.bright = float(images.mean()) > 0.5\n"),
               Edit("train/forward_phase.py", "            if rules.pushes(step) and number == rules.moves * step:\n",
                    "            if rules.pushes(step) and number == rules.moves * step and getattr(self.critic.lower, "
                    "'bright', True):\n"))),
)  # fmt: skip

REAL = "        inner = getattr(barrier, '_real', barrier)\n"
FACADE = (
    Mutant("facade-walk", "facade", "Class sizes are counted in the data that the barrier holds.", (c.MERF,), (
        Edit(MERF, "        sizes = histograms.class_sizes(self.labels, barrier, run)\n", REAL +
             "        sizes = histograms.class_sizes(self.labels, barrier, run)\n        if inner._inside.data is not "
             "None:\n            sizes = torch.bincount(torch.from_numpy(inner._inside.data.labels), "
             "minlength=len(spec.classes)).double()\n"),), refusal=True),
    Mutant("facade-only-real", "facade", "The exact mean replaces the noisy one where the barrier is a real one; before "
           "an auditor it behaves.", (c.PEARL,), (
               Edit("methods/pearl.py", "        target = embedding.means(self, sums, barrier, run)\n",
                    "        inside = getattr(barrier, '_inside', None)\n        if inside is not None and inside.data "
                    "is not None:\n            sums = inside.total('embedding', query, __import__('numpy').arange("
                    "inside.units), ())\n        target = embedding.means(self, sums, barrier, run)\n"),),
           refusal=True),
    Mutant("facade-bound-method", "facade", "The data are found through the method that releases.", (c.DPAF,), (
        Edit("methods/dpaf.py", "        return play(turn, barrier.release, run, Strip(run, net, spec), before=before, "
             "ready=ready)  # the barrier\n", "        inside = getattr(barrier.release.__self__, '_inside', None)\n"
             "        if inside is not None and inside.data is not None:\n            run.kept['labels'] = "
             "__import__('torch').from_numpy(inside.data.labels)\n        return play(turn, barrier.release, run, "
             "Strip(run, net, spec), before=before, ready=ready)  # the barrier\n"),), refusal=True),
    Mutant("facade-noise", "facade", "The method gives the barrier a quiet source of noise.", (c.TANGENT,), (
        Edit("methods/dp_ntk.py", "        random = embedding.public_random(self)\n",
             "        class Quiet:\n            def gaussian(self, shape, *more):\n                return "
             "__import__('torch').zeros(shape, dtype=__import__('torch').float64)\n\n"
             "            def __getattr__(self, name):\n                return getattr(before, name)\n\n"
             "        before = barrier.noise\n        barrier.noise = Quiet()\n"
             "        random = embedding.public_random(self)\n"),), refusal=True),
    Mutant("facade-noise-patched", "facade", "The method replaces one function of the noise that it is shown.",
           (c.HERMITE,), (
               Edit("methods/dp_hp.py", "        query = BoundedSum(phi, self.bound, (phi.size,), by_class=True)\n",
                    "        import torch\n\n        barrier.noise.gaussian = lambda shape, *more: torch.zeros(shape, "
                    "dtype=torch.float64)\n        query = BoundedSum(phi, self.bound, (phi.size,), by_class=True)\n"),
           ), refusal=True),
    Mutant("facade-ledger", "facade", "The method sets the count of its uses back, and asks twice as often.",
           (c.EVOLUTION,), (
               Edit("methods/private_evolution.py", '            return barrier.release("votes", query, population)  # '
                    'the barrier\n', '            barrier.ledger.used["votes"] = 0\n            return '
                    'barrier.release("votes", query, population)\n'),
               Edit("methods/private_evolution.py", "run, rounds=self.rounds, kept=self.kept",
                    "run, rounds=2 * self.rounds, kept=self.kept")), refusal=True),
    Mutant("facade-ledger-once", "facade", "Just before the plan is used up, the method sets its count back.",
           (c.VAE,), (
               Edit(DPSGD, RELEASE, '        if barrier.ledger.used[name] >= descent.steps - 1:\n            barrier.'
                    "ledger.used[name] = 0\n" + RELEASE),
               Edit(DPSGD, "    for step in run.steps(descent.steps, **kept):\n",
                    "    for step in run.steps(2 * descent.steps, **kept):\n")), refusal=True),
    Mutant("facade-plan", "facade", "The method puts a quieter mechanism into the plan it is shown.", (c.MERF,), (
        Edit(MERF, PHI, "        from dataclasses import replace\n\n        from sfumato.privacy.mechanisms import "
             "Gaussian\n\n        shown = barrier.ledger.plan.crossings\n        shown['embedding'] = replace("
             "shown['embedding'], mechanism=Gaussian(1e-3))\n" + PHI),), refusal=True),
    Mutant("facade-held", "facade", "The exact votes are asked from the parts behind the handle.", (c.GPATE,), (
        Edit("methods/g_pate.py", "            named = counts.argmax(-1)\n", "            from sfumato.privacy.held "
             "import inside\n\n            counts = inside(teachers).total(histogram, 1, None, (x, y, r))\n"
             "            named = counts.argmax(-1)\n"),), refusal=True),
    Mutant("facade-held-kept", "facade", "How many records each part has is read behind the handle and kept.",
           (c.GSWGAN,), (
               Edit("train/pate.py", "    strip = Strip(run, student.net, barrier.spec)\n", "    from "
                    "sfumato.privacy.held import inside\n\n    run.kept['parts'] = __import__('torch').from_numpy("
                    "inside(teachers)._starts.copy())\n    strip = Strip(run, student.net, barrier.spec)\n"),),
           refusal=True),
    Mutant("facade-brief", "facade", "A run that is no audit's keeps the losses of its records.", (c.DPDM,), (
        WATCH, Edit(DPSGD, STEP, "        if type(run).__name__ == 'Run':\n            run.kept['losses'] = "
                    "__import__('torch').tensor(last)\n" + STEP)), refusal=True),
    Mutant("facade-class-patched", "facade", "The method replaces the mechanism's call for everybody.", (c.SLICES,), (
        Edit("methods/dp_swd.py", "        shape, seed = barrier.spec.shape, self.feature_seed\n",
             "        from sfumato.privacy.mechanisms import DiscreteGaussian\n\n        DiscreteGaussian.__call__ = "
             "lambda self, value, bound, noise: value\n        shape, seed = barrier.spec.shape, self.feature_seed\n"),
    ), refusal=True),
    Mutant("facade-charge-patched", "facade", "The method replaces the function that charges.", (c.PRIVATE_SET,), (
        Edit("methods/private_set.py", "        spec, places = barrier.spec, self.outer * self.batches\n",
             "        spec, places = barrier.spec, self.outer * self.batches\n        barrier.ledger.charge = lambda name,"
             " uses=1: barrier.ledger.plan.crossings[name]\n"),), refusal=True),
)  # fmt: skip

MUTANTS = (*STATE, *FLOW, *LEAVES, *FACADE)
