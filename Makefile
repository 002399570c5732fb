# Every task in one command. Each makes what it needs first: .venv, Bazel, the configuration, the library.
# PYTHON=python3.12 picks another interpreter.

PYTHON ?= python3
VENV_PYTHON := .venv/bin/python
# Its name tells the interpreter, so that another PYTHON= makes another .venv.
VENV_STAMP := .venv/installed-for-$(shell $(PYTHON) -c 'import platform; print(platform.python_version())')

.PHONY: build demo test test-quick test-arm test-amx test-avx512 test-sanitizers test-machines test-slow test-matrix \
	test-matrix-arm test-systems test-writers release-check fuzz wheel wheels lint format docs bench results clean

# The shared library, in place: afterwards `import tf_cudnn_rnn` works in .venv.
build: .tf_configure.bazelrc
	tools/build.sh

# Trains, evaluates, exports and runs a character language model. ARGS= adds flags.
demo: build
	$(VENV_PYTHON) examples/char_lm.py $(ARGS)

# All tests, C++ and Python. ARGS= goes to pytest.
test: build
	tools/test.sh $(ARGS)

# The part of them to run before each commit, below two minutes on two cores.
test-quick: build
	tools/test.sh --quick $(ARGS)

# The engine's tests on 64-bit Arm, cross-compiled and emulated; some minutes. TESTS="simd_cells_test ..." names
# some; ARGS= goes to each test, such as --gtest_filter=...
test-arm:
	TESTS="$(TESTS)" tools/test_arm.sh $(ARGS)

# The engine's tests of what is written for AMX, whose tile registers are emulated: for machines that have AVX-512 BF16
# without AMX. ARGS= goes to Bazel.
test-amx: .tf_configure.bazelrc
	$$(tools/find_bazel.sh) test --config=emulated_amx //tests/engine/... $(ARGS)

# The engine's tests of what is written for AVX-512, whose vectors are emulated: for machines that have AVX2 without
# AVX-512. ARGS= goes to Bazel.
test-avx512: .tf_configure.bazelrc
	$$(tools/find_bazel.sh) test --config=emulated_avx512 //tests/engine/... $(ARGS)

# The engine's tests, and tests of ops, under sanitizers; the first run compiles for long. PARTS="asan ops" names some
# (tools/test_sanitizers.sh).
test-sanitizers: .tf_configure.bazelrc
	tools/test_sanitizers.sh $(PARTS)

# Tests that take minutes, or tens of gigabytes.
test-slow: build
	$(VENV_PYTHON) -m pytest -m slow tests/reliability $(ARGS)

# Looks for inputs that break the engine, files or ops, for so many SECONDS; what is found lies in runs/fuzz.
# CONFIG=emulated_amx fuzzes the engine on tile registers that are emulated. MUTATIONS=10000 makes so many of each golden
# file, hours beyond SECONDS; otherwise as many as there is time for.
SECONDS ?= 600
fuzz: build
	MUTATIONS="$(MUTATIONS)" tools/fuzz.sh $(SECONDS) $(CONFIG)

# The engine's tests on CPUs without AVX, without AVX2 and the like, emulated; on one core, and on half a core.
test-machines: .tf_configure.bazelrc
	tools/test_machines.sh $(ARGS)

# Installs the wheel of dist/ into clean environments with other TensorFlows and Pythons, and tests it there. ARGS=--all
# takes every pair, ARGS=--publish writes the table in docs/compatibility.md.
test-matrix: $(VENV_STAMP)
	$(VENV_PYTHON) tools/test_matrix.py $(ARGS)

# The same of the wheel for 64-bit Arm, under emulation: some twenty minutes. TENSORFLOW=2.16 takes another one.
test-matrix-arm: $(VENV_STAMP)
	TENSORFLOW="$(TENSORFLOW)" tools/test_matrix_arm.sh $(ARGS)

# The same on other releases of Debian, in trees; needs root. ARGS=bullseye names one.
test-systems: $(VENV_STAMP)
	tools/test_systems.sh $(ARGS)

# All that a release needs, more than two hours; writes dist/release-check.md. ARGS=--only=lint,wheels runs some.
release-check: $(VENV_STAMP)
	$(VENV_PYTHON) tools/release_check.py $(ARGS)

# Writes tests/golden anew with the libraries it comes from, and compares. Downloads them, and
# needs their Pythons, 3.6 to 3.11. ARGS= names some of them, or --update.
test-writers: $(VENV_STAMP)
	$(VENV_PYTHON) tools/test_writers.py $(ARGS)

# dist/here/*.whl, for the TensorFlow of .venv and this machine.
wheel: build
	$(VENV_PYTHON) tools/wheels.py --here

# dist/*.whl: for every TensorFlow that we support, on x86-64 and 64-bit Arm; half an hour. ARGS="--machines x86_64"
# builds for one.
wheels: $(VENV_STAMP)
	tools/find_bazel.sh >/dev/null
	$(VENV_PYTHON) tools/wheels.py $(ARGS)

# Measures against every peer; docs/benchmarks.md. CASES= names what, such as quick, which takes five
# minutes; ARGS= adds flags. The first run makes .venv-peers.
CASES ?= all
bench: build
	$(VENV_PYTHON) -m benchmarks.run --cases=$(CASES) $(ARGS)

# Measures the group `gate` at a commit, and publishes it in docs/results: csv, page and charts, and the summaries in
# docs/benchmarks.md and README.md. CPU=amd-epyc-zen4 names the machine; otherwise its own name does.
results: build
	$(VENV_PYTHON) -m benchmarks.results measure $(CPU)

lint: $(VENV_STAMP)
	tools/lint.sh check

format: $(VENV_STAMP)
	tools/lint.sh fix

# The site of documentation, in build/docs/html; a link or name that leads nowhere fails. Needs Python 3.11 or newer, and
# neither TensorFlow nor a build.
docs:
	PYTHON="$(PYTHON)" tools/docs.sh

# Removes what the other targets made, except .venv, .venv-docs, .venv-peers, .npm and runs.
clean:
	if bazel=$$(command -v bazel || command -v bazelisk); then $$bazel clean --expunge; fi
	$(PYTHON) tools/libraries.py remove build
	rm -rf dist .tf_configure.bazelrc .pytest_cache .ruff_cache .hypothesis
	rm -rf tf_cudnn_rnn/_libraries

$(VENV_STAMP): requirements.txt requirements-no-deps.txt tools/venv.sh
	tools/venv.sh $(PYTHON) $@

# configure.py leaves an unchanged file alone; its time must still pass that of what it was made from.
.tf_configure.bazelrc: configure.py $(VENV_STAMP)
	tools/find_bazel.sh >/dev/null
	$(VENV_PYTHON) configure.py
	touch $@
