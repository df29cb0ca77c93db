"""The PTX interpreter of tests/cuda/ by ctypes: modules, launches and what they counted; and NVRTC's PTX of a text.

Arrays get addresses of their own, far apart, so that an access beside one is out of bounds."""
import ctypes
import os
import re
import subprocess

import numpy as np

from . import gpu

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cuda")
SOURCES = [os.path.join(FOLDER, f"ptx_{part}.c") for part in ("token", "parse", "operand", "decode", "live", "facts", "alu", "cvt", "memory", "sync", "run")]
FLAGS = ["-std=gnu11", "-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-frounding-math",
         "-fno-strict-aliasing", "-Wall", "-Wextra", "-fPIC"]
FIND = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_bool,
                        *[ctypes.POINTER(ctypes.c_uint64)] * 2)


class Facts(ctypes.Structure):
    _fields_ = [("n_params", ctypes.c_int), ("param_bytes", ctypes.POINTER(ctypes.c_uint32)),
                ("param_offset", ctypes.POINTER(ctypes.c_uint32)),
                *[(name, ctypes.c_uint32) for name in (
                    "all_params_bytes", "shared_bytes", "local_bytes", "n_pred", "n_b16", "n_b32", "n_b64", "n_registers",
                    "max_threads")], ("max_block", ctypes.c_uint32 * 3),
                *[(name, ctypes.c_uint32) for name in ("target", "n_instructions", "contracts_at")], ("recursive", ctypes.c_bool)]


class Memory(ctypes.Structure):
    _fields_ = [("find", FIND), ("arg", ctypes.c_void_p)]


class Launch(ctypes.Structure):
    _fields_ = [("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3), ("dynamic_shared", ctypes.c_uint32),
                ("params", ctypes.c_void_p), ("max_instructions", ctypes.c_uint64), ("n_threads", ctypes.c_int),
                *[(name, ctypes.c_bool) for name in ("allows_races", "backwards", "blurs")]]


class Site(ctypes.Structure):
    _fields_ = [("line", ctypes.c_uint32), ("stores", ctypes.c_bool),
                *[(name, ctypes.c_uint64) for name in ("n_accesses", "n_sectors", "n_ideal")]]


class Counts(ctypes.Structure):
    _fields_ = [*[(name, ctypes.c_uint64) for name in (
        "n_instructions", "n_lane_instructions", "n_threads", "n_blocks", "load_bytes", "store_bytes", "load_sectors",
        "store_sectors", "ideal_load_sectors", "ideal_store_sectors", "n_conflicts", "n_barriers", "n_divergent")],
        ("deepest_call", ctypes.c_uint32), ("n_sites", ctypes.c_uint32), ("sites", Site * 256)]


class Fault(Exception):
    pass


def build(tmp, flags=FLAGS):
    so = os.path.join(tmp, "ptx.so")
    subprocess.run([os.environ.get("CC", "cc"), *flags, "-shared", *SOURCES, "-o", so, "-lm", "-lpthread"], check=True)
    lib = ctypes.CDLL(so)
    lib.ptx_parse.restype = lib.ptx_find.restype = ctypes.c_void_p
    lib.ptx_parse.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
    lib.ptx_find.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    lib.ptx_free.argtypes = [ctypes.c_void_p]
    lib.ptx_facts.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    lib.ptx_variable.restype = ctypes.c_bool
    lib.ptx_variable.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p]
    lib.ptx_launch.argtypes = [*[ctypes.c_void_p] * 4, ctypes.c_char_p, ctypes.c_size_t]
    return lib


def compile_ptx(rtc, text, arch="compute_80", *more):
    """NVRTC's PTX; an AssertionError with its words where the text is wrong."""
    return gpu.compiled(rtc, text, arch, *more)[1]


class Arrays:
    """Global memory: arrays, and where the device has them."""

    def __init__(self):
        self.ranges, self.next = [], 0x7_0000_0000
        self.find = FIND(self._find)

    def add(self, a, writes=True):
        """The address of an array that owns its memory."""
        first = self.next
        self.next += (a.nbytes + 0xffff) // 0x10000 * 0x10000 + 0x10000
        self.ranges.append((first, first + a.nbytes, a.ctypes.data, writes, a))
        return first

    def _find(self, _, address, n, writes, first, end):
        for low, high, host, may_write, _ in self.ranges:
            if low <= address and address + n <= high and (may_write or not writes):
                first[0], end[0] = low, high
                return host + address - low
        return None


class Module:
    def __init__(self, lib, text):
        error = ctypes.create_string_buffer(512)
        self.lib, self.p = lib, lib.ptx_parse(text.encode(), error, len(error))
        if not self.p:
            raise Fault(error.value.decode())

    def __del__(self):
        self.lib.ptx_free(self.p)

    def facts(self, name):
        facts = Facts()
        self.lib.ptx_facts(self.kernel(name), ctypes.byref(facts))
        return facts

    def kernel(self, name):
        k = self.lib.ptx_find(self.p, name.encode())
        assert k, name
        return k

    def variable(self, name):
        at, n = ctypes.c_uint64(), ctypes.c_size_t()
        assert self.lib.ptx_variable(self.p, name.encode(), ctypes.byref(at), ctypes.byref(n)), name
        return at.value, n.value

    def run(self, name, params, grid=1, block=32, memory=None, shared=0, **options):
        """params: arrays (which are passed as bytes) or NumPy numbers. The counts."""
        values = [np.ascontiguousarray(v) for v in params]
        pointers = (ctypes.c_void_p * max(len(values), 1))(*[v.ctypes.data for v in values])
        three = [(n, 1, 1) if isinstance(n, int) else (*n, 1, 1)[:3] for n in (grid, block)]
        launch = Launch((ctypes.c_uint32 * 3)(*three[0]), (ctypes.c_uint32 * 3)(*three[1]), shared,
                        ctypes.addressof(pointers), **{"max_instructions": 10 ** 9, **options})
        counts, error = Counts(), ctypes.create_string_buffer(512)
        mem = Memory(memory.find if memory else FIND(), None)
        if self.lib.ptx_launch(self.kernel(name), ctypes.byref(launch), ctypes.byref(mem), ctypes.byref(counts), error, len(error)):
            raise Fault(error.value.decode())
        return counts


N_PIECES = 4            # of a row, where many blocks share it


class Nests:
    """The CUDA text of a nest on the interpreter; as test_text's Gpu."""

    def __init__(self, interpreter, nest, pointers, scalar_slots, rtc, grid, arch="compute_80", form=(), block=gpu.THREADS, **options):
        self.nest, self.grid, self.options, self.pointers, self.scalar_slots = nest, grid, options, pointers, scalar_slots
        self.block, self.text = block, nest.text(1)
        self.n_phases = int(str(nest).split()[1]) + 1 if b"-DSPLIT=1" in form else 1
        self.keeps = int((re.findall(r"n_kept \* (\d+)\);\n#else", self.text) or [0])[0]) if b"-DSHARED=1" in form else 0
        self.ptx = compile_ptx(rtc, self.text, arch, *form)
        self.module = Module(interpreter, self.ptx)

    def run(self, operands, n_rows, n_inner, scalars=()):
        memory = Arrays()
        ptr, row, inner = self.pointers(operands)
        owners = {id(gpu.owner(a)): gpu.owner(a) for a in operands if not isinstance(a, tuple)}
        there = {k: memory.add(a) for k, a in owners.items()}
        for k, a in enumerate(operands):
            if not isinstance(a, tuple):
                ptr[k] += there[id(gpu.owner(a))] - gpu.owner(a).ctypes.data
        n_scratch = self.nest.scratch() * self.grid * 8 if self.n_phases == 1 else 16 * len(str(self.nest).splitlines()) * n_rows * N_PIECES
        scratch = memory.add(np.full(max(n_scratch, 1), 0xcd, np.uint8))
        rows = 1 if isinstance(self.block, int) else self.block[1]
        shared = rows * self.keeps * ((n_inner + (n_inner >> 7 << 3) + 23) // 16 * 16)
        for phase in range(self.n_phases):
            argument = gpu.arguments(ptr, row, inner, n_rows, n_inner, self.scalar_slots(scalars), scratch, N_PIECES, phase)
            if self.module.facts("frit_nest").all_params_bytes == 8:    # too many: by address
                argument = np.uint64(memory.add(argument, False))
            grid = gpu.blocks(self.text, n_inner, self.block if isinstance(self.block, int) else self.block[0], self.grid)
            counts = self.module.run("frit_nest", [argument], grid, self.block, memory, shared, **self.options)
        return counts
