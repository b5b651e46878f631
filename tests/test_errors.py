"""Errors in the words of whoever asks: options at the command line, arguments in Python."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato import DPMERF, Budget, InputError, Release, load, synthesize
from sfumato.api import budget_of, refit
from sfumato.errors import at_command_line, did_you_mean, extra, in_python, pythonic
from tests.cli.test_cli import refused
from tests.made_up import arrays


@pytest.mark.parametrize(
    ("typed", "written"),
    [
        ("choose another --out.", "choose another `out`."),
        ("add --private-count", "add `private_count=True`"),
        ("leave out --private-count, or", "leave out `private_count`, or"),
        ("with --person COLUMN.", "with `person=COLUMN`."),
        ("give --sign KEYFILE, or", "give `key=KEYFILE`, or"),
        ("Expected --count of at least", "Expected `count` of at least"),
        ("go on with --resume 0123456789abcdef", "go on with `resume=0123456789abcdef`"),
        ("a dash - or two -- alone", "a dash - or two -- alone"),
    ],
)
def test_options_become_arguments(typed, written):
    assert in_python(typed) == written and in_python(written) == written


def test_the_command_line_keeps_its_words_and_python_gets_its_own():
    @pythonic
    def wrong() -> None:
        raise InputError("Choose another --out.")

    with pytest.raises(InputError, match="another `out`"):
        wrong()
    with at_command_line(), pytest.raises(InputError, match="another --out"):
        wrong()
    with pytest.raises(InputError, match="another `out`"):
        wrong()


def test_the_same_mistake_is_told_in_both_languages(tmp_path):
    pixels = [np.zeros((8, 8), np.uint8), np.zeros((9, 9), np.uint8)]
    from PIL import Image

    for number, image in enumerate(pixels):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
    with pytest.raises(InputError, match="give one size for all with `size`") as error:
        load(tmp_path)
    assert "--" not in str(error.value)
    assert "with --size" in refused("budget", tmp_path)


def test_no_function_for_people_speaks_of_options(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("x")
    release = synthesize(DPMERF(features=20, steps=2), "digits", Budget(3.0), count=5, out=tmp_path / "release")
    wrong = [
        lambda: synthesize(DPMERF(), arrays(), Budget(1.0), out=tmp_path / "full"),
        lambda: synthesize(DPMERF(), arrays(), Budget(1.0), count=0),
        lambda: synthesize(DPMERF(), "digits:x", Budget(1.0)),
        lambda: load(arrays(), records=3),
        lambda: load(tmp_path / "none"),
        lambda: load(arrays(), split="test"),
        lambda: budget_of(arrays(), person="who"),
        lambda: release.save(tmp_path / "full"),
        lambda: release.save(tmp_path / "new", signer="me"),
        lambda: refit(tmp_path / "release", tmp_path / "full"),
        lambda: Release.load(tmp_path / "none"),
    ]
    for call in wrong:
        with pytest.raises(InputError) as error:
            call()
        assert "--" not in str(error.value), str(error.value)


def test_a_package_that_is_missing_is_named_with_its_extra():
    with pytest.raises(InputError, match=r"the package nowhere_at_all; install it with pip install 'sfumato\[hf\]'"):
        extra("nowhere_at_all.inside", "hf")


@pytest.mark.parametrize(
    ("typed", "meant"), [("dpmerf", "dp-merf"), ("DP_MERF", "dp-merf"), ("pearll", "pearl"), ("gswgan", "gs-wgan")]
)
def test_near_misses_are_found_whatever_their_hyphens_and_case(typed, meant):
    assert did_you_mean(typed, ["dp-nf", "dp-merf", "pearl", "gs-wgan"]) == f"did you mean {meant}?"


def test_what_is_near_nothing_gets_no_guess():
    assert did_you_mean("watercolour", ["dp-merf", "pearl"], otherwise="see the list.") == "see the list."
    assert did_you_mean("m-1", ["m-10", "m-11", "oil"], 3) == "did you mean m-11 or m-10?"
