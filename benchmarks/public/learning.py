"""Learning without networks: clusters, mixtures, linear models, hidden states, populations that evolve."""
import os

import numpy as np

from .tools import program, script, without, without_plots


@program("numpy-ml", "David Bourgin", "GPL-3", ".", steps=12)
def mixture(at):
    from numpy_ml.gmm import GMM
    x, model = np.random.RandomState(0).rand(200, 2), GMM(C=3, seed=1)
    model._initialize_params(x)

    def step():
        model._E_step(x)
        model._M_step(x)
        return model.likelihood_lower_bound(x)
    return step, lambda: model.parameters


@program("numpy-ml", "David Bourgin", "GPL-3", ".", steps=12)
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


@program("MLfromscratch", "Patrick Loeber", "MIT", ".", steps=20)
def logistic(at):
    from mlfromscratch.logistic_regression import LogisticRegression
    rng = np.random.RandomState(0)
    model, x, y = LogisticRegression(learning_rate=0.01, n_iters=200), rng.rand(500, 30), rng.randint(0, 2, 500)

    def step():
        model.fit(x, y)
        return model.predict(x[:50])
    return step, lambda: [model.weights, model.bias]


@program("MLfromscratch", "Patrick Loeber", "MIT", ".", steps=20)
def support_vectors(at):
    from mlfromscratch.svm import SVM
    rng = np.random.RandomState(0)
    model, x, y = SVM(n_iters=10), rng.rand(200, 10), rng.randint(0, 2, 200)

    def step():
        model.fit(x, y)
    return step, lambda: [model.w, model.b]


@program("MLfromscratch", "Patrick Loeber", "MIT", ".", steps=8)
def k_means(at):
    without_plots()
    from mlfromscratch.kmeans import KMeans
    x, given = np.random.RandomState(0).rand(200, 4), []
    np.random.seed(1)

    def step():
        model = KMeans(K=4, max_iters=5)
        given.append(model.predict(x))
    return step, lambda: given


@program("MLfromscratch", "Patrick Loeber", "MIT", ".", steps=30)
def principal_components(at):
    from mlfromscratch.pca import PCA
    model, x = PCA(2), np.random.RandomState(0).rand(2000, 20)

    def step():
        model.fit(x)
        return model.transform(x)
    return step, lambda: [abs(model.components), model.mean]


@program("homemade-machine-learning", "Oleksii Trekhleb", "MIT", ".", steps=20)
def homemade_linear(at):
    from homemade.linear_regression import LinearRegression
    rng = np.random.RandomState(0)
    model = LinearRegression(rng.rand(1000, 5), rng.rand(1000, 1), polynomial_degree=0, sinusoid_degree=3)

    def step():
        return model.train(0.01, 1, num_iterations=50)
    return step, lambda: [model.theta]


@program("homemade-machine-learning", "Oleksii Trekhleb", "MIT", ".", steps=8)
def homemade_k_means(at):
    from homemade.k_means import KMeans
    model, given = KMeans(np.random.RandomState(0).rand(300, 2), 3), []

    def step():
        given[:] = model.train(3)
    return step, lambda: given


@program("PRML", "ctgk", "MIT", ".", steps=20)
def variational_mixture(at):
    from prml.rv import VariationalGaussianMixture
    x, model = np.random.RandomState(0).randn(500, 2), VariationalGaussianMixture(n_components=6)

    def step():
        model.fit(x, iter_max=10)
    return step, lambda: [model.alpha, model.mu]


@program("PRML", "ctgk", "MIT", ".", steps=20)
def gaussian_hidden_markov(at):
    from prml.markov import GaussianHMM
    rng = np.random.RandomState(0)
    model = GaussianHMM(initial_proba=np.ones(3) / 3, transition_proba=np.full((3, 3), 1 / 3) + 0.3 * np.eye(3) - 0.1,
                        means=rng.randn(3, 2), covs=np.array([np.eye(2)] * 3))
    x = rng.randn(100, 2)

    def step():
        return model.fit(x, iter_max=3)
    return step, lambda: [model.transition_proba, model.means, model.covs]


@program("PRML", "ctgk", "MIT", ".", steps=30)
def vector_machine(at):
    from prml.kernel import RBF, RelevanceVectorRegressor
    rng = np.random.RandomState(0)
    x = rng.rand(60, 1)
    y, given = np.sin(6 * x[:, 0]) + 0.1 * rng.randn(60), []

    def step():
        model = RelevanceVectorRegressor(RBF(np.array([1.0, 20.0])))
        model.fit(x, y, iter_max=20)
        given[:] = model.predict(x)
    return step, lambda: given


@program("machine_learning_examples", "Lazy Programmer", "none", "unsupervised_class", steps=20)
def expectation(at):
    without_plots()
    without("future", "future.utils")
    import gmm as m
    x, given = np.random.RandomState(0).randn(1200, 2), []

    def step():
        given.append(m.gmm(x, 3, max_iter=5))
    return step, lambda: given


@program("kernel-challenge", "Thomas Michel", "none", "src", steps=30)
def diagonal_mixture(at):
    m = script(os.path.join(at, "src", "gmm.py"))
    x, model = np.random.RandomState(0).rand(2000, 8), m.MyGaussianMixture(5, 8)

    def step():
        model.fit(x, n_iter=3)
    return step, lambda: [model.means_, model.covariances_, model.weights_]


@program("Statistical-Learning-Method_Code", "Dodo", "none", steps=20)
def two_gaussians(at):
    m = script(os.path.join(at, "EM", "EM.py"))
    data, given = m.loadData(-2, 0.5, 0.5, 1, 0.3, 0.7), []

    def step():
        given.append(m.EM_Train(data, iter=50))
    return step, lambda: given


@program("machinelearninginaction3x", "Peter Harrington", "none", steps=10)
def stochastic_ascent(at):
    m = script(os.path.join(at, "Ch05", "logRegres.py"))
    rng, given = np.random.RandomState(0), []
    x, y = rng.rand(200, 20), rng.randint(0, 2, 200)

    def step():
        given.append(m.stocGradAscent1(x, y, 5))
    return step, lambda: given


@program("scikit-opt", "Guo Fei", "MIT", ".", steps=20)
def particle_swarm(at):
    from sko.PSO import PSO
    model = PSO(func=lambda x: (x[0] - 1) ** 2 + (x[1] + 2) ** 2 + x[2] ** 2, n_dim=3, pop=40, max_iter=10, lb=-5, ub=5)

    def step():
        for _ in range(10):
            model.run()
    return step, lambda: [model.gbest_x, model.pbest_x, model.V]


@program("scikit-opt", "Guo Fei", "MIT", ".", steps=12)
def differential_evolution(at):
    from sko.DE import DE
    model = DE(func=lambda x: (x ** 2).sum(), n_dim=10, size_pop=50, max_iter=20, lb=[-5] * 10, ub=[5] * 10)

    def step():
        return model.run()
    return step, lambda: [model.X, model.Y]


@program("pyswarms", "Lester James Miranda", "MIT", ".", steps=20)
def global_best(at):
    without("yaml", "tqdm", "pkg_resources", "matplotlib", "matplotlib.pyplot")     # (attrs has to be there)
    import logging
    logging.disable()
    m = __import__("pyswarms.single.global_best", fromlist=["GlobalBestPSO"])
    from pyswarms.utils.functions import single_obj
    model = m.GlobalBestPSO(n_particles=200, dimensions=20, options={"c1": 0.5, "c2": 0.3, "w": 0.9})

    def step():
        return model.optimize(single_obj.rastrigin, iters=20, verbose=False)
    return step, lambda: [model.swarm.position, model.swarm.pbest_cost]


@program("GeneticAlgorithmPython", "Ahmed Gad", "BSD-3", ".", steps=8)
def genetic(at):
    import pygad
    weights = np.array([4, -2, 3.5, 5, -11, -4.7])
    model = pygad.GA(num_generations=20, num_parents_mating=10, sol_per_pop=20, num_genes=6, random_seed=1,
                     fitness_func=lambda ga, solution, k: 1.0 / (abs(np.sum(solution * weights) - 44) + 1e-6))

    def step():
        model.run()
    return step, lambda: [model.population, model.best_solutions_fitness]


@program("Python", "The Algorithms", "MIT", "machine_learning", steps=8)
def neighbour_embedding(at):
    from t_stochastic_neighbour_embedding import apply_tsne
    x, given = np.random.RandomState(0).rand(150, 8), []

    def step():
        given.append(apply_tsne(x, n_iter=20))
    return step, lambda: given


@program("Numpy-Machine-LearningAlgorithm-Implementations", "mylife126", "none stated", steps=8)
def mixture(at):
    without_plots()
    m = script(os.path.join(at, "Clustering", "GMM_EM.py"))
    rng = np.random.RandomState(0)
    model = m.GMM(3, rng.randn(200, 2) + rng.randint(0, 3, (200, 1)) * 4)

    def step():
        model.Q[...] = 0
        model.Estep()
        model.Q = np.exp(model.Q)
        model.Mstep()
    return step, lambda: [model.mu, model.sig, model.phi]
