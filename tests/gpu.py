"""A CUDA device for the tests: NVRTC and the driver by ctypes, one kernel at a time.

compiler() and Device() say by a ValueError why there is none."""
import ctypes
import glob
import os
import struct
import sys

import numpy as np

THREADS = 256       # of a block (csrc/jit/emit_cuda.c)


def compiler():
    """NVRTC out of NVIDIA's wheel."""
    folders = [os.path.join(p, "nvidia") for p in sys.path if os.path.isdir(os.path.join(p, "nvidia"))]
    found = [f for p in folders for f in glob.glob(os.path.join(p, "*", "lib", "libnvrtc.so*"))]
    if not found:
        raise ValueError("the nvidia-cuda-nvrtc wheel is not installed, or has no libnvrtc.so for this machine")
    return ctypes.CDLL(sorted(found)[0])


def compiled(rtc, text, arch, *more):
    """What NVRTC makes of a kernel's text: machine code (empty for compute_*) and PTX; an AssertionError with its words where the text
    is wrong."""
    program, size, out = ctypes.c_void_p(), ctypes.c_size_t(), []
    assert rtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), None, 0, None, None) == 0
    options = [f"--gpu-architecture={arch}".encode(), b"--fmad=false", b"--std=c++17", *more]
    st = rtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    for what in ("CUBIN", "PTX") if st == 0 else ("ProgramLog",):
        assert getattr(rtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)) == 0
        out.append(ctypes.create_string_buffer(size.value))
        assert size.value == 0 or getattr(rtc, "nvrtcGet" + what)(program, out[-1]) == 0
    rtc.nvrtcDestroyProgram(ctypes.byref(program))
    assert st == 0, out[0].value.decode()
    return out[0].raw, out[1].value.decode()


def compile_text(rtc, text, arch):
    """The machine code of a kernel's text."""
    return compiled(rtc, text, arch)[0]


REGISTERS, FRAME = 0x2f, 0x11       # what .nv.info says of a function


def resources(cubin, name):
    """Registers of a thread of a kernel, and the bytes that it has in local memory."""
    def string(at):
        return cubin[at:cubin.index(b"\0", at)].decode()

    table, = struct.unpack_from("<Q", cubin, 0x28)
    size, n, names = struct.unpack_from("<HHH", cubin, 0x3a)
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, table + k * size) for k in range(n)]
    at = {string(headers[names][4] + h[0]): (h[4], h[5]) for h in headers}
    symbols, strings, (info, n_info) = at[".symtab"][0], at[".strtab"][0], at[".nv.info"]
    found, end = {}, info + n_info
    while info < end:
        form, attribute, value = struct.unpack_from("<BBH", cubin, info)
        info += 4
        if form == 4:               # so many bytes follow
            if attribute in (REGISTERS, FRAME):
                symbol, number = struct.unpack_from("<II", cubin, info)
                if string(strings + struct.unpack_from("<I", cubin, symbols + 24 * symbol)[0]) == name:
                    found[attribute] = number
            info += value
    return found[REGISTERS], found[FRAME]


class Device:
    """The first device, with its primary context."""

    def __init__(self):
        try:
            self.cuda = ctypes.CDLL("libcuda.so.1")
        except OSError:
            raise ValueError("there is no CUDA driver") from None
        number, major, minor, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
        if self.cuda.cuInit(0) or self.cuda.cuDeviceGet(ctypes.byref(number), 0):
            raise ValueError("the CUDA driver has no device")
        for value, attribute in ((major, 75), (minor, 76)):
            self.do("cuDeviceGetAttribute", ctypes.byref(value), attribute, number)
        self.arch = f"sm_{major.value}{minor.value}"
        self.do("cuDevicePrimaryCtxRetain", ctypes.byref(context), number)
        self.do("cuCtxSetCurrent", context)

    def do(self, name, *args):
        st = getattr(self.cuda, name)(*args)
        if st:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorString(st, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'unknown error').decode()}")

    def load(self, cubin, name=b"frit_nest"):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.do("cuModuleLoadData", ctypes.byref(module), cubin)
        self.do("cuModuleGetFunction", ctypes.byref(function), module, name)
        return module, function

    def unload(self, module):
        self.do("cuModuleUnload", module)

    def alloc(self, n):
        p = ctypes.c_uint64()
        self.do("cuMemAlloc_v2", ctypes.byref(p), ctypes.c_size_t(max(n, 1)))
        return p.value

    def free(self, p):
        self.do("cuMemFree_v2", ctypes.c_uint64(p))

    def to_device(self, p, host, n):
        if n:
            self.do("cuMemcpyHtoD_v2", ctypes.c_uint64(p), ctypes.c_void_p(host), ctypes.c_size_t(n))

    def to_host(self, host, p, n):
        if n:
            self.do("cuMemcpyDtoH_v2", ctypes.c_void_p(host), ctypes.c_uint64(p), ctypes.c_size_t(n))

    def launch(self, function, grid, args):
        """args: the one struct that the kernel takes, an array of words."""
        params = (ctypes.c_void_p * 1)(args.ctypes.data)
        self.do("cuLaunchKernel", function, grid, 1, 1, THREADS, 1, 1, 0, None, params, None)
        self.do("cuCtxSynchronize")


def blocks(text, n_inner, wide, n):
    """Blocks along x of a kernel: n, but a map's threads have one element of a row each."""
    return max(n, -(-n_inner // wide)) if "#ifndef VEC " in text else n


OUTER = 4           # axes beyond rows and inner (csrc/jit/emit_cuda.h)


def arguments(ptr, row, inner, n_rows, n_inner, scalars, scratch, n_pieces=1, phase=0):
    """struct nest_args of a nest without outer axes, whose accumulators begin; scalars are the bytes of its slots."""
    n = max(len(ptr), 1)
    words = np.zeros(n * (4 + OUTER), np.int64)
    for at, values in ((0, ptr), (n, row), (2 * n, inner)):
        words[at:at + len(values)] = np.frombuffer(bytes(values), np.int64)
    rest = [n_rows, n_inner, *[0] * OUTER, 0, 0, 1, 1, scratch, n_pieces, phase, 0]
    pad = [0] * ((len(words) + len(rest)) % 2)
    return np.concatenate([words, rest, pad, np.frombuffer(bytes(scalars), np.int64)]).astype(np.int64)


def owner(a):
    """The array whose memory a view shows."""
    while isinstance(a.base, np.ndarray):
        a = a.base
    return a
