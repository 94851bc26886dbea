# One command each; the first one makes what it needs in .venv.
#
#   make demo       a tour on simulated GPUs: no GPU needed
#   make test       the tests: on each push
#   make proofs     each night: properties, crash, elastic-kills, fuzz, soak, pages, and tests marked `nightly` (hours)
#   make pages      run the commands of the pages of published figures; fails where a page and its command differ
#                   (two hours; DATA=FOLDER has the authors' traces)
#   make lint       format, lint and strict types
#   make check      lint and tests, as CI runs them
#   make bench      how fast it is, beside its limits
#   make bench-deadlines   the published figures of due times and costs, beside ours (an hour)
#   make bench-elastic     the published figures of elastic jobs, beside ours (some minutes)
#   make bench-peers       radrm beside other queues, and how costs grow: docs/lab/speed.md (half an hour)
#   make bench-slurm       radrm under a real Slurm of three nodes (root, half an hour; PART=latency: only that)
#   make crash      kill -9 at every fault point, 2,000 times, and account for each job (half an hour)
#   make elastic-kills     kill what runs elastic jobs, fifty times, and count their samples (ten minutes)
#   make systemd    the service under a real systemd, in namespaces (root, some minutes; see systemd/README.md)
#   make fuzz       hostile inputs for all parsers and a real daemon (half an hour; FUZZ="--hours 8")
#   make soak       a real daemon under faults and hostile users for HOURS=1 (see docs/reliability.md)
#   make mutants    break decisions of the core on purpose, COUNT=150 of the sample SEED=1, and list what no test
#                   notices (five minutes of processor time before the first, some seconds for each)
#   make properties EXAMPLES=20    every property, with 20 times its examples, others each time
#   make gpu-test   the tests that need a real GPU (PyTorch: RADRM_GPU_TEST_PYTHON=/path/to/python)
#   make gpu-accept PART=1    the acceptance run on a GPU, in six parts of under ten minutes; all without PART
#   make gpu-wheels GPU_VERSION=3.12    what that needs on a machine without a package index, into wheels/
#   make slurm-test the tests that start a Slurm (root; Debian: slurm-wlm slurm-wlm-basic-plugins munge
#                   lua5.3 slurmdbd mariadb-server)
#   make picture    the pictures of README.md (a recorded session) and docs/policies.md (half a minute)
#   make page-pictures     the pictures of docs/page.md, by Chromium from a real daemon (a minute)
#   make generated  write what is made from the code and committed: types, options of sbatch, units, words
#   make manual     the manual pages, into man/, and the JSON Schema; `make package` and `make deb` do it, too
#   make package    the wheel and the sources, into dist/
#   make package-test      the wheel in a new environment, with a daemon and a job (asks no index)
#   make deb        a Debian package for this machine's Python, into dist/
#   make deb-test   builds it twice, lints it, and tries it under a real systemd (root; needs what systemd does)
#   make site       the documentation site, into site/; any warning is an error
#   make site-serve the same while you write, on http://127.0.0.1:8000
#   make venv       only the virtual environment, with all that developing needs
#
# Another Python: make check PYTHON=python3.12

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test proofs lint check bench pages bench-deadlines bench-elastic bench-peers bench-slurm crash elastic-kills \
  fuzz soak nightly systemd mutants properties gpu-test gpu-accept gpu-wheels slurm-test generated manual package package-test \
  deb deb-test picture page-pictures site site-serve venv
.DELETE_ON_ERROR:
# Tests start some thousand processes, which would each compile what they import.
unexport PYTHONDONTWRITEBYTECODE

demo: $(VENV)/.runtime
	@$(BIN)/radrm demo

test: $(VENV)/.dev $(VENV)/.compiled
	$(BIN)/python -m compileall -q radrm
	$(BIN)/python -m pytest

lint: $(VENV)/.dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

check: lint test

# One after the other: each asks for both cores. All run, even if one fails.
proofs: $(VENV)/.dev $(VENV)/.compiled
	@failed=; for each in nightly properties crash elastic-kills fuzz soak pages; do \
	  echo "== $$each"; $(MAKE) --no-print-directory $$each || failed="$$failed $$each"; \
	done; [ -z "$$failed" ] || { echo "failed:$$failed" >&2; exit 1; }

nightly: $(VENV)/.dev
	$(BIN)/python -m pytest -m nightly

bench: $(VENV)/.dev
	@$(BIN)/python -m benchmarks.run

DATA ?=
pages: $(VENV)/.dev
	@$(BIN)/python -m benchmarks.pages $(if $(DATA),--data $(DATA))

bench-deadlines: $(VENV)/.dev
	@$(BIN)/python -m benchmarks.pages --write --only benchmarks.deadlines

bench-elastic: $(VENV)/.dev
	@$(BIN)/python -m benchmarks.pages --write --only benchmarks.elastic

bench-peers: $(VENV)/.dev
	@for each in peers growth; do $(BIN)/python -m benchmarks.pages --write --only benchmarks.$$each; done

PART ?=
bench-slurm: $(VENV)/.dev
	@$(BIN)/python -m benchmarks.cluster $(PART)

crash: $(VENV)/.dev
	@$(BIN)/python -m proofs.crash

elastic-kills: $(VENV)/.dev
	@$(BIN)/python -m proofs.elastic_kills

fuzz: $(VENV)/.dev
	@$(BIN)/python -m proofs.fuzz $(FUZZ)

HOURS ?= 1
SEED ?=

soak: $(VENV)/.dev
	@$(BIN)/python -m proofs.soak --hours $(HOURS) $(if $(SEED),--seed $(SEED))

systemd: $(VENV)/.dev
	@$(BIN)/python -m proofs.systemd.run

COUNT ?= 150
mutants: $(VENV)/.dev
	@$(BIN)/python -m tools.mutants --count $(COUNT) --seed $(or $(SEED),1)

EXAMPLES ?= 20
properties: $(VENV)/.dev
	RADRM_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -m "hypothesis and not daemon and not nightly"

# These ask no package index: a rented machine may have none. They take the environment where it is
# made, else the system's Python, which lends its PyTorch, and what that lacks from wheels/.
GPU_SITE = $(CURDIR)/wheels/site
GPU_PYTHON ?= $(if $(wildcard $(VENV)/.dev),$(BIN)/python,PYTHONPATH=$(GPU_SITE):$$PYTHONPATH $(PYTHON))
GPU_VERSION ?= 3.12
GPU_NEEDED = proofs/acceptance/needed.txt
GPU_UNPACKED = $(if $(wildcard $(VENV)/.dev),,$(if $(wildcard wheels/*.whl),$(GPU_SITE)))

$(GPU_SITE):
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-index --find-links wheels \
	  --target $@ --requirement $(GPU_NEEDED)

gpu-test: | $(GPU_UNPACKED)
	@$(GPU_PYTHON) -m pytest -o addopts= -m gpu -rs tests/gpu

gpu-accept: | $(GPU_UNPACKED)
	@$(GPU_PYTHON) -m proofs.acceptance $(if $(PART),--part $(PART))

gpu-wheels: $(BIN)/python
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --dest wheels \
	  --only-binary=:all: --python-version $(GPU_VERSION) --platform manylinux2014_x86_64 \
	  --platform manylinux_2_17_x86_64 --platform manylinux_2_28_x86_64 --platform any \
	  --requirement $(GPU_NEEDED)

slurm-test: $(VENV)/.dev
	@$(BIN)/python -m pytest -n 2 -rs -m "nightly or not nightly" tests/slurm

generated: manual
	$(BIN)/python -m tools.option_types
	$(BIN)/python -m tools.slurm_reference
	$(BIN)/python -m tools.units

manual: $(VENV)/.dev
	@$(BIN)/python -m tools.manual
	@$(BIN)/python -m tools.json_reference

page-pictures: $(VENV)/.dev # those of docs/page.md; it needs chromium
	$(BIN)/python -m tools.pictures.page

picture: $(VENV)/.dev
	@$(BIN)/python -m tools.pictures.session docs/pictures/session.svg
	@$(BIN)/python -m tools.pictures.policies docs/pictures

package: manual
	$(BIN)/python -m hatchling build -d dist

package-test: manual
	@$(BIN)/python -m proofs.packaging.installed

deb: manual
	@$(BIN)/python -m tools.deb dist

deb-test: manual
	@$(BIN)/python -m proofs.packaging.deb

site: $(VENV)/.dev
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "site/index.html"

site-serve: $(VENV)/.dev
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --no-strict

venv: $(VENV)/.dev

# The stamps: an environment is filled once, and again when pyproject.toml has changed.

$(VENV)/.runtime: pyproject.toml $(BIN)/python
	@echo "Installing radrm into $(VENV) ..."
	@$(PIP) --editable '.[top,web,metrics]'
	@$(BIN)/python -m compileall -q radrm
	@touch $@

$(VENV)/.dev: pyproject.toml $(BIN)/python
	@echo "Installing radrm and its tools into $(VENV) ..."
	@$(PIP) --editable '.[dev]'
	@$(BIN)/python -m compileall -q radrm
	@touch $@ $(VENV)/.runtime

# pytest rewrites and compiles the tests: once, before each of its workers does so for itself. What
# is wrong with a test, the run after this one says.
$(VENV)/.compiled: $(VENV)/.dev $(shell find tests proofs -name '*.py')
	@find tests proofs -name 'test_*.py' | sort | xargs -P 2 -n 300 $(BIN)/python -m pytest -n 0 \
	  --collect-only -qq -p no:cacheprovider >/dev/null 2>&1 || true
	@touch $@

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { \
	  echo "radrm needs Python 3.10 or newer, and there is no $(PYTHON) here;" \
	    "install one, or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo "radrm needs Python 3.10 or newer, and $(PYTHON) is $$($(PYTHON) -V 2>&1);" \
	    "name a newer one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "$(PYTHON) lacks the venv module, which Debian and Ubuntu package apart;" \
	    "install it: sudo apt install python3-venv" >&2; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV)
	@$(PIP) 'pip>=21.3' # that of the first Pythons 3.10 cannot install a project without setup.py
