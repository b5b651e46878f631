"""The game of DPAF, ingredient by ingredient: from a plain conditional DC-GAN to the printed and the sound procedure.

    python -m benchmarks.dpaf_game --data fashion-mnist --out FILE.json [--pictures DIR]
    python -m benchmarks.dpaf_game --data fairface:PATH --only mu printed --epsilon 10 --seeds 0 1 2 --out FILE.json
    python -m benchmarks.dpaf_game --data fashion-mnist --held 5000 --set epochs=10 --name longer --out FILE.json

Rungs, each with what stands above it; the settings are those of the recipe `dpaf-paper-SET-EPSILON`:

    plain       each image is judged by itself, all layers of the discriminator learn, no noise
    sums        the discriminator judges sums of features; the generator is judged image by image (line 15)
    together    the generator is judged by sums too
    sin         features are normalised before they are summed
    transfer    conv1 is that of the classifier (lines 2 to 5) and stays
    mu          conv2* learns every mu-th step, the generator every n_critic-th, with rates for that
    clipping    of single gradients, and their compression
    printed     the noise of theorem 6, which does not hold                             for each epsilon
    line-15     the same, the generator judged image by image: Algorithm 1 to the letter
    sound       sound DPAF with the same settings                                       for each epsilon

They run on public sets alone and make no release; the images of the last row are those that a release would have. A
row is judged by the CNN of the papers that learns from the images alone (last step, and the best of eight looks beside
it). With `--held N` the last N training images are not learnt from and take the place of the test set: settings are
chosen there. The file is written anew after each row, and rows that it has are not made again.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.utility import command
from sfumato import Budget, DataSpec, Images, Method, Run, load
from sfumato.api import make_method
from sfumato.bench.pictures import draw
from sfumato.data import load_public
from sfumato.data.public import PublicImages
from sfumato.errors import InputError, SfumatoError
from sfumato.evaluate import stacked
from sfumato.methods.gan.dpaf.printed import Ingredients, printed, split_of
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.odometer import Odometer
from sfumato.recipes import RECIPES

ALONE = {"together": "no"}
# While all layers step together they have the rates of Radford et al. (2016), and so has the generator.
EACH = {
    "mu": "1",
    "critic_steps": "1",
    "learning_rate": "2e-4",
    "critic_learning_rate": "2e-4",
    "conv2_learning_rate": "0",
}
# What is left out of Algorithm 1, and what is changed in the settings.
RUNGS: dict[str, tuple[str, dict[str, str]]] = {
    "plain": ("sums, sin, transfer, clipping, noise", EACH),
    "sums": ("sin, transfer, clipping, noise", EACH | ALONE),
    "together": ("sin, transfer, clipping, noise", EACH),
    "sin": ("transfer, clipping, noise", EACH),
    "transfer": ("clipping, noise", EACH),
    "mu": ("clipping, noise", {}),
    "clipping": ("noise", {}),
}
PRIVATE: dict[str, dict[str, str]] = {"printed": {}, "line-15": ALONE, "sound": {}}  # for each epsilon


@dataclass(frozen=True)
class Trial:
    """The images to learn from and those to judge by, and how."""

    data: str
    learnt: Images
    tested: Images
    count: int
    changes: dict[str, str]
    device: str

    def make(self, rung: str, epsilon: float | None, seed: int) -> tuple[Images, dict[str, Any]]:
        """The images of a rung, and what there is to say of them."""
        left_out, own = RUNGS.get(rung, ("", PRIVATE.get(rung, {})))
        recipe = RECIPES[f"dpaf-paper-{self.data}-{epsilon or 10:g}"]
        method = make_method("dpaf", recipe.texts() | own | self.changes)
        run = Run(device=self.device, seed=seed)
        if rung == "sound":
            return sound(method, self.learnt, Budget(epsilon or 10), run, self.count), {"settings": self.changes}
        public = PublicImages(self.learnt, f"the public set {self.data}")
        shape = self.learnt.pixels.shape
        spec = DataSpec(self.data, shape[0], shape[1:], self.learnt.classes, public=True)
        found = printed(
            method,
            public,
            spec,
            run,
            epsilons=split_of(method, epsilon or 10),
            count=self.count,
            ingredients=Ingredients.without(left_out),
        )
        claim = {"claim": found.paper["epsilon"]} if found.paper else {}
        return found.images, {"settings": self.changes, "stamp": found.stamp, **claim}

    def row(self, rung: str, epsilon: float | None, seed: int, picture: Path | None) -> dict[str, Any]:
        """Made and judged."""
        start = time.perf_counter()
        try:
            images, facts = self.make(rung, epsilon, seed)
        except InputError as error:
            return {"refused": str(error)}
        took = {"synthesis_s": time.perf_counter() - start}
        if picture:
            draw(images, picture, scale=1)
        return facts | judged(images, self.tested, seed, self.device) | took


def judged(images: Images, tested: Images, seed: int, device: str) -> dict[str, Any]:
    """Accuracies of the CNN that learns from the images alone; on the processor, and said so, if a device fails."""
    try:
        trained = stacked.train(
            "cnn",
            images.pixels,
            images.labels,
            tested.pixels,
            tested.labels,
            classes=len(images.classes),
            seeds=[seed],
            device=device,
        )
    except SfumatoError:
        if device == "cpu":
            raise
        return judged(images, tested, seed, "cpu") | {"judged_on": "cpu"}
    looks = trained.accuracies[0]
    return {"fixed": float(looks[-1]), "paper": float(looks.max())}


def sound(method: Method, images: Images, budget: Budget, run: Run, count: int) -> Images:
    """What a release would hold: the method behind a barrier of our own, on a set that is public."""
    box = load(images)
    odometer = Odometer(method.plan(box.spec, budget))
    run = replace(run, odometer=odometer)
    net = method.learn(Barrier(box, box.spec, odometer, device=run.device), run)
    run.finished()
    return net.sample(count, seed=run.seed)


def trial(data: str, held: int, count: int, changes: dict[str, str], device: str) -> Trial:
    """Training and test images, or with `held` all training images but the last and those."""
    train = load_public(data, "a named public set").images
    if held:
        parts = (slice(None, -held), slice(-held, None))
        learnt, tested = (Images(train.pixels[p], train.labels[p], train.classes) for p in parts)
    else:
        learnt, tested = train, load_public(data, "a named public set", split="test").images
    return Trial(data.split(":")[0], learnt, tested, count, changes, device)


def write(out: Path, rows: list[dict[str, Any]]) -> None:
    """The file, in the shape of the others."""
    machine = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine()
    whole = {"command": command("benchmarks.dpaf_game"), "machine": machine, "torch": torch.__version__}
    out.write_text(json.dumps(whole | {"results": rows}, indent=1) + "\n")


def main() -> None:
    """Make the rows that are missing."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--data", default="fashion-mnist")
    ask.add_argument("--only", nargs="*", default=[*RUNGS, *PRIVATE], choices=[*RUNGS, *PRIVATE])
    ask.add_argument("--epsilon", nargs="*", type=float, default=[1.0, 10.0])
    ask.add_argument("--seeds", nargs="*", type=int, default=[0])
    ask.add_argument("--held", type=int, default=0, help="training images that are held out and tested on")
    ask.add_argument("--count", type=int, default=28_000)
    ask.add_argument("--set", nargs="*", default=[])
    ask.add_argument("--name", default="", help="of the settings that --set changes")
    ask.add_argument("--device", default="auto")
    ask.add_argument("--pictures", type=Path)
    ask.add_argument("--out", type=Path, required=True)
    given = ask.parse_args()
    device = Run(device=given.device).device
    made = trial(given.data, given.held, given.count, dict(pair.split("=", 1) for pair in given.set), device)
    rows = json.loads(given.out.read_text())["results"] if given.out.exists() else []
    cells = [
        (rung, e, s) for s in given.seeds for rung in given.only for e in ([None] if rung in RUNGS else given.epsilon)
    ]
    for rung, epsilon, seed in cells:
        key = {"data": made.data, "row": rung, "epsilon": epsilon, "seed": seed, "held": given.held, "name": given.name}
        if any(key.items() <= row.items() for row in rows):
            continue
        words = [
            made.data,
            *filter(None, [given.name]),
            rung,
            *([] if epsilon is None else [f"{epsilon:g}"]),
            str(seed),
        ]
        picture = given.pictures / f"{'-'.join(words)}.png" if given.pictures else None
        rows.append(key | made.row(rung, epsilon, seed, picture))
        print(json.dumps(rows[-1]), flush=True)
        write(given.out, rows)


if __name__ == "__main__":
    main()
