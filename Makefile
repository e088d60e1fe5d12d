# `make help` lists the targets. `make demo` and `make test` need no other set-up than Python.

VENV ?= .venv
ARGS ?=
JOBS ?= 2
PYTHONS := python3.11 python3 python3.12
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in $(PYTHONS); do \
	if $$python -c '$(NEW_ENOUGH)' 2>/dev/null; then echo $$python; break; fi; done)

BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed
HAS_OSMESA := import ctypes.util, sys; sys.exit(not ctypes.util.find_library('OSMesa'))
APT := apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends

export PIP_DISABLE_PIP_VERSION_CHECK := 1
.DELETE_ON_ERROR:
.PHONY: help demo test benchmark format clean install compiled osmesa sdformat

help:  ## show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|' 2>/dev/null \
		|| sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1: \2/p' $(MAKEFILE_LIST)
	@echo
	@echo '  ARGS="..."    handed on to the command, as in: make demo ARGS="--headless --seconds 15"'
	@echo '  VENV=folder   where the environment lies (.venv);  PYTHON=python3.11  what makes it'

demo: install osmesa  ## a simulated PA-10 at work
	$(BIN)/kde_imitation demo $(ARGS)

test: compiled osmesa  ## style, types and all tests, the installation checks among them
	@status=0; \
	$(BIN)/ruff check . || status=1; \
	$(BIN)/ruff format --check . || status=1; \
	$(BIN)/mypy || status=1; \
	$(BIN)/pytest --numprocesses=$(JOBS) --dist=loadfile --no-loadscope-reorder --durations=15 $(ARGS) || status=1; \
	exit $$status

benchmark: install osmesa  ## repeat the published measurements
	$(BIN)/kde_imitation benchmark $(ARGS)

format: install  ## put the code in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove what was built, but keep the environment
	rm -rf build dist install log out *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	rm -f kde_imitation/kernels/*.so $(INSTALLED)
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

install: $(INSTALLED)  ## the environment with every extra, the package editable in it

# A stale compiled module must not survive a compilation that fails. The warning that is left out
# is setuptools' word on every editable installation of this layout.
$(INSTALLED): setup.py setup.cfg pyproject.toml package.xml $(wildcard kde_imitation/kernels/*.p[yx][xi]) | $(BIN)/pip
	@echo 'Installing kde_imitation and what it needs into $(VENV): some minutes the first time.'
	rm -f kde_imitation/kernels/*.so
	$(BIN)/pip install --quiet --upgrade pip
	PYTHONWARNINGS='ignore:Editable installation' $(BIN)/pip install --quiet --editable '.[all]'
	@touch $@

compiled: $(INSTALLED)
	@$(BIN)/python -c 'import kde_imitation.kernels._core' 2>/dev/null || \
		KDE_IMITATION_REQUIRE_EXTENSION=1 $(BIN)/pip install --no-deps --editable .

$(BIN)/pip:
	@$(or $(PYTHON),false) -c '$(NEW_ENOUGH)' || { \
		echo 'kde_imitation needs Python 3.11 or newer, but $(or $(PYTHON),none of $(PYTHONS)) is that;' \
			'install it, or name it: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then $(APT) python3-venv python3-dev; \
		else echo 'The venv module of $(PYTHON) is missing; on Debian: apt install python3-venv.' >&2; exit 1; fi; }
	$(PYTHON) -m venv $(VENV)
	@echo '*' > $(VENV)/.gitignore

# MuJoCo draws without a screen through this library.
osmesa: | $(BIN)/pip
	@$(BIN)/python -c "$(HAS_OSMESA)" || { \
		[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && $(APT) libosmesa6; } || \
		echo 'libosmesa6 is missing, so pictures of the arm are drawn with matplotlib;' \
			'for MuJoCo pictures: apt install libosmesa6.' >&2

# Gazebo's parser of models; a few tests ask it, and are skipped without it.
sdformat:
	@command -v gz >/dev/null || command -v ign >/dev/null || { \
		[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && $(APT) ignition-tools libsdformat-dev; } || \
		echo "Gazebo's parser is missing, so its tests are skipped;" \
			'on Debian: apt install ignition-tools libsdformat-dev.' >&2
