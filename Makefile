PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# a machine without a C compiler gets one from the package index
COMPILER := $(or $(filter environment,$(origin CC)),$(shell command -v cc || command -v gcc || command -v clang))
COMMA := ,
ZIG := $(if $(COMPILER),,$(COMMA)zig)

ZOO ?= zoo

.PHONY: demo docs notebooks lint types test test-optimized test-slow health fuzz fuzz-files bench bench-opencl bench-partition bench-plan clean

SECONDS ?= 600

demo: $(VENV)/.demo  ## cut, compile, save, load and run the digit classifier on the host and an OpenCL device
	$(BIN)/python examples/digits/demo.py

test: $(VENV)/.test  ## the default tests, 17 to 35 minutes on two cores, as fast as these are
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow"

test-optimized: $(VENV)/.test  ## the same with all generated code compiled as users have it (-O3), not that of some tests alone
	BYOC_OPTIMIZATION=3 $(BIN)/python -m pytest -n auto --dist worksteal -m "not slow"

docs: $(VENV)/.docs  ## the documentation site, out/docs/index.html; warnings are errors
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -b html -c docs -d out/doctrees . out/docs

notebooks: $(VENV)/.docs  ## run the notebooks and store their outputs in them
	$(BIN)/python -m tools.site.notebooks

lint: $(VENV)/.test  ## what ruff.toml asks of the code, and its format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test  ## type errors and ignores by package; none above tools/health/type_limits.json
	$(BIN)/python -m tools.health.types --gate

test-slow: $(VENV)/.test  ## the long tests
	BYOC_OPTIMIZATION=3 $(BIN)/python -m pytest -n auto --dist worksteal -m slow --timeout 5400 -o faulthandler_timeout=5400

fuzz: $(VENV)/.test  ## random models through every backend for SECONDS; what goes wrong is kept in out/fuzz
	$(BIN)/python -m fuzz models --seconds $(SECONDS) --json out/fuzz.json

fuzz-files: $(VENV)/.test  ## edited and damaged files of every kind that byoc reads; findings are kept in out/fuzz-files
	$(BIN)/python -m fuzz.files --inputs 100000

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.demo: $(BIN)/python setup.cfg pyproject.toml
	$(BIN)/python -m pip install --quiet -e ".[opencl$(ZIG)]"
	touch $@

$(VENV)/.test: $(BIN)/python setup.cfg pyproject.toml
	$(BIN)/python -m pip install --quiet -e ".[test$(ZIG)]"
	$(BIN)/python -m tools.health.types --tree
	touch $@

$(VENV)/.docs: $(BIN)/python setup.cfg pyproject.toml
	$(BIN)/python -m pip install --quiet -e ".[docs,opencl$(ZIG)]"
	touch $@

$(VENV)/.bench: $(BIN)/python setup.cfg pyproject.toml
	$(BIN)/python -m pip install --quiet -e ".[bench$(ZIG)]"
	touch $@

bench: $(VENV)/.bench  ## our host code against ONNX Runtime and OpenVINO, on the models in ZOO (benchmarks/models/export_zoo.py)
	mkdir -p out
	$(BIN)/python -m benchmarks.cpu --zoo $(ZOO) --json out/cpu.json --picture out/cpu.png

bench-opencl: $(VENV)/.test  ## our OpenCL code against PyTorch on a GPU, against our C and ONNX Runtime on PoCL
	mkdir -p out
	$(BIN)/python -m benchmarks.opencl --json out/opencl.json

health: $(VENV)/.test  ## what the code is measured by, and what is wanted
	$(BIN)/python -m tools.health

clean:
	rm -rf $(VENV) build out *.egg-info

bench-partition: $(VENV)/.test  ## seconds of each partitioning pass at 10,000 and 100,000 operators
	$(BIN)/python -m benchmarks.plan.partition

bench-plan: $(VENV)/.bench  ## every way to cut the models in ZOO over three backends: priced, proven, timed; large graphs
	mkdir -p out
	$(BIN)/python -m benchmarks.plan --zoo $(ZOO) --json out/plan.json
