"""The file of a sweep: all combinations, names that stay, and one sentence for what is wrong."""

from __future__ import annotations

import pytest

from sfumato.errors import InputError
from sfumato.flow.sweep_plan import read, trial_id

GOOD = {"data": "digits", "epsilon": "1", "methods": "dp-merf"}


def written(tmp_path, **fields):
    lines = [f"{name}: {value}" for name, value in (GOOD | fields).items() if value is not None]
    (tmp_path / "plan.yaml").write_text("\n".join(lines))
    return tmp_path / "plan.yaml"


def test_a_plan_is_all_its_combinations(tmp_path):
    methods = "{dp-merf: {steps: [2, 4], width: 8}, dp-ntk: {}}"
    plan = read(written(tmp_path, epsilon="[1, 1e+1]", seeds=5, methods=methods, delta="1e-6"))
    trials = list(plan.trials().values())
    assert len(trials) == 3 * 2 * 5 and plan.epsilon == (1.0, 10.0) and plan.delta == 1e-6
    assert [t["settings"] for t in trials[:1]] == [{"steps": "2", "width": "8"}]
    assert [t["seed"] for t in trials[:5]] == [0, 1, 2, 3, 4]
    assert read(written(tmp_path, seeds="[7, 9]")).seeds == (7, 9)


def test_a_name_stays_for_as_long_as_a_run_asks_the_same(tmp_path):
    few = read(written(tmp_path, seeds=2)).trials()
    more = read(written(tmp_path, seeds=3)).trials()
    other = read(written(tmp_path, seeds=2, judge="test")).trials()
    assert few.keys() < more.keys() and not few.keys() & other.keys()
    assert all(trial_id(asked) == key for key, asked in more.items())


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"data": None}, "has no 'data'; add"),
        ({"methods": None}, "has no 'methods'"),
        ({"epsilons": "1"}, "'epsilons', which is no field of a sweep; did you mean epsilon"),
        ({"epsilon": "much"}, "epsilon: 'much'; write a number"),
        ({"epsilon": "0"}, "epsilon: 0; write 0.001 to 1000"),
        ({"epsilon": "[1, 1]"}, "values that differ"),
        ({"epsilon": "[]"}, "values that differ"),
        ({"epsilon": ".inf"}, "write a number"),
        ({"delta": "2"}, "cannot be kept"),
        ({"seeds": "1.5"}, "a whole number"),
        ({"seeds": "[.inf]"}, "a whole number"),
        ({"seeds": "0"}, "asks for 0 runs"),
        ({"seeds": "20000"}, "asks for 20,000 runs"),
        ({"count": "0"}, "count: 0; write at least 1"),
        ({"grey": "perhaps"}, "write yes or no"),
        ({"judge": "me"}, "write held-out or test"),
        ({"classifier": "svm"}, "write linear or cnn"),
        ({"methods": "dpmerf"}, "did you mean dp-merf"),
        ({"methods": "{dp-merf: 3}"}, "lines such as"),
        ({"methods": "{dp-merf: {steps: {a: 1}}}"}, "write a text"),
        ({"methods": "{}"}, "at least one method"),
        ({"slurm": "fast"}, "timeout_min"),
        ({"person": "who"}, "'person', which a free sweep does not heed"),
        ({"private": "yes", "judge": "test"}, "'judge', which a private sweep does not heed"),
        ({"private": "yes", "epsilon": "[1, 2]"}, "several values for 'epsilon'"),
        ({"private": "yes", "seeds": "2"}, "several values for 'seeds'"),
        ({"private": "yes", "runs": "0"}, "runs: 0; write 1"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(tmp_path, fields, said):
    with pytest.raises(InputError) as caught:
        read(written(tmp_path, **fields))
    assert said in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(("text", "said"), [("a: [", "is not YAML in line"), ("", "holds no fields"), (None, "read")])
def test_a_file_that_is_no_plan_is_refused(tmp_path, text, said):
    if text is not None:
        (tmp_path / "plan.yaml").write_text(text)
    with pytest.raises(InputError, match=f"The plan .*plan.yaml .*{said}"):
        read(tmp_path / "plan.yaml")
