"""A fixed set as a generator: it goes round its images, and comes back from its file as it was."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sfumato.networks import ImageSet, load_generator


def made(each=4, weights=None):
    points = ImageSet((1, 2, 3), ("a", "b", "c"), each, weights)
    points.start(torch.Generator().manual_seed(0))
    return points.eval()


def rows(images):
    return {bytes(image) for image in images}


def test_a_sample_has_no_image_twice_as_long_as_they_last():
    points = made()
    everything = rows(points.sample(12).pixels)
    assert len(everything) == 12
    assert len(rows(points.sample(7, [1] * 4 + [0] * 3).pixels)) == 7
    again = points.sample(24)
    assert rows(again.pixels) == everything and sorted(again.labels) == sorted(np.arange(24) % 3)
    counts = [sum(np.array_equal(p, q) for q in again.pixels) for p in again.pixels]
    assert set(counts) == {2}


def test_an_image_belongs_to_its_class():
    points = made()
    for label in range(3):
        own = points.images[label].detach().mul(255).round().byte().numpy()
        assert rows(points.sample(9, [label] * 9).pixels) == rows(own)


def test_the_seed_decides_which_come_first():
    one, same, other = (made(each=50).sample(9, seed=s).pixels for s in (1, 1, 2))
    assert np.array_equal(one, same) and not np.array_equal(one, other)


def test_labels_follow_the_public_shares():
    assert np.bincount(made(weights=(0.5, 0.3, 0.2)).sample(10).labels).tolist() == [5, 3, 2]


@pytest.mark.parametrize("z", [-100.0, -1.0, 0.0, 1.0, 100.0])
def test_any_latent_picks_an_image(z):
    found = made()(torch.full((3, 1), z), torch.tensor([0, 1, 2]))
    assert found.shape == (3, 1, 2, 3) and torch.isfinite(found).all()


def test_random_latents_reach_every_image():
    points = made(each=5)
    z = points.latents(400, torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert len(rows(points(z, torch.zeros(400, dtype=torch.long)).numpy())) == 5


@pytest.mark.parametrize("each", [1, 3, 1000])
def test_every_place_survives_the_way_through_a_latent(each):
    points = made(each)
    z = points.latents_for(torch.zeros(each, dtype=torch.long), torch.Generator().manual_seed(0))
    with torch.no_grad():
        found = points(z, torch.zeros(each, dtype=torch.long))
    assert torch.equal(found.flatten(1).sort(0).values, points.images[0].detach().flatten(1).sort(0).values)


def test_it_comes_back_from_its_config_and_says_that_images_repeat():
    points = made(weights=(0.2, 0.3, 0.5))
    config = points.config()
    assert config["kind"] == "fixed" and config["each"] == 4 and config["repeats"] is True
    again = load_generator(config, points.state_dict())
    assert np.array_equal(points.sample(20, seed=3).pixels, again.sample(20, seed=3).pixels)


@pytest.mark.parametrize("bad", [{"each": 0}, {"each": -1}, {"repeats": False}])
def test_settings_must_make_sense(bad):
    with pytest.raises(ValueError, match="Expected each"):
        ImageSet((1, 2, 3), ("a",), **bad)


def test_pixels_are_kept_within_range():
    points = made()
    with torch.no_grad():
        points.images += 3 * torch.randn(points.images.shape)
    assert (
        0 <= points(torch.zeros(3, 1), torch.arange(3)).min() <= points(torch.zeros(3, 1), torch.arange(3)).max() <= 1
    )
    points.restrain()
    assert 0 <= points.images.min() <= points.images.max() <= 1
