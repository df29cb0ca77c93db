"""What `make check` runs: all tests once, then the core tests in every way in which frit can run.

    python -m tests.check [--quick | --sanitize | --race | --gpu] [--list] [NAME...]

Each configuration is a pytest process of its own, two of them at a time; the last line counts the tests of
all of them."""
import concurrent.futures
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def isa_levels():
    code = "import frit; print(*frit.isa_levels())"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.split()


def has_gpu_compiler():
    from tests import gpu
    try:
        return gpu.compiler() is not None and shutil.which(os.environ.get("CC", "cc")) is not None
    except ValueError:
        return False


def on_gpu(core, apart, more=""):
    """Core tests for a GPU: what raises no flags warns of nothing, NaNs that arithmetic makes have another sign, products are
    BLAS's on the host, columns are summed in NumPy's order, indices are looked at in copies,
    nothing runs node by node, in bands or by what a processor has chosen, and NumPy's from_dlpack takes
    no memory of a GPU."""
    out = {f"tests/test_{name}.py" for name in ("bands", "eager", "guest", "launch", "moves", "operations", "prefetch", "warnings", *apart)}
    return [*(f for f in core if f not in out),
            "-k", "not one_band_needs and not late_plan and not warn and not keeps_its_sign and not casts_are_exact"
            " and not number_types_are_called and not short_cuts and not planned and not costs_no_underflow"
            " and not dlpack and not memory_is_complex and not index_that_changes_after" + more]


def core_tests():
    # (Only files with core tests: importing and collecting the others takes seconds each time.)
    files = [f for f in sorted(glob.glob("tests/test_*.py", root_dir=ROOT)) if "mark.core" in open(os.path.join(ROOT, f)).read()]
    return files, [*files, "-m", "core and not soak and not own"]


def gpu():
    """The core tests on the GPU that is there."""
    yield "a GPU", {"FRIT_DEVICE": os.environ.get("FRIT_DEVICE", "cuda"), "FRIT_OFF": "device_products, device_trees"}, on_gpu(core_tests()[1], ())


def configurations():
    """(name, environment, pytest arguments)"""
    empty = tempfile.mkdtemp(prefix="frit-no-tools-")
    files, core = core_tests()
    short = {"FRIT_FUZZ": "150", "FRIT_REDUCTIONS": "250"}

    def without(*names):
        return [f for f in core if f not in {f"tests/test_{name}.py" for name in names}]

    values = without("accelerate", "bad_input", "faults", "guest", "sharing")   # what an instruction set may change
    every = sorted(glob.glob("tests/test_*.py", root_dir=ROOT))
    for name, first, end in (("h to z", "h", "{"), ("a to f", "a", "g"), ("g", "g", "h")):     # the longest first
        yield f"all, {name}", {}, [*(f for f in every if f"tests/test_{first}" <= f < f"tests/test_{end}"), "-m", "not soak"]
    # What is settled while tracing does not wait for a compilation of every pair of dtypes, or of every ufunc. (make soak has all
    # that these ways are shorter by.)
    soak = os.environ.get("FRIT_SOAK", "") not in ("", "0")
    sooner = "" if soak else (" and not powers_of_numbers and not plans_go_when and not binary_bits and not rows_of_every_length"
                                 " and not beside_multiples")
    yield ("compiled, 2 threads", {"FRIT_JIT": "always", "FRIT_NUM_THREADS": "2", "FRIT_FUZZ": "100" if soak else "10", "FRIT_REDUCTIONS": "60"},
           [*(core if soak else without("fold", "accelerate", "contents", "division", "foreign", "guest", "hard_cases", "masks", "membrane", "warnings")), "-k", "not result_dtypes and not casts_are_exact and not values_of_other_dtypes and not outer_of_an_operation"
            " and not forms_of_powers and not mandelbrot1" + sooner])
    if soak:
        yield "jit off, verified, 1 thread", {"FRIT_JIT": "off", "FRIT_VERIFY": "1", "FRIT_NUM_THREADS": "1", **short}, core
    # (What else is compiled meanwhile takes half of the time, and is not looked at.)
    yield "node by node first", {"FRIT_EAGER_ELEMS": "131072", **({} if soak else {"FRIT_JIT": "interpret"}), **short}, [
        *files, "-m", "core and not soak and not own and not planned"]
    # What counts nodes that run by themselves, memory without what is lent, or changes the backend is about the host's.
    yield ("memory apart", {"FRIT_BACKEND": "apart", "FRIT_JIT": "interpret", **short},
           [*(without("eager", "operations") if soak else [*(f for f in QUICK if "eager" not in f), *core[len(files):]]), "-k", "not late_plan and not one_band_needs"])
    # On a GPU that is not there (tests/cuda/), whose kernels NVRTC compiles. What is many kernels soak has; what each operation gives
    # test_ptx says.
    if has_gpu_compiler():
        from tests import fake_gpu
        yield ("a GPU without one", {**fake_gpu.environment(), **short, "FRIT_FUZZ": "100" if soak else "30", "FRIT_REDUCTIONS": "20", "FRIT_OFF": "device_products, device_trees"},
               on_gpu(core, () if soak else ("numerics", "regressions", "strided", "hard_cases", "division", "accuracy", "einsum"),
                      "" if soak else " and not rows_of_every_length and not values_of_other_dtypes and not rule_is_exact and not forms_of_powers"))
    levels = isa_levels()
    for level in levels[:-1] if soak else levels[:1]:
        yield (f"instruction set {level}", {"FRIT_ISA": level, "FRIT_JIT": "interpret", **short,
                                            **({} if soak else {"FRIT_VERIFY": "1", "FRIT_NUM_THREADS": "1"})},
               values)     # compiled for each level: test_jit_parts
    yield "no compiler, 2 threads", {
        "PATH": empty, "FRIT_GCCJIT": os.path.join(empty, "libgccjit.so.0"), "FRIT_CACHE": "0",
        "FRIT_NUM_THREADS": "2", **short}, core if soak else [*QUICK, *core[len(files):]]     # (runs as with the JIT off, once it has asked)


QUICK = [f"tests/test_{name}.py" for name in """accelerate api_surface bad_input composed eager fusion golden masks names numbers
    regressions replay shared_views sharing stubs warnings written""".split()]


def quick():
    """What a change most often breaks, in less than a minute."""
    yield "quick", {}, [*QUICK, "-m", "not soak"]


def built_with(sanitizer, libraries):
    """The environment in which a sanitizer looks at frit, built apart."""
    out = os.path.join(ROOT, "build", "with-" + sanitizer.replace(",", "-"))
    subprocess.run([sys.executable, "setup.py", "--quiet", "build", "--build-lib", out], cwd=ROOT,
                   env=dict(os.environ, FRIT_SANITIZE=sanitizer, FRIT_DEBUG_BUILD="1"), check=True)
    found = [subprocess.run([os.environ.get("CC", "cc"), "-print-file-name=" + lib], stdout=subprocess.PIPE, text=True,
                            check=True).stdout.strip() for lib in libraries]
    return {"LD_PRELOAD": " ".join(found), "PYTHONPATH": out, "PYTHONMALLOC": "malloc", "FRIT_FUZZ": "300"}


def sanitized():
    """The same under the address and undefined-behaviour sanitizers."""
    env = {**built_with("address,undefined", ["libasan.so", "libubsan.so"]),
           # Python itself leaks at exit, and NumPy asks for memory that is not there on purpose.
           "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:handle_segv=1",
           "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1"}
    # What a sanitizer says goes to the descriptor, and the process ends at once.
    yield "sanitized", env, ["--capture=sys", "-m", "core and not soak"]


def raced():
    """What threads do beside each other, under the thread sanitizer."""
    env = {**built_with("thread", ["libtsan.so"]), "TSAN_OPTIONS": "die_after_fork=0:halt_on_error=1"}
    # (What test_cpu_parts compiles is built without it, which then does not see the locks.)
    yield "raced", env, ["--capture=sys", "-m", "not soak", "--ignore=tests/test_cpu_parts.py",
                         "-k", "test_eager or test_memory or test_patterns or test_sharing"]


def run(name, env, pytest_args):
    """One configuration, its output printed as one piece: (name, exit code, the line with the counts)."""
    start = time.monotonic()
    print(f"== {name}: started", flush=True)
    done = subprocess.run([sys.executable, "-m", "pytest", *pytest_args], cwd=ROOT,
                          env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    counts = [line for line in done.stdout.splitlines() if re.search(r"\d+ (passed|failed|error)", line)]
    print(f"\n== {name}: {' '.join(f'{k}={v}' for k, v in env.items())}\n{done.stdout}"
          f"== {name}: {time.monotonic() - start:.0f} s", flush=True)
    return name, done.returncode, counts[-1] if counts else ""


def said_by_gpu(path):
    """What the driver without a GPU has counted, in all processes, as a line."""
    with open(path) as file:
        counted = [[int(n) for n in line.split()] for line in file]
    launches, instructions, failures = (sum(column) for column in zip(*counted)) if counted else (0, 0, 0)
    return (f"on the GPU that is not there: {len(counted)} processes, {launches} kernels interpreted, {instructions / 1e9:.1f} thousand million "
            f"instructions of lanes, {failures} calls failed on purpose")


def main(args):
    chosen = [a for a in args if not a.startswith("-")]
    ways = list(quick() if "--quick" in args else sanitized() if "--sanitize" in args else raced() if "--race" in args
                else gpu() if "--gpu" in args
                else configurations())
    if "--list" in args:
        print(*(name for name, _, _ in ways), sep="\n")
        return 0
    ways = [w for w in ways if not chosen or any(c in w[0] for c in chosen)]
    totals, failed = {}, []
    report = os.path.join(tempfile.mkdtemp(prefix="frit-gpu-"), "report")
    os.environ["FAKE_CUDA_REPORT"] = report
    # Two at a time: most tests keep one core busy, and none looks at the clock.
    with concurrent.futures.ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        jobs = [pool.submit(run, *way) for way in ways]
        for i, job in enumerate(concurrent.futures.as_completed(jobs), 1):
            name, code, counts = job.result()
            for n, what in re.findall(r"(\d+) (passed|failed|error|skipped)", counts):
                totals[what] = totals.get(what, 0) + int(n)
            if code not in (0, 5):
                failed.append(name)
            print(f"== {i} of {len(jobs)} done", flush=True)
    if os.path.exists(report):
        print(said_by_gpu(report))
    if failed:
        print("failed in:", ", ".join(failed))
    print(f"{totals.get('passed', 0)} passed, {totals.get('failed', 0) + totals.get('error', 0)} failed, "
          f"{totals.get('skipped', 0)} skipped")
    return 1 if failed or not totals.get("passed") else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
