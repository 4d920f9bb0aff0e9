# Everything sets itself up: Python 3.10 or newer, Node 18 or newer, gcc and make are enough. `make` alone lists the targets.
# Two environments: .venv runs things, .venv-build turns the sources into a wheel (requirements/build.txt).

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
.NOTPARALLEL:
.PHONY: help test demo bench zoo soak matrix dev lint page page-dev format size constraints table clean compiler node FORCE

RUN := .venv/bin/python
BUILD := .venv-build/bin/python
LOGS := build/logs
STEP := @tools/step
PIP := -m pip --disable-pip-version-check --no-input

# One process more than there are cores, as half of the tests wait for another one; four at the most. The tests of a
# file stay together. PYTEST_ARGS=-n0 runs one after the other.
SIDES := $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1); [ $$n -lt 3 ] || n=3; echo $$((n + 1)))
SIDE_BY_SIDE := --dist loadfile --tx '$(SIDES)*popen//python=$(RUN) -I'

# A run of CI that hangs all the same is interrupted, and says by then what has failed.
BOUND := $(if $(and $(CI),$(shell command -v timeout)),timeout --foreground --signal=INT --kill-after=60 3600)

# Not $(MAKE) itself in a recipe: make would run such a line even under `make -n`.
SELF := $(MAKE)

PROTOS := $(shell find tb_netdebug -name '*.proto')
GENERATED := $(PROTOS:.proto=_pb2.pyi)
SOURCES := $(shell find setup.py pyproject.toml MANIFEST.in README.md LICENSE tb_netdebug -type f \
    ! -name '*_pb2.py*' ! -name '*.so' ! -name '*.pyc' ! -path 'tb_netdebug/viewer/plugin/page/*')
PAGE := $(shell find tools/build_page.py frontend -type f ! -path '*/node_modules/*' ! -path 'frontend/dist/*')
MODULES := frontend/node_modules/.made-from

help: ## this list
	@echo 'make TARGET, where TARGET is one of'
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

test: compiler node .venv/test .venv/netdebug ## all checks and all tests, against the wheel (first time about 5 min)
	@tools/get_chromium $(LOGS)
	@$(SELF) lint; lint=$$?; \
	$(SELF) page; page=$$?; \
	$(SELF) size; \
	echo 'pytest on the installed wheel (make test PYTEST_ARGS="-k name" runs some of the tests)'; \
	NETDEBUG_TEST_WHEEL=1 OMP_NUM_THREADS=1 $(BOUND) $(RUN) -Im pytest $(SIDE_BY_SIDE) $(PYTEST_ARGS); tests=$$?; \
	[ $$tests -ne 5 ] || echo 'No test ran, and that counts as a failure: see PYTEST_ARGS.'; \
	[ $$lint -eq 0 ] || echo 'ruff or mypy found something: see above, before the size report.'; \
	[ $$page -eq 0 ] || echo 'tsc, Biome or vitest found something: see above, before the size report.'; \
	exit $$((lint | page | tests))

demo: node .venv/demo $(if $(SMOKE),.venv/test) .venv/netdebug ## networks that train live in TensorBoard (SMOKE=1: headless)
	@tools/check_compiler $(BUILD) || echo 'The demo goes on with the slower NumPy twin of the C kernel.'
	@$(if $(SMOKE),tools/get_chromium $(LOGS),:)
	@$(RUN) demo $(if $(SMOKE),--smoke) $(DEMO_ARGS)

bench: compiler node .venv/bench .venv/netdebug ## what NetDebug promises, measured on this machine (half an hour)
	@tools/get_chromium $(LOGS)
	@$(RUN) bench $(BENCH_ARGS)

zoo: compiler .venv/test .venv/netdebug ## how well the checks tell sick trainings from healthy ones (about 20 min)
	@$(RUN) zoo $(ZOO_ARGS)

soak: compiler .venv/test .venv/netdebug ## kills what streams at random, and looks what is lost (SOAK_ARGS="--seconds 3600", or "--agents 200")
	@$(RUN) tests/soak.py $(SOAK_ARGS)

matrix: compiler .venv/test .venv/netdebug ## trainings with and without NetDebug, bit by bit (an hour, most of it Keras)
	@$(RUN) tests/matrix $(MATRIX_ARGS)
	@$(if $(MATRIX_ARGS),:,NETDEBUG_TEST_WHOLE=1 $(RUN) -Im pytest -q -n0 tests/frameworks/keras/test_keras_copies.py)

dev: compiler node .venv/test .venv/demo $(GENERATED) .venv-build/ready ## an editable install in .venv, for work on the code
	$(STEP) 'Installing the checkout itself (about 20 s)' $(LOGS)/dev.log tools/install_editable $(BUILD) $(RUN)
	@rm -f .venv/netdebug
	@echo 'Now .venv/bin/python -m pytest, .venv/bin/netdebug and .venv/bin/tensorboard run this checkout.'
	@echo 'After a change in C, in a .proto file or in frontend/: make dev again. `make test` puts the wheel back.'
	@echo 'To work on the page, with hot reload: make page-dev'

lint: .venv/test .venv/netdebug $(GENERATED) ## ruff and mypy --strict
	@echo 'ruff check'; $(RUN) -m ruff check --quiet --output-format concise .; rules=$$?; \
	echo 'ruff format --check'; $(RUN) -m ruff format --check .; layout=$$?; \
	echo 'mypy --strict (longer when its cache is empty)'; $(RUN) -m mypy --no-error-summary; types=$$?; \
	exit $$((rules | layout | types))

page: node $(MODULES) ## types, layout, lint and tests of the page
	$(STEP) 'tsc and Biome (layout and lint) on the page (about 10 s)' $(LOGS)/page-types.log npm --prefix frontend run --silent check
	$(STEP) 'vitest on the page (about 5 s)' $(LOGS)/page-tests.log npm --prefix frontend run --silent test

page-dev: dev $(MODULES) ## the page from its sources with hot reload, over trainings in a real TensorBoard
	@$(RUN) demo/page_dev.py $(PAGE_ARGS)

format: .venv/test ## lets ruff mend the layout and what else it can
	@$(RUN) -m ruff check --fix --quiet . ; $(RUN) -m ruff format .

size: .venv/ready ## files over 400 lines and functions over 50, a report
	@$(RUN) tools/size_report.py

constraints: .venv/ready ## resolves constraints.txt anew, for the Pythons in PINNED_FOR
	$(STEP) 'Resolving constraints.txt (about a minute)' $(LOGS)/constraints.log \
	    $(RUN) tools/constraints.py $(or $(PINNED_FOR),$(RUN))

table: .venv/test ## writes what is made of the debugger's table: the page's types, tables of its README
	@PYTHONPATH=. $(RUN) tools/debugger_table.py

clean: ## removes everything that was made here
	rm -rf frontend/node_modules frontend/dist tb_netdebug/viewer/plugin/page
	rm -rf .venv .venv-build build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find tb_netdebug \( -name '*_pb2.py*' -o -name '*.so' \) -delete
	find . -name node_modules -prune -o -name __pycache__ -prune -exec rm -rf {} +

compiler:
	@python=$$(tools/find_python) || exit 1; tools/check_compiler "$$python" || \
	    { echo 'Tests, benchmarks and development need the compiled kernel; make demo works without.' >&2; exit 1; }

node:
	@python=$$(tools/find_python) || exit 1; "$$python" tools/build_page.py check

# --- environments: each file named here stands for a finished step -------------------------------------

.venv/ready:
	$(STEP) 'Making the virtual environment .venv (about 10 s)' $(LOGS)/venv.log \
	    tools/make_venv .venv
	@touch $@

.venv-build/ready: requirements/build.txt
	$(STEP) 'Installing the build tools into .venv-build (about 20 s)' $(LOGS)/build-tools.log \
	    tools/make_venv .venv-build -r requirements/build.txt
	@touch $@

.venv/test .venv/demo .venv/bench: .venv/%: requirements/%.txt constraints.txt .venv/ready
	$(STEP) 'Installing PyTorch and the rest of $< (1 to 5 min)' $(LOGS)/install-$*.log \
	    $(RUN) $(PIP) install -r $< -c constraints.txt
	@touch $@

# The list of sources changes when a file goes away, which no time stamp of the others would tell.
build/sources.list: FORCE
	@mkdir -p build && echo $(sort $(SOURCES) $(PAGE)) | cmp -s - $@ || echo $(sort $(SOURCES) $(PAGE)) >$@

$(MODULES): frontend/package-lock.json
	@python=$$(tools/find_python) || exit 1; \
	tools/step 'Installing what builds the page (about 20 s)' $(LOGS)/modules.log "$$python" tools/build_page.py modules
	@touch $@

build/dist/built: $(SOURCES) $(PAGE) build/sources.list .venv-build/ready
	@rm -rf build/dist *.egg-info
	$(STEP) 'Building the wheel from a source archive (about 20 s)' $(LOGS)/wheel.log \
	    $(BUILD) -m build --no-isolation --outdir build/dist .
	@touch $@

.venv/netdebug: build/dist/built constraints.txt .venv/ready
	$(STEP) 'Installing the wheel (about 20 s)' $(LOGS)/install.log \
	    tools/install_wheel $(RUN)
	@touch $@

%_pb2.pyi: %.proto .venv-build/ready
	@$(BUILD) -m grpc_tools.protoc -I. --python_out=. --pyi_out=. $<
	@touch $@
