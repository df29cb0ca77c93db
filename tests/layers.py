"""Draws which folders of csrc/ include which, and fails when an include points to the right.

    base <- core <- ir <- passes <- jit <- backends <- runtime <- bind

Within jit/ the helper program and the generator are programs of their own and may read their
neighbours. Run by `make layers` and `make check`; needs only Python.
"""
import os
import re
import sys

ORDER = ["base", "core", "ir", "passes", "jit", "backends", "runtime", "bind"]
RANK = {name: i for i, name in enumerate(ORDER)}
CSRC = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "csrc")


def includes(root=CSRC):
    """(file, line number, included path) of every quoted include below `root`."""
    for folder, _, names in os.walk(root):
        for name in sorted(names):
            if name.endswith((".c", ".h", ".def")):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as f:
                    for number, line in enumerate(f, 1):
                        m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
                        if m:
                            yield os.path.relpath(path, root), number, m[1]


def main(quiet):
    edges, wrong = {}, []
    for path, number, target in includes():
        here, there = path.split(os.sep)[0], target.split("/")[0]
        if here not in RANK or there not in RANK:
            continue
        edges.setdefault(here, {}).setdefault(there, 0)
        edges[here][there] += 1
        if RANK[there] > RANK[here]:
            wrong.append(f"csrc/{path}:{number}: includes {target}, which is to its right")
    if not quiet:
        width = max(map(len, ORDER))
        print(" " * width, *(f"{n:>8}" for n in ORDER), "   <- includes")
        for here in ORDER:
            row = (edges.get(here, {}).get(there, 0) for there in ORDER)
            print(f"{here:>{width}}", *(f"{n or '.':>8}" for n in row))
    print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main("--quiet" in sys.argv[1:]))
