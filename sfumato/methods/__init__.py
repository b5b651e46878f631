"""The table of methods: plain data. One row, one short file."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from sfumato.errors import InputError
from sfumato.methods.base import Method
from sfumato.types import Site

__all__ = ["TABLE", "Method", "Row", "find", "load_class"]


@dataclass(frozen=True)
class Row:
    """What a reader of `sfumato methods` sees.

    `axes` are those of the survey's figure 2: density (explicit, implicit), critic (learnable, static), objective
    (distribution-wise, point-wise) and objective again (tractable, approximate).
    """

    name: str
    module: str
    cls: str
    site: Site
    family: str
    paper: str
    framework: str  # Gaussian mechanism, DP-SGD or PATE
    axes: tuple[str, str, str, str]
    public_data: str  # "not used", "optional" or "needed"
    status: str
    relations: tuple[str, ...] = ("add-remove", "replace-one")
    sensitivity: str = "global"


# What may leave at each site beside generator and images, and what its attacker is assumed to see.
RELEASABLE = {
    Site.B1: ("the noisy measurement", "every release of the barrier, generator, images"),
    Site.B2: ("the critic, which is trained privately", "all noisy gradients or votes, critic, generator, images"),
    Site.B3: ("nothing", "all noisy gradients with respect to the fakes, generator, images; no critic"),
    Site.B4: ("nothing: the generator is the release", "all noisy gradients, generator, images"),
}


TABLE = (
    Row(
        name="datalens",
        module="teachers.datalens",
        cls="DataLens",
        site=Site.B3,
        family="teachers vote on gradients",
        paper="Wang, Wu, Long, Rimanic, Zhang, Li: DataLens (CCS 2021)",
        framework="PATE",
        axes=("implicit", "learnable", "distribution-wise", "approximate"),
        public_data="not used",
        status="sound",
    ),
    Row(
        name="dp-hp",
        module="embedding.dp_hp",
        cls="DPHP",
        site=Site.B1,
        family="mean embedding, one release",
        paper="Vinaroz, Charusaie, Harder, Adamczewski, Park: DP-HP (ICML 2022)",
        framework="Gaussian mechanism",
        axes=("implicit", "static", "distribution-wise", "approximate"),
        public_data="not used",
        status="sound",
    ),
    Row(
        name="dp-mepf",
        module="embedding.dp_mepf",
        cls="DPMEPF",
        site=Site.B1,
        family="mean embedding, one release",
        paper="Harder, Jalali Asadabadi, Sutherland, Park: DP-MEPF (TMLR 2023)",
        framework="Gaussian mechanism",
        axes=("implicit", "static", "distribution-wise", "approximate"),
        public_data="needed",
        status="sound",
    ),
    Row(
        name="dp-merf",
        module="embedding.dp_merf",
        cls="DPMERF",
        site=Site.B1,
        family="mean embedding, one release",
        paper="Harder, Adamczewski, Park: DP-MERF (AISTATS 2021)",
        framework="Gaussian mechanism",
        axes=("implicit", "static", "distribution-wise", "approximate"),
        public_data="not used",
        status="sound",
    ),
    Row(
        name="dp-nf",
        module="dpsgd.dp_nf",
        cls="DPNF",
        site=Site.B4,
        family="normalising flow, trained by DP-SGD",
        paper="Waites, Cummings: Differentially Private Normalizing Flows (AIES 2021)",
        framework="DP-SGD",
        axes=("explicit", "static", "point-wise", "tractable"),
        public_data="optional",
        status="sound",
    ),
    Row(
        name="dp-ntk",
        module="embedding.dp_ntk",
        cls="DPNTK",
        site=Site.B1,
        family="mean embedding, one release",
        paper="Yang, Adamczewski, Sutherland, Li, Park: DP-NTK (2023)",
        framework="Gaussian mechanism",
        axes=("implicit", "static", "distribution-wise", "approximate"),
        public_data="not used",
        status="sound",
    ),
    Row(
        name="dp-sinkhorn",
        module="sets.dp_sinkhorn",
        cls="DPSinkhorn",
        site=Site.B3,
        family="noisy gradients of a transport distance",
        paper="Cao, Bie, Vahdat, Fidler, Kreis: DP-Sinkhorn (NeurIPS 2021)",
        framework="Gaussian mechanism",
        axes=("implicit", "static", "distribution-wise", "approximate"),
        public_data="not used",
        status="sound",
    ),
    Row(
        name="dp-swd",
        module="embedding.dp_swd",
        cls="DPSWD",
        site=Site.B1,
        family="sliced Wasserstein, one release",
        paper="Rakotomamonjy, Ralaivola: DP-SWD (ICML 2021)",
        framework="Gaussian mechanism",
        axes=("implicit", "static", "distribution-wise", "approximate"),
        public_data="not used",
        status="sound",
    ),
    Row(
        name="dp-vae",
        module="dpsgd.dp_vae",
        cls="DPVAE",
        site=Site.B4,
        family="variational autoencoder, trained by DP-SGD",
        paper="Acs, Melis, Castelluccia, De Cristofaro: DP-GM (ICDM 2017)",
        framework="DP-SGD",
        axes=("explicit", "learnable", "point-wise", "approximate"),
        public_data="optional",
        status="sound",
    ),
    Row(
        name="dpaf",
        module="gan.dpaf.dpaf",
        cls="DPAF",
        site=Site.B2,
        family="GAN with noisy sums of features in the forward phase",
        paper="Lin, Hsu, Yu, Cao, Huang: DPAF, aggregation in forward phase",
        framework="DP-SGD",
        axes=("implicit", "learnable", "distribution-wise", "approximate"),
        public_data="optional",
        status="sound",
    ),
    Row(
        name="dpdm",
        module="dpsgd.dpdm",
        cls="DPDM",
        site=Site.B4,
        family="diffusion model, trained by DP-SGD",
        paper="Dockhorn, Cao, Vahdat, Kreis: Differentially Private Diffusion Models (TMLR 2023)",
        framework="DP-SGD",
        axes=("explicit", "static", "point-wise", "approximate"),
        public_data="optional",
        status="sound",
    ),
    Row(
        name="dpgan",
        module="gan.dpgan",
        cls="DPGAN",
        site=Site.B2,
        family="GAN with a critic trained by DP-SGD",
        paper="Xie, Lin, Wang, Wang, Zhou: DPGAN (2018); Bie, Kamath, Zhang: Private GANs, Revisited (TMLR 2023)",
        framework="DP-SGD",
        axes=("implicit", "learnable", "distribution-wise", "approximate"),
        public_data="optional",
        status="sound",
    ),
    Row(
        name="g-pate",
        module="teachers.g_pate",
        cls="GPATE",
        site=Site.B3,
        family="teachers vote on projected gradients",
        paper="Long, Wang, Yang, Kailkhura, Zhang, Gunter, Li: G-PATE (NeurIPS 2021)",
        framework="PATE",
        axes=("implicit", "learnable", "distribution-wise", "approximate"),
        public_data="not used",
        status="sound",
    ),
    Row(
        name="gs-wgan",
        module="teachers.gs_wgan",
        cls="GSWGAN",
        site=Site.B3,
        family="noisy gradients of drawn critics",
        paper="Chen, Orekondy, Fritz: GS-WGAN (NeurIPS 2020)",
        framework="Gaussian mechanism",
        axes=("implicit", "learnable", "distribution-wise", "approximate"),
        public_data="not used",
        status="sound",
    ),
    Row(
        name="ndpdc",
        module="sets.ndpdc",
        cls="NDPDC",
        site=Site.B1,
        family="fixed set, features of random networks",
        paper="Zheng, Li: Differentially Private Dataset Condensation (2023)",
        framework="Gaussian mechanism",
        axes=("implicit", "static", "point-wise", "approximate"),
        public_data="not used",
        status="sound",
    ),
    Row(
        name="p3gm",
        module="dpsgd.p3gm",
        cls="P3GM",
        site=Site.B4,
        family="private PCA and mixture, then a decoder",
        paper="Takagi, Takahashi, Cao, Yoshikawa: P3GM (ICDE 2021)",
        framework="DP-SGD",
        axes=("explicit", "learnable", "point-wise", "approximate"),
        public_data="not used",
        status="sound",
    ),
    Row(
        name="pate-gan",
        module="teachers.pate_gan",
        cls="PATEGAN",
        site=Site.B2,
        family="teachers label fakes for a student",
        paper="Yoon, Jordon, van der Schaar: PATE-GAN (ICLR 2019)",
        framework="PATE",
        axes=("implicit", "learnable", "distribution-wise", "approximate"),
        public_data="not used",
        status="sound",
    ),
    Row(
        name="pearl",
        module="embedding.pearl",
        cls="PEARL",
        site=Site.B1,
        family="mean embedding, one release",
        paper="Liew, Takahashi, Ueno: PEARL (ICLR 2022)",
        framework="Gaussian mechanism",
        axes=("implicit", "learnable", "distribution-wise", "approximate"),
        public_data="not used",
        status="sound",
    ),
    Row(
        name="private-evolution",
        module="sets.private_evolution",
        cls="PrivateEvolution",
        site=Site.B1,
        family="votes on a population",
        paper="Lin, Gopi, Kulkarni, Nori, Yekhanin: DPSDA (ICLR 2024)",
        framework="Gaussian mechanism",
        axes=("implicit", "static", "point-wise", "approximate"),
        public_data="optional",
        status="sound",
    ),
    Row(
        name="private-set",
        module="sets.private_set",
        cls="PrivateSet",
        site=Site.B2,
        family="fixed set, matched gradients of classifiers",
        paper="Chen, Kerkouche, Fritz: Private Set Generation with Discriminative Information (NeurIPS 2022)",
        framework="DP-SGD",
        axes=("implicit", "learnable", "point-wise", "approximate"),
        public_data="not used",
        status="sound",
    ),
)


def find(name: str) -> Row:
    """The row of a method."""
    for row in TABLE:
        if row.name == name:
            return row
    raise InputError(f"Expected a method of {', '.join(r.name for r in TABLE)}, found '{name}'.")


def load_class(row: Row) -> type[Method]:
    """The class behind a row, imported when it is needed."""
    cls: type[Method] = getattr(import_module(f"sfumato.methods.{row.module}"), row.cls)
    return cls
