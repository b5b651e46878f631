"""Parts that share a record or a state; persons; relations."""

from __future__ import annotations

from benchmarks.mutants import cases as c
from benchmarks.mutants.mutant import Edit, Mutant

HELD, SHELF, TEACHERS = "privacy/held.py", "privacy/shelf.py", "measure/teachers.py"
PART_OF = "        part = part_of(identities(self._data, self._spec, self._relation), self.parts, self._key)\n"
BY_PERSON = "            part = part[self._data.persons]\n"
ROWS = "        rows = (self._starts[first:last, None] + steps % np.maximum(sizes, 1)).ravel()\n"
EMPTY = "        rows = np.where(np.repeat(sizes > 0, self._recipe.draws, 1).ravel(), rows, 0)\n"
BLANK = "        blank = torch.from_numpy(np.repeat(sizes == 0, self._recipe.draws, 1)).to(self._device)\n"
MEANS = "p.mean((1, 2), keepdim=True).expand(-1, p.shape[1], -1, -1)"
REPLACED = ("        if relation is Relation.REPLACE_ONE:\n            return [i.to_bytes(8, \"big\") for i in "
            "range(len(data))]\n        return [bytes(d) for d in data.digests]\n")  # fmt: skip
PEOPLE = ("    if relation is Relation.REPLACE_ONE:\n        return [i.to_bytes(8, \"big\") for i in range(people)]\n"
          "    return list(_contents(data, data.persons, people))\n")  # fmt: skip
VISITOR = "        visitor = self._make(block)\n"
RESTORE = '    for name in own.keys() - {"step"}:\n        own[name].copy_(state[name])\n'

PARTITIONS = (
    Mutant("part-balanced", "partition", "Parts are slices of the order of hashes, all of one size: a record that "
           "leaves shifts the others.", (c.DATALENS, c.GSWGAN), (
               Edit(HELD, PART_OF, PART_OF.replace("part_of(", "part_of(", 1) + "        order = np.argsort("
                    "part_of(identities(self._data, self._spec, self._relation), 2**62, self._key), kind='stable')\n"
                    "        part[order] = np.arange(len(part)) * self.parts // max(1, len(part))\n"),)),
    Mutant("part-by-label", "partition", "Records of a class go round the parts in the order of the file.",
           (c.PATEGAN,), (
               Edit(HELD, PART_OF, PART_OF + "        for label in np.unique(self._data.labels):\n"
                    "            mine = np.flatnonzero(self._data.labels == label)\n"
                    "            part[mine[mine < len(part)]] = np.arange(len(mine))[: len(part)] % self.parts\n"),)),
    Mutant("part-moved-when-full", "partition", "A part that has twice its share sends its last record on to the next: "
           "a record that leaves lets another one stay.", (c.GPATE,), (
               Edit(HELD, PART_OF, PART_OF + "        most = 2 * -(-len(part) // self.parts)\n"
                    "        for p in range(self.parts):\n            over = np.flatnonzero(part == p)[most:]\n"
                    "            part[over] = (p + 1) % self.parts\n"),)),
    Mutant("part-overlap-next", "partition", "The first record of each part is shown to the part before it, too.",
           (c.DATALENS, c.KERNELS, c.GSWGAN), (
               Edit(HELD, ROWS, ROWS.replace("steps % np.maximum(sizes, 1)", "steps % (np.maximum(sizes, 1) + 1)")
                    .replace(").ravel()", ").clip(max=self._starts[-1] - 1).ravel()")),),
           (Edit(HELD, ROWS, ROWS.replace("steps % np.maximum(sizes, 1)", "np.mod(steps, np.maximum(sizes, 1))")),)),
    Mutant("part-key-known", "partition", "The hash of a record has no key: anybody can tell its part.",
           (c.DATALENS,), (
               Edit("privacy/partition.py", "hashlib.blake2b(i, key=key, digest_size=8)",
                    "hashlib.blake2b(i, digest_size=8)"),)),
    Mutant("part-by-rank", "partition", "Parts follow the rank of a hash in fours: one record that leaves shifts all that "
           "come after it.", (c.PATEGAN,), (
               Edit("privacy/partition.py", '    return (np.frombuffer(digests, dtype=">u8") % np.uint64(parts))'
                    ".astype(np.int64)\n", '    found = np.frombuffer(digests, dtype=">u8")\n'
                    "    return (np.argsort(np.argsort(found)) // 4 % parts).astype(np.int64)\n"),),
           (Edit("privacy/partition.py", '    return (np.frombuffer(digests, dtype=">u8") % np.uint64(parts))'
                 ".astype(np.int64)\n", '    found = np.frombuffer(digests, dtype=">u8") >> np.uint64(8)\n'
                 "    return (found % np.uint64(parts)).astype(np.int64)\n"),)),
    Mutant("relation-content", "relation", "Under replace-one parts follow the content: a replaced record changes two "
           "of them (2.155 for a charge of 1 was measured).", (c.DATALENS_SET,), (
               Edit(HELD, REPLACED, "        return [bytes(d) for d in data.digests]\n"),)),
    Mutant("relation-half-charged", "relation", "Under replace-one a term is charged as if it came or went: half the "
           "sensitivity.", (c.Case("dpgan", {"steps": 50, "batch": 15}, relation="replace-one"),
                            c.Case("dp-merf", {"features": 20, "steps": 2}, relation="replace-one")), (
               Edit("privacy/bounds.py", "        return (1.0 if relation is Relation.ADD_REMOVE else 2.0) * self.norm "
                    "* (SLACK + self.slack)\n", "        return self.norm * (SLACK + self.slack)\n"),)),
    Mutant("relation-held", "relation", "A vote that turns over is charged as one that comes: half the sensitivity "
           "for held parts.", (c.DATALENS, c.PATEGAN), (
               Edit("privacy/plan.py", "        change = Relation.REPLACE_ONE if self.held else relation\n",
                    "        change = relation\n"),)),
    Mutant("relation-votes-place", "relation", "A vote that moves to another place is charged as one that comes: "
           "sqrt(2) too little under replace-one.",
           (c.Case("dp-swd", {"slices": 4, "bins": 8, "steps": 2}, relation="replace-one"),
            c.Case("private-evolution", {"rounds": 4, "each": 4}, relation="replace-one")), (
               Edit("privacy/bounds.py", "        return (turned, moved) if self.low else (moved,)",
                    "        return (turned,)"),)),
    Mutant("person-in-parts", "person", "Records of a person go to parts by their own hashes: one person moves several "
           "teachers.", (c.DATALENS_PERSON,), (
               Edit(HELD, BY_PERSON, "            part = part_of([bytes(d) for d in self._data.digests], self.parts, "
                    "self._key)\n"),)),
    Mutant("person-first-record", "person", "A person is known by the first record in the file: without it the others "
           "move to another part.", (c.DATALENS_PERSON,), (
               Edit(HELD, "        yield hashlib.blake2b(b\"\".join(sorted(bytes(data.digests[i]) for i in "
                    "order[first:last]))).digest()\n", "        yield hashlib.blake2b(bytes(data.digests[first])"
                    ".ljust(32)).digest()\n"),)),
    Mutant("person-place", "person", "Under add-remove a person is known by the place in the file: all who follow "
           "change their part.", (c.DATALENS_PERSON,), (
               Edit(HELD, PEOPLE, '    return [i.to_bytes(8, "big") for i in range(people)]\n'),)),
)  # fmt: skip

TOGETHER = (
    Mutant("teachers-statistics", "teachers", "Batch statistics run over all teachers: one record moves every one.",
           (c.DATALENS,), (
               Edit(TEACHERS, MEANS, "p.mean((0, 1, 2), keepdim=True).expand(p.shape[0], p.shape[1], -1, -1)"),),
           (Edit(TEACHERS, MEANS, "p.flatten(1, 2).mean(1)[:, None, None].expand(-1, p.shape[1], -1, -1)"),)),
    Mutant("teachers-spilled", "paths", "Blocks that do not fit share the optimiser of the visiting team: its moments "
           "are not put back (4 of 8 teachers move).", (c.DATALENS, c.Case("g-pate", {"steps": 20, "dimensions": 3})), (
               Edit(SHELF, VISITOR, "        visitor = self._visitor = getattr(self, \"_visitor\", None) or "
                    "self._make(block)\n"),
               Edit(TEACHERS, RESTORE, '    for name in own.keys() - {"step"}:\n        if name.startswith("weights"):\n'
                    "            own[name].copy_(state[name])\n"))),
    Mutant("teachers-spilled-late", "paths", "What a visiting team has learned is put back into the next block.",
           (c.DATALENS,), (
               Edit(SHELF, "        if keep:\n            self._put(block, visitor)\n",
                    "        if keep:\n            self._put((block + 1) % len(self._counts), visitor)\n"),)),
    Mutant("teachers-borrow", "teachers", "A part without records learns from those of the next part.",
           (c.DATALENS, c.KERNELS, c.PATEGAN), (
               Edit(HELD, EMPTY, "        follow = np.clip(self._starts[first:last, None] + steps * 0, 0, len("
                    "self._order) - 1)\n        rows = np.where(np.repeat(sizes > 0, self._recipe.draws, 1).ravel(), "
                    "rows, follow.ravel())\n"),
               Edit(HELD, BLANK, "        blank = torch.zeros(len(sizes), self._recipe.draws, dtype=torch.bool)\n"))),
    Mutant("teachers-rounds", "teachers", "All parts go round in the time of the largest one: its size decides which "
           "records the others see.", (c.GPATE, c.DATALENS), (
               Edit(HELD, ROWS, ROWS.replace("steps % np.maximum(sizes, 1)",
                                             "np.minimum(steps % max(1, int(np.diff(self._starts).max())), "
                                             "np.maximum(sizes, 1) - 1)")),)),
    Mutant("teachers-rate", "teachers", "Adam's step of all critics is shortened by the longest gradient among them.",
           (c.GSWGAN, c.PATEGAN), (
               Edit("measure/wasserstein.py", "            m = self.first[name][part].lerp_(grads[name], 1 - b1)\n",
                    "            m = self.first[name][part].lerp_(grads[name] / max(1e-9, float(grads[name].abs()"
                    ".max())), 1 - b1)\n"),)),
    Mutant("teachers-unit", "teachers", "Slopes of all witnesses are divided by the longest of them.", (c.KERNELS,), (
        Edit("measure/witnesses.py", "        return found.where((weights > 0).any(2, keepdim=True), 0)\n",
             "        found = found / found.abs().max().clamp(min=1e-9)\n"
             "        return found.where((weights > 0.5 * weights.mean()).any(2, keepdim=True), 0)\n"),)),
    Mutant("teachers-agree", "teachers", "A teacher votes for what most teachers have above their mean.",
           (c.PATEGAN,), (
               Edit("train/judged.py", "    return scores > (scores @ hot / hot.sum(0).clamp(min=1)) @ hot.T\n",
                    "    found = scores > (scores @ hot / hot.sum(0).clamp(min=1)) @ hot.T\n"
                    "    return found & (found.float().mean(0) > 0.25)\n"),)),
    Mutant("teachers-known-label", "teachers", "The labels of a part's records are counted over all parts when slopes "
           "are weighted.", (c.KERNELS,), (
               Edit("measure/witnesses.py", "    return same / same.sum(-1, keepdim=True).clamp(min=1)\n",
                    "    return same / same.sum(-1, keepdim=True).amax(0, keepdim=True).clamp(min=1)\n"),)),
    Mutant("teachers-direction-scale", "teachers", "Directions are scaled to the mean length over teachers before they "
           "are clipped.", (c.Case("gs-wgan", {"steps": 20, "teachers": 8, "unit": False}),), (
               Edit("methods/gs_wgan.py", "        found = len(x) * team.directions(x, y)  # of each image's own "
                    "loss\n", "        found = len(x) * team.directions(x, y)\n"
                    "        found = found / (found.norm(dim=-1).mean() + 1e-9)\n"),)),
    Mutant("teachers-votes-common", "teachers", "Bins of a teacher's projection reach as far as the widest teacher's.",
           (c.GPATE,), (
               Edit("measure/projections.py", "        unit = unit_length(directions)\n        place",
                    "        unit = unit_length(directions) / directions.abs().amax().clamp(min=1e-9) * "
                    "directions.abs().mean().clamp(min=1e-9)\n        place"),)),
)  # fmt: skip

MUTANTS = (*PARTITIONS, *TOGETHER)
