"""Every bounded query of the package, against random and adversarial neighbours, under both relations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import one_hot

from sfumato import DataSpec, Relation, Run
from sfumato.engine.label_histogram import VOTE
from sfumato.engine.random_fourier import RandomFourier
from sfumato.flow.tune import Judge
from sfumato.methods.dpsgd.clusters import FEATURES, ROWS, Clusters, rows_of
from sfumato.methods.dpsgd.public_classes import votes
from sfumato.methods.embedding.hermite import HermiteFeatures
from sfumato.methods.embedding.perceptual_moments import PerceptualMoments
from sfumato.methods.embedding.slices import Slices
from sfumato.methods.embedding.tangent import Tangent
from sfumato.methods.house.sfumato import Sfumato
from sfumato.methods.sets.convnets import ConvNet
from sfumato.methods.sets.nearest import Nearest
from sfumato.networks.pretrained.perceptual import RandomMaps
from sfumato.privacy.bounds import Bound, BoundedSum, IntegerBound

CLASSES, SIDE = 3, 8


def queries():
    random = torch.Generator().manual_seed(0)
    phi = RandomFourier(SIDE * SIDE, 40, 0.2, random, octaves=1.5)
    weights = torch.randn(CLASSES, SIDE * SIDE, generator=random).numpy()
    judge = Judge(weights, np.zeros(CLASSES, np.float32))
    return {
        "embedding": BoundedSum(phi, Bound(1.0), (40,), by_class=True),
        "house": house(),
        "labels": BoundedSum(lambda images, labels: one_hot(labels, CLASSES), VOTE, (CLASSES,)),
        "score": BoundedSum(judge.votes, VOTE, (2,)),
        "clusters": BoundedSum(rows_of(clusters(random), CLASSES), ROWS, (2, CLASSES + FEATURES)),
        "public classes": BoundedSum(lambda images, labels: votes(net(), images), VOTE, (4,), by_class=True),
        **one_shot(random),
    }


def clusters(random):
    """Two centres among random Fourier features."""
    phi = RandomFourier(SIDE * SIDE, FEATURES, 0.25, random)
    return Clusters(phi, torch.randn(2, FEATURES, generator=random, dtype=torch.float64), torch.ones(CLASSES, 2) / 2)


def net():
    """A classifier of four public classes."""
    torch.manual_seed(0)
    return ConvNet((1, SIDE, SIDE), 4, 4)


def house():
    """Pixels and scattering of the house method."""
    spec = DataSpec("records", 12, (1, SIDE, SIDE), tuple("abc"))
    phi = Sfumato(features=40, scattering=0.5).embed(spec, Run(device="cpu"))
    return BoundedSum(phi, Bound(1.0), (40,), by_class=True)


def one_shot(random):
    """What the other one-release methods ask; PEARL asks the same as DP-MERF."""
    shape, pixels = (1, SIDE, SIDE), SIDE * SIDE
    hermite = HermiteFeatures(pixels, 3, 0.6, 1.5, 4, 2, 1.0, random)
    tangent, slices = Tangent(pixels, 3, 2.0, random), Slices(shape, 5, 4, 1.0, 0)
    moments = PerceptualMoments(RandomMaps(), 1, shape)
    candidates, nearest = torch.rand(CLASSES, 4, *shape, generator=random), Nearest(2)
    return {
        "hermite": BoundedSum(hermite, Bound(2**0.5), (hermite.size,), by_class=True),
        "tangent": BoundedSum(tangent, Bound(1.0), (tangent.size,), by_class=True),
        "slices": BoundedSum(slices, IntegerBound(5, low=0), (5, 4), by_class=True),
        "moments": BoundedSum(moments, Bound(2**0.5), (moments.size,), by_class=True),
        "nearest": BoundedSum(lambda x, y: nearest(x, y, candidates), VOTE, (4,), by_class=True),
    }


def records(kind, random):
    """Images and labels of one kind of trouble."""
    images = {
        "random": lambda: random.random((12, 1, SIDE, SIDE)),
        "zero": lambda: np.zeros((12, 1, SIDE, SIDE)),
        "extreme": lambda: (random.random((12, 1, SIDE, SIDE)) > 0.5).astype(float),
        "duplicated": lambda: np.repeat(random.random((1, 1, SIDE, SIDE)), 12, 0),
        "nan": lambda: np.full((12, 1, SIDE, SIDE), np.nan),
        "huge": lambda: np.full((12, 1, SIDE, SIDE), 1e30),
    }[kind]()
    return torch.tensor(images, dtype=torch.float32), torch.tensor(random.integers(0, CLASSES, 12))


def total(query, images, labels):
    terms = query.bound.project(query.rows(images, labels)).double()
    if not query.by_class:
        return terms.sum(0)
    return torch.zeros(CLASSES, *query.shape, dtype=torch.float64).index_add_(0, labels, terms)


@pytest.mark.parametrize("other", ["random", "zero", "extreme", "duplicated", "nan", "huge"])
@pytest.mark.parametrize("name", sorted(queries()))
def test_no_neighbour_moves_a_query_by_more_than_it_declares(name, other):
    query, random = queries()[name], np.random.default_rng(1)
    images, labels = records("random", random)
    whole, strangers = total(query, images, labels), records(other, random)
    for i in range(12):
        kept = torch.arange(12) != i
        without = total(query, images[kept], labels[kept])
        assert torch.linalg.vector_norm(whole - without) <= query.bound.sensitivity(Relation.ADD_REMOVE)
        swapped, renamed = images.clone(), labels.clone()
        swapped[i], renamed[i] = strangers[0][i], strangers[1][i]
        moved = torch.linalg.vector_norm(whole - total(query, swapped, renamed))
        assert moved <= query.bound.sensitivity(Relation.REPLACE_ONE)


def test_every_query_of_the_package_is_listed_here():
    # A new BoundedSum in the package must come to this file, or to the suite of its method.
    import ast
    from pathlib import Path

    import sfumato

    makers = set()
    for path in Path(sfumato.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "BoundedSum":
                makers.add(path.relative_to(Path(sfumato.__file__).parent).as_posix())
    made_up = {m for m in makers if m.startswith("audit/")}
    assert makers - made_up == {
        "flow/publish.py",
        "methods/gan/dpaf/aggregation.py",
        "engine/label_histogram.py",
        "methods/dpsgd/scatter_matrix.py",
        "methods/embedding/dp_hp.py",
        "methods/embedding/dp_mepf.py",
        "methods/embedding/dp_merf.py",
        "methods/embedding/dp_moments.py",
        "methods/embedding/dp_ntk.py",
        "methods/embedding/dp_swd.py",
        "methods/house/sfumato.py",
        "methods/sets/ndpdc.py",
        "methods/dpsgd/p3gm.py",
        "methods/embedding/pearl.py",
        "methods/sets/private_evolution.py",
        "methods/dpsgd/clusters.py",
        "methods/dpsgd/public_classes.py",
        "flow/tune.py",
    }
