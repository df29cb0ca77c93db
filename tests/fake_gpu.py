"""The CUDA driver of tests/cuda/driver.c and the cuBLAS of tests/cuda/cublas.c, one library that needs no GPU: built, named to a
process, asked for what it has counted.

    python -m tests.fake_gpu                        where it is; FRIT_DEVICE=cuda FRIT_CUDA_LIB=that FRIT_CUBLAS_LIB=that runs frit on it
    python -m tests.fake_gpu -m tests.fuzz ...      Python with these arguments, on it"""
import ctypes
import functools
import glob
import hashlib
import os
import subprocess
import sys

from . import ptx

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FLAGS = [*ptx.FLAGS, "-fvisibility=hidden", "-shared"]
FIELDS = """n_calls n_launches n_instructions n_lane_instructions load_bytes store_bytes load_sectors store_sectors
    ideal_load_sectors ideal_store_sectors n_conflicts n_barriers n_divergent n_blocks_live bytes_live bytes_peak n_streams n_pools
    n_modules n_contexts n_graphs n_executables n_graph_launches n_pinned_copies n_pinned_live pinned_live pinned_peak n_overlapped""".split()


@functools.cache
def library():
    """The driver's path; it is compiled where its sources have changed."""
    sources = sorted(glob.glob(os.path.join(ptx.FOLDER, "*.c")))
    digest = hashlib.sha256(" ".join(FLAGS).encode())
    for path in sorted(glob.glob(os.path.join(ptx.FOLDER, "*"))):
        with open(path, "rb") as file:
            digest.update(file.read())
    out = os.path.join(ROOT, "build", f"fake-gpu-{digest.hexdigest()[:16]}.so")
    if not os.path.exists(out):
        os.makedirs(os.path.dirname(out), exist_ok=True)
        part = f"{out}.{os.getpid()}"
        subprocess.run([os.environ.get("CC", "cc"), *FLAGS, *sources, "-o", part, "-lm", "-lpthread"], check=True)
        os.replace(part, out)
    return out


def environment(**more):
    """Of a process that runs on it. Code is made the quick way, which has the same bits."""
    return {"FRIT_DEVICE": "cuda", "FRIT_CUDA_LIB": library(), "FRIT_CUBLAS_LIB": library(), "FRIT_JIT": "interpret", **more}


class Counts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in FIELDS]


def counts():
    """What the driver of this process has counted, by name."""
    out = Counts()
    ctypes.CDLL(os.environ["FRIT_CUDA_LIB"]).fake_cuda_counts(ctypes.byref(out))
    return {name: getattr(out, name) for name in FIELDS}


def products():
    """What its cuBLAS has counted: calls, handles that live, calls of gemm, of batches, and products."""
    out = (ctypes.c_uint64 * 5)()
    ctypes.CDLL(os.environ["FRIT_CUBLAS_LIB"]).fake_cublas_counts(out)
    return dict(zip(["n_calls", "n_handles", "n_gemms", "n_batched", "n_products"], out))


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print(library())
    else:
        sys.exit(subprocess.run([sys.executable, *sys.argv[1:]], env={**os.environ, **environment()}).returncode)
