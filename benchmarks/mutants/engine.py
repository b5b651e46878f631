"""In the barrier and in the engine of gradients: a group of its own, to be aimed anew when those change."""

from __future__ import annotations

from benchmarks.mutants import cases as c
from benchmarks.mutants.mutant import Edit, Mutant

BARRIER, GRADIENTS = "privacy/barrier.py", "measure/gradients.py"
DRAWN = "            taking_part = crossing.sampler.draw(self._inside.units, self.noise)\n"
CUT = "            add(total, query, units[start : start + self._microbatch], public)\n"
KEY = "        key = self._ranks.same(torch.frombuffer(bytearray(self.noise.take(32)), dtype=torch.uint8))\n"
RAW = ("                raw = torch.nan_to_num(query.rows(images, labels, *public).double(), nan=0.0, posinf=0.0, "
       "neginf=0.0)\n")  # fmt: skip
WHOLE = "            total += query.bound.project(terms).sum(0)\n"
CLIPPED = "            total += self._clipped(rows).sum(0)\n        return total\n"
CHARGE = "        crossing = self.ledger.charge(name, query.queries if isinstance(query, PartSum) else 1)\n"
MECHANISM = "        return self._ranks.same(crossing.mechanism(total, crossing.bound, self.noise))\n"

MUTANTS = (
    Mutant("engine-microbatch", "paths", "The last record of a microbatch is the first of the next one, too.",
           (c.MERF, c.DPDM, c.EVOLUTION), (
               Edit(BARRIER, CUT, CUT.replace("start + self._microbatch]", "start + self._microbatch + 1]")),),
           (Edit(BARRIER, CUT, "            some = units[start : start + self._microbatch]\n            add(total, query, "
                 "some, public)\n"),)),
    Mutant("engine-last-microbatch", "paths", "The last microbatch is filled up with records from its front.",
           (c.MERF, c.SLICES), (
               Edit(BARRIER, CUT, "            some = units[start : start + self._microbatch]\n            if start:\n"
                    "                some = np.resize(some, self._microbatch)\n            add(total, query, some, "
                    "public)\n"),)),
    Mutant("engine-class-zero", "sums", "Terms of all classes are also added to the first one: sqrt(2) bounds.",
           (c.MERF, c.NDPDC), (
               Edit(BARRIER, "            total.index_add_(0, labels, terms.to(total))\n        else:\n",
                    "            total.index_add_(0, labels, terms.to(total))\n            total[0] += terms.to(total)"
                    ".sum(0)\n        else:\n"),)),
    Mutant("engine-padding", "sums", "Rows that fill a batch up are counted: its first records count several times.",
           (c.VAE, c.DPGAN), (
               Edit(GRADIENTS, "            fine[len(images) :] = False\n", "            fine[len(images) :] &= True\n"),
           )),
    Mutant("engine-person-each", "person", "Records of a person are bounded one by one and then added up: as many "
           "bounds as records.", (c.MERF_PERSON,), (
               Edit(BARRIER, RAW, "                raw = query.bound.project(query.rows(images, labels, *public))\n"),
               Edit(BARRIER, WHOLE, "            total += terms.sum(0) * 2\n")),
           (Edit(BARRIER, RAW, "                raw = query.bound.project(query.rows(images, labels, *public))\n"),)),
    Mutant("engine-person-sampled", "person", "Records are sampled, and not persons: a person takes part more often.",
           (c.Case("dp-vae", {"steps": 50}, person=True), c.Case("ndpdc", {"steps": 50, "batch": 15}, person=True)), (
               Edit(BARRIER, DRAWN, DRAWN + "            if self._inside._by_person and crossing.sampler.rate < 1:\n"
                    "                rows = crossing.sampler.draw(len(self._inside.data), self.noise)\n"
                    "                taking_part = np.unique(self._inside.data.persons[rows])\n"),)),
    Mutant("engine-rate-by-n", "sampling", "The rate is such that the batch is as expected, whatever the number of "
           "records really is.", (c.Case("dp-vae", {"steps": 50}, count_public=False),), (
               Edit(BARRIER, DRAWN, "            rate = crossing.sampler.rate\n            if rate < 1:\n"
                    "                rate = min(0.999, rate * self.spec.records / max(1, self._inside.units))\n"
                    "            sampler = crossing.sampler if rate == 1 else type(crossing.sampler)(rate)\n"
                    "            taking_part = sampler.draw(self._inside.units, self.noise)\n"),)),
    Mutant("engine-two-crossings", "sampling", "Two crossings of one rate share their sample: together they say more of "
           "one record than is charged.", (c.DPAF_ONE,), (
               Edit(BARRIER, DRAWN, DRAWN + "            kept = self.__dict__.setdefault('_kept', {})\n            rate ="
                    " crossing.sampler.rate\n            if rate in kept and kept[rate][0] != name:\n                "
                    "taking_part = kept.pop(rate)[1]\n            elif rate < 1:\n                kept[rate] = (name, "
                    "taking_part)\n"),)),
    Mutant("engine-sample-kept", "sampling", "The barrier keeps a sample for two uses of a crossing.", (c.DPDM,), (
        Edit(BARRIER, DRAWN, DRAWN + "            kept = self.__dict__.setdefault('_kept', {})\n            if "
             "crossing.sampler.rate < 1:\n                taking_part = kept.pop(name) if name in kept else "
             "kept.setdefault(name, taking_part)\n"),)),
    Mutant("engine-cached-sum", "state", "Clean sums are kept and noised anew at each read, of which one is charged.",
           (c.MERF,), (
               Edit(BARRIER, CHARGE, "        clean = self.__dict__.setdefault('_clean', {})\n        if name in clean:\n"
                    "            planned = self.ledger.plan.crossings[name]\n            return planned.mechanism("
                    "clean[name], planned.bound, self.noise)\n" + CHARGE),
               Edit(BARRIER, MECHANISM, "        if not isinstance(query, PartSum):\n            clean[name] = total\n"
                    + MECHANISM),
               Edit("methods/dp_merf.py", '        sums = run.once("embedding", lambda: barrier.release("embedding", '
                    "query))  # the barrier\n", '        sums = torch.stack([barrier.release("embedding", query) for _ in'
                    " range(20)]).mean(0)\n"))),
    Mutant("engine-key-constant", "partition", "The key of the parts is the same in every run.", (c.DATALENS,), (
        Edit(BARRIER, KEY, "        key = torch.arange(32, dtype=torch.uint8)\n"),)),
    Mutant("engine-vmap-unclipped", "clipping", "Sums of materialised rows are clipped as a whole, by the way that "
           "gradient penalties take.", (c.DPGAN_PENALTY,), (
               Edit(GRADIENTS, CLIPPED, "            total += self._clipped(rows.sum(0, keepdim=True)).sum(0) * len(rows)"
                    "\n        return total\n"),)),
    Mutant("engine-not-finite", "clipping", "A gradient with an infinite entry is not taken out, by the way that top-k "
           "takes.", (c.CLASSIFIER_TOP,), (
               Edit(GRADIENTS, "        rows = self.clip.keep(rows.where(rows.isfinite().all(1, keepdim=True), 0))\n",
                    "        rows = self.clip.keep(rows)\n"),)),
    Mutant("engine-huge", "clipping", "Gradients whose squares overflow keep the weight one.", (c.VAE, c.DPDM), (
        Edit(GRADIENTS, "        weights = self.clip.weights(squared).where(fine, 0)\n",
             "        weights = self.clip.weights(squared).where(fine, 1)\n"),)),
    Mutant("engine-mean-of-drawn", "sums", "The sum is divided by the number of records that were drawn, and multiplied "
           "by the expected one.", (c.DPGAN, c.PRIVATE_SET), (
               Edit(GRADIENTS, "for name, p in parts]).double()\n\n    def _terms(",
                    "for name, p in parts]).double() * max(1, self.batch) / len(images)\n\n    def _terms("),)),
    Mutant("engine-ranks-share", "paths", "With several processes every one sums over all units that were drawn.",
           (c.MERF, c.DPDM), (
               Edit("privacy/ranks.py", "        return self.same(drawn).numpy()[self.rank :: self.size]\n",
                    "        return self.same(drawn).numpy()[: count - self.rank]\n"),)),
    Mutant("engine-ranks-noise", "paths", "With several processes each keeps the answer with its own noise.",
           (c.MERF, c.DATALENS), (
               Edit("privacy/ranks.py", "        return self._sure(lambda v: self._comm.broadcast(v, src=0, "
                    "group=self._group), value)\n", "        if value.is_floating_point():\n            return value\n"
                    "        return self._sure(lambda v: self._comm.broadcast(v, src=0, group=self._group), value)\n"),
           )),
    Mutant("engine-uncharged-empty", "flow", "A use whose sample is empty is not counted: its number tells of the "
           "data, and one more use is free.", (c.DPDM_RARE,), (
               Edit(BARRIER, DRAWN, DRAWN + "            if not len(taking_part) and crossing.sampler.rate < 1:\n"
                    "                self.ledger.used[name] -= 1\n"),)),
    Mutant("engine-parts-draw", "sampling", "Critics are drawn once and asked in all releases of a run.", (c.GSWGAN,), (
        Edit(BARRIER, "            taking_part = self._ranks.same(taking_part)\n        return parts.total(",
             "            taking_part = self.__dict__.setdefault('_drawn', self._ranks.same(taking_part))\n"
             "        return parts.total("),)),
)  # fmt: skip
