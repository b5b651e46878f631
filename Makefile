# Everything runs in .venv, made on first use. Two commands are enough: make demo, make test.
PYTHON ?= python3
BIN := .venv/bin
export OMP_NUM_THREADS ?= 1

.PHONY: venv federation-env demo studio test test-all lint docs bench clean

venv: .venv/.ready

.venv/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

# Flower asks for older versions of these five packages, and so has an environment of its own.
federation-env: .venv-federation/.ready

.venv-federation/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-federation
	grep -vE '^(typer|rich|fastapi|starlette|uvicorn)==' constraints.txt > .venv-federation/constraints.txt
	PIP_CONSTRAINT=.venv-federation/constraints.txt .venv-federation/bin/pip install --quiet \
		--disable-pip-version-check -e '.[flower]' pytest pytest-timeout
	touch $@

demo: venv
	rm -rf demo
	OMP_NUM_THREADS=2 $(BIN)/sfumato synthesize fashion-mnist --epsilon 1 --count 20000 --out demo/release

# The page in a browser, with public sets and a throw-away ledger; it prints the links that open it.
studio: venv
	$(BIN)/sfumato studio --demo

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-all: lint federation-env
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not gpu and not federation'
	.venv-federation/bin/python -m pytest -m federation tests/federation/flower

# The site, in site/. What builds it is installed on the first use of this target, and by no other.
docs: .venv/.docs-ready
	$(BIN)/python -m docs.tables
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

.venv/.docs-ready: .venv/.ready
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@

bench: venv
	$(BIN)/python -m benchmarks.bigdata
	$(BIN)/python -m benchmarks.accounting

clean:
	rm -rf .venv .venv-federation demo build site *.egg-info
