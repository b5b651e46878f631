"""A generator that is itself trained by DP-SGD (site B4): Adam, averaged weights, previews."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import nn

from sfumato.engine.dpsgd import DPSGD, DPSGDConfig
from sfumato.engine.ema import finished
from sfumato.engine.gradients.per_example import Loss
from sfumato.engine.match import warm_cosine
from sfumato.networks.generator import Generator
from sfumato.record_rng import drawing
from sfumato.run.preview import Preview

if TYPE_CHECKING:
    from sfumato.run.run import Run
    from sfumato.types import DataSpec

Network = TypeVar("Network", bound=nn.Module)


def seeded(run: Run, make: Callable[[], Network]) -> Network:
    """A network whose first weights depend on the run's seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.seed)
        return make().to(run.device)


class GeneratorDPSGD(DPSGD):
    """A generator in training by Adam, with previews; each record brings its own randomness.

    `within` is the network that is trained, where the generator is a part of it. The learning rate rises and falls
    along a cosine unless `pace` says otherwise.
    """

    def __init__(
        self,
        generator: Generator,
        loss: Loss,
        run: Run,
        spec: DataSpec,
        config: DPSGDConfig,
        *,
        learning_rate: float,
        ema_decay: float,
        within: nn.Module | None = None,
        pace: Callable[[int], float] | None = None,
        noise_multiplicity: int = 1,
        bfloat16: bool = False,
    ) -> None:
        net = within or generator
        self.generator = generator
        self.preview = Preview(run, generator, spec)
        super().__init__(
            net,
            loss,
            run,
            config,
            torch.optim.Adam(net.parameters(), lr=learning_rate, betas=(0.9, 0.99)),
            ema_decay=ema_decay,
            averaged=generator,
            pace=pace or (lambda step: warm_cosine(step, config.steps)),
            noise_multiplicity=noise_multiplicity,
            draw=drawing(run.generator, noise_multiplicity),
            bfloat16=bfloat16,
            state={"preview": self.preview},
        )

    def end(self, step: int) -> None:
        """A preview after some of the steps."""
        self.preview.snapshot(step, self.config.steps, self.finished)

    def finished(self) -> Generator:
        """A copy with the averaged weights, ready to sample."""
        return finished(self.generator, self.ema)
