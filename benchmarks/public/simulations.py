"""Simulations, filters and pictures."""
import os

import numpy as np

from .tools import loop, program, script, smaller, without, without_plots


@program("nbody-python", "Philip Mocz", "GPL-3")
def nbody(at):
    without_plots()
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


@program("from-python-to-numpy", "Nicolas Rougier", "CC BY-NC-SA", "code")
def reaction(at):
    without_plots()
    m = script(os.path.join(at, "code", "gray_scott.py"))
    return (lambda: m.update(0)), lambda: [m.U, m.V]


@program("from-python-to-numpy", "Nicolas Rougier", "CC BY-NC-SA", "code")
def boids(at):
    without("matplotlib", "matplotlib.pyplot", "matplotlib.animation", "matplotlib.path", "matplotlib.collections")
    m = script(os.path.join(at, "code", "boid_numpy.py"))
    flock = m.Flock(300)
    return flock.run, lambda: [flock.position, flock.velocity]


@program("from-python-to-numpy", "Nicolas Rougier", "CC BY-NC-SA", "code")
def smoke(at):
    import smoke_solver as m
    n, rng = 128, np.random.RandomState(0)
    size = n + 2
    u, v, u0, v0, d, d0 = (rng.rand(size, size) * 0.1 for _ in range(6))

    def step():
        m.vel_step(n, u, v, u0, v0, 0.0, 0.1)
        m.dens_step(n, d, d0, u, v, 0.0, 0.1)
    return step, lambda: [u, v, d]


@program("filterpy", "Roger Labbe", "MIT", ".", steps=100)
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


@program("kalman-filter", "Mohamed Laradji (zziz)", "none", steps=40)
def kalman_example(at):
    m = script(os.path.join(at, "kalman-filter.py"))
    f = m.KalmanFilter(F=np.array([[1, 0.1, 0], [0, 1, 0.1], [0, 0, 1]]), H=np.array([[1.0, 0, 0]]),
                       Q=np.array([[0.05, 0.05, 0], [0.05, 0.05, 0], [0, 0, 0]]), R=np.array([[0.5]]))
    z = np.random.RandomState(0).randn(200)

    def step():
        for one in z:
            f.predict()
            f.update(one)
    return step, lambda: [f.x, f.P]


@program("PythonRobotics", "Atsushi Sakai", "MIT", ".", "Localization/particle_filter", steps=15)
def particle_filter(at):
    without_plots()
    import particle_filter as m
    m.show_animation, m.SIM_TIME = False, 1.0

    def step():
        m.main()
    return step, lambda: [np.random.rand()]


@program("PythonRobotics", "Atsushi Sakai", "MIT", ".", "SLAM/EKFSLAM", steps=15)
def map_and_place(at):
    without_plots()
    import ekf_slam as m
    m.show_animation = False
    marks = np.array([[10.0, -2.0], [15.0, 10.0], [3.0, 15.0], [-5.0, 20.0]])
    x, true, drift, p = np.zeros((3, 1)), np.zeros((3, 1)), np.zeros((3, 1)), np.eye(3)

    def step():
        nonlocal x, true, drift, p
        for _ in range(10):
            true, z, drift, u = m.observation(true, drift, m.calc_input(), marks)
            x, p = m.ekf_slam(x, p, u, z)
    return step, lambda: [x, p]


@program("PRML", "ctgk", "MIT", ".", steps=20)
def particles(at):
    from prml.markov import Particle
    rng, given = np.random.RandomState(0), []
    z = rng.randn(20, 1)

    def nll(observed, state):
        return np.sum((observed - state[:, :1]) ** 2, axis=-1)

    def step():
        given[:] = Particle(rng.randn(500, 2), np.eye(2) * 0.9, np.eye(2) * 0.1, nll).filtering(z)
    return step, lambda: given


@program("latticeboltzmann-python", "Philip Mocz", "GPL-3", steps=6)
def lattice_boltzmann(at):
    without_plots()
    m = script(os.path.join(at, "latticeboltzmann.py"))
    given, real = [], np.ma.array
    np.ma.array = lambda *a, **k: given.append(np.array(a[0])) or real(*a, **k)
    return smaller(m.main, Nt=15, Nx=200, Ny=60), lambda: given


@program("finitevolume-python", "Philip Mocz", "GPL-3", steps=6)
def finite_volume(at):
    without_plots()
    m = script(os.path.join(at, "finitevolume.py"))
    given, real = [], m.getConserved
    m.getConserved = lambda *a: given.append(0.0) or real(*a)
    return smaller(m.main, N=64, tEnd=0.06), lambda: given


@program("stable-fluids", "Gregory Johnson", "Unlicense", steps=20)
def stable_fluids(at):
    from fluid import Fluid
    fluid = Fluid((96, 96), "dye")
    rng = np.random.RandomState(0)
    fluid.velocity[:], fluid.dye[:] = rng.randn(2, 96, 96), rng.rand(96, 96)
    return fluid.step, lambda: [fluid.velocity, fluid.dye]


@program("pySchrodinger", "Jake VanderPlas", "BSD", steps=30)
def schrodinger(at):
    from schrodinger import Schrodinger
    x = 0.1 * (np.arange(2048) - 1024)
    v = np.where(abs(x) < 2, 1.5, 0.0)
    s = Schrodinger(x=x, psi_x0=np.exp(-0.5 * ((x + 60) / 5) ** 2 + 1j * x), V_x=v, m=1.9, k0=-28)

    def step():
        s.time_step(0.01, 50)
        return s.psi_x
    return step, lambda: [s.psi_x.real, s.psi_k.imag]


@program("reaction-diffusion", "Noa Nabeshima", "none", steps=15)
def gray_scott_script(at):
    without("cv2", waitKey=lambda k: 0)
    m, one_round = loop(os.path.join(at, "singular.py"), PPS=1)
    return one_round, lambda: [m.A, m.B]


@program("raytrace", "James Bowman", "BSD-3", steps=10)
def ray_tracer(at):
    m = script(os.path.join(at, "rt3.py"), before="t0 = ")
    eye, to, given = m.E, m.vec3(m.x[::4], m.y[::4], 0), []

    def step():
        given[:] = m.raytrace(eye, (to - eye).norm(), m.scene).components()
    return step, lambda: given


@program("Python-Raytracer", "Rafael de la Fuente", "MIT", steps=6)
def glossy_spheres(at):
    os.chdir(at)
    m = script(os.path.join(at, "example1.py"), before="img = Sc.render")
    m.Sc.camera.__init__(m.vec3(0.0, 0.25, 0.5), m.vec3(0.0, 0.25, -3.0), screen_width=120, screen_height=90)
    given = []

    def step():
        given[:] = [np.asarray(m.Sc.render(samples_per_pixel=1))]
    return step, lambda: given


@program("Python", "Alexandre De Zotti (The Algorithms)", "MIT", "fractals", steps=8)
def julia(at):
    without_plots()
    m = script(os.path.join(at, "fractals", "julia_sets.py"))
    m.ignore_overflow_warnings()
    z, given = m.prepare_grid(2.0, 200), []

    def step():
        given[:] = [m.iterate_function(m.eval_quadratic_polynomial, m.c_polynomial_1, 40, z, infinity=3.0)]
    return step, lambda: [given[0].real, given[0].imag]


@program("Python", "The Algorithms", "MIT", "computer_vision", steps=8)
def optical_flow(at):
    m = script(os.path.join(at, "computer_vision", "horn_schunck.py"))
    rng, given = np.random.RandomState(0), []
    a = rng.rand(120, 120)

    def step():
        given[:] = m.horn_schunck(a, np.roll(a, 1, 0), num_iter=20, alpha=0.1)
    return step, lambda: given


@program("scipy-lecture-notes", "SciPy lecture notes", "CC BY 4.0", steps=10)
def mandelbrot(at):
    without_plots()
    m = script(os.path.join(at, "intro", "numpy", "solutions", "2_4_mandelbrot.py"), before="mandelbrot_set =")
    given = []

    def step():
        with np.errstate(all="ignore"):
            given[:] = [m.compute_mandelbrot(50, 50.0, 301, 201)]
    return step, lambda: given


@program("sph-python", "Philip Mocz", "GPL-3.0", steps=20)
def star(at):
    without_plots()
    m = script(os.path.join(at, "sph.py"))
    rng = np.random.RandomState(42)
    pos, vel, acc = rng.randn(150, 3), np.zeros((150, 3)), np.zeros((150, 3))

    def step():
        nonlocal pos, vel, acc
        vel = vel + acc * 0.02
        pos = pos + vel * 0.04
        acc = m.getAcc(pos, vel, 2 / 150, 0.1, 0.1, 1, 2.01, 1)
        vel = vel + acc * 0.02
    return step, lambda: [pos, vel]
