"""What `sfumato evaluate` does depends on what was released."""

from __future__ import annotations

import pytest

from sfumato.errors import InputError
from sfumato.flow import evaluate as dispatch
from sfumato.flow.publish import publish_accuracy


@pytest.mark.parametrize("classifier", [True, False])
def test_images_and_classifiers_go_their_own_ways(classifier, monkeypatch):
    seen = []
    monkeypatch.setattr(dispatch, "holds_classifier", lambda folder: classifier)
    monkeypatch.setattr(dispatch, "score", lambda *a, **k: seen.append(("score", k)))
    monkeypatch.setattr(dispatch, "evaluate_images", lambda *a, **k: seen.append(("images", k)))
    dispatch.evaluate("folder", "data", seeds=2, attacks=None, protocol="fixed")
    wanted = ("score", {"seeds": 2}) if classifier else ("images", {"seeds": 2, "attacks": None, "protocol": "fixed"})
    assert seen == [wanted]


def test_an_accuracy_is_published_of_images_alone(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(InputError, match="holds a classifier"):
        publish_accuracy(tmp_path, None, 1.0)
