"""How well frit's estimate foretells kernels of GPUs that it was not fitted on: element-wise, softmax, layer norm.

    python -m benchmarks.neusight                   each device left out of the fit in turn
    python -m benchmarks.neusight --data FOLDER     other measurements in the form of tests/data/neusight, by the constants as they are

The kernels are PyTorch's, measured by NeuSight (MIT, tests/data/neusight): f32[rows, columns]. The time is csrc/backends/estimate.c's,
the machine frit.machine.gpu's; what is fitted are the six numbers of frit._machine.GPU, by robust least squares of logarithms in
which each family weighs the same."""
import argparse
import csv
import glob
import json
import os

import numpy as np

import frit.machine
from frit import _core
from frit._machine import GPU

DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "data", "neusight")
FAMILIES = {"element-wise": "elem", "softmax": "softmax", "layer norm": "ln"}
# Arrays read; plain, slow and costly operations for an element.
OPERATIONS = {"add": (2, 1, 0, 0), "sub": (2, 1, 0, 0), "mul": (2, 1, 0, 0), "div": (2, 0, 1, 0), "pow": (2, 0, 0, 2),
              "relu": (1, 1, 0, 0), "gelu": (1, 4, 0, 1), "tanh": (1, 0, 0, 1), "softmax": (1, 4, 0, 2), "ln": (1, 8, 1, 0)}


def work(op, rows, columns):
    """What PyTorch's kernel does, as _core.estimate_us takes it. Its softmax keeps rows of 1024 in registers; its layer norm goes
    through a row twice, and writes the mean and the deviation as well."""
    reads, *ops = OPERATIONS.get(op) or (1, *OPERATIONS[op.removesuffix("u")][1:])      # ..u: with a number
    n = rows * columns
    passes, threads, outputs = ((1 if columns <= 1024 else 2, 256 if columns < 2048 else 512, 1) if op == "softmax" else
                                (2, 128, 3) if op == "ln" else (0, 0, 1))
    return (4.0 * n * reads, 4.0 * n, *(float(n * k) for k in ops), outputs, passes, 4.0 * columns, threads)


def load(folder=DATA):
    """(data sheets by device, {family: [(device, work, ms)]})"""
    sheets = {}
    for path in glob.glob(os.path.join(folder, "*.json")):
        with open(path, encoding="utf8") as file:
            sheet = json.load(file)
        sheets[sheet["Device"]] = sheet
    rows = {}
    for family, name in FAMILIES.items():
        rows[family] = []
        for path in glob.glob(os.path.join(folder, f"*_{name}.csv")):
            with open(path, encoding="utf8") as file:
                rows[family] += [(r["device"], work(r["op"], int(r["rows"]), int(r["columns"])), float(r["latency_ms"]))
                                 for r in csv.DictReader(file)]
    return sheets, rows


def ratios(sheets, rows, constants=None):
    """Estimated over measured, of one family."""
    out = np.empty(len(rows))
    machines = {}
    for i, (device, _, _) in enumerate(rows):
        machines.setdefault(device, []).append(i)
    for device, which in machines.items():
        frit.machine.use(frit.machine.gpu(sheets[device], constants))
        for i in which:
            out[i] = _core.estimate_us(*rows[i][1]) / 1000 / rows[i][2]
    frit.machine.use(None)
    return out


def fit(sheets, rows):
    from scipy.optimize import least_squares
    names, start = list(GPU), np.array([20, 8, 0.9, 20, 6, 20.0])

    def off(x):
        constants = dict(zip(names, np.maximum(x, 1e-6)))
        return np.concatenate([np.log(ratios(sheets, r, constants)) * 50 / np.sqrt(len(r)) for r in rows.values() if r])
    return dict(zip(names, least_squares(off, start, loss="soft_l1", f_scale=0.125, x_scale=start).x))


def error(sheets, rows, constants=None):
    """Mean absolute percentage error."""
    return 100 * np.mean(np.abs(ratios(sheets, rows, constants) - 1)) if rows else float("nan")


def left_out(sheets, rows):
    """{device: ({family: error}, the numbers that the others gave)}"""
    out = {}
    for device in sorted({d for r in rows.values() for d, _, _ in r}, key=lambda d: sheets[d]["Mem_Bw"]):
        constants = fit(sheets, {f: [k for k in r if k[0] != device] for f, r in rows.items()})
        out[device] = {f: error(sheets, [k for k in r if k[0] == device], constants) for f, r in rows.items()}, constants
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", default=DATA)
    a = p.parse_args()
    sheets, rows = load(a.data)
    print(f"{'mean absolute error in %':28}" + "".join(f"{f:>14}" for f in FAMILIES))
    for device in sorted({d for r in rows.values() for d, _, _ in r}):
        print(f"{device:28}" + "".join(f"{error(sheets, [k for k in r if k[0] == device]):14.1f}" for r in rows.values()))
    if a.data == DATA:
        found = left_out(sheets, rows)
        print("each left out of the fit")
        for device, (errors, constants) in found.items():
            print(f"{device:28}" + "".join(f"{e:14.1f}" for e in errors.values()), {k: round(float(v), 2) for k, v in constants.items()})
        print(f"{'mean':28}" + "".join(f"{np.mean([e[f] for e, _ in found.values()]):14.1f}" for f in FAMILIES))


if __name__ == "__main__":
    main()
