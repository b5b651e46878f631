"""Encoders of parts: a part's records move that part's answer alone, and the answer is the decoder's gradient."""

from __future__ import annotations

import torch

from sfumato.methods.dpsgd.dpd_fvae import DPDfVAE
from sfumato.methods.dpsgd.local_encoders import LocalEncoders
from sfumato.networks.vae import VAEGenerator

PARTS, BATCH, SHAPE = 3, 4, (1, 8, 8)
KEY = torch.tensor(7)


def made():
    torch.manual_seed(0)
    decoder = VAEGenerator(SHAPE, ("a", "b"), latent=3, width=8)
    model = LocalEncoders(decoder, DPDfVAE().loss, 6, 0.01, 2, BATCH)
    theta = torch.cat([p.detach().flatten() for p in decoder.parameters()])
    return model.make(PARTS, torch.Generator().manual_seed(1), "cpu"), theta


def records(changed=False):
    random = torch.Generator().manual_seed(2)
    images = torch.rand(PARTS, BATCH, *SHAPE, generator=random)
    labels = torch.randint(2, (PARTS, BATCH), generator=random)
    if changed:
        images[1, 0] = 1 - images[1, 0]
        labels[1, 0] = 1 - labels[1, 0]
    return images, labels


def answers(changed):
    block, theta = made()
    for _ in range(3):
        block.update(*records(changed), theta, KEY)
    return block.slopes(theta, KEY)


def test_a_record_moves_the_answer_of_its_own_part_alone():
    one, two = answers(False), answers(True)
    assert torch.equal(one[[0, 2]], two[[0, 2]])
    assert not torch.equal(one[1], two[1])


def test_an_answer_is_the_gradient_of_the_decoder_on_the_part_s_batch():
    block, theta = made()
    block.update(*records(), theta, KEY)
    found = block.slopes(theta, KEY)
    with torch.enable_grad():
        losses = block._losses(block.layers, KEY).view(PARTS, BATCH).mean(1)
        exact = [torch.autograd.grad(losses[i], list(block.decoder.parameters()), retain_graph=True) for i in range(3)]
    for row, slopes in zip(found, exact, strict=True):
        assert torch.allclose(row, torch.cat([s.flatten() for s in slopes]), rtol=1e-3, atol=1e-3)


def test_encoders_learn_and_come_back_from_their_state():
    block, theta = made()
    before = None
    for _ in range(20):
        block.update(*records(), theta, KEY)
        before = before if before is not None else block._losses(block.layers, KEY).sum()
    assert block._losses(block.layers, KEY).sum() < before
    again, _ = made()
    again.load_state_dict(block.state_dict())
    assert torch.equal(again.slopes(theta, KEY), block.slopes(theta, KEY))
