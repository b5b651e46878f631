"""`sfumato recipes`, and `--recipe` of `plan` and `synthesize`."""

from __future__ import annotations

import json

import pytest

from sfumato.flow.request import Request, typed
from sfumato.recipes import CLASSIFIERS, RECIPES
from sfumato.release import verify
from tests.cli.test_cli import DESCRIBED, call, refused

NAME = "datalens-paper-mnist-1"
TINY = (
    "--set",
    "teachers=6",
    "--set",
    "topk=10",
    "--set",
    "sigma=0",
    "--set",
    "steps=2",
    "--set",
    "batch=4",
    "--set",
    "teacher_batch=2",
    "--set",
    "warmup=1",
    "--set",
    "hidden=16",
    "--set",
    "width=8",
    "--set",
    "critic_width=2",
    "--set",
    "critic_hidden=4",
    "--set",
    "latent=4",
    "--set",
    "threshold=0",
)


def planned(*argv: object) -> dict:
    status, out, err = call("plan", *argv, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)


def test_recipes_are_listed():
    status, out, _ = call("recipes", "--json")
    assert status == 0 and [row["name"] for row in json.loads(out)] == [*RECIPES, *CLASSIFIERS]
    status, out, err = call("recipes")
    assert (status, err) == (0, "") and max(map(len, out.splitlines())) <= 80
    images, classifiers = out.split("Recipes of classifiers")
    assert all(name in images for name in RECIPES) and "sfumato synthesize DATA --recipe NAME" in images
    assert all(name in classifiers for name in CLASSIFIERS) and "sfumato train-classifier DATA" in classifiers
    assert all(row["epsilon"] < 100 for row in json.loads(call("recipes", "--json")[1]))  # no run without noise


def test_one_recipe_whole():
    status, out, _ = call("recipes", NAME, "--json")
    found = json.loads(out)
    assert status == 0 and found == RECIPES[NAME].to_json() and found["settings"]["sigma"] == 5000
    text = call("recipes", NAME)[1]
    assert "epsilon 1 at delta 1e-05" in text and "sigma=5000.0" in text and "accuracy 0.7123" in text


def chosen(*argv: str) -> list[str]:
    status, out, err = call("recipes", *argv, "--json")
    assert (status, err) == (0, "")
    return [recipe["name"] for recipe in json.loads(out)]


def test_recipes_by_method_set_and_budget():
    every = RECIPES | CLASSIFIERS
    assert chosen("--method", "dpdm") == [name for name, made in RECIPES.items() if made.method == "dpdm"]
    assert chosen("--data", "mnist", "--epsilon", "1") == [
        name for name, made in every.items() if (made.data, made.epsilon) == ("mnist", 1)
    ]
    assert chosen("--method", "classifier", "--data", "cifar10", "--epsilon", "8")[-1] == "topagg-cifar10-gm-dp-8"
    text = call("recipes", "--method", "dpdm")[1]
    assert "dpdm-ours-mnist-1 " in text and "Recipes of classifiers" not in text and "dpaf" not in text


def test_where_no_recipe_has_all_that_is_asked_for_it_says_what_there_is():
    assert chosen("--method", "dpaf", "--data", "mnist") == []
    status, out, err = call("recipes", "--method", "dpaf", "--data", "mnist")
    words = " ".join(out.split())
    assert (status, err) == (0, "") and words.startswith("No recipe has --method dpaf and --data mnist together; ")
    assert "fashion-mnist at epsilon 1, 10" in words and words.count(". ") == 0


def test_a_recipe_says_which_verb_uses_it():
    status, out, _ = call("recipes", "topagg-mnist-gm-dp-0.2")
    assert status == 0 and "sfumato train-classifier" in out and "accuracy 0.9117" in out
    assert "sfumato synthesize" in call("recipes", NAME)[1]


def test_a_plan_by_recipe_needs_nothing_else():
    found = planned("--recipe", NAME)
    assert found["queries_max"] == 2245 and found["paper"]["queries_max"] == 1301
    assert found["data"]["records"] == 60_000 and found["settings"]["latent_distribution"] == "gaussian"
    assert planned("--recipe", NAME, *DESCRIBED)["data"]["records"] == 6000
    assert planned("--recipe", NAME, "--records", "70000")["data"]["records"] == 70_000


def test_flags_win_over_a_recipe():
    given = ("--method", "datalens", "--epsilon", "2", "--delta", "1e-6", "--set", "topk=100")
    found = planned("--recipe", NAME, *given)
    assert found["guarantee"]["delta"] == 1e-6 and found["guarantee"]["epsilon"] == pytest.approx(2, rel=0.02)
    assert found["settings"]["topk"] == 100 and found["settings"]["sigma"] == 5000
    assert planned("--recipe", "datalens-code-mnist-10")["guarantee"]["epsilon"] == pytest.approx(10, rel=0.02)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("recipes", "datalens-paper-mnist-2"), "did you mean"),
        (("recipes", "--method", "dpmerf"), "No recipe has --method dpmerf; did you mean dp-merf?"),
        (("recipes", "--method", "sfumato"), "there are classifier, datalens"),
        (("recipes", "--data", "mnst"), "did you mean mnist?"),
        (("recipes", "--epsilon", "3"), "No recipe has --epsilon 3; there are 0.025"),
        (("recipes", NAME, "--data", "mnist"), "leave it out, or --data"),
        (("plan", "--recipe", NAME, "--set", "stepz=3"), "found 'stepz'; did you mean steps?"),
        (("synthesize", "fashionmnist", "--epsilon", "1"), "did you mean fashion-mnist?"),
        (("bench", "datalens-tabel-1"), "did you mean datalens-table-1"),
        (("bench", "datalens-table-1", "--data", "cifar-10:x"), "did you mean cifar10?"),
        (("plan", "--recipe", "dataless-paper-mnist-1"), NAME),
        (("plan", "--recipe", NAME, "--method", "dp-merf"), "is for datalens, not for dp-merf"),
        (("plan", "--recipe", NAME, "--set", "luck=3"), "found 'luck'"),
        (("plan", "--recipe", "topagg-mnist-norm-0.8-1"), "sfumato train-classifier DATA --recipe topagg-mnist-norm"),
        (("synthesize", "digits", "--recipe", "scattering-fashion-mnist-1"), "is of a classifier"),
        (("plan", "--recipe", NAME, "--size", "28"), "goes with DATA"),
        (("plan", *DESCRIBED), "--recipe NAME"),
        (("synthesize", "digits", "--recipe", NAME, "--method", "dp-merf"), "leave out --method or --recipe"),
        (("synthesize", "digits", "--recipe", "nope"), "There is no recipe 'nope'"),
        (("synthesize", "--recipe", NAME), "DATA is missing"),
        (("synthesize", "--resume", "x", "--recipe", NAME), "leave out --recipe"),
    ],
)
def test_refusals(argv, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert words in refused(*argv) and not list(tmp_path.iterdir())


def test_a_release_by_recipe_tells_its_name(tmp_path):
    argv = ("synthesize", "digits", "--recipe", NAME, *TINY, "--epsilon", "5", "--count", "10", "--out", tmp_path / "r")
    status, out, err = call(*argv, "--json")
    assert status == 0, err
    made = json.loads((tmp_path / "r" / "privacy.json").read_text())["reproducibility"]
    assert f"digits --recipe {NAME} --epsilon 5 " in made["command"] and "--set teachers=6" in made["command"]
    assert verify(tmp_path / "r").ok  # reads the recipe back from the command
    assert (
        "latent_distribution=" not in made["command"]
        and made["configuration"]["settings"]["latent_distribution"] == "gaussian"
    )


def test_a_request_holds_what_the_recipe_says():
    params = {"data": "mnist", "method": None, "recipe": NAME, "epsilon": None, "delta": 1e-5}
    request = Request(**typed(params, ["data", "recipe"], {"topk": "100"}))
    assert (request.method, request.epsilon) == ("datalens", 1.0)
    assert request.settings == RECIPES[NAME].texts() | {"topk": "100"}
    assert f"--recipe {NAME} " in request.command() and request.command().endswith("--set topk=100")
    gone = Request(data="mnist", method="datalens", epsilon=1, settings={"topk": "1"}, recipe="of-another-version")
    assert "--method datalens" in gone.command() and "--set topk=1" in gone.command()
    less = Request(data="mnist", method="datalens", epsilon=1, settings={"topk": "200"}, recipe=NAME)
    assert "--method datalens" in less.command() and "--set topk=200" in less.command()
