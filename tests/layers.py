"""Draws which folders of csrc/ include which, and fails when an include points to the right.

    base <- core <- ir <- passes <- jit <- backends <- runtime <- bind
    bind/: base <- numpy <- tensor <- accelerate <- hot <- module.c

Within jit/ the helper program and the generator are programs of their own and may read their
neighbours. In bind/ no files may name each other's functions round about. `make layers` also says how full each folder is: lines, assertions, places that compare
an operation's name, and circles, which are files that name each other's functions, round about.
Run by `make layers` and `make check`; needs only Python.
"""
import os
import re
import sys

ORDER = ["base", "core", "ir", "passes", "jit", "backends", "runtime",
         "bind/base", "bind/numpy", "bind/tensor", "bind/accelerate", "bind/hot", "bind"]
RANK = {name: i for i, name in enumerate(ORDER)}
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CSRC = os.path.join(ROOT, "csrc")
WIDTH = max(map(len, ORDER))


def sources(root=CSRC):
    """Path below `root` -> text."""
    found = {}
    for folder, _, names in os.walk(root):
        for name in sorted(names):
            if name.endswith((".c", ".h", ".def")):
                with open(os.path.join(folder, name), encoding="utf-8") as f:
                    found[os.path.relpath(f.name, root)] = f.read()
    return found


def layer(path):
    """The folder or room of a file."""
    parts = path.replace(os.sep, "/").split("/")
    room = "/".join(parts[:2])
    return room if room in RANK else parts[0]


def includes(files):
    """(file, line number, included path) of every quoted include."""
    for path, text in files.items():
        for number, line in enumerate(text.splitlines(), 1):
            if m := re.match(r'\s*#\s*include\s+"([^"]+)"', line):
                yield path, number, m[1]


def uses(files):
    """File -> the other files whose shared functions it names."""
    code = {path: re.sub(r"/\*.*?\*/", " ", text, flags=re.S) for path, text in files.items() if path.endswith(".c")}
    home = {name: path for path, text in code.items() for name in re.findall(r"^(fr_\w+)\(", text, re.M)}
    return {path: {home[n] for n in re.findall(r"\bfr_\w+", text) if n in home} - {path} for path, text in code.items()}


def circles(graph):
    """Sets of two and more files that reach each other (Tarjan, 1972)."""
    number, low, stack, found = {}, {}, [], []

    def visit(v):
        number[v] = low[v] = len(number)
        stack.append(v)
        for w in graph.get(v, ()):
            if w not in number:
                visit(w)
            if w in stack:
                low[v] = min(low[v], low[w])
        if low[v] == number[v]:
            at = stack.index(v)
            if len(stack) - at > 1:
                found.append(set(stack[at:]))
            del stack[at:]

    for v in sorted(graph):
        if v not in number:
            visit(v)
    return found


def report(files):
    named = uses(files)
    rows = {}
    for path, text in files.items():
        row = rows.setdefault(layer(path), dict.fromkeys(("files", "lines", "asserts", "op names", "climb", "in circles"), 0))
        row["files"] += 1
        row["lines"] += text.count("\n")
        row["asserts"] += len(re.findall(r"\bFR_ASSERT\(", text))
        row["op names"] += len(re.findall(r"(?:[!=]=|case)\s*FR_OP_[a-z]", text))
        row["climb"] += sum(RANK.get(layer(t), 9) > RANK.get(layer(path), 9) for t in named.get(path, ()))
    round_about = circles(named)
    for path in (p for c in round_about for p in c):
        rows[layer(path)]["in circles"] += 1
    columns = list(next(iter(rows.values())))
    print("\n" + " " * WIDTH, *(f"{c:>10}" for c in columns))
    for folder in ORDER:
        print(f"{folder:>{WIDTH}}", *(f"{rows[folder][c]:>10}" for c in columns))
    print(f"{'all':>{WIDTH}}", *(f"{sum(r[c] for r in rows.values()):>10}" for c in columns))
    print("circles:", *(f"{len(c)} ({', '.join(sorted({layer(p) for p in c}))})" for c in sorted(round_about, key=len, reverse=True)))
    with open(os.path.join(CSRC, "README.md"), encoding="utf-8") as f:
        print("csrc/README.md:", len(f.read().split()), "words")


def faults(files):
    """What is not as it should be, as lines of text."""
    for path, number, target in includes(files):
        if RANK.get(layer(target), -1) > RANK.get(layer(path), len(ORDER)):
            yield f"csrc/{path}:{number}: includes {target}, which is to its right"
    for circle in circles(uses(files)):
        if all(layer(path).startswith("bind") for path in circle):
            yield f"csrc: a circle: {', '.join(sorted(circle))}"


def draw(files):
    count = {}
    for path, _, target in includes(files):
        arrow = layer(path), layer(target)
        count[arrow] = count.get(arrow, 0) + 1
    print(" " * WIDTH, *(f"{n.split('/')[-1]:>10}" for n in ORDER), "   <- includes")
    for here in ORDER:
        print(f"{here:>{WIDTH}}", *(f"{count.get((here, there), '.'):>10}" for there in ORDER))


def main(quiet):
    files = sources()
    wrong = list(faults(files))
    if not quiet:
        draw(files)
        report(files)
    print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main("--quiet" in sys.argv[1:]))
