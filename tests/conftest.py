"""Keeps every test run away from the user's kernel cache, and quiet about what it tries on purpose."""
import atexit
import gc
import os
import shutil
import tempfile

_cache = tempfile.mkdtemp(prefix="frit-test-cache-")
os.chmod(_cache, 0o700)
os.environ.setdefault("FRIT_CACHE_DIR", _cache)
# Plans are what most tests are about, and are made at once for them; `python -m tests.check` runs the core tests once
# more as graphs run otherwise, node by node until they have one, and test_eager.py is about that.
os.environ.setdefault("FRIT_EAGER_ELEMS", "0")
# Tests wait for compilers, which else give way to everybody, two processes of tests among them.
os.environ.setdefault("FRIT_TUNE", "helper_nice=0")
atexit.register(shutil.rmtree, _cache, ignore_errors=True)

import pytest  # noqa: E402

import frit  # noqa: E402

# Behind most tests kernels would be compiled that they do not look at, in twice the time that they take. Those that wait for
# compilers have them.
INTERPRETS = "FRIT_JIT" not in os.environ and os.environ.get("FRIT_SOAK", "") in ("", "0")
if INTERPRETS:
    frit._core.config_set("jit", "interpret")


def _waits(code):
    return "wait_for_compiles" in code.co_names or any(_waits(c) for c in code.co_consts if hasattr(c, "co_names"))


@pytest.fixture(autouse=INTERPRETS)
def compiled_behind(request):
    if _waits(request.function.__code__):
        with frit.config(jit="auto"):
            yield
    else:
        yield


def pytest_collection_modifyitems(items):
    soak = os.environ.get("FRIT_SOAK", "") not in ("", "0")
    for item in items:
        if "soak" in item.keywords and not soak:
            item.add_marker(pytest.mark.skip(reason="long: make soak"))


def pytest_collection_finish():
    """The collector has no need to walk thousands of tests whenever one of them asks for a collection: 0.1 s each."""
    gc.collect()
    gc.freeze()
