"""What `make check` runs: all tests once, then the core tests in every way in which frit can run.

    python -m tests.check [--sanitize] [--list] [NAME...]

Each configuration is a pytest process of its own; the last line counts the tests of all of them."""
import os
import re
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def isa_levels():
    code = "import frit; print(*frit.isa_levels())"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.split()


def configurations():
    """(name, environment, pytest arguments)"""
    empty = tempfile.mkdtemp(prefix="frit-no-tools-")
    core = ["-m", "core and not soak"]
    yield "all", {}, ["-m", "not soak"]
    yield "jit off, verified", {"FRIT_JIT": "off", "FRIT_VERIFY": "1", "FRIT_FUZZ": "300"}, core
    yield "interpreter, 1 thread", {"FRIT_JIT": "interpret", "FRIT_NUM_THREADS": "1",
                                    "FRIT_FUZZ": "300"}, core
    yield "compiled, 2 threads", {"FRIT_JIT": "always", "FRIT_NUM_THREADS": "2", "FRIT_FUZZ": "100"}, core
    levels = isa_levels()
    for level in levels[:-1]:
        yield f"instruction set {level}", {"FRIT_ISA": level, "FRIT_FUZZ": "300"}, core
    yield "no compiler, 2 threads", {
        "PATH": empty, "FRIT_GCCJIT": os.path.join(empty, "libgccjit.so.0"), "FRIT_CACHE": "0",
        "FRIT_NUM_THREADS": "2", "FRIT_FUZZ": "300"}, core


def sanitized():
    """The same under the address and undefined-behaviour sanitizers, built apart."""
    build = dict(os.environ, FRIT_SANITIZE="address,undefined", FRIT_DEBUG_BUILD="1")
    out = os.path.join(ROOT, "build", "sanitized")
    subprocess.run([sys.executable, "setup.py", "--quiet", "build", "--build-lib", out], cwd=ROOT,
                   env=build, check=True)
    libs = []
    for lib in ("libasan.so", "libubsan.so"):
        found = subprocess.run([os.environ.get("CC", "cc"), "-print-file-name=" + lib],
                               stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        libs.append(found)
    env = {"LD_PRELOAD": " ".join(libs), "PYTHONPATH": out, "PYTHONMALLOC": "malloc", "FRIT_FUZZ": "300",
           # Python itself leaks at exit, and NumPy asks for memory that is not there on purpose.
           "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:handle_segv=1",
           "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1"}
    yield "sanitized", env, ["-m", "core and not soak"]


def main(args):
    chosen = [a for a in args if not a.startswith("-")]
    ways = list(sanitized() if "--sanitize" in args else configurations())
    if "--list" in args:
        print(*(name for name, _, _ in ways), sep="\n")
        return 0
    totals, failed = {}, []
    for name, env, pytest_args in ways:
        if chosen and not any(c in name for c in chosen):
            continue
        print(f"\n== {name}: {' '.join(f'{k}={v}' for k, v in env.items())}", flush=True)
        start = time.monotonic()
        p = subprocess.Popen([sys.executable, "-m", "pytest", "tests", *pytest_args], cwd=ROOT,
                             env={**os.environ, **env}, stdout=subprocess.PIPE, text=True)
        last = ""
        for line in p.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            last = line if re.search(r"\d+ (passed|failed|error)", line) else last
        code = p.wait()
        for n, what in re.findall(r"(\d+) (passed|failed|error|skipped)", last):
            totals[what] = totals.get(what, 0) + int(n)
        if code not in (0, 5):
            failed.append(name)
        print(f"== {name}: {time.monotonic() - start:.0f} s", flush=True)
    if failed:
        print("failed in:", ", ".join(failed))
    print(f"{totals.get('passed', 0)} passed, {totals.get('failed', 0) + totals.get('error', 0)} failed, "
          f"{totals.get('skipped', 0)} skipped")
    return 1 if failed or not totals.get("passed") else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
