"""The shape of the package: sizes, layers, nouns, and how far a reader is sent to follow one run.

    python -m benchmarks.shape [--root PATH] [--out FILE.json] [--json] [--no-runs]

`--root` is any checkout, this one by default; nothing of it but its files is used, and its own code for the runs.

Lines are those of the files, functions are measured from `def` to their last line. A packed assignment gives several
values to several names in one statement (`a, b = x, y`); swaps are not counted. The folders have an order if no chain
of imports leads from a folder back to it; imports inside functions count, those for type hints do not. A knot is a
largest set of folders that all lead to each other.

The nouns of a method are the classes and types of ours that its file imports. Places to touch are the files that name a
method: its own, and all others beside tables written from the code (between `<!-- table: -->` marks), results, recipes
and snapshots; the median over the methods, and the least, which is nearest to what a method needs.

Folder switches: one `synthesize` of 12 images of the set `digits` at the tiny settings below, on the CPU. Each call of
a function of ours is an event; the number is how often the folder of an event is not that of the event before it. The
audit, which has a process of its own, and imports are left out. The batches that are drawn move the number a little.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[1]
NAMED = re.compile(r'^    name: ClassVar\[str\] = "([a-z0-9-]+)"', re.MULTILINE)
TABLE = re.compile(r"<!-- table:.*?<!-- end -->", re.DOTALL)
RESULTS = re.compile(r"docs/results|recipes|/snapshots/|CHANGELOG")
# What is run for the folder switches; a setting that a checkout does not know by this name goes by its name before.
RUNS: dict[str, dict[str, str]] = {
    "dp-merf": {"features": "40", "steps": "6", "batch": "4", "latent": "4", "width": "8"},
    "datalens": {
        "teachers": "6",
        "topk": "10",
        "steps": "6",
        "batch": "4",
        "teacher_batch": "2",
        "warmup": "1",
        "hidden": "16",
        "width": "8",
        "latent": "4",
        "critic_width": "2",
        "critic_hidden": "4",
        "threshold": "0.01",
    },
    "dpdm": {
        "steps": "5",
        "batch": "12",
        "noise_multiplicity": "2",
        "width": "8",
        "depth": "1",
        "sampler_steps": "2",
        "embedding_share": "0",
    },
}
BEFORE = {
    "teacher_batch": "draws",
    "noise_multiplicity": "copies",
    "sampler_steps": "evaluations",
    "embedding_share": "draft",
}


def sources(root: Path) -> dict[Path, str]:
    """The modules of the package."""
    return {path: path.read_text() for path in sorted((root / "sfumato").rglob("*.py"))}


def functions(trees: Iterable[ast.Module]) -> list[int]:
    """The lengths of all functions."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, kinds))
    return sorted((node.end_lineno or node.lineno) - node.lineno + 1 for node in nodes)


def packed(tree: ast.Module) -> int:
    """Assignments of several values to several names, swaps apart."""

    def is_packed(node: ast.AST) -> bool:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple):
            return False
        targets = [target for target in node.targets if isinstance(target, ast.Tuple)]
        return any({*map(ast.unparse, t.elts)} != {*map(ast.unparse, node.value.elts)} for t in targets)

    return sum(map(is_packed, ast.walk(tree)))


def public(trees: Iterable[ast.Module]) -> dict[str, int]:
    """Classes and functions of modules whose names have no underscore in front."""
    nodes = [node for tree in trees for node in tree.body if not getattr(node, "name", "_").startswith("_")]
    return {
        "classes": sum(isinstance(node, ast.ClassDef) for node in nodes),
        "functions": sum(isinstance(node, ast.FunctionDef) for node in nodes),
    }


def folder_of(root: Path, path: Path) -> str:
    """The folder of the package, or the module beside the folders, that a file belongs to."""
    return path.relative_to(root / "sfumato").parts[0].removesuffix(".py")


def imported(tree: ast.AST, lazy: bool) -> Iterator[str]:
    """Folders that a module imports; with `lazy` also inside functions, never for hints."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not lazy:
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sfumato"):
            first, *rest = str(node.module).split(".")
            yield from rest[:1] or (alias.name for alias in node.names)
        yield from imported(node, lazy)


def graph(root: Path, trees: dict[Path, ast.Module], lazy: bool) -> dict[str, set[str]]:
    """Which folder imports which; the entrances of the package are left out."""
    folders = {folder_of(root, path) for path in trees} - {"__init__", "__main__"}
    edges: dict[str, set[str]] = {name: set() for name in folders}
    for path, tree in trees.items():
        if (name := folder_of(root, path)) in folders:
            edges[name] |= (set(imported(tree, lazy)) & folders) - {name}
    return edges


def knots(edges: dict[str, set[str]]) -> list[list[str]]:
    """The sets of folders that all lead to each other, the largest first."""

    def reached(name: str) -> set[str]:
        seen: set[str] = set()
        ahead = [name]
        while ahead:
            new = edges[ahead.pop()] - seen
            seen |= new
            ahead += new
        return seen

    leads = {name: reached(name) for name in edges}
    circles = {frozenset(other for other in leads[name] if name in leads[other]) for name in edges}
    return sorted((sorted(circle) for circle in circles if circle), key=len, reverse=True)


def nouns(root: Path, trees: dict[Path, ast.Module], texts: dict[Path, str]) -> dict[str, list[str]]:
    """The classes and types of ours that each method's file imports."""
    counted = {}
    for name, path in method_files(root, texts).items():
        froms = [n for n in ast.walk(trees[path]) if isinstance(n, ast.ImportFrom)]
        ours = {a.name for n in froms if (n.module or "").startswith("sfumato") for a in n.names}
        counted[name] = sorted(word for word in ours if word[0].isupper() and not word.isupper())
    return counted


def method_files(root: Path, texts: dict[Path, str]) -> dict[str, Path]:
    """The file of each method by its name."""
    folder = root / "sfumato" / "methods"
    named = {path: NAMED.search(text) for path, text in texts.items() if path.is_relative_to(folder)}
    return {match[1]: path for path, match in named.items() if match}


def places(root: Path, texts: dict[Path, str]) -> list[int]:
    """Of each method, how many files name it beside results, recipes and tables written from the code."""
    every = [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("sfumato/**/*.py"), *root.glob("tests/**/*.py")]
    others = {p: TABLE.sub("", p.read_text()) for p in every if not RESULTS.search(p.relative_to(root).as_posix())}
    counted = []
    for name, path in method_files(root, texts).items():
        words = (name, path.stem, *re.findall(r"^class (\w+)\(", texts[path], re.MULTILINE))
        mention = re.compile(r"(?<![\w-])(" + "|".join(map(re.escape, words)) + r")(?![\w-])")
        counted.append(1 + sum(bool(mention.search(text)) for other, text in others.items() if other != path))
    return counted


def switches(root: Path, method: str) -> int:
    """Folder switches of a tiny `synthesize`, in a process of its own."""
    with tempfile.TemporaryDirectory() as home:
        kept = {key: str(Path(home) / key) for key in ("SFUMATO_LEDGER", "SFUMATO_RUNS", "SFUMATO_CACHE")}
        environment = os.environ | kept | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, str(Path(__file__)), "--trace", method, json.dumps(RUNS[method])]
        ran = subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(f"{method} in {root} ended with {ran.returncode}: {ran.stderr[-2000:]}")
    return int(ran.stdout.split()[-1])


def trace(method: str, settings: dict[str, str]) -> int:
    """Run `method` in this process and count how often the folder of a call is not that of the call before."""
    import sfumato
    from sfumato import Budget, api
    from sfumato.audit import apart
    from sfumato.audit.report import Report
    from sfumato.run.run import Run

    apart.level0_apart = lambda method, plan, *_, **__: Report(plan.method, ())
    (described,) = (row for row in api.methods() if row["name"] == method)
    known = {name if name in described["settings"] else BEFORE[name]: value for name, value in settings.items()}
    built = api.make_method(method, known)
    base = str(Path(sfumato.__file__).parent) + os.sep
    count = 0
    last = ""

    def watch(frame: Any, event: str, _: Any) -> None:
        nonlocal count, last
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(base) and frame.f_code.co_name != "<module>":
            folder = file.removeprefix(base).split(os.sep)[0]
            count += folder != last
            last = folder

    sys.setprofile(watch)
    api.synthesize(built, "digits", Budget(2.0), Run(device="cpu"), count=12)
    sys.setprofile(None)
    return count - 1


def shape(root: Path, runs: bool = True) -> dict[str, Any]:
    """All numbers of a checkout."""
    texts = sources(root)
    trees = {path: ast.parse(text) for path, text in texts.items()}
    lengths = functions(trees.values())
    top = graph(root, trees, lazy=False)
    whole = graph(root, trees, lazy=True)
    offered = next(text for path, text in texts.items() if path == root / "sfumato" / "__init__.py")
    named = nouns(root, trees, texts)
    touched = places(root, texts)
    return {
        "files": len(texts),
        "lines": sum(text.count("\n") for text in texts.values()),
        "function lines": {
            "median": statistics.median(lengths),
            "p90": lengths[int(0.9 * len(lengths))],
            "longest": lengths[-1],
        },
        "fmt: skip": sum(text.count("# fmt: " + "skip") for text in texts.values()),
        "packed assignments": sum(map(packed, trees.values())),
        "knots": {"top": knots(top), "with imports inside functions": knots(whole)},
        "public": {
            "sfumato.*": len(re.findall(r'^    "\w+": "sfumato', offered, re.MULTILINE)),
            **public(trees.values()),
        },
        "nouns of a method": {
            "median": statistics.median(map(len, named.values())),
            "in all": len({word for words in named.values() for word in words}),
            "methods": {name: len(words) for name, words in named.items()},
        },
        "places to touch": {"median": statistics.median(touched), "least": min(touched)},
        "folder switches": {name: switches(root, name) for name in RUNS} if runs else {},
    }


def rows(numbers: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The numbers as lines for people."""
    lengths = numbers["function lines"]
    yield "files, lines", f"{numbers['files']}, {numbers['lines']:,}"
    yield "function lines: median / p90 / longest", f"{lengths['median']:g} / {lengths['p90']} / {lengths['longest']}"
    yield "fmt: skip", str(numbers["fmt: skip"])
    yield "packed assignments", str(numbers["packed assignments"])
    for which, circles in numbers["knots"].items():
        yield f"knots of folders, {which}", "; ".join(f"{len(c)}: {', '.join(c)}" for c in circles) or "none"
    for which, count in numbers["public"].items():
        yield f"public {which}", str(count)
    words = numbers["nouns of a method"]
    yield "nouns of a method: median, in all", f"{words['median']:g}, {words['in all']}"
    touched = numbers["places to touch"]
    yield "files that name a method: median, least", f"{touched['median']:g}, {touched['least']}"
    for name, count in numbers["folder switches"].items():
        yield f"folder switches of {name}", str(count)


def main() -> None:
    """Print a table, or JSON, and write a file where one is named."""
    if sys.argv[1:2] == ["--trace"]:
        print(trace(sys.argv[2], json.loads(sys.argv[3])))
        return
    parser = argparse.ArgumentParser(description="The shape of the package.")
    parser.add_argument("--root", type=Path, default=HERE)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--no-runs", action="store_true")
    asked = parser.parse_args()
    numbers = shape(asked.root.resolve(), runs=not asked.no_runs)
    text = json.dumps(numbers, indent=2)
    if asked.out:
        asked.out.write_text(text + "\n")
    print(text if asked.json else "\n".join(f"{name:<50}{value}" for name, value in rows(numbers)))


if __name__ == "__main__":
    main()
