"""The named sets: a plain table. `name:PATH` reads a copy at PATH; `name` alone an embedded or a downloaded one.

Whoever names a benchmark set declares that what is read is that public set. The sets that the papers made of
CelebA, FFHQ and Places365 have names too, but are not public.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sfumato.data import faces
from sfumato.data.cifar import open_cifar
from sfumato.data.download import Address, fetch
from sfumato.data.idx import open_idx
from sfumato.data.npz import open_npz
from sfumato.data.places365 import open_places
from sfumato.data.source import Options, Source, pick_split, show
from sfumato.errors import InputError

FASHION = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle-boot")
DIGITS = tuple("0123456789")
EMBEDDED = Path(__file__).parent / "fashion_mnist"  # in a clone; a wheel is light and downloads it

FASHION_MNIST = Address(
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    {
        "train-images-idx3-ubyte.gz": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "train-labels-idx1-ubyte.gz": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "t10k-images-idx3-ubyte.gz": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "t10k-labels-idx1-ubyte.gz": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    },
)
MNIST = Address(
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    {
        "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    },
)
CIFAR = Address(
    "https://www.cs.toronto.edu/~kriz/",
    {"cifar-10-binary.tar.gz": "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"},
)


@dataclass(frozen=True)
class Named:
    """One row of the table. Without `address` or `path` the set must be given as name:PATH."""

    open: Callable[[Path, Options], Source]
    address: Address | None = None
    path: Path | None = None
    public: bool = True


def _idx(classes: tuple[str, ...]) -> Callable[[Path, Options], Source]:
    return lambda path, options: open_idx(_folder(path), options, classes)


def _npz(*classes: str, label: str | None = None) -> Callable[[Path, Options], Source]:
    def open(path: Path, options: Options) -> Source:
        if not path.is_file():
            raise InputError(f"{show(path)} is not an .npz file; give the path of one.")
        return open_npz(path, replace(options, label=options.label or label), classes or None)

    return open


def _digits(path: Path, options: Options) -> Source:
    from sklearn.datasets import load_digits

    options.refuse_columns("digits")
    pick_split(options.split, ["train"], "digits")
    digits = load_digits()
    images = np.round(digits.images * (255 / 16)).astype(np.uint8)
    return Source(
        "digits",
        DIGITS,
        digits.target.astype(np.int64),
        lambda: ((f"digits, image {row}", image) for row, image in enumerate(images)),
    )


def _folder(path: Path) -> Path:
    if not path.is_dir():
        raise InputError(f"There is no folder {show(path)}; give the folder that holds the set.")
    return path


SETS: dict[str, Named] = {
    "fashion-mnist": Named(_idx(FASHION), FASHION_MNIST, path=EMBEDDED),
    "digits": Named(_digits, path=Path()),
    "mnist": Named(_idx(DIGITS), MNIST),
    "cifar10": Named(open_cifar, CIFAR),
    "fairface": Named(_npz(label="gender")),
    "pneumonia-mnist": Named(_npz("normal", "pneumonia")),
    "tinyimagenet": Named(_npz()),
    "celeba-gender": Named(faces.open_celeba_gender, public=False),
    "celeba-hair": Named(faces.open_celeba_hair, public=False),
    "ffhq-gender": Named(faces.open_ffhq_gender, public=False),
    "places365-3": Named(open_places, public=False),
}
NAMES = tuple(SETS)


def is_named(text: str) -> bool:
    """Whether a source is the name of a set, with or without a path behind it."""
    return text.partition(":")[0] in SETS


def open_named(text: str, options: Options) -> Source:
    """A named set as a source."""
    name, colon, given = text.partition(":")
    row = SETS[name]
    if colon and (not given or name == "digits"):
        raise InputError(
            f"Expected a path behind {name}:, found {show(text)}."
            if not given
            else "The set digits takes no path; write digits."
        )
    source = row.open(_path(name, row, given), options)
    return replace(source, name=name, public=row.public)


def check_path(text: str) -> Path | None:
    """The path behind the name of a set, where there is one; refused where it leads nowhere."""
    name, _, given = text.partition(":")
    if not given:
        return None
    path = Path(given).expanduser().resolve()
    if not path.exists():
        raise InputError(f"There is no file or folder {show(path)}; check the path behind {name}:.")
    return path


def _path(name: str, row: Named, given: str) -> Path:
    if path := check_path(f"{name}:{given}"):
        return path
    if row.path is not None and (row.address is None or all((row.path / file).is_file() for file in row.address.files)):
        return row.path
    if row.address is not None:
        return fetch(name, row.address)
    raise InputError(f"The set {name} is read from a copy of your own; give its path as {name}:PATH.")
