"""What a run costs an account of another relation, and by what an account knows its data."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from PIL import Image
from scipy.stats import norm

from sfumato import Budget, DataSpec, InputError, Relation, Unit, load
from sfumato.accounting import accountant
from sfumato.accounting.gaussian import delta_of, epsilon_of, mu_of
from sfumato.data.private import records
from sfumato.ledger.charge import cost_of, digests_of, fingerprint
from sfumato.ledger.store import Ledger
from sfumato.privacy.bounds import Bound, IntegerBound
from sfumato.privacy.partitions import identities, part_of
from sfumato.privacy.plan import crossing
from sfumato.privacy.samplers import Poisson
from tests.made_up import arrays, box, plan

ADD, REPLACE, DELTA = Relation.ADD_REMOVE, Relation.REPLACE_ONE, 1e-5
PEOPLE = DataSpec("people", 60, (1, 8, 8), ("a",), unit=Unit.PERSON)


def teachers(epsilon, relation=ADD, bound=None, spec=None, **options):
    """A plan that asks held parts once, at this epsilon under its own relation."""
    bound = bound or Bound(1.0)
    noise = bound.sensitivity(REPLACE) / bound.norm / mu_of(epsilon, DELTA)
    budget = Budget(2 * epsilon, relation=relation, unit=spec.unit if spec else Unit.RECORD)
    return plan(spec, budget, teachers=crossing(bound, noise, held=True, **options))


@pytest.mark.parametrize("spec", [None, PEOPLE])
@pytest.mark.parametrize(("charged", "true"), [(1, 2.155), (2, 4.39), (10, 24.4)])
def test_a_replaced_unit_of_parts_by_content_is_charged_for_both_parts(charged, true, spec):
    made = teachers(charged, spec=spec)
    assert cost_of(made, ADD).epsilon_at(DELTA) == pytest.approx(charged, rel=1e-6)
    cost = cost_of(made, REPLACE)
    assert cost.epsilon_at(DELTA) == pytest.approx(true, rel=2e-3)
    assert (cost.mu, cost.slack) == (pytest.approx(2 * mu_of(charged, DELTA)), 0)


def test_a_replaced_record_does_move_two_parts_by_content_and_one_by_place():
    one, other = box(n=60), box(n=60, seed=0)
    inside, changed = records(one), records(other)
    changed.digests[7] = changed.digests[7] ^ 255
    for relation, most in ((ADD, 2), (REPLACE, 0)):  # parts that records leave or join
        a, b = (part_of(identities(r, one.spec, relation), 10_000, bytes(32)) for r in (inside, changed))
        assert len({*a[a != b], *b[a != b]}) == most


def test_a_plan_by_place_costs_the_same_under_either_relation():
    # Add-remove with a public count blanks a unit out where it stands: one part changes.
    made = teachers(1, REPLACE)
    assert cost_of(made, REPLACE).mu == cost_of(made, ADD).mu == pytest.approx(mu_of(1, DELTA))


def test_records_outside_parts_are_priced_as_before():
    made = plan(None, Budget(1.0), sum=crossing(Bound(1.0), 1 / mu_of(1, DELTA)))
    assert cost_of(made, REPLACE).mu == pytest.approx(2 * cost_of(made, ADD).mu)


def test_drawn_parts_are_charged_for_two_that_are_drawn_apart():
    rate, noise = 0.1, 8.0
    made = plan(None, Budget(1.0), teachers=crossing(Bound(1.0), noise, Poisson(rate), 40, held=True))
    whole = plan(None, Budget(1.0), teachers=crossing(Bound(1.0), noise, times=40, held=True))
    priced = accountant.profile(made.events(REPLACE))
    assert priced.epsilon(DELTA) < cost_of(whole, REPLACE).epsilon_at(DELTA)
    assert priced.epsilon(DELTA) > 1.3 * accountant.profile(made.events(ADD)).epsilon(DELTA)
    # The true pair of one release, with both parts' terms along one line: counts of 0, 1 or 2 parts that were drawn.
    x = np.linspace(-80, 80, 160_001)
    weights = [(1 - rate) ** 2, 2 * rate * (1 - rate), rate**2]
    p, q = (sum(w * norm.pdf(x, sign * k, noise) for k, w in enumerate(weights)) for sign in (1, -1))
    one = accountant.profile(
        [*plan(None, Budget(1.0), teachers=crossing(Bound(1.0), noise, Poisson(rate), 1, held=True)).events(REPLACE)]
    )
    for epsilon in (0.0, 0.01, 0.03, 0.1, 0.2):
        true = float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * (x[1] - x[0]))
        assert true <= one.delta(epsilon) + 1e-9


@pytest.mark.parametrize("bound", [IntegerBound(1, low=0, coordinates=1), IntegerBound(4), IntegerBound(1, low=0)])
@pytest.mark.parametrize("epsilon", [0.5, 1.5])
def test_whole_number_votes_are_priced_by_the_gaussian_that_they_are_rounded_from(bound, epsilon):
    made = teachers(epsilon, bound=bound)
    sigma = made.crossings["teachers"].mechanism.std(bound)
    cost = cost_of(made, REPLACE)
    assert cost.mu == pytest.approx(2 * bound.sensitivity(REPLACE) / math.sqrt(sigma**2 - 4))
    # Two parts that move one count together, on the whole numbers themselves: never above the price.
    x, shift = np.arange(-4000, 4001), 2 * (bound.high - bound.low if bound.low or bound.coordinates == 1 else 1)
    p, q = (np.exp(-((x - by) ** 2) / (2 * sigma**2)) for by in (0, shift))
    p, q = p / p.sum(), q / q.sum()
    for at in np.linspace(0, cost.epsilon_at(1e-9), 20):
        true = float(np.maximum(p - math.exp(at) * q, 0).sum())
        assert true <= delta_of(float(at), cost.mu) + 1e-12


def test_votes_with_too_little_noise_are_refused_with_the_remedy(tmp_path):
    loud = plan(None, Budget(100.0), teachers=crossing(IntegerBound(1, low=0, coordinates=1), 1.5, held=True))
    with pytest.raises(ValueError, match="--relation replace-one"):
        cost_of(loud, REPLACE)
    with Ledger(tmp_path / "l") as ledger:
        ledger.set_total("votes", None, Budget(100.0, relation=REPLACE))
        with pytest.raises(InputError, match="--relation replace-one"):
            _reserve(ledger, loud)
        ledger.set_total("votes", None, Budget(100.0))
        _reserve(ledger, loud)
        with pytest.raises(InputError, match="under replace-one is not known"):
            ledger.set_total("votes", None, Budget(100.0, relation=REPLACE))


def test_a_later_replace_one_total_sees_both_parts(tmp_path):
    with Ledger(tmp_path / "l") as ledger:
        ledger.set_total("votes", None, Budget(5.0))
        _reserve(ledger, teachers(1))
        assert ledger.show("votes")["spent"] == pytest.approx(1, rel=1e-6)
        ledger.set_total("votes", None, Budget(5.0, relation=REPLACE))
        assert ledger.show("votes")["spent"] == pytest.approx(epsilon_of(DELTA, 2 * mu_of(1, DELTA)))


def _reserve(ledger, made, name="votes", digests=None):
    digests = np.zeros((1, 32), np.uint8) if digests is None else digests
    return ledger.reserve(
        name=name,
        digests=digests,
        budget=made.budget,
        plan_json="{}",
        cost=lambda relation: cost_of(made, relation),
        method="test",
    )


def people(seed, names=None):
    """Images that are others for each seed, of the persons named, or of twenty."""
    names = np.array([f"clinic-{i % 20}" for i in range(40)]) if names is None else names
    return load((*arrays(len(names), seed=seed), names))


def test_other_images_of_the_same_persons_are_one_account(tmp_path):
    one, other = people(0), people(1)
    assert not {bytes(d) for d in records(one).digests} & {bytes(d) for d in records(other).digests}
    made = plan(PEOPLE, Budget(1.0, unit=Unit.PERSON), sum=crossing(Bound(1.0), 1 / mu_of(1, DELTA)))
    with Ledger(tmp_path / "l") as ledger:
        for name, data in (("first", one), ("second", other)):
            ledger.set_total(name, digests_of(data), Budget(3.0, unit=Unit.PERSON))
            _reserve(ledger, made, name, digests_of(data))
        assert ledger.show("second", digests_of(other))["spent"] == pytest.approx(1.466, abs=2e-3)
        strangers = digests_of(people(2, np.array([f"ward-{i % 20}" for i in range(40)])))
        assert ledger.show("third", strangers)["history"] == []


def test_a_person_is_known_by_the_text_of_the_identifier_in_every_format(tmp_path):
    texts, numbers = people(0, np.array(["7", "8"] * 3)), people(1, np.array([7, 8] * 3))
    assert np.array_equal(records(texts).people, records(numbers).people)
    folder = tmp_path / "scans"
    folder.mkdir()
    images, _ = arrays(6, seed=2)
    for row, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{row}.png")
    lines = ["file_name,patient", *(f"{row}.png,{7 + row % 2}" for row in range(6))]
    (folder / "metadata.csv").write_text("\n".join(lines))
    assert np.array_equal(records(load(folder, person="patient")).people, records(texts).people)
    np.savez(tmp_path / "scans.npz", images=images, labels=np.zeros(6, int), patient=np.array([7, 8] * 3))
    assert np.array_equal(records(load(tmp_path / "scans.npz", person="patient")).people, records(texts).people)
    assert records(load((images, None))).people is None


def test_a_person_and_an_image_of_the_same_bytes_are_two_things():
    content = hashlib.blake2b(b"7", digest_size=32).digest()
    assert bytes(records(people(0, np.array(["7"] * 3))).people[0]) != content


def test_a_resumed_run_must_have_its_images_with_the_same_persons():
    def told(names):
        return fingerprint(digests_of(people(0, np.array(names))), "ab" * 16)

    assert told(["a", "a", "b"]) == told(["a", "a", "b"])
    assert len({told(["a", "a", "b"]), told(["a", "b", "b"]), told(["a", "a", "c"])}) == 3
