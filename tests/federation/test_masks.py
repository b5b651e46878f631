"""Masks hide each message, vanish in the sum, and open for nobody else."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sfumato.federation.masks import Attempt, Keys, Masks, fingerprint, unmasked, words

NAMES = ("a", "b", "c", "d")
FIRST = Attempt("run", 1, 0)


def everyone():
    """Fixed keys, so that every number below is the same each time."""
    keys = {name: Keys(bytes([i]) * 64) for i, name in enumerate(NAMES, 1)}
    publics = {name: key.public for name, key in keys.items()}
    return {name: Masks(name, key, publics) for name, key in keys.items()}


def values(name, size=50):
    return np.random.default_rng(NAMES.index(name)).integers(-(2**40), 2**40, size)


@pytest.mark.parametrize("size", range(1, 5))
def test_the_sum_is_exact_for_any_sites_that_answer(size):
    sites = everyone()
    for answered in itertools.combinations(NAMES, size):
        hidden = {name: sites[name].hide(values(name), FIRST) for name in answered}
        revealed = {name: sites[name].reveal(FIRST, answered) for name in answered}
        assert (unmasked(hidden, revealed) == sum(values(name) for name in answered)).all()


def test_a_message_is_uniform_whatever_it_hides():
    """By the chi-square statistic of its bytes, with fixed keys: 255 degrees of freedom, and 22.6 is its deviation."""
    for vote in (np.zeros(20_000, np.int64), values("a", 20_000)):
        message = everyone()["a"].hide(vote, FIRST)
        counts = np.bincount(message.view(np.uint8), minlength=256)
        assert abs(((counts - 625) ** 2 / 625).sum() - 255) < 5 * 22.6


def test_any_message_may_hide_any_vote():
    """Another self mask explains another vote: without it a message says nothing."""
    site = everyone()["a"]
    one, other = values("a"), values("b")
    assert (site.hide(one, FIRST) - site.hide(other, FIRST) == (one - other).view(np.uint64)).all()


def test_without_one_mask_the_sum_does_not_open():
    sites = everyone()
    answered = NAMES[:3]
    hidden = {name: sites[name].hide(values(name), FIRST) for name in answered}
    revealed = {name: sites[name].reveal(FIRST, answered) for name in answered}
    truth = sum(values(name) for name in answered)
    for name in answered:
        less = revealed | {name: revealed[name] | {"own": bytes(32)}}
        assert not (unmasked(hidden, less) == truth).any()
        fewer = revealed | {name: revealed[name] | {"pairs": {}}}
        assert not (unmasked(hidden, fewer) == truth).any()


def test_fewer_messages_than_were_opened_for_give_nothing():
    sites = everyone()
    hidden = {name: sites[name].hide(values(name), FIRST) for name in NAMES}
    revealed = {name: sites[name].reveal(FIRST, NAMES) for name in NAMES}
    alone = unmasked({"a": hidden["a"]}, {"a": revealed["a"]})
    assert not (alone == values("a")).any()


def test_every_attempt_has_masks_of_its_own():
    site = everyone()["a"]
    tries = [FIRST, Attempt("run", 1, 1), Attempt("run", 2, 0), Attempt("other", 1, 0)]
    seeds = [site.reveal(attempt, ("a",)) for attempt in tries]
    assert len({seed["own"] for seed in seeds} | {pair for seed in seeds for pair in seed["pairs"].values()}) == 16


def test_a_killed_site_finds_its_keys_again():
    before = Keys()
    assert Keys(before.secret).public == before.public != Keys().public
    assert len(fingerprint(before.public)) == 39


def test_words_of_a_seed_are_those_of_the_cipher():
    """The first block of RFC 8439, appendix A.1."""
    assert words(bytes(32), 2).astype("<u8").tobytes().hex() == "76b8e0ada0f13d90405d6ae55386bd28"
