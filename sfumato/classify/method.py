"""What the ways to train a classifier share: the network that is released, and that no labels are chosen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from sfumato.classify.features import NAMES
from sfumato.classify.networks import NETWORKS, Architecture, Network, build
from sfumato.evaluate.features import fingerprint
from sfumato.methods.base import Method
from sfumato.methods.settings import count, setting

if TYPE_CHECKING:
    from sfumato.data.public import PublicImages
    from sfumato.run.run import Run
    from sfumato.types import DataSpec


@dataclass(frozen=True, kw_only=True)
class NetworkTraining(Method):
    """Settings of the network; a subclass says how its head is trained."""

    network: str = setting("scattering", "fixed features, and the head that is trained on them", choices=NETWORKS)
    features: str = setting("efficientnet-lite0", "public network of network=features", choices=NAMES)
    weights: str = setting("", "file of that public network")
    groups: int = count(27, "of the 81 maps of scattering", high=81)
    centre: float = setting(0.1, "taken from the pixels of network=cnn and network=linear", low=-1e6, high=1e6)
    spread: float = setting(0.3, "that they are then divided by", low=1e-6, high=1e6)

    stand_ins: ClassVar[tuple[str, ...]] = ("network",)  # frozen features of a public network

    def contradictions(self) -> Iterator[str]:
        if 81 % self.groups:
            yield f"Expected groups as a divisor of 81, found groups={self.groups}."
        if self.labels.kind != "uniform":
            yield f"Expected no labels to be chosen for a classifier, found labels={self.labels.kind}."

    def label_facts(self) -> dict[str, Any]:
        return {"kind": "none", "weights": None}

    def public_facts(self, network: Network, public: PublicImages | None, seed: int) -> dict[str, Any] | None:
        """What the statement says of public images and public networks that were used; None where there were none."""
        built = network.architecture
        if not built.features:
            return None
        where = f"weights of the public network {built.features}, fingerprint {built.fingerprint}, declared public"
        return {"name": built.features, "provenance": where}

    def build(self, spec: DataSpec, run: Run | None = None) -> Network:
        """The network before its first step."""
        public = self.features if self.network == "features" else ""
        architecture = Architecture(
            self.network, spec.shape, spec.classes, self.groups, self.centre, self.spread, public
        )
        net = build(architecture, weights=self.weights or None, random=run.generator("weights") if run else None)
        if public:
            net.architecture = replace(architecture, fingerprint=fingerprint(net.body))
        return net.to(run.device) if run else net
