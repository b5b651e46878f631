"""The same run in the shape of scikit-learn: settings in the constructor, `fit`, then `sample` and `release_`.

A method stays a frozen value: a plan is made for it, audited and charged, and must not change behind them. So what
`fit` changes is another object, which holds a method, a budget and, once it is fitted, the release.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sfumato import api
from sfumato.data import load
from sfumato.errors import InputError, pythonic
from sfumato.types import Images

if TYPE_CHECKING:
    from sfumato.data.private import PrivateImages
    from sfumato.data.public import PublicImages
    from sfumato.methods import Method
    from sfumato.release import Release
    from sfumato.run.run import Run


@dataclass(eq=False)
class Synthesizer:
    """A method with a budget that is fitted to private images.

    `get_params`, `set_params` and `clone` work as scikit-learn has them, with `method__steps` for a setting of the
    method. The private data are not kept. Each call of `fit` is a run of its own, and is charged.

    >>> from sfumato import DPMERF
    >>> synthesizer = Synthesizer(DPMERF(features=20, steps=2), epsilon=5, count=20).fit("digits")
    >>> synthesizer.sample(3, labels="7")
    Images(3 of 1x8x8 in 10 classes: 0, 1, 2, 3, 4, ...)
    """

    method: Method
    epsilon: float = 1.0
    delta: float = 1e-5
    relation: str = "add-remove"
    count: int = 10_000
    public: PublicImages | None = None
    out: str | Path | None = None
    format: str = "png"
    ledger: str | Path | None = None
    run: Run | None = None
    key: str | Path | None = None
    signer: str | None = None
    isolate: bool = False
    release_: Release = field(init=False, repr=False)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """What it was made with; with `deep` the settings of the method too, as `method__NAME`."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        inner = {f"method__{name}": value for name, value in self.method.get_params().items()} if deep else {}
        return own | inner

    def set_params(self, **params: Any) -> Self:
        """Change settings in place; those of the method by making another one."""
        known = self.get_params()
        if unknown := [name for name in params if name not in known]:
            raise ValueError(f"Expected a parameter of {', '.join(known)}, found '{unknown[0]}'.")
        inner = {name: params.pop(name) for name in list(params) if name.startswith("method__")}
        for name, value in params.items():
            setattr(self, name, value)
        if inner:
            self.method = self.method.set_params(**{n.removeprefix("method__"): v for n, v in inner.items()})
        return self

    @pythonic
    def fit(self, X: Any, y: Any = None, person: Any = None) -> Self:
        """Learn from private images and write or keep what may be published.

        `X` is anything that `load` takes, or an array of images with labels `y`; `person` says who is shown: the name
        of a column, or an array with one identifier an image. Persons are protected where it is given.
        """
        with _boxed(X, y, person) as box:
            self.release_ = api.synthesize(
                self.method,
                box,
                api.make_budget(self.epsilon, self.delta, self.relation),
                self.run,
                count=self.count,
                public=self.public,
                out=self.out,
                format=self.format,
                ledger=self.ledger,
                key=self.key,
                signer=self.signer,
                isolate=self.isolate,
            )
        return self

    def sample(self, n: int, labels: int | str | Sequence[int | str] | None = None, seed: int = 0) -> Images:
        """New synthetic images at no cost in privacy."""
        if not hasattr(self, "release_"):
            raise InputError("This synthesizer is not fitted yet; call fit first.")
        return self.release_.sample(n, labels, seed)


def _boxed(X: Any, y: Any, person: Any) -> PrivateImages:
    named = isinstance(person, str)
    if y is None and (named or person is None):
        return load(X, person=person)
    if named:
        raise InputError("A column goes with a source that has columns; give the persons as an array beside y.")
    return load((X, y) if person is None else (X, y, person))
