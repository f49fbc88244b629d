# make all        everything that this machine can do, into results/
# make try        one kernel built, checked, emulated: make try KERNEL=sgemm_mine (WATCH=1: whenever it is saved)
# make report     results/report.html: every figure and table with the rule that made it
# make test       the tests (those that need a GPU are skipped where there is none)
# make test-gpu   the tests that need a GPU
# make lint       linters, formatters, types and import layers, as .ci/run and pre-commit run them
# make rehearse   a measuring run on an emulated GPU, from Snakefile to archive (EXPERIMENT=NAME: of one experiment)
# make fuzz       ten thousand mutations of the PTX and SASS that ptxsim reads
# make scorecard  what ptxsim says of published race suites: make scorecard SCOR=DIR INDIGO=DIR SAMPLES=DIR (EVERY=10: each tenth)
# make mutants    changes in a room that no test notices: make mutants ROOM=workflow/plan.py (TESTS=…, N=60, SEED=0)
# make clean      remove results/, with what was measured on this machine
# They set up .venv first, from the pins in pyproject.toml. Needed before: Python 3.11 or newer with venv, make, g++.
# One experiment, a figure or a table alone: `snakemake --list` names these targets.

PYTHON ?= python3
CORES ?= $(shell nproc)
BIN := .venv/bin
unexport PYTHONDONTWRITEBYTECODE  # as in many containers: hundreds of processes would each compile the same modules

.PHONY: all help report test lint try rehearse test-gpu fuzz scorecard mutants clean

all: .venv/installed
	$(BIN)/snakemake --cores $(CORES) --quiet host reason rules -- all

help:
	@sed -n '/^$$/q; s/^# //p' Makefile

report: .venv/installed
	$(BIN)/snakemake --cores $(CORES) report

test: .venv/installed
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile workflow/rules
	$(BIN)/mypy
	$(BIN)/lint-imports

try: .venv/installed
	$(BIN)/python -m experiments.try_kernel $(or $(KERNEL),$(error name one: make try KERNEL=sgemm_mine)) $(if $(WATCH),--watch)

rehearse: .venv/installed
	$(BIN)/python tests/rehearsal/rehearse.py $(EXPERIMENT)

fuzz: .venv/installed
	FUZZ_EXAMPLES=10000 $(BIN)/python -m pytest ptxsim/tests/test_fuzz.py -n 2 --timeout 7200

scorecard: .venv/installed
	$(BIN)/python ptxsim/tests/scorecard.py $(if $(SCOR),--scor $(SCOR)) $(if $(INDIGO),--indigo $(INDIGO)) \
		$(if $(SAMPLES),--samples $(SAMPLES)) $(if $(EVERY),--every $(EVERY)) --jobs $(CORES) --page docs/scorecard.md

mutants: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[mutants]'
	$(BIN)/python tests/mutants.py $(or $(ROOM),$(error name one: make mutants ROOM=workflow/plan.py)) \
		$(if $(TESTS),--tests $(TESTS)) --count $(or $(N),60) --seed $(or $(SEED),0)

# On a machine with a GPU: the tests that need one. `archive add-tests` keeps the report (docs/use.md).
test-gpu: .venv/installed
	rm -f results/gpu-tests.txt
	$(BIN)/python -m pytest -m gpu tests/experiments --gpu-report results/gpu-tests.txt

.venv/installed: pyproject.toml ptxsim/pyproject.toml ptxsim/native.c
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"error: Python {sys.version.split()[0]}; 3.11 or newer is needed: make PYTHON=python3.x")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ./ptxsim --editable '.[test]'
	touch $@

# Measurements made on this machine are in results/: `snakemake --cores 1 archive` keeps them.
clean:
	rm -rf results rehearsal .snakemake
