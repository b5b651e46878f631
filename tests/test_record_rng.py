"""Numbers that belong to a record: they look random, and nobody else's record changes them."""

from __future__ import annotations

import torch

from sfumato.record_rng import drawing, keys_of, mixed, normal, record_keys, uniform


def test_the_mixer_is_splitmix64():
    # The first outputs of the reference implementation with seed 0: its state grows by the golden ratio.
    golden = -0x61C8864680B583EB
    found = mixed(torch.arange(3) * golden).tolist()
    assert [value % 2**64 for value in found] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_normal_numbers_have_their_moments_and_do_not_follow_each_other():
    keys = torch.arange(4000)
    made = normal(keys, (5,), salt=3)
    assert made.mean().abs() < 0.03 and (made.std() - 1).abs() < 0.03
    assert (made.abs() > 1.96).float().mean().sub(0.05).abs() < 0.01
    assert torch.corrcoef(made.T).fill_diagonal_(0).abs().max() < 0.06
    assert not torch.equal(made, normal(keys, (5,), salt=4))
    flat = uniform(keys, (3,))
    assert flat.min() > 0 and flat.max() < 1 and (flat.mean() - 0.5).abs() < 0.02


def test_a_record_keeps_its_numbers_when_others_leave():
    images, draw = (
        torch.rand(6, 1, 4, 4),
        drawing(lambda name, step: torch.Generator().manual_seed(step), noise_multiplicity=3),
    )

    def noise(images, step):
        rows = images.repeat_interleave(3, 0)
        keys, copy = draw(step)(len(rows))
        return normal(record_keys(rows, keys), (8,)), copy

    (all_of_them, copy), (fewer, _) = noise(images, 0), noise(images[2:], 0)
    assert torch.equal(all_of_them[6:], fewer)
    assert copy.tolist() == [0, 1, 2] * 6
    assert len(torch.unique(all_of_them[:, 0])) == 18
    assert not torch.isclose(all_of_them, noise(images, 1)[0]).any()


def test_keys_depend_on_every_number_of_a_row():
    values = torch.zeros(1, 50, dtype=torch.long)
    seen = {int(keys_of(values, torch.zeros(1, dtype=torch.long)))}
    for i in range(50):
        changed = values.clone()
        changed[0, i] = 1
        seen.add(int(keys_of(changed, torch.zeros(1, dtype=torch.long))))
    assert len(seen) == 51
    assert torch.isfinite(normal(record_keys(torch.full((1, 1, 2, 2), torch.nan), torch.zeros(1).long()), (3,))).all()
