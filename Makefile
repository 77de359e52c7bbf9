# make help lists what there is. `demo` and `test` install what they need (Debian 12, 13; root).
SHELL := /bin/sh
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin
TARGET := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
NAGORI := $(TARGET)/release/nagori
VERSION := $(shell sed -n 's/^version = "\(.*\)"$$/\1/p' Cargo.toml | head -n 1)
# The debug build checks invariants and overflows on the way.
CHECKED := $(TARGET)/debug/nagori

help: ## This list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

setup: ## Install what building, tests and demo need
	@sh scripts/setup.sh

build: setup ## The nagori command, optimised
	cargo build --release -p nagori-cli

# The C library with its header, for pkg-config and CMake (docs/c-api.md), and the command.
INSTALL = SHARED=$(TARGET)/library/libnagori_capi.so STATIC=$(TARGET)/library/libnagori_capi.a \
	PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' LIBDIR='$(LIBDIR)' INCLUDEDIR='$(INCLUDEDIR)'

install: ## Command and C library into PREFIX (/usr/local), below DESTDIR if it is set
	cargo build --release -p nagori-cli
	cargo build --profile library -p nagori-capi
	$(INSTALL) COMMAND=$(NAGORI) scripts/install.sh

install-lib: ## The C library alone
	cargo build --profile library -p nagori-capi
	$(INSTALL) scripts/install.sh

# The package that pip has installed is this version's command, and needs no compiler.
PACKAGED = python3 -c 'import importlib.metadata as m; print(m.version("nagori"))' 2>/dev/null

demo: ## Boot Debian, measure NVMM under every method, print tables, draw a plot (by the wheel's command, if installed)
	@if [ "$$($(PACKAGED))" = "$(VERSION)" ]; then \
		echo 'With the command of the installed package nagori $(VERSION); without it, one is built.'; \
		scripts/demo 'python3 -m nagori'; \
	else \
		$(MAKE) --no-print-directory build && scripts/demo $(NAGORI); \
	fi

# One after the other, in this order, whatever -j says.
.NOTPARALLEL:
# What ends within seconds comes first, so that a line out of form does not cost an hour.
test: style test-rust test-bare test-book test-python same-quick cost validate-quick rtl-quick lint ## Everything that CI checks
	@echo 'make test: all passed'

# No test may be skipped for want of a tool. The seed is fixed, so that a tree passes or fails
# whoever runs it; another one looks elsewhere: make test-rust SEED=$$RANDOM
SEED := 1
test-rust: setup ## Unit, property and integration tests
	NAGORI_REQUIRE_TOOLS=1 PROPTEST_RNG_SEED=$(SEED) cargo test --workspace --no-fail-fast

# Whatever is built besides is built together with the command: for a package alone cargo chooses other features of
# dependencies, and compiles everything again.

# Machines and programs whose run depends on what it must not depend on, drawn from a seed on: make search SEED=7 MINUTES=5.
MINUTES := 60
SEARCH = NAGORI_REQUIRE_TOOLS=1 NAGORI_SEARCH_SEED=$(SEED) NAGORI_SEARCH_MINUTES=$(MINUTES) \
	cargo test -p nagori-machine --test suite -- --ignored --nocapture --exact

search: setup ## Random machines and programs: engines, slices and snapshots against one another
	$(SEARCH) search::search

search-builds: setup ## As search, with the bare-metal programs, compiled in random ways
	$(SEARCH) search::builds::search

test-python: setup ## The Python package: types, and tests with bare-metal programs
	cargo build -p nagori-cli -p nagori-python
	@echo '== The Python package =='
	@scripts/test-python $(TARGET)/debug/lib_nagori.so build/python $(ARGS)

# Root, and minutes; Dask, pyarrow and SciPy come from the package index, into a place of their own.
studies-check: setup ## Studies where they could break: killed workers, Dask, a full disk, clocks, Slurm (ARGS='--only dask')
	cargo build -p nagori-cli -p nagori-python
	@scripts/test-python $(TARGET)/debug/lib_nagori.so build/python --collect-only -q >/dev/null
	python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --upgrade --target build/studies \
		distributed pyarrow scipy
	apt-get install -y --no-install-recommends slurmctld slurmd slurm-client munge >/dev/null
	PYTEST_PLUGINS=nagori.pytest_plugin PYTHONPATH=$(CURDIR)/python:$(CURDIR)/build/python/packages:$(CURDIR)/build/studies python3 -m pytest -q \
		python/tests/test_study_analysis.py python/tests/test_study_run.py
	PYTHONPATH=$(CURDIR)/python:$(CURDIR)/build/python/packages:$(CURDIR)/build/studies scripts/studies-check $(ARGS)

# Readers and renderers of others come from the package index, into a place of their own; Chromium is Debian's.
test-plots: setup ## Plots and reports, checked by Vega-Lite, a PDF reader, pyarrow and Chromium
	cargo build -p nagori-cli
	python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target build/plot-packages \
		'altair>=5.5,<6' jsonschema pandas pyarrow pypdf vl-convert-python
	command -v chromium >/dev/null || apt-get install -y --no-install-recommends chromium >/dev/null
	@PYTHONPATH=build/plot-packages scripts/plots $(CHECKED)

# What the notebooks need is large; the guest's image is built if there is none.
notebooks: setup ## The notebooks of examples/, executed with the package of the tests
	cargo build -p nagori-cli -p nagori-python
	@scripts/test-python $(TARGET)/debug/lib_nagori.so build/python --collect-only -q >/dev/null
	python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target build/notebooks \
		'marimo>=0.15,<1'
	@for n in examples/*.py; do echo "$$n" && PYTHONPATH=python:build/python/packages:build/notebooks python3 $$n || exit 1; done

# What is given away, in build/dist; Zig and maturin come from the package index, into build/tools.
dist: setup ## The command as a static program for any x86-64 Linux
	@CARGO_TARGET_DIR=$(TARGET) scripts/dist binary

# Takes over what the release build has compiled.
dist-glibc: setup ## The command as a program for glibc 2.28 and newer
	@CARGO_TARGET_DIR=$(TARGET) scripts/dist glibc

wheel: setup ## The Python package with the command, as a wheel for glibc 2.28 and newer
	@CARGO_TARGET_DIR=$(TARGET) scripts/dist wheel

wheel-musl: setup ## The Python package with the command, as a wheel for Alpine and others with musl
	@CARGO_TARGET_DIR=$(TARGET) scripts/dist wheel-musl

deb: dist ## A package for Debian and Ubuntu, of the static program
	@scripts/dist deb

container: dist ## A container image with the static program (podman, buildah or docker)
	@scripts/dist container

# The programs that check the emulator are checked by QEMU first.
test-bare: setup ## Bare-metal checks, under QEMU and under Nagori
	cargo build -p nagori-cli
	$(MAKE) -C guest/bare all
	@echo '== Bare-metal checks under QEMU =='
	@$(MAKE) -C guest/bare check-qemu
	@echo '== Bare-metal checks on Nagori, timed =='
	@$(MAKE) -C guest/bare check-nagori LIMIT=300 NAGORI='$(CHECKED) bare'
	@echo '== Bare-metal checks on Nagori, functional =='
	@$(MAKE) -C guest/bare check-nagori LIMIT=300 NAGORI='$(CHECKED) bare --functional'
	@echo '== Bare-metal checks on Nagori, interpreted, timed =='
	@$(MAKE) -C guest/bare check-nagori LIMIT=300 NAGORI='$(CHECKED) bare --engine interpreter'
	@echo '== Bare-metal checks on Nagori, interpreted, functional =='
	@$(MAKE) -C guest/bare check-nagori LIMIT=300 NAGORI='$(CHECKED) bare --engine interpreter --functional'

BOOK = python3 scripts/book/book.py
SPHINX = $(CURDIR)/build/sphinx

# Sphinx comes from the package index, into a place of its own.
SPHINX_PACKAGES = python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --upgrade \
	--target $(SPHINX) 'sphinx>=8,<10' 'myst-parser>=4,<6' 'furo>=2024.8'

test-book: setup ## What the book's pages say of commands, its quick examples, and its HTML
	cargo build -p nagori-cli
	@echo '== The book =='
	@$(BOOK) quick $(CHECKED)
	@$(SPHINX_PACKAGES)
	@PYTHONPATH=$(SPHINX) $(BOOK) build $(CHECKED) build/book

# Minutes, once the guest's image is there.
book: build ## The book as HTML in build/book/html, and all of its examples
	$(SPHINX_PACKAGES)
	PYTHONPATH=$(SPHINX) $(BOOK) build $(NAGORI) build/book
	$(BOOK) run $(NAGORI)

reference: build ## The pages that the command writes: docs/reference
	$(BOOK) reference $(NAGORI)

# Every claim of docs/artifact: minutes. CLAIMS='determinism crash-found' for some.
artifact: build ## One script a claim, for evaluators
	NAGORI=$(NAGORI) docs/artifact/run-all $(CLAIMS)

# Statistics that a change must not change, to the cycle, on every machine and under every method: validation/same.
same: build ## Statistics of a set of programs and traces beside their record, to the cycle
	@scripts/same $(NAGORI) $(ARGS)

same-quick: setup
	cargo build -p nagori-cli
	@echo '== The same statistics =='
	@scripts/same $(CHECKED) --quick

# Instructions do not depend on what else the host does, so that a rise of a few percent fails.
cost: setup ## Instructions of the host for short workloads beside their record
	cargo build -p nagori-cli
	@echo '== What short workloads cost =='
	@scripts/cost $(CHECKED) $(ARGS)

cost-release: build ## As cost, for the release build, with its size
	@scripts/cost --release $(NAGORI) $(ARGS)

# Minutes, and as long again for the first build of BASE; ARGS=--help for more.
speed-guard: setup ## Processor time beside that of a commit, in turn: make speed-guard BASE=main
	@scripts/speed-guard $(BASE) $(ARGS)

# Rocket's RTL, as a package of Python has it, and the model run the same programs; docs/validation.md.
VALIDATE = python3 validation/rocket/validate.py --nagori $(CHECKED) --library $(TARGET)/debug/libnagori_rtlbus.a

validate: setup ## The model beside Rocket's RTL: all programs, and the board's loops under all methods
	cargo build -p nagori-cli -p nagori-rtlbus
	$(VALIDATE) $(ARGS)

validate-quick: setup ## As validate, with the short programs
	cargo build -p nagori-cli -p nagori-rtlbus
	@echo '== The model beside the RTL =='
	@$(VALIDATE) --quick --no-explain $(ARGS)

# The RTL of four cores takes minutes to build; nothing else needs it.
validate-four: setup ## What four cores instead of one cost a miss, on the RTL and in the model
	cargo build -p nagori-cli -p nagori-rtlbus
	$(VALIDATE) --four $(ARGS)

validate-docs: ## The tables of docs/validation.md, measured anew
	$(MAKE) validate ARGS='--no-explain --document docs/validation.md'
	$(MAKE) validate-four ARGS='--document docs/validation.md'

# The hardware of rtl/ in Verilator beside the models: every command at the same clock.
rtl-quick: setup ## The hardware beside the models, a million clocks
	@echo '== The controller in hardware beside the model =='
	$(MAKE) -C rtl quick

rtl-check: setup ## As rtl-quick, with ten million clocks and a recorded trace
	$(MAKE) -C rtl check

rtl-rocket: setup ## Rocket's RTL with the hardware behind it runs the board's loops
	cargo build -p nagori-cli -p nagori-rtlbus
	$(VALIDATE) --wide
	$(MAKE) -C rtl rocket

rtl-formal: ## Proofs about the hardware (Yosys, which it installs)
	$(MAKE) -C rtl formal

rtl-synth: ## Size and speed of the hardware on an ECP5, as a table
	$(MAKE) -C rtl synth

# Packages of Debian in a guest's systemd, beyond those of `make test`.
validate-services: setup ## OpenSSH, Redis, nginx, dropbear, PostgreSQL: installed, started, asked
	NAGORI_REQUIRE_TOOLS=1 cargo test -p nagori-cli --test suite services -- --ignored

# What `make test` leaves out of tests that boot many times.
test-long: setup ## Tests that take minutes each: every domain of persistence, all published figures, services
	NAGORI_REQUIRE_TOOLS=1 cargo test -p nagori-cli --test suite -- --ignored

# Every program of the study ends with its checksum: minutes.
suite-check: build ## The application study's programs in the size `small`, under dram and extended
	$(NAGORI) suite run --size small --methods dram,extended --store build/suite $(ARGS)

# Everything that docs/suite.md has: some 900 runs, hours of a core; it goes on where it was ended.
SUITE = $(NAGORI) suite run --store build/suite-results $(ARGS)
suite: build ## The application study on vc707 and server, with seeds, threads and jemalloc, and its page
	$(SUITE)
	$(SUITE) --subset threads
	$(SUITE) --seeds 1,2,3
	$(SUITE) --subset threads --seeds 1,2,3
	$(SUITE) --methods dram,coarse,fine,extended --malloc jemalloc lua memcached perl redis rocksdb sqlite xz
	$(SUITE) --machine server --memory-model ddr4,pcm,xpoint
	$(NAGORI) suite report --store build/suite-results --save suite/results/study.jsonl.zst --document docs/suite.md \
		--plot docs/suite.svg

# Minutes to an hour; with ARGS=--long hours.
sampling-check: build ## Sampled runs beside whole detailed ones: errors and intervals (docs/sampling.md)
	scripts/sampling-check $(NAGORI) --json build/sampling.json $(ARGS)

# On the host, where `make test` tries the same, a run takes a moment; booted, minutes.
crash-corpus: build ## Seeded bugs in flushes and fences, found on the booted machine (docs/crash-model.md)
	scripts/crash-corpus $(NAGORI) --order commit

lint: style ## Formatting, rules of the house, clippy
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo check --locked --no-default-features --manifest-path fuzz/Cargo.toml --target-dir $(TARGET)

style: setup ## What of lint compiles nothing: seconds
	cargo fmt --all --check
	cargo fmt --check --manifest-path fuzz/Cargo.toml
	cargo fetch --locked
	python3 scripts/check.py
	@for f in .ci/run scripts/*.sh scripts/demo scripts/dist scripts/bare-host scripts/test-python scripts/make-real-trace guest/init/* crates/image/src/rootfs/install.sh docs/artifact/run-all docs/artifact/claims/*; do sh -n $$f || exit 1; done
	python3 scripts/test_scripts.py
	python3 scripts/book/test_book.py

# make check AREA=memtime; scripts/check-area --help says more.
check: setup ## Lint and tests of a crate (AREA) and of all that depend on it
	@scripts/check-area $(AREA) $(ARGS)

bench: build ## Speed of the emulator
	$(NAGORI) bench speed

# Minutes; ARGS=--quick for less. All of it, as JSON: build/speed.json.
bench-speed: build ## Speed beside that of QEMU, and which goals are met
	@mkdir -p build
	$(NAGORI) bench speed --qemu --report build/speed.json $(ARGS)

# Minutes; what the module of the driver is made of is downloaded at the first time (150 MB).
bench-iomap: build ## I/O at other addresses: a monitor beside a table in hardware
	@mkdir -p build
	$(NAGORI) bench iomap --plot build/iomap.svg $(ARGS)

# ARGS=--json for a JSON object, ARGS=--quick for a tenth of it.
bench-mem: build ## Speed of the memory models, in requests per CPU second
	@$(NAGORI) -q bench mem $(ARGS)

# ARGS=--json for JSON. Figures of this host at this moment.
bench-native: build ## Delays that nagori native injects beside those that are asked for
	@$(NAGORI) -q native --self-test $(ARGS)

real-trace: ## The trace of a real program that bench-mem plays, made anew
	scripts/make-real-trace traces/bzip2.dramsim3.zst

docs: ## The board's tables and picture in README.md and docs/accuracy.md, measured anew
	cargo build --release -p nagori-cli
	@mkdir -p build
	$(NAGORI) bench board --plot docs/board.svg --json > build/board.json
	$(NAGORI) image build --json > build/image.json
	python3 scripts/board_tables.py build/image.json < build/board.json

fresh-machine: ## Both commands on a Debian 12 and 13 that were installed a moment ago (root; ARGS=--help)
	@scripts/fresh-machine $(ARGS)

# ARGS='busybox bullseye bookworm trixie sid' for these instead of nothing but the command.
bare-host: dist ## The command on hosts that have next to nothing, as an ordinary user (root)
	@scripts/bare-host build/dist/nagori $(ARGS)

fuzz-smoke: setup ## A minute of fuzzing on the stable toolchain
	$(MAKE) -C fuzz smoke

clean: ## Remove what was built
	rm -rf build
	$(MAKE) -C guest/bare clean
	cargo clean

.PHONY: test-long sampling-check test-plots studies-check artifact bare-host dist dist-glibc wheel-musl deb container book reference test-book help setup build install install-lib demo test test-rust test-python wheel notebooks search search-builds rtl-quick rtl-check rtl-rocket rtl-formal rtl-synth validate validate-quick validate-four validate-docs validate-services test-bare same same-quick cost cost-release speed-guard lint style bench bench-speed bench-mem real-trace docs fresh-machine fuzz-smoke crash-corpus suite suite-check clean bench-native bench-iomap
