# make all   everything that this machine can do, into results/
# make test  the tests (those that need a GPU are skipped where there is none)
# make fuzz  ten thousand mutations of what each reader reads
# They set up .venv first, from the pins in pyproject.toml. Needed before: Python 3.11 or newer with venv, make, g++.

PYTHON ?= python3
CORES ?= 1
BIN := .venv/bin

.PHONY: all test test-gpu fuzz clean

all: .venv/installed
	$(BIN)/snakemake --cores $(CORES) all

test: .venv/installed
	$(BIN)/python -m pytest -n 2 --dist loadfile

fuzz: .venv/installed
	FUZZ_EXAMPLES=10000 $(BIN)/python -m pytest tests/fuzz -n 2 --timeout 7200

# On a machine with a GPU: the tests that need one. `snakemake archive` keeps what they printed.
test-gpu: .venv/installed
	mkdir -p results
	$(BIN)/python -m pytest -m gpu --no-header -rA > results/gpu-tests.txt; status=$$?; cat results/gpu-tests.txt; exit $$status

.venv/installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"error: Python {sys.version.split()[0]}; 3.11 or newer is needed: make PYTHON=python3.x")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@

# Measurements made on this machine are in results/: `snakemake --cores 1 archive` keeps them.
clean:
	rm -rf results .snakemake
