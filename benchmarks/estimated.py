"""How long calls take beside how long they were estimated to take, on this machine, calibrated once (python -m frit.machine calibrate).

    python -m benchmarks.estimated                          rows of benchmarks.table, and generated functions at three sizes
    python -m benchmarks.estimated --count 30 --show 40     fewer; the worst ones by name

Nothing of what is estimated here was used to fit a number. Times are those of calls of accelerated functions in the steady state,
the fifth of them from below: who disturbs a call is not the function's."""
import argparse
import statistics

import numpy as np

import frit
from benchmarks.cases import CASES
from benchmarks.generated import Function
from frit import _machine


def inputs_of(function, index):
    rng = np.random.default_rng(index)
    return [rng.integers(0, 100, shape).astype(dtype) if np.dtype(dtype).kind in "iu" else rng.standard_normal(shape).astype(dtype)
            for dtype, shape in function.inputs]


def tasks(count, sizes):
    for case in CASES:
        yield case.name, lambda *a, case=case: case.run(np, *a), case.inputs()
    for size in sizes:
        for index in range(count):
            f = Function(11, index, size)
            names = {"np": np}
            exec(f.text, names)
            yield f"{f.kind} {index} of {size}", names["f"], inputs_of(f, index)


def measured(count, sizes, rounds):
    """us of each call in its steady state. Whoever disturbs one of them may do so for seconds: all are measured in turns."""
    best = {}
    with np.errstate(all="ignore"):
        for _ in range(rounds):
            for name, function, arrays in tasks(count, sizes):
                fast = frit.accelerate(function)
                for _ in range(4):
                    fast(*arrays)
                    frit.wait_for_compiles(30)
                best[name] = min(best.get(name, np.inf), _machine._best(lambda f=fast, a=arrays: f(*a), 0.1, 15) / 1000)
    return best


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--count", type=int, default=67)
    p.add_argument("--sizes", default="1000,30000,1000000")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--show", type=int, default=20)
    p.add_argument("--again", action="store_true", help="measure all once more, which tells how alike two measurements are")
    a = p.parse_args()
    sizes = [int(s) for s in a.sizes.split(",")]
    if _machine.found() is None:
        _machine.calibrate()
    took = measured(a.count, sizes, a.rounds)
    rows = [(frit.estimate(function)(*arrays).us, name) for name, function, arrays in tasks(a.count, sizes)]
    for us, name in rows:
        print(f"{name:44}{took[name]:12.2f} us {us:12.2f} estimated {us / took[name]:8.2f}")
    off = sorted((abs(us / took[name] - 1), us / took[name], name) for us, name in rows)
    errors = [x for x, _, _ in off]
    print(f"{len(rows)} calls: median error {100 * statistics.median(errors):.0f} %, within 25 %: "
          f"{100 * sum(x <= 0.25 for x in errors) / len(errors):.0f} %, within a factor of two: "
          f"{100 * sum(0.5 <= r <= 2 for _, r, _ in off) / len(off):.0f} %; geometric mean "
          f"{statistics.geometric_mean(r for _, r, _ in off):.2f}")
    for _, r, name in off[-a.show:]:
        print(f"  {r:8.2f}  {name}")
    if a.again:
        again = measured(a.count, sizes, a.rounds)
        apart = sorted(abs(again[name] / us - 1) for name, us in took.items())
        print(f"measured once more: median difference {100 * statistics.median(apart):.0f} %, within 25 %: "
              f"{100 * sum(x <= 0.25 for x in apart) / len(apart):.0f} %")


if __name__ == "__main__":
    main()
