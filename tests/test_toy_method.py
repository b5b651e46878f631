"""Adding a method takes a few places: the method of docs/adding-a-method.md is added to a copy of the house."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COPIED = ("sfumato", "tests", "docs", "README.md", "pyproject.toml")
NAME = "mean-image"
TINY = f'    "{NAME}": {{"steps": 6, "batch": 4, "latent": 4, "width": 8}},\n'
TEST = '''"""The toy method: what is special about it."""

from sfumato import Budget, DataSpec
from sfumato.methods.embedding.mean_image import MeanImage


def test_one_gaussian_is_released_once():
    plan = MeanImage().plan(DataSpec("scans", 60_000, (1, 28, 28), tuple("01")), Budget(1.0))
    assert [c.times for c in plan.crossings.values()] == [1]
'''
PAGE = f"""# Mean images

`{NAME}`: an example.

## Reference

<!-- table: method {NAME} -->
<!-- end -->
"""
USED = f"""
import json
import numpy as np
from sfumato import Budget, Run, api, audit, synthesize
from sfumato.methods import find, names

method = find("{NAME}")(steps=2, batch=4, latent=4, width=8)
random = np.random.default_rng(0)
data = random.integers(0, 256, (60, 8, 8), dtype=np.uint8), np.arange(60) % 3
release = synthesize(method, data, Budget(4.0), Run(device="cpu"), count=12, out="release", force=True)
print(json.dumps({{
    "found": "{NAME}" in names(),
    "about": api.methods("{NAME}")[0]["settings"]["steps"]["about"],
    "audit": audit.check(method).verdict,
    "images": list(release.images.pixels.shape),
    "epsilon": release.statement["guarantee"]["epsilon"],
}}))
"""


def example() -> str:
    """The file of the method that the page shows."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "adding-a-method.md").read_text(), flags=re.DOTALL)
    (file,) = [block for block in blocks if f'name: ClassVar[str] = "{NAME}"' in block]
    return file


def contents(house: Path) -> dict[str, bytes]:
    every = (path for path in house.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(house).as_posix(): path.read_bytes() for path in every}


@pytest.fixture(scope="module")
def house(tmp_path_factory) -> Path:
    """A copy of the package, its tests and its documents; data and pictures are linked."""
    copy = tmp_path_factory.mktemp("house")
    large = copy / "sfumato" / "data" / "fashion_mnist"
    for name in COPIED:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "fashion_mnist", "images", "snapshots")
            shutil.copytree(ROOT / name, copy / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, copy / name)
    large.symlink_to(ROOT / "sfumato" / "data" / "fashion_mnist")
    return copy


def run(house: Path, *command: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(house), "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(
        [sys.executable, *command], cwd=house, env=environment, capture_output=True, text=True, check=False, timeout=280
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    return ran.stdout


@pytest.mark.timeout(600)
def test_a_method_is_its_file_its_test_its_tiny_settings_and_its_page(house):
    before = contents(house)
    (house / "sfumato/methods/embedding/mean_image.py").write_text(example())
    (house / "tests/methods/embedding/test_mean_image.py").write_text(TEST)
    (house / f"docs/methods/{NAME}.md").write_text(PAGE)
    contract = house / "tests/methods/test_contract.py"
    contract.write_text(contract.read_text().replace("TINY = {\n", f"TINY = {{\n{TINY}", 1))
    touched = {name for name, content in contents(house).items() if before.get(name) != content}
    assert len(touched) == 4

    used = json.loads(run(house, "-c", USED).splitlines()[-1])
    assert used["found"] and used["audit"] == "pass" and used["images"] == [12, 1, 8, 8]
    assert used["about"] == "steps of the generator" and 0 < used["epsilon"] <= 4

    run(house, "-m", "docs.tables")
    page = (house / f"docs/methods/{NAME}.md").read_text()
    assert "| `steps` | `200` | from 1, up to 1e+06 | steps of the generator |" in page
    assert f"[`{NAME}`](docs/methods/{NAME}.md)" in (house / "README.md").read_text()

    pytest_line = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")
    own = "tests/methods/embedding/test_mean_image.py"
    out = run(house, *pytest_line, own, "tests/methods/test_contract.py", "-k", f"{NAME} or toy or one_gaussian")
    assert "." in out and "failed" not in out
