# Each target creates the environment first if it is missing; nothing is installed by hand.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

PERF = $(BIN)/python -m pytest perf -v --perf-device cpu --perf-threads 1 \
	--perf-json .rightfast/last.json \
	--benchmark-quiet --benchmark-max-time 0.3 --benchmark-min-rounds 3

# The pages of docs/benchmarks: RESUME=1 goes on with a run that was interrupted, DEVICE=cuda
# measures on a GPU, where PyWavelets does not compute.
DEVICE ?= cpu
REPEATS ?= 5
PAGES := docs/benchmarks
ON := $(if $(filter cuda,$(DEVICE)),-gpu)
REPORT := .rightfast/report$(ON).json

.PHONY: perf baseline report pages peers test test-slow lint history clean

perf: $(READY)  ## Verify and time the suite on one CPU thread, save it, compare it with the baseline.
	$(PERF) --perf-baseline main --perf-budget 120

baseline: $(READY)  ## The same run becomes the baseline that later runs are compared with.
	$(PERF) --perf-save-baseline main

report: $(READY)  ## Measure LiteVAE and JPEG 2000 in fresh processes, then make their pages.
	$(BIN)/python -m pytest perf/test_wavelets.py -v -k "litevae or jpeg2000" \
		--perf-device $(DEVICE) --perf-threads 1 --perf-heap warm --perf-repeats $(REPEATS) \
		--perf-json $(REPORT) $(if $(RESUME),--perf-resume) \
		--benchmark-quiet --benchmark-max-time 0.3 --benchmark-min-rounds 3
	$(BIN)/rightfast machine > $(PAGES)/machine$(ON).txt
	$(MAKE) pages

pages: $(READY)  ## Tables and figures of the last `make report`, without measuring.
	for suite in litevae jpeg2000; do \
		$(BIN)/rightfast report $(REPORT) -k $$suite --format markdown \
			-o $(PAGES)/$$suite$(ON)-table.md \
		&& $(BIN)/rightfast plot $(REPORT) -k $$suite -o $(PAGES)/$$suite$(ON).svg \
		&& $(BIN)/rightfast plot $(REPORT) -k $$suite --kind scaling \
			-o $(PAGES)/$$suite$(ON)-scaling.svg \
		|| exit; \
	done

peers: $(READY)  ## The torch path against ptwt, paired, as a Markdown table; fails if slower.
	$(BIN)/python perf/check_peers.py --peer ptwt

test: $(READY)  ## The test suite on all cores, without the slow part.
	$(BIN)/python -m pytest tests -q -n auto --dist loadscope -m "not slow"

test-slow: $(READY)
	$(BIN)/python -m pytest tests -m slow

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/actionlint
	$(BIN)/zizmor --quiet --offline --no-progress .

N ?= 10
history: $(READY)  ## The perf cases over the last N commits of main (BENCH=pattern: some), in html/.
	$(BIN)/asv machine --yes
	$(BIN)/asv run --skip-existing $(if $(BENCH),--bench "$(BENCH)") "--max-count=$(N) main" \
		|| [ $$? -eq 2 ]
	$(BIN)/asv publish

# TORCH=torch==2.10.* tests with another torch than the pinned one; its Triton comes with it.
TORCH ?= pinned
OTHER := $(filter-out pinned,$(TORCH))

# torch first: the kernels are compiled against it, with the setuptools that is pinned.
INSTALL := $(BIN)/python -m pip install --quiet --constraint $(VENV)/constraints.txt
SOURCES := $(wildcard kernels/*/*/*.cpp kernels/*/*/*.h src/*/*/*.c src/*/*/*.h)
$(READY): pyproject.toml setup.py .ci/constraints.txt $(SOURCES)
	$(PYTHON) -m venv $(VENV)
	grep -vE '$(if $(OTHER),^(torch|triton)==,^$$)' .ci/constraints.txt > $(VENV)/constraints.txt
	$(INSTALL) '$(or $(OTHER),torch)' setuptools
	$(INSTALL) --no-build-isolation --editable ".[library,plots,peers,dev]"
	@touch $@

clean:
	rm -rf $(VENV) build kernels/*/_native*.so src/*/*/_launch*.so *.egg-info .pytest_cache .mypy_cache .ruff_cache
