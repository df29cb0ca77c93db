"""Where NVIDIA's libraries lie that come as Python packages: asked while frit is imported, if FRIT_DEVICE names a GPU."""
import glob
import os
import sys


def find(name: str) -> list[str]:
    """Files that may be lib<name>.so, the likeliest first: those of NVIDIA's packages on sys.path, then of this environment."""
    found: list[str] = []
    for folder in sys.path:
        # (nvidia/cu13/lib of CUDA 13's packages, nvidia/cuda_nvrtc/lib of those before.)
        files = glob.glob(os.path.join(glob.escape(folder or "."), "nvidia", "*", "lib", f"lib{name}.so*"))
        found += sorted((f for f in files if "alt" not in os.path.basename(f)), reverse=True)
    found += sorted(glob.glob(os.path.join(glob.escape(sys.prefix), "lib", f"lib{name}.so*")), reverse=True)
    return [f for i, f in enumerate(found) if f not in found[:i]]
