"""The commands around: choosing settings, classifiers, a published accuracy."""

from __future__ import annotations

from benchmarks.mutants import cases as c
from benchmarks.mutants.mutant import Edit, Mutant

TUNE, CLASSIFY, PUBLISH = "tune.py", "classify/classifier.py", "evaluate/publish.py"
SCORE = "    votes = barrier.release(SCORE, BoundedSum(judge(generator.sample(JUDGED, seed=run.seed)).votes, VOTE, (2,)))\n"
RUNS = "    for _ in range(draw_count(runs)):\n"
BEST = "        best = found if best is None or found.score > best.score else best\n"
LOSS = '    return cross_entropy(net(images), labels, reduction="none")\n'
LEARN = ("        for _, now in descend(net, loss, barrier, run, descent, optimiser, average=self.average):  # the "
         "barrier\n            mean = now\n")  # fmt: skip
VOTES = "        return torch.stack([~right, right], 1).double()\n"
NUMBERS = '        "counts": {"wrong": wrong, "right": right},\n'
QUERY = "        query = _query(net, numbers, release.images)\n"
COUNTS = "            counts = barrier.release(CROSSING, query)  # the barrier\n"

CHOICES = (
    Mutant("tune-exact-score", "tune", "Runs are judged by the exact number of records named right: the choice has no "
           "noise.", (c.TUNE,), (
               Edit(TUNE, SCORE, SCORE + "    inside = barrier._inside\n    votes = inside.total(SCORE, BoundedSum("
                    "judge(generator.sample(JUDGED, seed=run.seed)).votes, VOTE, (2,)), np.arange(inside.units), ())\n"),
           )),
    Mutant("tune-runs-shown", "tune", "The progress shows how many runs there are, which the proof keeps secret.",
           (c.TUNE,), (
               Edit(TUNE, '    run.progress.start("selecting", None)  # the number of runs is private\n', ""),
               Edit(TUNE, RUNS, '    total = draw_count(runs)\n    run.progress.start("selecting", total)\n'
                    "    for _ in range(total):\n"))),
    Mutant("tune-stops", "tune", "Selection ends with the first run that names more than half right: the number of "
           "runs depends on the data.", (c.TUNE,), (
               Edit(TUNE, BEST, BEST + "        if found.score > 0:\n            break\n"),)),
    Mutant("tune-all-kept", "tune", "The released values of all runs go into the release, not those of the best alone.",
           (c.TUNE,), (
               Edit(TUNE, "    kept = dict(hidden.kept)\n", "    run.kept.update({f'{len(run.kept)}-{n}': v for n, v in "
                    "hidden.kept.items()})\n    kept = dict(run.kept)\n"),)),
    Mutant("tune-settings-learn", "tune", "Settings that won are drawn more often: runs are not independent.",
           (c.TUNE,), (
               Edit(TUNE, "        at = draw_index(len(methods))\n", "        at = draw_index(len(methods)) if best is "
                    "None else plans.index(best.plan)\n"),)),
    Mutant("tune-runs-told", "tune", "The statement's words name the number of runs that were made.", (c.TUNE,), (
        Edit(TUNE, RUNS, "    total = draw_count(runs)\n    run.kept['runs'] = np.int64(total)\n"
             "    for _ in range(total):\n"),
        Edit(TUNE, '            f"charged by selection among {len(methods)} settings, {runs.kind} number of runs with '
             'mean {runs.mean:g}"\n', '            f"charged by selection among {len(methods)} settings, the best of '
             "{run.kept['runs']} runs\"\n"))),
)  # fmt: skip

CLASSIFIERS = (
    Mutant("classify-balanced", "classify", "Losses are weighted by how rare a class is in the batch: a record moves "
           "all others of its class.", (c.CLASSIFIER,), (
               Edit(CLASSIFY, LOSS, '    found = cross_entropy(net(images), labels, reduction="none")\n'
                    "    return found / labels.bincount(minlength=1000)[labels]\n"),),
           (Edit(CLASSIFY, LOSS, '    found = cross_entropy(net(images), labels, reduction="none")\n'
                 "    return found * 1.0\n"),)),
    Mutant("classify-best-step", "classify", "The weights of the step with the least private loss are kept.",
           (c.CLASSIFIER,), (
               Edit(CLASSIFY, LOSS, '    found = cross_entropy(net(images), labels, reduction="none")\n'
                    "    LAST.append(float(found.detach().mean()))\n    return found\n\n\nLAST: list[float] = []\n"),
               Edit(CLASSIFY, LEARN, "        import copy\n\n        best = (float('inf'), net.head.state_dict())\n"
                    "        for _, now in descend(net, loss, barrier, run, descent, optimiser, average=self.average):\n"
                    "            mean = now\n            if LAST and LAST[-1] < best[0]:\n                best = (LAST["
                    "-1], copy.deepcopy(net.head.state_dict()))\n        net.head.load_state_dict(best[1])\n"))),
    Mutant("classify-print", "classify", "The share of records that are named right is printed at each step.",
           (c.CLASSIFIER,), (
               Edit(CLASSIFY, LOSS, "    out = net(images)\n    print('accuracy', float((out.argmax(1) == labels)"
                    '.float().mean()))\n    return cross_entropy(out, labels, reduction="none")\n'),)),
    Mutant("classify-config", "classify", "The exact mean of the pixels is written into the configuration.",
           (c.CLASSIFIER,), (
               Edit(CLASSIFY, LOSS, "    MEANS.append(float(images.detach().mean()))\n" + LOSS +
                    "\n\nMEANS: list[float] = [0.1]\n"),
               Edit(CLASSIFY, "        if mean is not None:\n            mean.put(net)\n        return net\n",
                    "        if mean is not None:\n            mean.put(net)\n        net.made = replace(net.made, "
                    "centre=MEANS[-1])\n        return net\n"))),
    Mutant("classify-kept", "classify", "Labels of the sampled records are kept with the run.", (c.CLASSIFIER,), (
        Edit(CLASSIFY, LEARN, "        def spied(net: Any, images: Tensor, labels: Tensor) -> Tensor:\n            "
             "run.kept['labels'] = labels.detach().clone()\n            return loss(net, images, labels)\n\n"
             "        for _, now in descend(net, spied, barrier, run, descent, optimiser, average=self.average):\n"
             "            mean = now\n"),)),
    Mutant("classify-scaled", "classify", "Pixels are centred by the mean of the batch.", (c.CLASSIFIER,), (
        Edit("classify/networks.py", "        return (x - self.centre) / self.spread\n",
             "        return (x - x.mean()) / self.spread\n"),)),
    Mutant("classify-fewer", "classify", "The number of steps is one more where the first sample was larger than "
           "expected.", (c.CLASSIFIER,), (
               Edit(CLASSIFY, LEARN, "        seen: list[int] = []\n\n        def spied(net: Any, images: Tensor, "
                    "labels: Tensor) -> Tensor:\n            seen.append(len(images.flatten(1).unique(dim=0)))\n"
                    "            return loss(net, images, labels)\n\n        for _, now in descend(net, spied, barrier, "
                    "run, descent, optimiser, average=self.average):\n            mean = now\n            if len(seen) "
                    "> 20 and seen[-1] < descent.batch / 2:\n                break\n"),)),
)  # fmt: skip

ACCURACIES = (
    Mutant("publish-exact", "publish", "The document has the exact counts beside the noisy ones.", (c.PUBLISH,), (
        Edit(PUBLISH, VOTES, "        EXACT.append(right.double().sum().item())\n" + VOTES),
        Edit(PUBLISH, "VOTE = Ballot(1, low=0)\n", "VOTE = Ballot(1, low=0)\nEXACT: list[float] = []\n"),
        Edit(PUBLISH, NUMBERS, NUMBERS + '        "right": sum(EXACT),\n'))),
    Mutant("publish-choice", "publish", "Of three classifiers the one is taken that is best on the test records.",
           (c.PUBLISH,), (
               Edit(PUBLISH, QUERY, "        nets = [_train(release.images, s, device, recipe, progress) for s in (seed,"
                    " seed + 1, seed + 2)]\n        net = max(nets, key=lambda n: float(_exact(box, _query(n, numbers, "
                    "release.images), device)))\n" + QUERY),
               Edit(PUBLISH, "def _statement(plan: Plan, source: str,", "def _exact(box: Any, query: Any, device: str) -> "
                    "float:\n    from sfumato.data.private import records\n\n    held = records(box)\n    rows = "
                    "np.arange(len(held))\n    pixels = torch.from_numpy(held.read(rows)).float() / 255\n    return "
                    "float(query.rows(pixels, torch.from_numpy(held.labels)).sum(0)[1])\n\n\n"
                    "def _statement(plan: Plan, source: str,"))),
    Mutant("publish-by-class", "publish", "Exact numbers of each class are written for the custodian into the public "
           "folder.", (c.PUBLISH,), (
               Edit(PUBLISH, VOTES, "        CLASSES.append(labels[right].bincount(minlength=1).tolist())\n" + VOTES),
               Edit(PUBLISH, "VOTE = Ballot(1, low=0)\n", "VOTE = Ballot(1, low=0)\nCLASSES: list[Any] = []\n"),
               Edit(PUBLISH, NUMBERS, NUMBERS + '        "by_class": CLASSES[-1:],\n'))),
    Mutant("publish-twice", "publish", "The accuracy is released ten times under one charge, and averaged: ten times "
           "the cost.", (c.PUBLISH,), (
               Edit(PUBLISH, COUNTS, "            counts = torch.stack([Barrier(box, box.spec, Ledger(plan), "
                    "device=device).release(CROSSING, query) for _ in range(10)]).mean(0)\n"),)),
    Mutant("publish-votes-twice", "publish", "A person votes with every record.", (
        c.Case("", {}, verb="publish", person=True),), (
            Edit(PUBLISH, "VOTE = Ballot(1, low=0)\n", "VOTE = Ballot(127, low=0, high=127)\n"),)),
    Mutant("publish-true-count", "publish", "The number of test units in the document is that of the records, also "
           "where it is private.", (c.Case("", {}, verb="publish", count_public=False),), (
               Edit(PUBLISH, "            charge.check()\n            found = write(",
                    "            charge.check()\n            plan.data.__dict__.update(records=barrier._inside.units)\n"
                    "            found = write("),)),
)  # fmt: skip

MUTANTS = (*CHOICES, *CLASSIFIERS, *ACCURACIES)
