"""frit.cache.export() and load(): kernels go as one file to a process that has no compiler; damaged and foreign files are
refused as a whole, and leave the cache as it was."""
import ctypes
import hashlib
import json
import os
import random
import subprocess
import sys

import pytest

import frit
import frit.cache

from .common import ROOT

# Three kernels, in a process of its own; what it counted.
COMPUTE = """
import json, sys
import numpy as np
import frit
taken = frit.cache.load(sys.argv[2]) if sys.argv[1] == "load" else None
x = np.linspace(0, 1, 100_000).reshape(100, 1000)
for _ in range(3):
    t = frit.asarray(x)
    assert np.array_equal(np.asarray(t * 2 + 1), x * 2 + 1)
    assert np.array_equal(np.asarray((t * t).sum(axis=1)), (x * x).sum(axis=1))
    assert np.array_equal(np.asarray(t - t.max(axis=1, keepdims=True)), x - x.max(axis=1, keepdims=True))
    frit.wait_for_compiles(60)
if sys.argv[1] == "export":
    taken = frit.cache.export(sys.argv[2])
print(json.dumps({"taken": taken, **{n: frit.stats()[n] for n in ("compiled", "disk_hits", "jitted", "interpreted", "helpers_started")}}))
"""
KERNELS = 3


def compute(what, path, cache, **settings):
    env = {**os.environ, "FRIT_JIT": "always", "FRIT_CACHE_DIR": str(cache), "FRIT_QUIET": "1", **settings}
    done = subprocess.run([sys.executable, "-c", COMPUTE, what, str(path)], cwd=ROOT, env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def without_compiler(folder):
    """The environment of a machine that has neither libgccjit nor a compiler, assembler or linker."""
    (folder / "empty").mkdir(exist_ok=True)
    return {"FRIT_GCCJIT": str(folder / "empty" / "libgccjit.so.0"), "PATH": str(folder / "empty")}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    counts = compute("export", folder / "kernels.frit", folder / "cache")
    if not counts["compiled"]:
        pytest.skip("no compiler on this machine")
    assert counts["compiled"] == counts["taken"] == KERNELS
    assert sorted(os.listdir(folder)) == ["cache", "kernels.frit"]
    return folder / "kernels.frit"


def test_a_machine_without_a_compiler_takes_kernels_from_an_export(exported, tmp_path):
    env = without_compiler(tmp_path)
    none = compute("compute", "", tmp_path / "cache", **env)
    assert none["jitted"] == 0 < none["interpreted"]
    for what, cache, more in (("load", "cache", {}), ("compute", "cache", {}), ("load", "none", {"FRIT_CACHE": "0"})):
        counts = compute(what, exported, tmp_path / cache, **env, **more)
        assert counts["taken"] == (KERNELS if what == "load" else None)
        assert (counts["compiled"], counts["disk_hits"], counts["helpers_started"]) == (0, KERNELS, 0)
        assert counts["interpreted"] == 0 < counts["jitted"]
    assert not (tmp_path / "none").exists()


def test_a_machine_with_a_compiler_uses_them_too_and_exports_them_again(exported, tmp_path):
    counts = compute("load", exported, tmp_path / "cache")
    assert (counts["compiled"], counts["disk_hits"]) == (0, KERNELS)
    counts = compute("export", tmp_path / "again", tmp_path / "cache")
    assert (counts["compiled"], counts["disk_hits"], counts["taken"]) == (0, KERNELS, KERNELS)
    assert (tmp_path / "again").read_bytes() == exported.read_bytes()


@pytest.mark.skipif(len(frit.isa_levels()) < 2, reason="one instruction set")
def test_instruction_sets(exported, tmp_path):
    env = without_compiler(tmp_path)
    assert compute("export", tmp_path / "generic", tmp_path / "a", FRIT_ISA="generic")["taken"] == KERNELS
    counts = compute("load", tmp_path / "generic", tmp_path / "b", **env)       # the higher runs code of the lower
    assert (counts["taken"], counts["compiled"], counts["disk_hits"], counts["interpreted"]) == (KERNELS, 0, KERNELS, 0)
    with pytest.raises(AssertionError, match="UnfitExport: all kernels of the export need -m"):
        compute("load", exported, tmp_path / "c", FRIT_ISA="generic", **env)
    assert not list((tmp_path / "c").glob("*.frit"))


class Head(ctypes.Structure):       # csrc/jit/export.c
    _fields_ = [("magic", ctypes.c_char * 8), ("n_bytes", ctypes.c_uint64), ("format", ctypes.c_uint32), ("machine", ctypes.c_uint32),
                ("codegen", ctypes.c_uint32), ("n_entries", ctypes.c_uint32), ("helper", ctypes.c_uint8 * 32), ("version", ctypes.c_char * 32)]


class Entry(ctypes.Structure):
    _fields_ = [("key", ctypes.c_uint8 * 32), ("helper", ctypes.c_uint8 * 32), ("compiler", ctypes.c_uint8 * 32),
                ("features", ctypes.c_uint8 * 320), ("digest", ctypes.c_uint8 * 32), ("n_bytes", ctypes.c_uint64), ("code", ctypes.c_uint64)]


def digest(data):
    return hashlib.blake2b(data, digest_size=32).digest()


def resealed(data, change):
    """The export with its head and first kernel changed, and a digest that says nothing of it."""
    data = bytearray(data)
    head = Head.from_buffer(data)
    entry = Entry.from_buffer(data, ctypes.sizeof(Head))
    change(head, entry, data)
    del head, entry
    data[-32:] = digest(data[:-32])
    return bytes(data)


def set_code(entry, data, code):
    data[entry.code:entry.code + len(code)] = code
    entry.digest[:] = digest(data[entry.code:entry.code + entry.n_bytes])


def refused(path, data, kind, match=None):
    """load() says so, and has changed nothing."""
    path.write_bytes(data)
    directory = frit.cache.info()["directory"]
    before = [(f.name, f.stat().st_mtime_ns, f.stat().st_size) for f in os.scandir(directory)]
    with pytest.raises(kind, match=match) as raised:
        frit.cache.load(path)
    assert type(raised.value) is kind and issubclass(kind, frit.cache.ExportError)
    assert [(f.name, f.stat().st_mtime_ns, f.stat().st_size) for f in os.scandir(directory)] == before


def test_flipped_bits_and_truncations_are_found(exported, tmp_path):
    whole, rng = exported.read_bytes(), random.Random(5)
    for bit in {*range(0, 8 * ctypes.sizeof(Head), 7), *(rng.randrange(8 * len(whole)) for _ in range(150))}:
        broken = bytearray(whole)
        broken[bit // 8] ^= 1 << bit % 8
        refused(tmp_path / "broken", broken, frit.cache.ForeignExport if bit < 64 else frit.cache.CorruptExport)
    for n in {*range(12), ctypes.sizeof(Head), len(whole) - 1, *(rng.randrange(len(whole)) for _ in range(50))}:
        refused(tmp_path / "broken", whole[:n], frit.cache.CorruptExport)
    refused(tmp_path / "broken", whole + b"\0", frit.cache.CorruptExport)


def test_foreign_files_and_other_builds_are_told_apart(exported, tmp_path):
    whole, path = exported.read_bytes(), tmp_path / "other"
    for data in (b"PK\3\4 a wheel", b"\x7fELF" + whole[4:], os.urandom(500)):
        refused(path, data, frit.cache.ForeignExport, "no export of frit")
    for change, match in ((lambda h, e, d: setattr(h, "format", 2), "format 2, and this frit reads format 1"),
                          (lambda h, e, d: setattr(h, "machine", 243), "another architecture"),
                          (lambda h, e, d: setattr(h, "codegen", 77), "another build"),
                          (lambda h, e, d: (h.helper.__setitem__(0, h.helper[0] ^ 1), setattr(h, "version", b"9.9")), "another build of frit .9.9, ")):
        refused(path, resealed(whole, change), frit.cache.UnfitExport, match)
    for change, match in ((lambda h, e, d: setattr(h, "n_entries", h.n_entries + 1), "fewer kernels"),
                          (lambda h, e, d: setattr(h, "n_entries", h.n_entries - 1), "more in it"),
                          (lambda h, e, d: setattr(e, "n_bytes", 1 << 60), "not as frit writes"),
                          (lambda h, e, d: setattr(e, "code", 1 << 60), "not as frit writes"),
                          (lambda h, e, d: setattr(e, "code", e.code - 1), "code was altered"),
                          (lambda h, e, d: e.features.__setitem__(slice(None), [65] * 320), "not as frit writes"),
                          (lambda h, e, d: e.helper.__setitem__(3, e.helper[3] ^ 1), "not as frit writes"),
                          (lambda h, e, d: d.__setitem__(e.code + 100, d[e.code + 100] ^ 1), "code was altered"),
                          (lambda h, e, d: set_code(e, d, b"not ELF"), "frit-cc did not make")):
        refused(path, resealed(whole, change), frit.cache.CorruptExport, match)
    assert frit.cache.load(exported) == KERNELS
    with pytest.raises(FileNotFoundError):
        frit.cache.load(tmp_path / "nothing")


def test_an_export_appears_whole_or_not_at_all(exported, tmp_path, monkeypatch):
    assert frit.cache.load(exported) == KERNELS
    path = tmp_path / "kernels"
    with pytest.raises(FileNotFoundError):
        frit.cache.export(tmp_path / "no" / "folder")
    assert frit.cache.export(path) >= KERNELS and os.listdir(tmp_path) == ["kernels"]
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")
    for name in ("replace", "fsync"):
        with monkeypatch.context() as m, pytest.raises(OSError, match="No space"):
            m.setattr(os, name, full)
            frit.cache.export(path)
        assert os.listdir(tmp_path) == ["kernels"] and path.read_bytes() == before


def test_without_a_cache_on_disk_there_is_nothing_to_export(tmp_path):
    done = subprocess.run([sys.executable, "-c", "import frit, sys; frit.cache.export(sys.argv[1])", str(tmp_path / "k")], cwd=ROOT,
                          env={**os.environ, "FRIT_CACHE": "0"}, stderr=subprocess.PIPE, text=True)
    assert "OSError: there is no kernel cache on disk" in done.stderr and os.listdir(tmp_path) == []


def fails_once(what, data, n):
    """In a forked process, for a cache that failed once is not asked again: whether the n-th allocation, or operation on files,
    was reached, and what came of it."""
    core = frit._core
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 9
    try:
        before = core.alloc_live()
        core.alloc_fail_at(n)
        try:
            done = core.cache_export("0") if what == "export" else core.cache_load(data, "0")
        except (MemoryError, OSError):
            done = None
        reached = core.alloc_count() >= n
        core.alloc_fail_at(0)
        frit.cache.clear()      # what was taken into memory
        if core.alloc_live() <= before and (done or reached) and (what == "export" or done in (None, KERNELS)):
            code = 0 if not reached else 1 if done else 2
    finally:
        os._exit(code)


@pytest.mark.parametrize("what", ["export", "load"])
def test_every_allocation_and_operation_on_files_may_fail(what, exported):
    """Each time it is done, or says that it is not, and nothing is left behind."""
    data, outcomes = exported.read_bytes(), []
    for n in range(1, 200):
        frit.cache.load(exported)
        outcomes.append(fails_once(what, data, n))
        if outcomes[-1] == 0:
            break
    assert outcomes[-1] == 0 and set(outcomes) == {0, 1, 2}, outcomes
    assert frit.cache.load(exported) == KERNELS
