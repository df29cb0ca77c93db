"""accelerate(results="tensors"): what calls give and leave stays tensors, computed, where it was computed."""
import pickle
import threading

import numpy as np
import pytest

import frit
from frit import _core


def keeps(f):
    return frit.accelerate(f, results="tensors")


@keeps
def mean_and_largest(x, out):
    out[:] = x * 2
    return x - x.mean(), x.max(), out, 3, "text"


def test_results_are_tensors_and_arguments_arrays():
    x, out = np.arange(6.0), np.zeros(6)
    for _ in range(5):      # also where others would be made again without running
        rest, largest, same, three, text = mean_and_largest(x, out)
        assert type(rest) is frit.Tensor and float(largest) == 5 and isinstance(largest, frit.Tensor)
        assert same is out and out.tolist() == (x * 2).tolist() and (three, text) == (3, "text")
        assert np.asarray(rest).tolist() == (x - x.mean()).tolist()
    assert mean_and_largest.stats.unchanged == 0


def test_what_is_given_is_computed():
    x = np.arange(1000.0)
    rest, largest, *_ = mean_and_largest(x, np.zeros(1000))
    before = _core.stats()["n_evals"]
    rest.tolist(), float(largest)
    assert _core.stats()["n_evals"] == before


def test_tensors_are_arguments_and_go_on_being_written():
    @keeps
    def step(w, x):
        w -= 0.5 * (w - x)
        return w, (w * w).sum()
    w, x = frit.asarray(np.ones(5)), np.arange(5.0)
    want = np.ones(5)
    for _ in range(4):
        same, loss = step(w, x)
        want -= 0.5 * (want - x)
        assert np.asarray(same).tolist() == np.asarray(w).tolist() == want.tolist() and float(loss) == (want * want).sum()


class Model:
    def __init__(self):
        self.w, self.seen, self.log, self.done = [np.ones((3, 2)), np.zeros(2)], {}, [], False

    def step(self, x):
        h = np.tanh(x @ self.w[0] + self.w[1])
        self.w = [self.w[0] + h.sum() * 0.01, self.w[1] + h.mean(0)]
        self.seen["h"] = h
        self.log.append((h.sum(), h[0]))
        self.done = h.max() > 100
        return h


class Kept(Model):
    step = keeps(Model.step)


def test_objects_lists_and_dicts_hold_tensors():
    a, b = Model(), Kept()
    x = np.linspace(-1, 1, 12).reshape(4, 3)
    for _ in range(4):
        want, got = a.step(x), b.step(x)
        assert isinstance(got, frit.Tensor) and np.allclose(want, got, rtol=1e-15)
    assert all(isinstance(v, frit.Tensor) for v in (*b.w, b.seen["h"], *b.log[-1])) and not b.done
    assert all(np.allclose(v, w, rtol=1e-15) for v, w in zip(a.w, b.w))
    assert len(b.log) == 4 and np.allclose(a.log[0][1], b.log[0][1])


def test_calls_within_calls_do_as_the_outer_one():
    plain, kept = frit.accelerate(lambda x: x * 2), keeps(lambda x: x * 2)
    assert type(frit.accelerate(lambda x: kept(x) + 1)(np.ones(3))) is np.ndarray
    assert type(keeps(lambda x: plain(x) + 1)(np.ones(3))) is frit.Tensor
    assert type(plain(np.ones(3))) is np.ndarray


def test_after_an_exception_arrays_are_arrays_again():
    class Box:
        pass
    box = Box()

    @keeps
    def fails(x):
        box.x = x + 1
        raise KeyError("no")
    with pytest.raises(KeyError):
        fails(np.ones(3))
    assert np.asarray(box.x).tolist() == [2, 2, 2]
    assert type(frit.accelerate(lambda x: x + 1)(np.ones(3))) is np.ndarray


def test_other_threads_have_their_own():
    kept, plain, out = keeps(lambda x, f: (f(), x + 1)[1]), frit.accelerate(lambda x: x + 1), []

    def other():
        thread = threading.Thread(target=lambda: out.append(type(plain(np.ones(3)))))
        thread.start()
        thread.join()
    assert type(kept(np.ones(3), other)) is frit.Tensor and out == [np.ndarray]


def test_it_is_pickled_with_it():
    again = pickle.loads(pickle.dumps(mean_and_largest))
    assert type(again(np.arange(6.0), np.zeros(6))[0]) is frit.Tensor


def test_what_else_it_takes_is_said():
    with pytest.raises(ValueError, match="results is 'arrays' or 'tensors', not 'numpy'"):
        frit.accelerate(results="numpy")
    assert frit.accelerate(results="tensors")(abs)(np.array([-1.0])).tolist() == [1]
