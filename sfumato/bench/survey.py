"""The survey's table 1 and figures (Chen, Kerkouche, Fritz: A Unified View of Differentially Private Deep Generative
Modeling): each approach as its authors class it, and what Sfumato has of it, as the registry and the recipes tell."""

from __future__ import annotations

from sfumato.bench.survey_numbers import measured_of, published
from sfumato.bench.table import Figure, Listing
from sfumato.recipes import RECIPES

# Approach | barrier | neighbours | sensitivity | generative framework | DP framework | ours. As printed but the last
# column: a method by name, recipes of another method by the beginning of their names, or why it is refused.
TABLE_1 = """
DP-MERF (Harder et al. 2021) | B1 | replace-one | global | distribution matching | Gaussian | dp-merf
DP-SWD (Rakotomamonjy and Ralaivola 2021) | B1 | replace-one | smooth | distribution matching | Gaussian | dp-swd
PEARL (Liew et al. 2021) | B1 | replace-one | global | distribution matching | Gaussian | pearl
DP-HP (Vinaroz et al. 2022) | B1 | replace-one | global | distribution matching | Gaussian | dp-hp
DP-GEN (Chen et al. 2022b) | ~B1 | - | - | energy-based model | - | refused: the support of its output tells the records
Harder et al. 2022 | B1 | replace-one | global | distribution matching | Gaussian | dp-mepf
DP-NTK (Yang et al. 2023) | B1 | replace-one | global | distribution matching | Gaussian | dp-ntk
DPSDA (Lin et al. 2023) | B1 | add-remove | global | diffusion | Gaussian | private-evolution
SPRINT-gan (Beaulieu-Jones et al. 2017) | B2 | add-remove | global | GAN | DP-SGD | recipe dpgan-sprint-
dp-GAN (Zhang et al. 2018) | B2 | add-remove | global | GAN | DP-SGD | recipe dpgan-zhang-
DPGAN (Xie et al. 2018) | B2 | add-remove | global | GAN | DP-SGD | dpgan
Triastcyn and Faltings 2018 | B2 | add-remove | - | GAN | empirical DP | refused: an estimate on the data, no guarantee
PATE-GAN (Yoon et al. 2019) | B2 | both | local | GAN | PATE | pate-gan
Alzantot and Srivastava 2019 | B2 | add-remove | global | GAN | DP-SGD | recipe dpgan-alzantot-
Xu et al. 2019 | B2 | add-remove | global | GAN | DP-SGD | recipe dpgan-ganobfuscator-
DP-CGAN (Torkzadehmahani et al. 2019) | B2 | add-remove | global | GAN | DP-SGD | recipe dpgan-dp-cgan-
Frigerio et al. 2019 | B2 | add-remove | global | GAN | DP-SGD | recipe dpgan-frigerio-
DPMI (Chen et al. 2021) | B2 | add-remove | global | GAN | DP-SGD | recipe dpgan-dpmi-
DPautoGAN (Tantipongpipat et al. 2021) | B2 | add-remove | global | GAN | DP-SGD | recipe dpgan-autogan-
Private-Set (Chen et al. 2022a) | B2 | add-remove | global | distribution matching | DP-SGD | private-set
Bie et al. 2023 | B2 | add-remove | global | GAN | DP-SGD | recipe dpgan-code-
GS-WGAN (Chen et al. 2020a) | B3 | both | global | GAN | DP-SGD | gs-wgan
G-PATE (Long et al. 2021) | B3 | both | local | GAN | PATE | g-pate
DataLens (Wang et al. 2021) | B3 | both | global/local | GAN | PATE | datalens
DP-Sinkhorn (Cao et al. 2021) | B3 | both | global | distribution matching | DP-SGD | dp-sinkhorn
DP-GM (Acs et al. 2018) | B4 | add-remove | global | VAE | DP-SGD | dp-vae
DP-VaeGM (Chen et al. 2018) | B4 | add-remove | global | VAE, AE+ | DP-SGD | recipe dp-vae-dp-vaegm-
DP-SYN (Abay et al. 2019) | B4 | add-remove | global | AE+ | DP-SGD | recipe dp-vae-dp-syn-
P3GM (Takagi et al. 2021) | B4 | add-remove | global | VAE | DP-SGD | p3gm
DP-NF (Waites and Cummings 2021) | B4 | add-remove | global | flow | DP-SGD | dp-nf
DP2-VAE (Jiang et al. 2022) | B4 | add-remove | global | VAE | DP-SGD | recipe dp-vae-dp2-vae-
DPDM (Dockhorn et al. 2022) | B4 | add-remove | global | diffusion | DP-SGD | dpdm
Ghalebikesabi et al. 2023 | B4 | add-remove | global | diffusion | DP-SGD | recipe dpdm-ghalebikesabi-
DP-LDM (Lyu et al. 2023) | B4 | add-remove | global | diffusion | DP-SGD | recipe dpdm-dp-ldm-
DP-LFlow (Jiang and Sun 2023) | B4 | add-remove | global | flow | DP-SGD | recipe dp-vae-dp-lflow-
"""
FIELDS = ("approach", "barrier", "neighbours", "sensitivity", "framework", "privacy", "state", "here")
NUMBERS = ("measured", "published")
COLUMNS = {
    "approach": FIELDS[:1],
    "as the survey classes it": FIELDS[1:6],
    "state": FIELDS[6:7],
    "here": FIELDS[7:],
    "measured": NUMBERS[:1],
    "published": NUMBERS[1:],
}


def printed() -> list[tuple[str, ...]]:
    """The rows of the paper, ours last.

    >>> len(printed())
    35
    """
    return [tuple(word.strip() for word in line.split("|")) for line in TABLE_1.strip().splitlines()]


def state(ours: str) -> tuple[str, str]:
    """What Sfumato has of an approach, in a word, and where.

    >>> state("recipe dpgan-zhang-")
    ('recipe', '1 of dpgan')
    """
    kind, _, rest = ours.partition(" ")
    if kind == "refused:":
        return "refused", rest
    if kind == "recipe":
        found = [r for r in RECIPES.values() if r.name.startswith(rest)]
        return kind, f"{len(found)} of {found[0].method}" if found else "none"
    return _runs(ours)


def _runs(name: str) -> tuple[str, str]:
    """A method of the registry, with what it declares."""
    from sfumato.methods.registry import find, names

    if name not in names():
        return "missing", f"no method {name} here"
    cls = find(name)
    return "runs", f"{name}: {cls.site.name}, {'both' if len(cls.relations) > 1 else cls.relations[0]}, {cls.framework}"


def rows() -> list[dict[str, str]]:
    """The taxonomy as the paper prints it, with the state of each approach here, and accuracies."""
    return [dict(zip(FIELDS + NUMBERS, (*row[:-1], *state(row[-1]), *numbers(row)), strict=True)) for row in printed()]


def numbers(row: tuple[str, ...]) -> tuple[str, str]:
    """The accuracy that was measured of an approach, and the one that others state."""
    kind, _, rest = row[-1].partition(" ")
    if kind == "refused:":
        return "-", published(row[0])
    return measured_of(row[0], rest or kind), published(row[0])


NOTES = (
    "runs: a method of its own. recipe: settings of another method.",
    "Measured: a CNN that learned from our synthetic MNIST, last step, epsilon 10 (or 1), with the settings that did "
    "best (`sfumato methods NAME` has them). Published: MNIST at epsilon 10, each under a protocol of its own.",
    "Neighbours and sensitivity are the paper's; here every method has both relations and a global sensitivity.",
)
TABLES = (Listing("survey-table-1", "the taxonomy, and what there is of it here", COLUMNS, rows, NOTES),)
FIGURES = (
    Figure("survey-figure-1", "where the barrier sits, with the methods here", "barriers"),
    *(
        Figure(f"survey-figure-{n}", shows, instead=page)
        for n, shows, page in (
            (2, "kinds of generative models", "docs/methods/index.md"),
            (3, "how generative models learn", "docs/barrier.md"),
            (4, "methods at B1", "docs/methods/dp-merf.md"),
            (5, "DP-GAN, at B2", "docs/methods/dpgan.md"),
            (6, "PATE-GAN, at B2", "docs/methods/pate-gan.md"),
            (7, "methods at B3", "docs/methods/gs-wgan.md"),
            (8, "a VAE, at B4", "docs/methods/dp-vae.md"),
        )
    ),
)
