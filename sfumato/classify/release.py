"""A trained classifier as it may be published: the head's weights, how to build the rest, and the privacy statement.

    model.safetensors     the weights that were trained, each with its certificate
    config.json           the architecture; of a public network the name and a fingerprint, not the weights
    privacy.json, PRIVACY.md, README.md, hashes.json, and signature.json where it is signed

The folder holds no image. It goes through the same export gate as a release of images, with a list of its own.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, final

import numpy as np
import torch

from sfumato.classify.features import NAMES
from sfumato.classify.networks import NETWORKS, Architecture, Network, build
from sfumato.errors import InputError
from sfumato.release.documents.render import render_text
from sfumato.release.files import schema
from sfumato.release.files.bundle import appearing, ensure_free, must_verify
from sfumato.release.files.content import text_problem
from sfumato.release.files.gate import Gate, Public, Rule, json_rule, rule, tensor_rule
from sfumato.release.files.hashes import HASHES, SIGNATURE
from sfumato.release.files.names import public_command
from sfumato.release.files.reading import read_statement, read_tensors
from sfumato.release.files.sign import seal, signing_key
from sfumato.release.statement.statement import to_markdown

FORMAT = "sfumato-classifier/1"
CONFIG = "config.json"
WEIGHTS = "model.safetensors"
RULES: tuple[Rule, ...] = (
    json_rule(CONFIG, schema.CLASSIFIER),
    tensor_rule(WEIGHTS),
    json_rule("privacy.json", schema.STATEMENT),
    rule(r"PRIVACY\.md", text_problem),
    rule(r"README\.md", text_problem),
    json_rule(HASHES, schema.HASH_LIST),
    json_rule(SIGNATURE, schema.SIGNED),
)
ALWAYS = ("PRIVACY.md", "README.md", CONFIG, HASHES, WEIGHTS, "privacy.json")


def holds_classifier(folder: str | Path) -> bool:
    """Whether a folder is that of a classifier and not of images."""
    return (Path(folder) / WEIGHTS).is_file() and not (Path(folder) / "generator").exists()


@final
class TrainedClassifier:
    """A network and its privacy statement; public.

    >>> TrainedClassifier.load("classifier").predict(pixels)      # doctest: +SKIP
    """

    def __init__(self, network: Network, statement: dict[str, Any]) -> None:
        self.network = network
        self.statement = statement

    def __repr__(self) -> str:
        return f"TrainedClassifier({self.network.architecture.network}, {self.statement['guarantee']['summary']})"

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names, in the order of the labels."""
        return self.network.architecture.classes

    def predict(self, pixels: np.ndarray, batch: int = 512) -> np.ndarray:
        """Labels of uint8 images (n, channels, height, width)."""
        return np.asarray(self.logits(pixels, batch).argmax(1))

    @torch.no_grad()
    def logits(self, pixels: np.ndarray, batch: int = 512) -> np.ndarray:
        """A score of each class for uint8 images (n, channels, height, width)."""
        shape = self.network.architecture.shape
        if pixels.dtype != np.uint8 or pixels.shape[1:] != shape:
            wanted = "x".join(map(str, shape))
            raise InputError(f"Expected uint8 images of {wanted}, found {pixels.dtype} of {pixels.shape[1:]}.")
        device = next(self.network.head.parameters()).device
        scores = [
            self.network(piece.to(device).float() / 255).float().cpu()
            for piece in torch.split(torch.from_numpy(np.ascontiguousarray(pixels)), batch)
            if len(piece)
        ]
        return torch.cat([torch.zeros(0, len(self.classes)), *scores]).numpy()

    def save(
        self,
        folder: str | Path,
        command: str | None = None,
        key: str | Path | None = None,
        signer: str | None = None,
        verified: bool = False,
    ) -> Path:
        """Write the folder, which appears whole or not at all; with `key` it is signed; see `Release.save`."""
        private = signing_key(key, signer)
        with appearing(ensure_free(folder), RULES) as gate:
            self._write(gate, command)
            seal(gate, private, signer)
            if verified:
                from sfumato.classify.verify import verify

                must_verify(gate.folder, verify)
        return Path(folder)

    def _write(self, gate: Gate, command: str | None) -> None:
        statement = self.statement | {"measurement": None}
        if command:
            statement["reproducibility"] = self.statement["reproducibility"] | {"command": public_command(command)}
        crossings = [event["name"] for event in statement["mechanisms"]["events"]]
        gate.json("privacy.json", statement)
        gate.json(CONFIG, {"format": FORMAT, "classifier": self.network.architecture.to_json()})
        gate.tensors(WEIGHTS, {k: Public.after(v, *crossings) for k, v in self.network.head.state_dict().items()})
        for name, text in documents(statement).items():
            gate.write(name, text)

    @classmethod
    def load(cls, folder: str | Path, device: str = "cpu", weights: str | None = None) -> TrainedClassifier:
        """Read a folder back; `weights` is the file of a public network, where one is needed."""
        folder = Path(folder)
        if not holds_classifier(folder):
            raise InputError(f"{folder} is not the folder of a classifier; point at one of `sfumato train-classifier`.")
        network = build(read_config(folder), weights=weights)
        tensors = {key: public.value for key, public in read_tensors(folder / WEIGHTS).items()}
        try:
            network.head.load_state_dict(tensors)
        except RuntimeError as error:
            raise InputError(f"{folder / WEIGHTS} does not fit {CONFIG}; fetch the folder again.") from error
        return cls(network.to(device), read_statement(folder))

    def digest(self) -> str:
        """SHA-256 of what was trained."""
        digest = hashlib.sha256(json.dumps(self.network.architecture.to_json(), sort_keys=True).encode())
        for name, tensor in sorted(self.network.head.state_dict().items()):
            digest.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()


def documents(statement: dict[str, Any]) -> dict[str, str]:
    """Names and texts of PRIVACY.md and README.md."""
    return {"PRIVACY.md": to_markdown(statement), "README.md": render_text("classifier.md.j2", s=statement)}


def read_config(folder: Path) -> Architecture:
    """The architecture of a folder, as suspect as any file of a stranger."""
    path = folder / CONFIG
    try:
        config = json.loads(path.read_bytes())
        assert config["format"] == FORMAT
        values = config["classifier"]
        read = Architecture(**values | {"shape": tuple(values["shape"]), "classes": tuple(values["classes"])})
        assert read.network in NETWORKS and read.features in ("", *NAMES) and len(read.shape) == 3
        assert all(isinstance(side, int) and 0 < side <= 4096 for side in read.shape) and read.classes
    except (OSError, ValueError, KeyError, TypeError, AssertionError, RecursionError) as error:
        raise InputError(f"{path} is not of format {FORMAT}; use the version of sfumato that wrote it.") from error
    return read
