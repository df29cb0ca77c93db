"""Small programs and loops over single elements: what counts is all the time they take, from a cold cache."""
import os

import numpy as np

from .tools import loop, program, rest, script, without, without_plots


@program("FFT_python", "Marshmellowon", "none", steps=3)
def recursive_fft(at):
    without_plots()
    without("pylab", rcParams={})
    m, given = script(os.path.join(at, "fft_recursive.py")), []
    x = np.random.RandomState(0).rand(2048)

    def step():
        given[:] = m.fft(x)
    return step, lambda: [np.real(given), np.imag(given)]


@program("alg", "thangnv1205", "none", steps=3)
def fft_of_lists(at):
    m, given = script(os.path.join(at, "Divide_and_Conquer", "Python", "fast_fourier_transform.py")), []
    x = np.random.RandomState(0).rand(2048)

    def step():
        given[:] = m.fft(x)
    return step, lambda: [np.real(given), np.imag(given)]


@program("alg", "thangnv1205", "none", steps=3)
def strassen(at):
    m, rng = script(os.path.join(at, "Divide_and_Conquer", "Python", "strassen_algorithm.py")), np.random.RandomState(0)
    given = []
    a, b = rng.rand(32, 32), rng.rand(32, 32)
    multiply = next(f for name, f in vars(m).items() if "strassen" in name)

    def step():
        given[:] = [multiply(a, b)]
    return step, lambda: given


@program("scipy-lecture-notes", "SciPy lecture notes", "CC BY 4.0", steps=10)
def sieve(at):
    m, whole = rest(os.path.join(at, "intro", "numpy", "solutions", "1_0_prime_sieve.py"), "mask = ", N=1000000)
    return whole, lambda: [m.mask]


@program("Picking", "Mattia Neroni", "MIT", steps=3)
def floyd_warshall(at):
    m, given = script(os.path.join(at, "picking", "floydwarshall", "fast_floyd_warshall.py")), []
    a = np.random.RandomState(0).rand(150, 150)

    def step():
        given[:] = [m.fast_floyd_warshall(a.copy())]
    return step, lambda: given


@program("sorting-algorithms", "Oliver Beresford", "none", steps=3)
def quick_sort(at):
    m, given = script(os.path.join(at, "quick-sort", "quick_sort.py"), before="userinput"), []
    x = np.random.RandomState(0).rand(3000)

    def step():
        given[:] = [x.copy()]
        m.quick_sort(given[0], 0, len(x) - 1)
    return step, lambda: given


@program("Python", "Anurag Kumar (The Algorithms)", "MIT", steps=5)
def game_of_life(at):
    without_plots()
    m = script(os.path.join(at, "cellular_automata", "game_of_life.py"))
    board = m.create_canvas(60)
    m.seed(board)

    def step():
        nonlocal board
        board = m.run(board)
    return step, lambda: [board]


@program("ising2d-python", "Max Cox", "none", steps=5)
def ising(at):
    without_plots()
    m = script(os.path.join(at, "ising2d.py"))
    a = m.init_lattice(24)

    def step():
        return m.ising_run(24, 0.0, a, 2.3, 3000, 500)
    return step, lambda: [a]


@program("phy607-project3", "Zae Moore", "none", steps=5)
def ising_chain(at):
    without_plots()
    without("pymc3", "theano", "theano.tensor", "mpl_toolkits.axes_grid1")
    m = script(os.path.join(at, "project", "main.py"), before="def get_Energy")
    a, given = m.data(20, 0), []

    def step():
        given[:] = m.mcmc(a, 0.4, 1, 4000, 20, 100)[1:5]
    return step, lambda: [a, *given]


@program("reinforcement-learning-an-introduction", "Shangtong Zhang", "MIT", steps=2)
def gamblers_problem(at):
    without_plots()
    m, given = script(os.path.join(at, "chapter04", "gamblers_problem.py")), []
    m.plt.scatter = lambda states, policy: given.append(policy)
    return m.figure_4_3, lambda: [np.array(g) for g in given]


@program("reinforcement-learning-an-introduction", "Shangtong Zhang", "MIT", steps=2)
def grid_world(at):
    without_plots()
    m, given = script(os.path.join(at, "chapter03", "grid_world.py")), []
    m.draw_image = given.append
    return m.figure_3_2, lambda: [np.array(g) for g in given]


@program("reinforcement-learning-an-introduction", "Shangtong Zhang", "MIT", steps=5)
def bandits(at):
    without_plots()
    m, given = script(os.path.join(at, "chapter02", "ten_armed_testbed.py")), []

    def step():
        given[:] = m.simulate(5, 200, [m.Bandit(epsilon=0.1, sample_averages=True), m.Bandit(epsilon=0, UCB_param=2)])
    return step, lambda: given


@program("LearningX", "Anson Wong", "MIT", steps=30)
def q_learning(at):
    m, one_round = loop(os.path.join(at, "classical_RL", "gridworld", "gridworld.py"))
    return one_round, lambda: [m.agent.Q]
