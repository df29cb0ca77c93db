# Every target does its own set-up: a virtual environment in .venv, and frit built into python/frit.
PY = .venv/bin/python

.PHONY: all demo quick check bench docs wheel soak suites gpu asan tsan accuracy bless layers clean

all:
	.ci/setup demo

demo:
	.ci/setup demo
	$(PY) -m frit.demo

check:
	FRIT_WERROR=1 .ci/setup check
	$(PY) tests/layers.py --quiet
	$(PY) -m tests.check

quick:
	FRIT_WERROR=1 .ci/setup check
	$(PY) tests/layers.py --quiet
	$(PY) -m tests.check --quick

# The long versions of the random tests, and copies of the sources with defects put in on purpose.
soak:
	.ci/setup soak
	.ci/setup docs
	FRIT_SOAK=1 $(PY) -m pytest tests -m soak
	FRIT_SOAK=1 $(PY) -m tests.check "instruction set" compiled "jit off" "node by node" apart "no compiler" "a GPU"
	FRIT_SOAK=1 FRIT_JIT_NESTS=25 $(PY) -m pytest tests/test_jit_parts.py -k "test_random_nests or test_every_operation or test_reductions or test_map_of_every_size"
	FRIT_SOAK=1 $(PY) -m pytest tests/test_operations.py tests/test_ptx.py tests/test_launch.py tests/test_cpu_parts.py tests/test_gpu.py -k "in_machine_code or test_whole_numbers or test_bits or test_random_small or test_model_is_numpy or test_orders_of_every"
	$(PY) -m tests.fuzz --seeds 0:20000
	$(PY) -m tests.fuzz --functions --seeds 0:20000
	$(PY) -m tests.fuzz --scripts --seeds 0:20000
	$(PY) -m tests.fake_gpu -m tests.fuzz --functions --seeds 0:2000

# scikit-learn's and SciPy's own tests of array libraries, on frit.
suites:
	.ci/setup check
	$(PY) -m tests.suites

# On a machine with an NVIDIA GPU: core tests and random programs on it, then what its kernels reach, as a page; and what
# NVIDIA's sanitizer says, where it is.
gpu:
	.ci/setup check
	$(PY) -m tests.check --gpu
	$(PY) -m pytest -q tests/test_text.py -k device
	FRIT_DEVICE=cuda $(PY) -m tests.fuzz --functions --seeds 0:20000
	FRIT_DEVICE=cuda $(PY) -m benchmarks.gpu --html build/gpu.html
	! command -v compute-sanitizer || FRIT_DEVICE=cuda compute-sanitizer --error-exitcode 1 $(PY) -m tests.fuzz --functions --seeds 0:40

asan:
	.ci/setup check
	$(PY) -m tests.check --sanitize

tsan:
	.ci/setup check
	$(PY) -m tests.check --race

bless:
	.ci/setup check
	FRIT_BLESS=1 $(PY) -m pytest tests -k golden
	git --no-pager diff --stat -- tests/golden

layers:
	@python3 tests/layers.py

# Hours: every float32, every level.
accuracy:
	.ci/setup check
	$(PY) tests/accuracy.py --all --levels --samples 1e8 --keep build/accuracy.json
	$(PY) tests/accuracy.py --table build/accuracy.json > csrc/jit/ACCURACY.md

bench:
	.ci/setup bench
	$(PY) -m benchmarks.table

# The site, in build/docs. The pages that frit itself writes come first; a warning or a link that leads nowhere is an error.
docs:
	.ci/setup docs
	$(PY) docs/generate.py
	$(PY) -m sphinx -q -W -n --keep-going -E -b html docs build/docs
	@echo build/docs/index.html

# For manylinux_2_28, by auditwheel, with this machine's GCC: dist/*.whl. `.ci/wheel aarch64` makes the other machine's.
wheel:
	.ci/wheel

clean:
	rm -rf build .venv python/frit/*.so python/frit/frit-cc *.egg-info python/*.egg-info
