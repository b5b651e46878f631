"""Small stand-ins for the parts a release is made of, shared by the release tests."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch

from sfumato.release import Public, Release, make_statement
from sfumato.types import Images

SECRET_PATH = "/home/ann/very-private/chest-scans"
CLASSES = ("ill", "a/b <script>alert(1)</script>", "..")
PLAN: dict[str, Any] = {
    "method": "dp-merf",
    "settings": {"features": 1000, "bandwidth": 0.15, "labels_file": f"{SECRET_PATH}/labels.json"},
    "data": {
        "name": SECRET_PATH,
        "records": 60000,
        "shape": [1, 8, 6],
        "classes": list(CLASSES),
        "unit": "record",
        "count_public": True,
        "public": False,
    },
    "guarantee": {
        "epsilon": 1.0,
        "delta": 1e-5,
        "relation": "add-remove",
        "unit": "record",
        "accountant": "exact Gaussian",
        "mu": 0.26805,
    },
    "curve": [[1e-4, 0.8446], [1e-5, 1.0], [1e-6, 1.1437]],
    "crossings": [
        {
            "name": "embedding",
            "mechanism": "gaussian",
            "sigma": 3.7306,
            "sensitivity": 1.0,
            "multiplier": 3.7306,
            "bound": 1.0,
            "sampling": "no subsampling",
            "times": 1,
        }
    ],
    "second_opinion": {"accountant": "RDP (Balle et al.)", "epsilon": 1.08},
    "paper": {"epsilon": 1.2, "note": "the mean has sensitivity 2/m"},
    "labels": {"kind": "uniform", "weights": None},
    "deviations": ["A sum is released in place of a mean."],
    "warnings": [f"Few records in {SECRET_PATH}."],
}


class FakeGenerator:
    """One weight; sampling draws noise of the given seed."""

    def __init__(self, weight: torch.Tensor | None = None) -> None:
        self.weight = torch.arange(6.0).reshape(2, 3) if weight is None else weight

    def config(self) -> dict[str, Any]:
        return {"kind": "fake", "shape": [1, 8, 6], "classes": list(CLASSES)}

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {"weight": self.weight, "same memory": self.weight}

    def sample(self, n: int, labels: Any = None, *, seed: int) -> Images:
        chosen = np.arange(n) % len(CLASSES) if labels is None else np.asarray(labels)
        return fake_images(n, seed=seed, labels=chosen)


def fake_images(n: int = 12, channels: int = 1, seed: int = 0, labels: np.ndarray | None = None) -> Images:
    """Noise images, a class after the other."""
    pixels = np.random.default_rng(seed).integers(0, 256, (n, channels, 8, 6), dtype=np.uint8)
    return Images(pixels, np.arange(n) % len(CLASSES) if labels is None else labels, CLASSES)


def fake_plan(**changes: dict[str, Any]) -> dict[str, Any]:
    """The plan with some fields of some parts changed: fake_plan(data={"unit": "person"})."""
    plan = copy.deepcopy(PLAN)
    for part, fields in changes.items():
        plan[part].update(fields)
    return plan


def fake_statement(plan: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A statement with sensible words for everything that is not given."""
    words: dict[str, Any] = {
        "released": ["generator weights", "synthetic images", "noisy embedding"],
        "account": {
            "runs": [{"run": "r1", "method": "dp-merf", "epsilon": 0.5, "delta": 1e-5, "folder": SECRET_PATH}],
            "epsilon_total": 1.12,
            "delta": 1e-5,
        },
        "noise": {"source": "ChaCha20 keyed by the operating system", "sampler": "float64 on a public grid"},
        "public_data": None,
        "tuning": "tuned on fashion-mnist, a public set",
        "audit": None,
        "version": "0.1.0",
    }
    return make_statement(plan or fake_plan(), **(words | changes))


def fake_release(images: Images | None = None, **changes: Any) -> Release:
    """A release of all the fakes, with a measurement."""
    measurement = {"embedding": Public.after(torch.linspace(0, 1, 5, dtype=torch.float64), "embedding")}
    return Release(FakeGenerator(), images or fake_images(), fake_statement(**changes), measurement)


def load_fake_generator(config: dict[str, Any], tensors: dict[str, torch.Tensor], device: str) -> FakeGenerator:
    """What `sfumato.networks.load_generator` does, for the fake."""
    if config["kind"] != "fake":
        raise ValueError(f"Expected kind=fake, found kind={config['kind']}.")
    return FakeGenerator(tensors["weight"].to(device))


def test_the_fakes_hold_a_secret_to_be_hidden() -> None:
    assert SECRET_PATH in str(PLAN) and SECRET_PATH not in str(fake_statement())
