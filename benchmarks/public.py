"""Public programs as their authors wrote them, fetched and run in place: what do people get who only add the decorator?

    python -m benchmarks.public                         every program, one thread
    python -m benchmarks.public --only two_layer,boids --threads 2

Nothing of them is in this repository. `--at` names the folder of checkouts, one for each repository, by its name alone.
Each program is run by NumPy and by frit in processes of their own; a program is a function that makes a step, which is
called again and again, and what the steps gave, which is compared. Steady: the median of the later steps; total: all of
them from the first, with the kernel cache empty. The ratio is NumPy's time to frit's."""
import argparse
import collections
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import types
from collections import abc

import numpy as np

PROGRAMS = {}
COMPARED = 5        # steps until the states are compared


def program(repository, *folders, steps=60):
    """A function (at) -> (step, state), where step() goes on and state() gives arrays and numbers to be compared."""
    def add(make):
        PROGRAMS[make.__name__] = repository, folders, steps, make
        return make
    return add


class _Anything:
    """A package that is only drawn with, or shows progress."""

    def __getattr__(self, name):
        return _Anything()

    def __call__(self, *args, **kwargs):
        return args[0] if args and isinstance(args[0], (range, list)) else _Anything()

    def __iter__(self):
        return iter(())


def without(*names):
    """Stands in for packages that the programs import and these runs do not need."""
    for name in names:
        if name.startswith(("matplotlib", "mpl_toolkits")) or name not in sys.modules and importlib.util.find_spec(name) is None:
            module = types.ModuleType(name)
            module.__getattr__ = lambda attribute: _Anything()
            module.__path__ = []
            sys.modules[name] = module


def script(path):
    """The names of a script, run as a module of another name than __main__."""
    found = types.ModuleType(os.path.basename(path)[:-3])
    sys.modules[found.__name__] = found
    with open(path, encoding="utf8") as file:
        exec(compile(file.read(), path, "exec"), vars(found))
    return found


# ---- networks of layers that are classes


@program("deep-learning-from-scratch", ".", "ch05")
def two_layer(at):
    from two_layer_net import TwoLayerNet
    net, rng = TwoLayerNet(784, 50, 10), np.random.RandomState(0)
    x, t = rng.rand(100, 784), np.eye(10)[rng.randint(0, 10, 100)]

    def step():
        for _ in range(10):
            grads = net.gradient(x, t)
            for key in net.params:
                net.params[key] -= 0.1 * grads[key]
        return net.loss(x, t)
    return step, lambda: net.params


@program("deep-learning-from-scratch", ".")
def multi_layer_adam(at):
    from common.multi_layer_net_extend import MultiLayerNetExtend
    from common.optimizer import Adam
    net = MultiLayerNetExtend(784, [100] * 5, 10, use_dropout=True, dropout_ration=0.2, use_batchnorm=True)
    optimizer, rng = Adam(), np.random.RandomState(0)
    x, t = rng.rand(100, 784), np.eye(10)[rng.randint(0, 10, 100)]

    def step():
        for _ in range(3):
            optimizer.update(net.params, net.gradient(x, t))
    return step, lambda: net.params


@program("deep-learning-from-scratch", ".", "ch07", steps=20)
def simple_conv(at):
    from common.optimizer import Momentum
    from simple_convnet import SimpleConvNet
    net, optimizer, rng = SimpleConvNet(), Momentum(), np.random.RandomState(0)
    x, t = rng.rand(20, 1, 28, 28), rng.randint(0, 10, 20)

    def step():
        optimizer.update(net.params, net.gradient(x, t))
    return step, lambda: net.params


@program("joelnet", ".")
def joelnet(at):
    from joelnet.data import BatchIterator
    from joelnet.layers import Linear, Tanh
    from joelnet.loss import MSE
    from joelnet.nn import NeuralNet
    from joelnet.optim import SGD
    net = NeuralNet([Linear(10, 50), Tanh(), Linear(50, 4)])
    rng, iterator, loss, optimizer = np.random.RandomState(0), BatchIterator(), MSE(), SGD(lr=1e-5)
    x, y = rng.rand(1000, 10), rng.rand(1000, 4)

    def step():
        total = 0.0
        for batch in iterator(x, y):
            predicted = net.forward(batch.inputs)
            total += loss.loss(predicted, batch.targets)
            net.backward(loss.grad(predicted, batch.targets))
            optimizer.step(net)
        return total
    return step, lambda: [p for p, _ in net.params_and_grads()]


@program("ML-From-Scratch", ".")
def dense_adam(at):
    without("terminaltables", "progressbar", "matplotlib", "matplotlib.pyplot", "matplotlib.cm",
            "matplotlib.colors", "mpl_toolkits", "mpl_toolkits.mplot3d", "cvxopt")
    from mlfromscratch.deep_learning.layers import Activation, Dense, Dropout
    from mlfromscratch.deep_learning.loss_functions import CrossEntropy
    from mlfromscratch.deep_learning.neural_network import NeuralNetwork
    from mlfromscratch.deep_learning.optimizers import Adam
    net, rng = NeuralNetwork(optimizer=Adam(), loss=CrossEntropy), np.random.RandomState(0)
    net.add(Dense(256, input_shape=(64,)))
    net.add(Activation("leaky_relu"))
    net.add(Dropout(0.25))
    net.add(Dense(10))
    net.add(Activation("softmax"))
    x, y = rng.rand(256, 64), np.eye(10)[rng.randint(0, 10, 256)]

    def step():
        return net.train_on_batch(x, y)
    return step, lambda: [layer.W for layer in net.layers if hasattr(layer, "W")]


@program("MLAlgorithms", ".")
def mla_network(at):
    without("matplotlib", "matplotlib.pyplot", "tqdm")       # (autograd has to be there)
    from mla.neuralnet import NeuralNet
    from mla.neuralnet.layers import Activation, Dense, Dropout
    from mla.neuralnet.optimizers import Adam
    rng = np.random.RandomState(0)
    x, y = rng.rand(128, 100), np.eye(10)[rng.randint(0, 10, 128)]
    net = NeuralNet(layers=[Dense(128), Activation("relu"), Dropout(0.1), Dense(10), Activation("softmax")],
                    loss="categorical_crossentropy", optimizer=Adam(), metric="accuracy", batch_size=128, max_epochs=1)
    net._setup_layers(x.shape)
    net.is_training = True

    def step():
        return net.optimizer.train_batch(net, x, y)
    return step, lambda: [p["W"] for p in net.parameters]


@program("DeepLearningPython")
def one_by_one(at):
    from network import Network
    net, rng = Network([784, 30, 10]), np.random.RandomState(0)
    data = [(rng.rand(784, 1), np.eye(10)[:, [k % 10]]) for k in range(10)]

    def step():
        for _ in range(5):
            net.update_mini_batch(data, 0.5)
    return step, lambda: net.weights + net.biases


@program("numpy-ml", ".")
def layer_norm_and_dense(at):
    from numpy_ml.neural_nets.layers import FullyConnected, LayerNorm1D
    dense, norm, rng = FullyConnected(256, act_fn="ReLU", optimizer="SGD(lr=1e-5)"), LayerNorm1D(), np.random.RandomState(0)
    x = rng.rand(128, 100)

    def step():
        y = norm.forward(dense.forward(x))
        dense.backward(norm.backward(y))
        for layer in (dense, norm):
            layer.update()
            layer.flush_gradients()
    return step, lambda: [dense.parameters["W"], dense.parameters["b"]]


@program("numpy-ml", ".", steps=12)
def mixture(at):
    from numpy_ml.gmm import GMM
    x, model = np.random.RandomState(0).rand(200, 2), GMM(C=3, seed=1)
    model._initialize_params(x)

    def step():
        model._E_step(x)
        model._M_step(x)
        return model.likelihood_lower_bound(x)
    return step, lambda: model.parameters


@program("numpy-ml", ".", steps=12)
def hidden_markov(at):
    from numpy_ml.hmm import MultinomialHMM
    rng = np.random.RandomState(0)
    a, b = (rng.dirichlet(np.ones(n), 4) for n in (4, 6))
    model, seen = MultinomialHMM(a, b, np.ones(4) / 4), rng.randint(0, 6, 60)
    given = []

    def step():
        given.append(model.log_likelihood(seen))
        given.append(model.decode(seen)[1])
    return step, lambda: given


# ---- simulations


@program("nbody-python")
def nbody(at):
    without("matplotlib", "matplotlib.pyplot")
    m, rng = script(os.path.join(at, "nbody.py")), np.random.RandomState(17)
    n = 100
    mass, pos, vel = 20.0 * np.ones((n, 1)) / n, rng.randn(n, 3), rng.randn(n, 3)
    acc = m.getAcc(pos, mass, 1.0, 0.1)

    def step():
        nonlocal acc, pos, vel
        for _ in range(10):
            vel += acc * 0.01 / 2.0
            pos += vel * 0.01
            acc = m.getAcc(pos, mass, 1.0, 0.1)
            vel += acc * 0.01 / 2.0
            energy = m.getEnergy(pos, vel, mass, 1.0)
        return energy
    return step, lambda: [pos, vel]


@program("from-python-to-numpy", "code")
def reaction(at):
    without("matplotlib", "matplotlib.pyplot", "matplotlib.animation")
    m = script(os.path.join(at, "code", "gray_scott.py"))
    return (lambda: m.update(0)), lambda: [m.U, m.V]


@program("from-python-to-numpy", "code")
def boids(at):
    without("matplotlib", "matplotlib.pyplot", "matplotlib.animation", "matplotlib.path", "matplotlib.collections")
    m = script(os.path.join(at, "code", "boid_numpy.py"))
    flock = m.Flock(300)
    return flock.run, lambda: [flock.position, flock.velocity]


@program("from-python-to-numpy", "code")
def smoke(at):
    import smoke_solver as m
    n, rng = 128, np.random.RandomState(0)
    size = n + 2
    u, v, u0, v0, d, d0 = (rng.rand(size, size) * 0.1 for _ in range(6))

    def step():
        m.vel_step(n, u, v, u0, v0, 0.0, 0.1)
        m.dens_step(n, d, d0, u, v, 0.0, 0.1)
    return step, lambda: [u, v, d]


@program("filterpy", ".", steps=100)
def kalman(at):
    from filterpy.kalman import KalmanFilter
    f, rng = KalmanFilter(dim_x=4, dim_z=2), np.random.RandomState(0)
    f.F = np.array([[1.0, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]])
    f.H = np.array([[1.0, 0, 0, 0], [0, 0, 1, 0]])
    f.R *= 5
    f.Q *= 0.01
    z = rng.rand(20, 2, 1)

    def step():
        for measured in z:
            f.predict()
            f.update(measured)
    return step, lambda: [f.x, f.P]


# ---- running them


def compared(found):
    """Arrays of numbers of what a program has, in order."""
    values = found.values() if isinstance(found, dict) else found
    return [np.array(v, dtype=float) for v in values]


def run_one(name, library, at):
    repository, folders, steps, make = PROGRAMS[name]
    home = os.path.join(at, repository)
    collections.Hashable = abc.Hashable     # (what older Pythons had)
    sys.path[:0] = [os.path.join(home, f) for f in folders or (".",)]
    np.random.seed(1)
    step, state = make(home)
    if library == "frit":
        import frit
        step = frit.accelerate(step)
    took = []
    for k in range(steps):
        begin = time.perf_counter()
        step()
        took.append(time.perf_counter() - begin)
        if k == COMPARED:       # later, what is chaotic differs by its last bits
            np.savez(os.environ["FRIT_PUBLIC_OUT"], *compared(state()))
    stats = getattr(step, "stats", None)
    print(json.dumps({"steady": statistics.median(took[len(took) // 2:]), "total": sum(took), "stats": str(stats)}))


def run(name, library, at, threads):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "state.npz")
        n = str(threads)
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.public", "--one", name, "--library", library, "--at", at],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "FRIT_PUBLIC_OUT": out, "FRIT_CACHE_DIR": folder, "OMP_NUM_THREADS": n, "FRIT_NUM_THREADS": n,
                 "OPENBLAS_NUM_THREADS": n})
        if done.returncode:
            return None, done.stderr.strip().split("\n")[-1]
        with np.load(out) as arrays:
            return json.loads(done.stdout.strip().split("\n")[-1]), [arrays[k] for k in arrays.files]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--at", default=os.environ.get("FRIT_PUBLIC", "."))
    p.add_argument("--only", default="")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--runs", type=int, default=3)
    p.add_argument("--one")
    p.add_argument("--library", default="numpy")
    a = p.parse_args()
    if a.one:
        run_one(a.one, a.library, a.at)
        return
    names = a.only.split(",") if a.only else PROGRAMS
    ratios = []
    print(f"{'':22s}{'NumPy ms':>10s}{'steady':>8s}{'total':>8s}")
    for name in names:
        results = {"numpy": [], "frit": []}
        for _ in range(a.runs):
            for library, found in results.items():
                found.append(run(name, library, a.at, a.threads))
        failed = [r for found in results.values() for r in found if r[0] is None]
        if failed:
            print(f"{name:22s}  {failed[0][1]}")
            continue
        (theirs, states), (ours, found) = results["numpy"][0], results["frit"][0]
        same = len(states) == len(found) and all(
            x.shape == y.shape and np.allclose(x, y, rtol=1e-4, atol=1e-7, equal_nan=True) for x, y in zip(states, found))
        steady, total = (statistics.median(r[0][k] for r in results["numpy"]) / statistics.median(r[0][k] for r in results["frit"])
                         for k in ("steady", "total"))
        ratios.append(steady)
        print(f"{name:22s}{1e3 * theirs['steady']:10.2f}{steady:8.2f}{total:8.2f}  {'' if same else 'DIFFERENT '}"
              f"{ours['stats'].removeprefix('CallStats')}", flush=True)
    if ratios:
        print(f"median {statistics.median(ratios):.2f}; {sum(r >= 1.3 for r in ratios)} of {len(ratios)} at 1.3 and more, "
              f"{sum(r < 0.97 for r in ratios)} below 0.97")


if __name__ == "__main__":
    main()
