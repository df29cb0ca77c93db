"""What a machine is taken to be where time is estimated: the numbers that are fitted, the files, and the work that they are for."""
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import frit
from benchmarks import neusight
from frit import _machine

from .common import SOAK

S = frit.ShapeDtype


def machine(**other):
    """One on which all can be told apart: 1 ps for a byte of any kind, 2 GB/s in reach of 1 MB, and so on."""
    levels = [1e6, 2.0, 4.0, 5.0, 1e8, 1.0, 2.0, 2.5]
    return {"name": "none", "levels": levels, "all_levels": levels, "kind_ps": [1e-9] * 12, "call_us": [5.0, 1.0, 0.5],
            "figures": figures(), "product_gops": [10.0, 5.0], "all_product_gops": [10.0, 5.0], **other}


def figures(load=0.0, store=0.0, row=0.0, loop=0.0, tail=0.0, wait=0.0, vector=64.0, threads=1.0, shared=0.0):
    return [0.25, load, store, row, loop, tail, wait, vector, threads, shared]


@pytest.fixture(autouse=True)
def as_before():
    before = _machine.found()
    yield
    _machine.use(before)


# ---- work, which says the same on every machine ----

def work(function, *arrays):
    """Kinds of work of all kernels, for one element of the first array."""
    return list(_machine._features(function, *arrays).sum(axis=0) / arrays[0].size)


FLOAT, BITS, CONVERT, DIVIDE, ROOT, WHOLE, SCALAR, SUM, FOLD, FIND, HALF, APART, LOADED, STORED, ROWS, LOOPS, TAILS, WAITS = range(18)


@pytest.mark.parametrize("function, dtype, kinds", [
    (lambda x: x + x * 2, "f4", {FLOAT: 8, LOADED: 4, STORED: 4}), (lambda x: x + x * 2, "f8", {FLOAT: 16, LOADED: 8, STORED: 8}),
    (lambda x: 1 / x, "f4", {DIVIDE: 64, LOADED: 4, STORED: 4}), (lambda x: frit.sqrt(x), "f8", {ROOT: 240, LOADED: 8, STORED: 8}),
    (lambda x: x & 3, "i4", {BITS: 4, LOADED: 4, STORED: 4}), (lambda x: x * x, "i4", {WHOLE: 8, LOADED: 4, STORED: 4}),
    (lambda x: x.astype("f4"), "i4", {CONVERT: 4, LOADED: 4, STORED: 4}),
    (lambda x: x << 1, "u1", {BITS: 7, LOADED: 1, STORED: 1}), (lambda x: x * x, "i1", {WHOLE: 4, LOADED: 1, STORED: 1}),
    (lambda x: x + x, "f2", {FLOAT: 4, HALF: 1, LOADED: 2, STORED: 2}), (lambda x: -x, "f2", {BITS: 4, LOADED: 2, STORED: 2})])
def test_what_an_element_takes(function, dtype, kinds):
    got = work(function, np.ones(4096, dtype))
    assert {k: v for k, v in enumerate(got[:LOOPS]) if v > 0.01} == kinds


def test_rows_are_counted_and_what_is_loaded_again():
    x = np.ones((64, 32), "f4")
    got = [v * x.size for v in work(lambda x: x - x.max(axis=1, keepdims=True), x)]
    assert got[ROWS] == 64 and got[LOOPS] == 128 and got[FOLD] == 4 * x.size and got[STORED] == 4 * x.size and got[TAILS] == 0
    assert got[LOADED] == 8 * x.size
    assert work(lambda x: x.argmax(axis=1), x)[FIND] == 4
    assert work(lambda x: x.sum(axis=1), x)[SUM] == 1 and work(lambda x: x.sum(axis=1), x.astype("i8"))[FOLD] == 8


def test_loops_after_each_other_are_told_apart_and_so_are_their_ends():
    x = np.ones((64, 32), "f4")

    def function(x):
        return x * 2 - (x * 2).sum(axis=1, keepdims=True)
    first, second, *others, once, often = _machine._features(function, x)
    assert first[SUM] == x.size and first[FLOAT] == 4 * x.size and first[STORED] == second[SUM] == 0
    assert second[FLOAT] == 4 * x.size and second[STORED] == 4 * x.size and not np.any(others) and once[STORED] == 0
    _machine.use(machine())
    short = np.ones((64, 20), "f4")     # a vector of 16, and 4
    first, *_, often = _machine._features(function, short)
    assert often[TAILS] == often[LOOPS] == 128 and first[FLOAT] == 4 * 64 * 32, "vectors are full of something"
    _machine.use(machine(figures=figures(vector=16)))
    assert _machine._features(function, short)[-1][TAILS] == 0


def test_vectors_that_lie_across_lines_are_loaded_twice():
    _machine.use(machine())
    x = np.ones((50, 64), "f8")
    inside = work(lambda x: x[:, :-8] + x[:, 8:], x)[LOADED]
    assert work(lambda x: x[:, 1:-7] + x[:, :-8], x)[LOADED] == 1.5 * inside
    assert work(lambda x: x[:, 1:-7] + x[:, 2:-6], x)[LOADED] == 2 * inside
    _machine.use(machine(figures=figures(vector=32)))       # every second one
    assert work(lambda x: x[:, 1:-7] + x[:, 2:-6], x)[LOADED] == 1.5 * inside


def test_rows_that_are_joined_are_one_loop():
    x, row = np.ones((2000, 10), "f4"), np.ones(10, "f4")
    assert work(lambda x: x * row, x)[LOOPS] * x.size == 1 and work(lambda x: x[:40] * row, x)[LOOPS] * x.size == 40


def test_windows_of_one_memory_are_read_once_and_what_is_written_in_place_is_not_brought():
    from frit._estimate import recorded_rows
    n, size = 512, 512 * 512 * 8
    (row,) = recorded_rows(lambda x: x[1:-1, 1:-1] + x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2], [S((n, n), "f8")])
    assert row["bytes"] == size + 8 * (n - 2) ** 2
    assert row["bytes_read"] == 5 * 8 * (n - 2) ** 2        # as it is counted by operand
    (row,) = recorded_rows(lambda x, y: x + y, [S((n, n), "f8"), S((n, n), "f8")])
    assert row["bytes"] == 3 * size

    def f(x):
        x += 1
        return x

    (row,) = recorded_rows(f, [S((n, n), "f8")])
    assert row["bytes"] == 2 * size
    _machine.use(machine())
    assert frit.estimate(f)(S((n, n), "f8")).us == pytest.approx(5.25 + size / 1000 / level(size, 5.0, 2.5), rel=1e-3)


def level(n, near, far):
    """What is taken to hold between 1 and 100 MB."""
    return near + (far - near) * np.log(n / 1e6) / np.log(100)


def test_calls_take_as_long_as_the_function_is_closed_and_has_arrays():
    x = np.ones(10)

    class Model:
        def step(self, x):
            return x + 1

    model = Model()
    _machine.use(machine(call_us=[5.0, 1.0, 0.5, 0.25, 20.0]))
    assert frit.estimate(lambda a: a + 1)(x).overhead_us == 5 + 2 * 0.25
    assert frit.estimate(lambda a, b: (a + b, a - b))(x, x.copy()).overhead_us == 5 + 4 * 0.25
    assert frit.estimate(lambda a: model.step(a))(x).overhead_us == 20 + 2 * 0.25 + 0.5       # it runs: a node is traced
    _machine.use(machine())
    assert frit.estimate(lambda a: a + 1)(x).overhead_us == 5


def test_every_operation_has_some_work():
    """But for what only moves: the micro code of each is counted."""
    for name in ("exp", "sin", "arctan", "tanh", "log1p", "cbrt", "erf", "sinh", "arcsin", "exp2"):
        for dtype in ("f2", "f4", "f8"):
            assert sum(work(getattr(frit, name), np.ones(1024, dtype))[:LOADED]) > 40, (name, dtype)
    for name in ("power", "arctan2", "hypot", "floor_divide", "remainder", "fmod"):
        assert sum(work(lambda x, name=name: getattr(frit, name)(x, x + 1), np.ones(1024))[:LOADED]) > 40, name


# ---- time, from work and a machine ----

def test_time_follows_from_the_machine():
    _machine.use(machine())
    n = 50_000
    e = frit.estimate(lambda x: x * 2)(S(n))        # 0.4 MB read at 2 GB/s and written at 4
    assert e.us == pytest.approx(5.25 + n * 8 * (1 / 2 + 1 / 4) / 1000, rel=1e-3) and e.overhead_us == 5
    far = frit.estimate(lambda x: x * 2)(S(200 * n))
    assert far.us == pytest.approx(200 * n * 8 * (1 / 1 + 1 / 2) / 1000, rel=2e-2)
    _machine.use(machine(kind_ps=[1000.0] + [0.0] * 11))
    slow = frit.estimate(lambda x: x * 2)(S(n))     # a byte takes a nanosecond, beside which memory is little
    assert slow.us == pytest.approx(5.25 + n / 1000 * (8.0 ** 4 + 6.0 ** 4) ** 0.25, rel=0.01)

    def rows(**found):
        _machine.use(machine(figures=figures(**found)))
        return frit.estimate(lambda x: x - x.max(axis=1, keepdims=True))(S((1000, 4))).us
    least = rows()
    assert rows(row=0.1, loop=0.2) - least == pytest.approx((1000 * 0.1 + 2000 * 0.2) / 1000)
    assert rows(wait=0.1) - least == pytest.approx(1000 * 4 * 0.1 / 1000)        # a subtraction takes 4 cycles
    assert rows(tail=0.1) - least == pytest.approx(2000 * 0.1 / 1000) and rows(tail=0.1, vector=32) == rows(vector=32)
    assert rows(row=1000) - least == pytest.approx(1), "the block interpreter takes it sooner"
    _machine.use(machine())
    product = frit.estimate(lambda a, b: a @ b)(S((300, 300)), S((300, 300)))
    assert product.us == pytest.approx(5.25 + 2 * 300 ** 3 / 5 / 1000, rel=0.1)
    _machine.use(machine(levels=[1e6, 1e6, 1e6, 1e6], all_levels=[1e6, 1e6, 1e6, 1e6]))
    few = frit.estimate(lambda a, b: a @ b)(S((1, 300)), S((300, 300)))
    assert few.us == pytest.approx(5.25 + 4 * 2 * 300 ** 2 / 5 / 1000, rel=0.05), "a row by itself takes as long as four"
    both = [frit.estimate(lambda a, b: a @ b)(S((300, 300), d), S((300, 300), d)).us for d in ("c8", "f4")]
    assert both[0] - 5.25 == pytest.approx(4 * (both[1] - 5.25), rel=0.01)


def test_threads_are_used_where_they_are_sooner():
    several = machine(figures=figures(threads=4, shared=10.0), all_levels=[1e6, 8.0, 16.0, 20.0, 1e8, 4.0, 8.0, 10.0],
                      all_product_gops=[40.0, 20.0])
    small, large = S(1000), S(10_000_000)
    _machine.use(machine())
    one = [frit.estimate(lambda x: x * 2)(x).us for x in (small, large)]
    _machine.use(several)
    four = [frit.estimate(lambda x: x * 2)(x).us for x in (small, large)]
    assert four[0] == one[0] and one[1] / 4.1 < four[1] < one[1] / 3.9
    few, many = (frit.estimate(lambda x: x.sum(axis=0))(S(shape)).us for shape in ((10**6, 10), (10**4, 1000)))
    assert few > 3 * many       # columns that are added in order are one thread's, if they are few


@pytest.mark.parametrize("costs", [[1.0] * 12, [1000.0] + [0.0] * 11], ids=["all kinds", "floats"])
def test_lines_of_a_kernel_share_it_by_what_they_do(costs):
    """A node by itself is not counted as what runs, so the measured numbers say nothing of it."""
    def some_lines(x):
        y = x + 1
        y = np.exp(y)
        y = y * 2
        return -y

    _machine.use(machine(kind_ps=costs))
    e = frit.estimate(some_lines)(S(100_000))
    us = {int(at.where.split(":")[-1].split()[0]) - some_lines.__code__.co_firstlineno: at.us for at in e.lines}
    assert sorted(us) == [1, 2, 3, 4] and us[2] > 5 * us[3] and us[1] > 3 * us[3] and us[4] > 3 * us[3] and len(e.kernels) == 1


# ---- GPUs that are not here ----

def test_kernels_of_gpus_are_foreseen():
    """By the numbers as they are; each GPU left out of the fit: benchmarks.neusight, and the next one."""
    sheets, rows = neusight.load()
    errors = {f: neusight.error(sheets, r) for f, r in rows.items()}
    assert errors["element-wise"] <= 6 and errors["softmax"] <= 12 and errors["layer norm"] <= 12 and sum(map(len, rows.values())) > 11_000


@pytest.mark.skipif(not SOAK, reason="long: make soak")
def test_kernels_of_a_gpu_that_was_left_out_are_foreseen():
    found = neusight.left_out(*neusight.load())
    mean = {f: np.mean([errors[f] for errors, _ in found.values()]) for f in neusight.FAMILIES}
    assert len(found) == 5 and mean["element-wise"] <= 10 and mean["softmax"] <= 15 and mean["layer norm"] <= 15, mean


def test_a_function_on_another_machine(tmp_path):
    sheet = {"Device": "one", "Mem_Bw": 1000, "Num_Sm": 100, "Freq": 1500, "SingleFLOPs": 10000, "L2Cache": 40, "Dev_Mem": 40}
    (tmp_path / "one.json").write_text(json.dumps(sheet))
    one = frit.machine.gpu(str(tmp_path / "one.json"))
    assert one == frit.machine.gpu(sheet) and one["memory_bytes"] == 40 * 10**9
    here = frit.estimate(lambda x: x + 1)(S(10_000_000, "f4"))
    there = frit.estimate(lambda x: x + 1, machine=one)(S(10_000_000, "f4"))
    reached = 0.958 * 100 ** 2 / (100 ** 2 + 21.7 ** 2) * 1000
    assert there.us == pytest.approx(21.9 + 8e7 / reached / 1000) and there.machine == "one" and there.peak_bytes == here.peak_bytes
    assert frit.estimate(lambda x: x + 1)(S(10_000_000, "f4")).us == here.us      # only there
    twice = frit.estimate(lambda x: x + 1, machine=frit.machine.gpu({**sheet, "Mem_Bw": 2000}))(S(10_000_000, "f4"))
    assert twice.us - 21.9 == pytest.approx((there.us - 21.9) / 2)
    with pytest.raises(KeyError):
        frit.machine.gpu({"Device": "two"})
    with pytest.raises(ValueError, match="no number"):
        frit.estimate(lambda x: x + 1, machine={"gpu": [0.0] * 9})(S(10))
    assert frit.estimate(lambda x: x + 1)(S(10_000_000, "f4")).us == here.us


def test_joules_are_modelled_where_power_is_known():
    assert frit.estimate(lambda x: x + 1)(S(1000)).joules is None
    e = frit.estimate(lambda x: x + 1, machine=machine(power=[10.0, 20.0, 0.1, 0.0]))(S(1000))
    assert e.joules == pytest.approx(30.0 * e.us / 1e6, rel=1e-3) and e.as_dict()["joules"] == e.joules


# ---- fitting, and files ----

def test_numbers_that_are_not_negative_are_fitted():
    r = np.random.default_rng(3)
    a, x = r.random((40, 7)), np.array([0.0, 3.0, 0.0, 1.5, 0.2, 0.0, 9.0])
    assert np.allclose(_machine._fit(a, a @ x), x, atol=1e-9)
    got = _machine._fit(a, a @ x - 2 * a[:, 0])     # the best has a negative number: not here
    assert (got >= 0).all() and got[0] == 0
    other = np.maximum(got + r.normal(0, 0.1, (200, 7)), 0)
    assert (np.linalg.norm(a @ got - (a @ x - 2 * a[:, 0])) <= np.linalg.norm(a @ other.T - (a @ x - 2 * a[:, 0])[:, None], axis=0) + 1e-9).all()


def test_a_machine_is_a_file(tmp_path):
    file = str(tmp_path / "m.json")
    frit.machine.save(machine(), file)
    assert frit.machine.load(file) == machine() and os.listdir(tmp_path) == ["m.json"]
    for text in ("", "{", "[]", json.dumps({"levels": []})):
        (tmp_path / "m.json").write_text(text)
        with pytest.raises(ValueError, match="is no machine"):
            frit.machine.load(file)
    with pytest.raises(OSError):
        frit.machine.load(str(tmp_path / "none"))


@pytest.mark.parametrize("wrong", [
    {"levels": []}, {"levels": [1e6, 2.0, 0.0, 1.0]}, {"levels": [2e6, 1.0, 1.0, 1.0, 1e6, 1.0, 1.0, 1.0]}, {"levels": [1.0] * 80},
    {"levels": [1e6, 1.0, 1.0]}, {"figures": [1.0] * 8}, {"figures": [0.0] * 7 + [0.5, 1.0, 0.0]},
    {"kind_ps": [1.0]}, {"kind_ps": [-1.0] * 12}, {"kind_ps": ["fast"] * 12}, {"product_gops": [0.0, 1.0]}, {"figures": None},
    {"call_us": [1.0]}, {"call_us": "fast"}, {"call_us": [1.0, -1.0, 1.0]}, {"call_us": [1.0] * 6}])
def test_what_is_no_machine_is_refused_and_nothing_changes(wrong):
    _machine.use(machine())
    before = frit.estimate(lambda x: x * 2)(S(1000)).us
    with pytest.raises((ValueError, TypeError)):
        frit.machine.use(machine(**wrong))
    with pytest.raises(TypeError):
        frit.machine.use(3)
    assert frit.estimate(lambda x: x * 2)(S(1000)).us == before


def test_a_file_that_is_none_is_left_alone(tmp_path):
    (tmp_path / "machine.json").write_text("{}")
    code = "import frit; print(frit.estimate(lambda x: x + 1)(frit.ShapeDtype(10)).us > 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "FRIT_CACHE_DIR": str(tmp_path)})
    assert done.returncode == 0 and done.stdout == "True\n" and "is left alone" in done.stderr
    usage = subprocess.run([sys.executable, "-m", "frit.machine"], capture_output=True, text=True)
    assert usage.returncode == 2 and usage.stderr == "usage: python -m frit.machine calibrate\n"


@pytest.mark.skipif(not SOAK, reason="long: make soak")
def test_this_machine_is_measured(tmp_path):
    done = subprocess.run([sys.executable, "-m", "frit.machine", "calibrate"], capture_output=True, text=True,
                          env={**os.environ, "FRIT_CACHE_DIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    found = frit.machine.load(str(tmp_path / "machine.json"))
    frit.machine.use(found)
    assert found == json.loads(done.stdout) and sum(found["kind_ps"]) > 1
