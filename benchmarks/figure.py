"""The README's figure, docs/figures/bench.svg: frit and its peers on rows of `make bench`, which draws it anew.

    python -m benchmarks.figure [benchmarks/results/COMMIT.json]     of that run, or of the newest
    python -m benchmarks.figure --programs FILE                      the README's table, of benchmarks.public --json FILE

The numbers that are drawn are kept beside it, in docs/figures/*.json, so that it can be drawn again. A bar is NumPy's time
over the library's: 2 is twice NumPy's speed. The axis is logarithmic; what has no bar was not stated for that library, or gave
a wrong result."""
import glob
import json
import os
import statistics
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER = os.path.join(ROOT, "docs", "figures")
ROWS = ("a*b+c f32 1 M", "gelu f32 1 M", "Black-Scholes f64 1 M", "sum(a*b) f32 1 M", "variance f32 1 M", "log-sum-exp f32 1 M",
        "softmax of rows f32 4096x1024", "layer norm forward f32 4096x1024", "5-point stencil f64 2000x2000",
        "Adam step, 20 tensors f32 1.1 M")
# Colours that are told apart on white and on black, also by those who see few of them.
SERIES = (("frit accelerate", "frit", "#d1495b"), ("numexpr", "numexpr", "#8d96a3"), ("numba", "Numba", "#2e9e6b"),
          ("jax", "JAX", "#3d7ebf"),
          ("torch", "torch", "#e0a030"), ("torch compile", "torch.compile", "#9a6fb0"))
LEFT, RIGHT, TOP, BAR, GAP = 250, 60, 78, 9, 12
WIDTH = 860
STYLE = """text{font:13px system-ui,sans-serif;fill:#1f2328}.s{font-size:11px;fill:#59636e}.g{stroke:#d1d9e0}.o{stroke:#59636e}
.b{fill:#fff}
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.s{fill:#9198a1}.g{stroke:#3d444d}.o{stroke:#9198a1}.b{fill:#0d1117}}"""


def picked(saved):
    """What of a run is drawn: {"rows": {row: {library: speed}}} of its smallest number of threads, which others disturb least, and
    where it was made."""
    threads = min(saved["threads"], key=int)
    table = saved["threads"][threads]
    rows = {row: {name: round(table[row]["numpy"] / table[row][name], 3) for name, _, _ in SERIES if name in table[row]}
            for row in ROWS if row in table and "numpy" in table[row]}
    if not rows:
        raise SystemExit(f"the run has none of the rows that are drawn: {', '.join(ROWS)}")
    return {"threads": int(threads), "rows": rows, **{k: saved.get(k) for k in ("commit", "date", "machine", "processors",
                                                                                "python", "libraries")}}


def position(speed, least, most):
    """Where a speed is on the logarithmic axis."""
    import math
    share = math.log(speed / least) / math.log(most / least)
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def escaped(text):
    return str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def drawn(p):
    """The figure as SVG, of what picked() gives."""
    speeds = [s for row in p["rows"].values() for s in row.values()]
    least, most = min(0.5, *speeds), max(2.0, *speeds)
    series = [s for s in SERIES if any(s[0] in row for row in p["rows"].values())]
    height_of_row = BAR * len(series) + GAP
    height = TOP + height_of_row * len(p["rows"]) + 52
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="Speed of frit and '
           f'other libraries, '
           f'NumPy is 1"><style>{STYLE}</style><rect width="{WIDTH}" height="{height}" class="b"/>',
           f'<text x="12" y="22">Times NumPy\'s speed, {p["threads"]} thread{"s" * (p["threads"] > 1)}, later calls (longer is '
           f'faster)</text>']
    x = 12
    for _, name, colour in series:
        out.append(f'<rect x="{x}" y="36" width="11" height="11" fill="{colour}"/><text x="{x + 16}" y="46">{name}</text>')
        x += 34 + 8 * len(name)
    bottom = height - 46
    for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100):
        if least <= tick <= most:
            at = position(tick, least, most)
            out.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{TOP - 10}" y2="{bottom}" class="{"o" if tick == 1 else "g"}"/>'
                       f'<text x="{at:.1f}" y="{TOP - 14}" class="s" text-anchor="middle">{tick:g}</text>')
    one, y = position(1, least, most), TOP
    for row, speeds in p["rows"].items():
        out.append(f'<text x="{LEFT - 10}" y="{y + height_of_row / 2}" text-anchor="end">{escaped(row)}</text>')
        for name, _, colour in series:
            if name in speeds:
                at = position(speeds[name], least, most)
                out.append(f'<rect x="{min(one, at):.1f}" y="{y}" width="{max(abs(at - one), 1):.1f}" height="{BAR - 1}" '
                           f'fill="{colour}"/>'
                           f'<text x="{max(one, at) + 4:.1f}" y="{y + BAR - 1}" class="s" '
                           f'style="font-size:9px">{speeds[name]:.2g}</text>')
            y += BAR
        y += GAP
    versions = ", ".join(f"{k} {v}" for k, v in sorted((p["libraries"] or {}).items()) if k != "frit")
    out += [f'<text x="12" y="{height - 24}" class="s">{escaped(p["machine"])}, {p["processors"]} processors, {p["date"]}, '
            f'commit {p["commit"]}'
            ' (python -m benchmarks.table)</text>',
            f'<text x="12" y="{height - 8}" class="s">Python {p["python"]}, {escaped(versions)}</text>', "</svg>"]
    return "\n".join(out) + "\n"


# What is in the README's table: a program's name, and what it is.
PROGRAMS = {
    "bandits": "multi-armed bandits", "boids": "flocking birds", "reaction": "reaction and diffusion",
    "gamblers_problem": "dynamic programming",
    "hidden_markov": "hidden Markov model", "particle_filter": "particle filter", "finite_volume": "finite-volume fluid",
    "pico_gpt": "GPT-2",
    "mandelbrot": "Mandelbrot set", "lattice_boltzmann": "lattice Boltzmann fluid", "smoke": "smoke", "nbody": "bodies by gravity",
    "simple_conv": "convolutional network", "char_rnn_script": "character RNN", "multi_layer_adam": "network, by Adam",
    "map_and_place": "robot that maps and places itself", "kalman": "Kalman filter", "joelnet": "network of layers",
    "two_layer": "network, 78 % products of matrices", "sieve": "sieve of Eratosthenes",
    "vector_machine": "relevance vector machine"}


def programs_table(saved):
    """The README's table as Markdown, of what benchmarks.public has written."""
    rows = []
    for name, what in PROGRAMS.items():
        r = saved["programs"].get(name)
        if r is not None:
            bits = "NumPy's bits" if r["bits"] == "=" else "close"
            rows.append(f"| {what} ({r['repository']}, {r['author']}) | {r['step_ms']:.3g} | {r['steady']:.1f} | "
                        f"{r['total']:.1f} | {bits} |")
    every = saved["programs"].values()
    steady, total = (statistics.median(r[k] for r in every) for k in ("steady", "total"))
    said = (f"{len(every)} programs of {len({r['repository'] for r in every})} repositories, {saved['machine']}, {saved['date']}, "
            f"{saved['threads']} thread{'s' * (saved['threads'] > 1)}: the median is {steady:.1f} times NumPy's speed in later steps "
            f"and {total:.1f} over all steps; {sum(r['steady'] >= 1.3 for r in every)} are at 1.3 and more, "
            f"{sum(r['steady'] < 0.97 for r in every)} below 0.97. Some of them:\n")
    head = [said, "| program | NumPy, ms a step | times NumPy's speed, later steps | all steps, with the first | results |",
            "|---|---|---|---|---|"]
    return "\n".join(head + rows) + "\n"


def into_readme(table):
    """Puts the table between its marks."""
    path = os.path.join(ROOT, "README.md")
    with open(path, encoding="utf-8") as f:
        before, begin, rest = f.read().partition("<!-- programs -->\n")
    _, end, after = rest.partition("<!-- end -->\n")
    if not begin or not end:
        raise SystemExit("README.md has no marks <!-- programs --> and <!-- end -->")
    with open(path, "w", encoding="utf-8") as f:
        f.write(before + begin + table + end + after)


def main(arguments):
    if arguments[:1] == ["--programs"]:
        if len(arguments) != 2:
            raise SystemExit("usage: python -m benchmarks.figure --programs FILE, which benchmarks.public --json FILE has written")
        with open(arguments[1], encoding="utf-8") as f:
            saved = json.load(f)
        with open(os.path.join(FOLDER, "programs.json"), "w", encoding="utf-8") as f:
            f.write(json.dumps(saved, indent=1) + "\n")
        into_readme(programs_table(saved))
        return
    paths = arguments or sorted(glob.glob(os.path.join(ROOT, "benchmarks", "results", "*.json")), key=os.path.getmtime)[-1:]
    if not paths:
        raise SystemExit("there is no run in benchmarks/results: python -m benchmarks.table makes one")
    with open(paths[0], encoding="utf-8") as f:
        p = picked(json.load(f))
    os.makedirs(FOLDER, exist_ok=True)
    for name, text in (("bench.json", json.dumps(p, indent=1) + "\n"), ("bench.svg", drawn(p))):
        with open(os.path.join(FOLDER, name), "w", encoding="utf-8") as f:
            f.write(text)
    print(f"drawn: docs/figures/bench.svg, {len(p['rows'])} rows")


if __name__ == "__main__":
    main(sys.argv[1:])
