"""The methods that there are: each file in a family's folder that names one. Nothing is listed by hand."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.errors import InputError, did_you_mean
from sfumato.types import Site

if TYPE_CHECKING:
    from sfumato.methods.base import Method

FOLDER = Path(__file__).parent
NAMED = re.compile(r'^    name: ClassVar\[str\] = "([a-z0-9-]+)"$', re.MULTILINE)

# The ones to take, in this order: the method of the house, the simplest, and one for large budgets; see `good_for`.
RECOMMENDED = ("sfumato", "dp-moments", "dpdm")
# What the methods of a folder have in common.
FAMILIES = {
    "house": "Sfumato's own",
    "embedding": "One or two releases of means or moments, and a generator that matches them",
    "dpsgd": "Generators trained by DP-SGD",
    "gan": "GANs",
    "teachers": "Teachers on parts of the data",
    "sets": "Sets matched to the data, without critic or teachers",
}

# What may leave at each site beside generator and images, and what its attacker is assumed to see.
RELEASABLE = {
    Site.B1: ("the noisy measurement", "every release of the barrier, generator, images"),
    Site.B2: ("the critic, which is trained privately", "all noisy gradients or votes, critic, generator, images"),
    Site.B3: ("nothing", "all noisy gradients with respect to the fakes, generator, images; no critic"),
    Site.B4: ("nothing: the generator is the release", "all noisy gradients, generator, images"),
}


@cache
def modules() -> dict[str, str]:
    """The module of each method by its name; read from the files, since importing them all takes a while."""
    found = {}
    for path in sorted(FOLDER.rglob("*.py")):
        named = NAMED.search(path.read_text())
        if named and path.parent != FOLDER:
            found[named[1]] = ".".join(("sfumato", "methods", *path.relative_to(FOLDER).with_suffix("").parts))
    return dict(sorted(found.items()))


def names() -> list[str]:
    """All of them, in order.

    >>> "dp-merf" in names()
    True
    """
    return list(modules())


def family_of(name: str) -> str:
    """What the methods in the folder of this one have in common."""
    folder = modules()[name].split(".")[2]
    return FAMILIES.get(folder, folder)


def check_name(name: str) -> None:
    """Refuse a name that no method has, without importing one."""
    if name not in modules():
        there_are = f"there are {', '.join(modules())}."
        raise InputError(f"Expected a method, found '{name}'; {did_you_mean(name, modules(), otherwise=there_are)}")


def find(name: str) -> type[Method]:
    """The class of a method, imported when it is needed."""
    check_name(name)
    from sfumato.methods.base import Method

    module = import_module(modules()[name])
    return next(c for c in vars(module).values() if isinstance(c, type) and issubclass(c, Method) and _is(c, name))


def _is(cls: type[Method], name: str) -> bool:
    return "name" in vars(cls) and cls.name == name
