"""The shape of scikit-learn: parameters, clone, fit, sample, release_."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.base import clone

from sfumato import DPMERF, Budget, InputError, Synthesizer, Unit, load, synthesize
from sfumato.api import budget_of
from sfumato.data.labels import LabelPrior
from sfumato.methods import find, names
from tests.made_up import arrays

TINY = {"features": 40, "steps": 2, "batch": 4, "latent": 4, "width": 8}


@pytest.mark.parametrize("name", names())
def test_every_method_is_cloned_and_changed_by_its_parameters(name):
    method = find(name)()
    same = clone(method)
    assert same == method and same is not method and type(same) is type(method)
    assert set(method.get_params()) == {"labels", *method.settings()}
    assert method.set_params(**method.get_params()) == method


def test_a_method_never_changes():
    method = DPMERF()
    other = method.set_params(steps=7)
    assert (other.steps, method.steps) == (7, DPMERF().steps)
    with pytest.raises(ValueError, match="Expected a setting, found 'stepz'; did you mean steps?"):
        method.set_params(stepz=7)
    with pytest.raises(ValueError, match="steps"):
        method.set_params(steps=0)


def test_labels_are_said_as_text():
    method = DPMERF(labels="private:0.1")
    assert method.labels == LabelPrior("private", fraction=0.1) == clone(method).labels
    assert DPMERF(labels="uniform") == DPMERF()
    for wrong in ("private:2", "weights.csv", ""):
        with pytest.raises(ValueError, match="labels"):
            DPMERF(labels=wrong)


def test_fit_returns_itself_with_a_release():
    images, labels = arrays()
    made = Synthesizer(DPMERF(**TINY), epsilon=2, count=9)
    with pytest.raises(InputError, match="not fitted"):
        made.sample(1)
    assert made.fit(images, labels) is made and len(made.release_.images) == 9
    assert made.sample(4, labels="1", seed=2).labels.tolist() == [1, 1, 1, 1]
    assert budget_of((images, labels))["spent"] == pytest.approx(2)
    assert not any(np.shares_memory(images, value) for value in vars(made).values() if isinstance(value, np.ndarray))


def test_a_clone_is_not_fitted_and_has_equal_parameters():
    made = Synthesizer(DPMERF(**TINY), epsilon=5, count=3).fit("digits")
    again = clone(made)
    assert not hasattr(again, "release_") and again.get_params() == made.get_params()
    assert "release_" not in repr(made)


def test_parameters_are_set_in_place_also_those_of_the_method():
    made = Synthesizer(DPMERF(**TINY))
    first = made.method
    assert made.set_params(epsilon=3, method__steps=5) is made
    assert (made.epsilon, made.method.steps, first.steps) == (3, 5, 2)
    with pytest.raises(ValueError, match="Expected a parameter of"):
        made.set_params(method__stepz=1)


def test_persons_are_protected_where_they_are_given(tmp_path):
    images, labels = arrays()
    who = np.arange(60) // 4
    for data in ((images, labels, who),):
        made = Synthesizer(DPMERF(**TINY), epsilon=2, count=3).fit(*data)
        assert made.release_.statement["guarantee"]["unit"] == "person"
    with pytest.raises(InputError, match="array beside y"):
        made.fit(images, labels, "patient")


def test_the_unit_follows_the_data_and_a_budget_for_persons_needs_them(tmp_path):
    images, labels = arrays()
    np.savez(tmp_path / "scans.npz", images=images, labels=labels, patient=np.arange(60) // 4)
    data = load(tmp_path / "scans.npz", person="patient")
    release = synthesize(DPMERF(**TINY), data, Budget(2.0), count=3)
    assert release.statement["guarantee"]["unit"] == "person"
    json.dumps(release.statement)
    account = budget_of(tmp_path / "scans.npz", person="patient", total=Budget(3.0))
    assert account["total"]["unit"] == "person" and account["spent"] == pytest.approx(2)
    with pytest.raises(InputError, match="name the person column with `person=COLUMN`"):
        synthesize(DPMERF(**TINY), (images, labels), Budget(2.0, unit=Unit.PERSON), count=3)
