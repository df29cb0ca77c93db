"""A long life in somebody's process: kernels that come and go, mappings left to others, compilers and disks that fail for
a while, numbers from elsewhere that do not fit.  (Homes that are not there and entries of the cache that have other names:
test_jit_parts.py, with objects by the thousand.)  Programs run beside each other, for they wait a lot."""
import ctypes as ct
import glob
import os
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest

import frit

from .common import assert_same
from .test_guest import compiler  # noqa: F401 (a fixture)

CHAINS = """
import os, sys, subprocess, threading, time
import numpy as np
import frit

ops = ["add", "subtract", "multiply", "maximum"]

def chain(k, like=frit, n=500):
    x = np.linspace(0.5, 2, n)
    u = t = x if like is np else frit.asarray(x)
    for i in range(5):
        u, k = getattr(like, ops[k % 4])(u, t), k // 4
    return np.asarray(u * 2 - t)

def check(ks):
    for k in ks:
        assert chain(k).tobytes() == chain(k, np).tobytes(), k

def maps():
    with open("/proc/self/maps") as f:
        return sum(1 for _ in f)

def stats(*names):
    return [frit.stats()[n] for n in names]
"""

SHARING = CHAINS + """
check([0])
before = maps()
check(range(1, 9))
compiled, loaded, maps_of_code, n_bytes = stats("compiled", "loaded", "code_maps", "code_bytes")
assert compiled == loaded >= 8 and maps_of_code == 2 and n_bytes < 8192 * loaded
assert maps() - before <= 8, maps() - before
for line in open("/proc/self/maps"):
    assert not {"w", "x"} <= set(line.split()[1]), line
"""

UNLOADING = CHAINS + """
check(range(6))
assert stats("loaded", "unloaded") == [6, 0]
with frit.config(code_kb=0):
    check([6])
    assert stats("loaded", "unloaded") == [7, 0]        # plans hold them
    with frit.config(eager_elems=0):
        for k in range(2100):                           # now other plans are
            np.asarray(frit.asarray(np.ones(2 + k))[1:] * 2)
    check([7])
    end = time.time() + 20
    while stats("unloaded")[0] < 6 and time.time() < end:
        time.sleep(0.001)                               # the manager unloads when it has answered
loaded, unloaded = stats("loaded", "unloaded")
assert unloaded >= 6 and loaded <= 4, (loaded, unloaded)
[hits] = stats("disk_hits")
check(range(8))
assert stats("disk_hits")[0] >= hits + 6 and stats("loaded")[0] >= 8 and stats("compiled")[0] <= 10
"""

# Until a little more than the spare sixteenth is left.
SCARCE = CHAINS + """
import ctypes, mmap
most, page = int(open("/proc/sys/vm/max_map_count").read()), mmap.PAGESIZE
if most > 200_000: sys.exit()
mprotect = ctypes.CDLL(None).mprotect
mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
n = most - most // 16 + 500 - maps()
area = mmap.mmap(-1, n * page, prot=mmap.PROT_READ)
spans = [[int(a, 16) for a in line.split()[0].split("-")] for line in open("/proc/self/maps") if line.split()[1] == "r--s"]
[start] = [low for low, high in spans if high - low == n * page]
for i in range(1, n, 2):
    assert mprotect(start + i * page, page, 0) == 0
before = maps()
assert before > most - most // 16
check(range(4))
assert stats("code_maps", "loaded", "jitted") == [0, 0, 0] and maps() - before < 20
threads = [threading.Thread(target=lambda: None) for _ in range(8)]
for t in threads: t.start()
for t in threads: t.join()
mprotect(start, n * page, 1)
check(range(4, 6))
assert stats("code_maps")[0] == 2 and stats("jitted")[0] > 0
"""

# It compiles without end; what it started is not to outlive it, though it goes on as something else.
BECOMING = """
import os, sys, threading, time
import numpy as np, frit
x = frit.asarray(np.linspace(0, 1, 100))

def f(n):
    y = x
    for i in range(n): y = frit.sin(y) + x
    return y.eval()

threading.Thread(target=lambda: [f(60 + i) for i in range(99)], daemon=True).start()
while not os.listdir(os.environ["TMPDIR"]): time.sleep(0.002)
time.sleep(0.1)
assert frit.stats()["helpers_started"] >= 1
print("now", flush=True)
os.execv(sys.argv[1], [sys.argv[1], "60"])
"""

FAILING = CHAINS + """
def later():
    # After a second, or as many as it takes on a busy machine.
    end = time.time() + 20
    for k in range(100, 1000):
        check([k])
        if stats("compiled")[0] or time.time() > end: break
        time.sleep(0.05)
    assert stats("compiled")[0] > 0
    check(range(8))

check(range(8))
frit.wait_for_compiles(20)
assert stats("compiled", "failed", "pending") == [0, 0, 0]
"""


class Programs:
    """All of them, begun at once."""

    def __init__(self, folder):
        self.folder, self.running, self.impossible = folder, {}, {}
        cache = folder / "cache"
        cache.mkdir(mode=0o700)
        self.begin("sharing", SHARING)
        self.begin("unloading", UNLOADING, FRIT_CACHE=1, FRIT_CACHE_DIR=cache)
        self.begin("scarce", SCARCE)
        self.begin("becoming", BECOMING, args=[shutil.which("sleep")], TMPDIR=self.folder_named("left"))
        self.begin("nowhere", FAILING + f"os.mkdir({str(folder / 'nowhere')!r})\nlater()", TMPDIR=folder / "nowhere")
        self.begin_dying()
        self.begin_full()

    def folder_named(self, name):
        (self.folder / name).mkdir()
        return self.folder / name

    def begin(self, name, code, before=(), args=(), **env):
        env = {"FRIT_JIT": "always", "FRIT_CACHE": 0, "PYTHONPATH": os.pathsep.join(sys.path), **env}
        self.running[name] = subprocess.Popen(
            [*before, sys.executable, "-c", code, *args], env={**os.environ, **{k: str(v) for k, v in env.items()}},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def begin_dying(self):
        """Helpers that end as soon as they load their compiler."""
        real = [f for folder in ("lib/*", "lib64", "lib") for f in glob.glob(f"/usr/{folder}/libgccjit.so.0")]
        if not shutil.which("cc") or not real:
            self.impossible["dying"] = "no compiler"
            return
        d = self.folder_named("dying")
        (d / "a.c").write_text("#include <unistd.h>\n__attribute__((constructor)) void f(void) { _exit(3); }\n")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", d / "bad.so", d / "a.c"], check=True)
        (d / "gccjit.so").symlink_to("bad.so")
        (d / "good.so").symlink_to(real[0])
        code = f"assert stats('helpers_started')[0] == 2\nos.replace({str(d / 'good.so')!r}, {str(d / 'gccjit.so')!r})\nlater()"
        self.begin("dying", FAILING + code, FRIT_GCCJIT=d / "gccjit.so")

    def begin_full(self):
        """In a namespace of its own, where that is allowed."""
        d = self.folder_named("full")
        mount = ["unshare", "-m", "sh", "-c", f"mount -t tmpfs -o size=64k none {d} && exec \"$@\"", "sh"]
        if not shutil.which("unshare") or subprocess.run([*mount, "true"], stderr=subprocess.DEVNULL).returncode:
            self.impossible["full"] = "not allowed to mount anything"
            return
        fill = f"open({str(d / 'fill')!r}, 'wb').write(bytes(65536))\n"
        code = f"subprocess.run(['mount', '-o', 'remount,size=50m', {str(d)!r}], check=True)\nlater()"
        self.begin("full", fill + FAILING + code, before=mount, TMPDIR=d)

    def end(self, name):
        """What it said, once it has ended well."""
        if name in self.impossible:
            pytest.skip(self.impossible[name])
        p = self.running[name]
        said, warned = p.communicate(timeout=120)
        assert p.returncode == 0, said + warned
        return warned

    def stop(self):
        for p in self.running.values():
            p.kill()
            p.communicate()


@pytest.fixture(scope="module")
def programs(compiler, tmp_path_factory):  # noqa: F811
    p = Programs(tmp_path_factory.mktemp("programs"))
    yield p
    p.stop()


def test_kernels_share_mappings(programs):
    programs.end("sharing")


def test_what_no_plan_holds_is_unloaded_and_comes_back(programs):
    programs.end("unloading")


def test_mappings_are_left_to_others(programs):
    """Where few are left, kernels are interpreted, and threads start."""
    assert programs.end("scarce").count("frit:") <= 1


def processes_in(folder):
    for f in os.listdir("/proc"):
        try:
            with open(f"/proc/{f}/environ", "rb") as e:
                if f.isdigit() and os.fsencode(f"TMPDIR={folder}/") in e.read():
                    yield int(f)
        except OSError:
            pass


def test_helpers_of_a_parent_that_becomes_another_program(programs):
    """It keeps its children. They end, for nobody reads any more."""
    p, folder = programs.running["becoming"], programs.folder / "left"
    assert p.stdout.readline() == "now\n", p.stderr.read()
    end = time.time() + 20
    while (list(processes_in(folder)) or os.listdir(folder)) and time.time() < end:
        time.sleep(0.01)
    assert p.poll() is None and not list(processes_in(folder)) and not os.listdir(folder)


@pytest.mark.parametrize("name, why", [("nowhere", "nowhere"), ("dying", "died"), ("full", "no room")])
def test_what_fails_for_a_while_warns_once_and_is_tried_again(programs, name, why):
    lines = [line for line in programs.end(name).splitlines() if line.startswith("frit")]
    assert len(lines) == 1 and why in lines[0], lines


# ---- numbers that do not fit

class Device(ct.Structure):
    _fields_ = [("type", ct.c_int), ("id", ct.c_int)]


class Dtype(ct.Structure):
    _fields_ = [("code", ct.c_uint8), ("bits", ct.c_uint8), ("lanes", ct.c_uint16)]


class Exported(ct.Structure):
    _fields_ = [("data", ct.c_void_p), ("device", Device), ("ndim", ct.c_int32), ("dtype", Dtype),
                ("shape", ct.POINTER(ct.c_int64)), ("strides", ct.POINTER(ct.c_int64)), ("offset", ct.c_uint64),
                ("context", ct.c_void_p), ("deleter", ct.c_void_p)]


class Producer:
    """An array of doubles that says of itself what it likes."""

    def __init__(self, memory, shape, strides):
        n = max(len(shape), 1)
        self.memory = memory
        self.shape = (ct.c_int64 * n)(*shape)
        self.strides = None if strides is None else (ct.c_int64 * n)(*strides)
        self.exported = Exported(memory.ctypes.data, Device(1, 0), len(shape), Dtype(2, 64, 1), self.shape, self.strides)

    def __dlpack__(self, **_):
        new = ct.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ct.py_object, [ct.c_void_p, ct.c_char_p, ct.c_void_p]
        return new(ct.addressof(self.exported), b"dltensor", None)

    def __dlpack_device__(self):
        return 1, 0


@pytest.mark.core
@pytest.mark.parametrize("shape, strides", [
    ((3,), (1,)), ((3,), None), ((2, 3), (1, 2)), ((0,), (2**62,)), ((0, 3), (2**62, 2**62)), ((1,), (2**62,)),
    ((1,), (2**60,)), ((1,), (-2**63,)), ((1, 3), (2**62, 1)), ((3, 1), (1, -2**62)), ((), None), ((1, 1), (2**60, 2**62)),
    ((2**40, 2**40), None), ((2**62,), (0,)), ((-1,), None), ((0, 2**62, 2**62), None), ((2**31, 2**31), (1, 1))])
def test_strides_that_nobody_takes(shape, strides):
    """NumPy's answer where there is one: no step, no matter how far it would go."""
    memory = np.arange(8.0)
    producers = [Producer(memory, shape, strides) for _ in range(2)]
    try:
        wanted = np.from_dlpack(producers[0]).copy()
    except (ValueError, BufferError) as e:
        with pytest.raises(type(e)):
            frit.from_dlpack(producers[1])
    else:
        assert_same(np.asarray(frit.from_dlpack(producers[1])), wanted, strides=False)


@pytest.mark.core
@pytest.mark.parametrize("shape, strides", [
    ((2,), (2**60,)), ((2,), (2**62,)), ((2,), (-2**62,)), ((3,), (-2**63,)), ((2, 2), (2**59, 2**59)), ((3, 2), (2**58, 1)),
    ((2**33,), (2**33,)), ((2, 2, 2), (2**58, 2**58, 2**58)), ((2, 2), (1, 2**60)), ((5,), (2**59,))])
def test_strides_beyond_all_addresses(shape, strides):
    """NumPy takes them modulo 2**64."""
    with pytest.raises((BufferError, ValueError), match="strides|further"):
        frit.from_dlpack(Producer(np.arange(8.0), shape, strides))


@pytest.mark.core
@pytest.mark.parametrize("make", [
    lambda x: x, lambda x: (x * 2).eval(), lambda x: x[1:], lambda x: frit.zeros(3), lambda x: frit.arange(0),
    lambda x: frit.asarray(2.0), lambda x: (x + 1).sum().eval(), lambda x: x.T, lambda x: x[::2], lambda x: x * 2])
@pytest.mark.parametrize("kind", ["graph", "loops", "plan"])
def test_what_is_computed_is_explained(make, kind):
    x = frit.asarray(np.arange(6.0))
    t = make(x)
    assert isinstance(t.explain(kind), str)
    assert np.asarray(t).dtype in (np.float64, np.int64)
