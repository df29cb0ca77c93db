"""How fast can this machine copy?  The better of plain and non-temporal stores, at a given footprint.

What a row of the table moves is held against a copy that moves as much, so a row that fits the cache is
held against a copy in the cache."""
import ctypes
import os
import shlex
import statistics
import subprocess
import tempfile
import threading
import time

import numpy as np


def load(name, *options):
    """A file in C of this folder, compiled for this machine; None without a compiler."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "built.so")
        try:
            subprocess.run([*shlex.split(os.environ.get("CC", "cc")), "-O3", "-march=native",
                            "-fno-tree-loop-distribute-patterns", *options, "-shared", "-fPIC", "-o", out, source],
                           check=True, stderr=subprocess.DEVNULL)
        except (OSError, subprocess.CalledProcessError):
            return None
        return ctypes.CDLL(out)


def aligned(n):
    a = np.ones(n + 64, np.uint8)
    return a[-a.ctypes.data % 64:][:n]


class Copies:
    """Measures each footprint once."""

    def __init__(self, threads):
        self.threads, self.lib, self.known = threads, load("copy.c"), {}
        for f in (self.lib.copy_plain, self.lib.copy_streamed) if self.lib else ():
            f.argtypes, f.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t], None

    def run(self, f, pairs, n, repeats):
        team = [threading.Thread(target=f, args=(y.ctypes.data, x.ctypes.data, n, repeats)) for x, y in pairs]
        start = time.perf_counter()
        for t in team:
            t.start()
        for t in team:
            t.join()
        return time.perf_counter() - start

    def best(self, n_bytes):
        """Bytes read and written per second where n_bytes are read and written, and by which stores."""
        n = max(int(n_bytes) // 2 // self.threads // 64 * 64, 64)
        n = max(1 << (n.bit_length() - 2), 64) * (n // max(1 << (n.bit_length() - 2), 64))  # fewer sizes
        if n not in self.known:
            pairs = [(aligned(n), aligned(n)) for _ in range(self.threads)]
            found = {}
            for name in ("copy_plain", "copy_streamed"):
                f = getattr(self.lib, name)
                repeats = max(int(2e8 / self.threads) // n // 10, 1)
                self.run(f, pairs, n, repeats)
                took = statistics.median(self.run(f, pairs, n, repeats) for _ in range(7))
                found[name[5:]] = 2 * n * repeats * self.threads / took
            self.known[n] = max((rate, name) for name, rate in found.items())
        return self.known[n]
