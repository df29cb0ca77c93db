"""Where NVIDIA's libraries lie that come as Python packages: asked by csrc/base/library.h when a device is first wanted."""
import glob
import importlib
import os
import sys


def find(name: str) -> list[str]:
    """Files that may be lib<name>.so, the likeliest first: NVIDIA's own finder's, then those of packages on sys.path."""
    found = []
    try:
        found.append(importlib.import_module("cuda.pathfinder").load_nvidia_dynamic_lib(name).abs_path)
    except Exception:   # it is not there, or finds nothing, which it says in several ways
        pass
    for folder in sys.path:
        # (nvidia/cu13/lib of CUDA 13's packages, nvidia/cuda_nvrtc/lib of those before.)
        files = glob.glob(os.path.join(glob.escape(folder or "."), "nvidia", "*", "lib", f"lib{name}.so*"))
        found += sorted((f for f in files if "alt" not in os.path.basename(f)), reverse=True)
    return [f for i, f in enumerate(found) if f and f not in found[:i]]
