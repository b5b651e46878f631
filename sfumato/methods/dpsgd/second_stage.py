"""A second stage of DP-SGD behind an encoder that the first stage trained: a decoder once more, or a flow of codes.

decoder   min over a new decoder of -log p(x_i | z_i, c_i),  z_i drawn from the frozen q(z | x_i, c_i)     (DP2-VAE)
flow      min over a flow f of -log N(f(z_i); 0, I) - log |det f'(z_i)| for the same z_i                   (DP-LFlow)

The encoder came out of the first stage's noisy gradients, so that it is public when the second begins, and a record's
gradient depends on that record alone: Delta = C in both stages. An encoder that saw the data without noise would make
every gradient of the second stage depend on every record (B13 of the gallery).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.engine.generator_dpsgd import GeneratorDPSGD
from sfumato.networks.latent_flow import EncodedFlow

if TYPE_CHECKING:
    from sfumato.engine.dpsgd import DPSGDConfig
    from sfumato.engine.gradients.per_example import Loss
    from sfumato.networks.generator import Generator
    from sfumato.run.run import Run
    from sfumato.types import DataSpec

STAGES = ("none", "decoder", "flow")


class SecondStage(GeneratorDPSGD):
    """DP-SGD of `net`, whose encoder, and a flow's decoder, stay as the training `first` left them."""

    def __init__(
        self,
        first: GeneratorDPSGD,
        generator: Generator,
        loss: Loss,
        run: Run,
        spec: DataSpec,
        config: DPSGDConfig,
        net: Any,
        **training: Any,
    ) -> None:
        super().__init__(generator, loss, run, spec, config, within=net, **training)
        self.first = first

    def begin(self, step: int) -> None:
        """Take over what is frozen, before the first step."""
        if step == 0:
            self._take(self.net, self.first.net)
        super().begin(step)

    def _take(self, net: Any, trained: Any) -> None:
        net.encoder.load_state_dict(trained.encoder.state_dict())
        if isinstance(net, EncodedFlow):
            net.flow.decoder.load_state_dict(self.first.finished().state_dict())
