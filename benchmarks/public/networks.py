"""Networks from scratch: layers and models that are classes, in packages of several modules."""
import os

import numpy as np

from .tools import program, script, without


@program("deep-learning-from-scratch", "Koki Saitoh", "MIT", ".", "ch05")
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


@program("deep-learning-from-scratch", "Koki Saitoh", "MIT", ".")
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


@program("deep-learning-from-scratch", "Koki Saitoh", "MIT", ".", "ch07", steps=20)
def simple_conv(at):
    from common.optimizer import Momentum
    from simple_convnet import SimpleConvNet
    net, optimizer, rng = SimpleConvNet(), Momentum(), np.random.RandomState(0)
    x, t = rng.rand(20, 1, 28, 28), rng.randint(0, 10, 20)

    def step():
        optimizer.update(net.params, net.gradient(x, t))
    return step, lambda: net.params


@program("joelnet", "Joel Grus", "MIT", ".")
def joelnet(at):
    from joelnet.data import BatchIterator
    from joelnet.layers import Linear, Tanh
    from joelnet.loss import MSE
    from joelnet.nn import NeuralNet
    from joelnet.optim import SGD
    net = NeuralNet([Linear(10, 50), Tanh(), Linear(50, 4)])
    rng, iterator, loss, optimizer = np.random.RandomState(0), BatchIterator(), MSE(), SGD(lr=0.00005)
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


@program("ML-From-Scratch", "Erik Linder-Norén", "MIT", ".")
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


@program("MLAlgorithms", "Artem Golubin", "MIT", ".")
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


@program("DeepLearningPython", "Michał Dobrzański, Michael Nielsen", "MIT")
def one_by_one(at):
    from network import Network
    net, rng = Network([784, 30, 10]), np.random.RandomState(0)
    data = [(rng.rand(784, 1), np.eye(10)[:, [k % 10]]) for k in range(10)]

    def step():
        for _ in range(5):
            net.update_mini_batch(data, 0.5)
    return step, lambda: net.weights + net.biases


@program("numpy-ml", "David Bourgin", "GPL-3", ".")
def layer_norm_and_dense(at):
    from numpy_ml.neural_nets.layers import FullyConnected, LayerNorm1D
    dense, norm, rng = FullyConnected(256, act_fn="ReLU", optimizer="SGD(lr=0.001)"), LayerNorm1D(), np.random.RandomState(0)
    x = rng.rand(128, 100)

    def step():
        y = norm.forward(dense.forward(x))
        dense.backward(norm.backward(y))
        for layer in (dense, norm):
            layer.update()
            layer.flush_gradients()
    return step, lambda: [dense.parameters["W"], dense.parameters["b"]]


@program("deepnet", "Paras Dahal", "MIT", ".", steps=12)
def deepnet_conv(at):
    without("matplotlib", "matplotlib.pyplot")
    from deepnet.layers import Conv, Flatten, FullyConnected, Maxpool, ReLU
    from deepnet.nnet import CNN
    from deepnet.solver import momentum_update
    rng = np.random.RandomState(0)
    conv = Conv((1, 14, 14), n_filter=8, h_filter=3, w_filter=3, stride=1, padding=1)
    x, y = rng.rand(20, 1, 14, 14), rng.randint(0, 10, 20)
    pool = Maxpool(conv.out_dim, size=2, stride=1)
    net = CNN([conv, ReLU(), pool, Flatten(), FullyConnected(np.prod(pool.out_dim), 10)])
    velocity = [[np.zeros_like(p) for p in layer] for layer in net.params]

    def step():
        loss, grads = net.train_step(x, y)
        momentum_update(velocity, net.params, grads, learning_rate=0.01)
        return loss
    return step, lambda: [p for layer in net.params for p in layer]


@program("hipsternet", "Augustinus Kristiadi", "Unlicense", ".", steps=20)
def hipster_net(at):
    import hipsternet.neuralnet as nn
    import hipsternet.solver as solver
    rng = np.random.RandomState(0)
    net, x, y = nn.FeedForwardNet(64, 10, H=128), rng.rand(512, 64), rng.randint(0, 10, 512)

    def step():
        solver.adam(net, x, y, mb_size=64, n_iter=10, print_after=1000)
    return step, lambda: net.model


@program("cnn-from-scratch", "Victor Zhou", "MIT", ".", steps=12)
def conv_by_regions(at):
    rng = np.random.RandomState(0)
    without("mnist", train_images=lambda: rng.randint(0, 256, (40, 28, 28)), train_labels=lambda: rng.randint(0, 10, 40),
            test_images=lambda: rng.randint(0, 256, (4, 28, 28)), test_labels=lambda: rng.randint(0, 10, 4))
    m = script(os.path.join(at, "cnn.py"), before="for epoch in range")
    images = iter(m.train_images)

    def step():
        for _ in range(2):
            m.train(next(images), 3)
    return step, lambda: [m.conv.filters, m.softmax.weights]


@program("DeepLearning", "Yusuke Sugomori", "MIT", "python")
def boltzmann(at):
    m = script(os.path.join(at, "python", "RBM.py"))
    rng = np.random.RandomState(0)
    x = (rng.rand(100, 196) > 0.5).astype(float)
    model = m.RBM(input=x, n_visible=196, n_hidden=64, rng=rng)

    def step():
        for _ in range(3):
            model.contrastive_divergence(lr=0.1, k=1)
        return model.get_reconstruction_cross_entropy()
    return step, lambda: [model.W, model.hbias, model.vbias]


@program("DeepLearning", "Yusuke Sugomori", "MIT", "python")
def autoencoder(at):
    m = script(os.path.join(at, "python", "dA.py"))
    rng = np.random.RandomState(0)
    x = (rng.rand(100, 196) > 0.5).astype(float)
    model = m.dA(input=x, n_visible=196, n_hidden=64, rng=rng)

    def step():
        for _ in range(5):
            model.train(lr=0.1, corruption_level=0.3)
        return model.negative_log_likelihood(corruption_level=0.3)
    return step, lambda: [model.W, model.hbias, model.vbias]


@program("mlxtend", "Sebastian Raschka", "BSD-3", ".", steps=20)
def perceptron_fit(at):
    from mlxtend.classifier import MultiLayerPerceptron
    rng = np.random.RandomState(0)
    x, y = rng.rand(500, 20), rng.randint(0, 3, 500)
    model = MultiLayerPerceptron(hidden_layers=[50], epochs=5, eta=0.05, minibatches=10, random_seed=1)

    def step():
        model.fit(x, y)
    return step, lambda: [*model.w_.values(), *model.b_.values(), model.cost_]


@program("ILearnDeepLearning.py", "Piotr Skalski", "MIT",
         "01_mysteries_of_neural_networks/06_numpy_convolutional_neural_net", steps=20)
def sequential(at):
    from src.activation.relu import ReluLayer
    from src.activation.softmax import SoftmaxLayer
    from src.layers.dense import DenseLayer
    from src.model.sequential import SequentialModel
    from src.optimizers.adam import Adam
    rng = np.random.RandomState(0)
    x, y = rng.rand(600, 50), np.eye(10)[rng.randint(0, 10, 600)]
    layers = [DenseLayer.initialize(50, 100), ReluLayer(), DenseLayer.initialize(100, 100), ReluLayer(),
              DenseLayer.initialize(100, 10), SoftmaxLayer()]
    model = SequentialModel(layers, Adam(lr=0.003))

    def step():
        model.train(x, y, x[:100], y[:100], epochs=1, bs=60)
    return step, lambda: [a for layer in layers if layer.weights is not None for a in layer.weights]


@program("ILearnDeepLearning.py", "Piotr Skalski", "MIT", "01_mysteries_of_neural_networks/04_optimizers")
def dictionary_net(at):
    m = script(os.path.join(at, "01_mysteries_of_neural_networks", "04_optimizers", "fully_connected_nn.py"))
    rng = np.random.RandomState(0)
    shape = [{"input_dim": a, "output_dim": b, "activation": f} for a, b, f in
             ((2, 25, "relu"), (25, 50, "relu"), (50, 25, "relu"), (25, 1, "sigmoid"))]
    x, y = rng.rand(2, 500), rng.randint(0, 2, (1, 500))
    weights = m.init_layers(shape, 2)

    def step():
        nonlocal weights
        for _ in range(5):
            predicted, memory = m.full_forward_propagation(x, weights, shape)
            weights = m.update(weights, m.full_backward_propagation(predicted, y, memory, weights, shape), shape, 0.01)
        return predicted
    return step, lambda: weights


@program("homemade-machine-learning", "Oleksii Trekhleb", "MIT", ".", steps=20)
def homemade_perceptron(at):
    from homemade.neural_network import MultilayerPerceptron
    rng = np.random.RandomState(0)
    model = MultilayerPerceptron(rng.rand(300, 64), rng.randint(0, 10, (300, 1)), [64, 25, 10], 0.12)

    def step():
        return model.train(regularization_param=0.1, max_iterations=1, alpha=0.1)
    return step, lambda: model.thetas


@program("Python", "The Algorithms (E. Tarish and others)", "MIT", "neural_network")
def two_hidden(at):
    from two_hidden_layers_neural_network import TwoHiddenLayerNeuralNetwork
    rng = np.random.RandomState(0)
    net = TwoHiddenLayerNeuralNetwork(rng.rand(200, 3), rng.randint(0, 2, (200, 1)))

    def step():
        for _ in range(10):
            net.predicted_output = net.feedforward()
            net.back_propagation()
    return step, lambda: [net.input_layer_and_first_hidden_layer_weights, net.second_hidden_layer_and_output_layer_weights]


@program("numpyGPT", "codiceSpaghetti", "none stated", ".", steps=20)
def numpy_gpt(at):
    from numpyGPT.models.GPT import GPT
    from numpyGPT.optim.adam import Adam
    np.random.seed(0)
    model = GPT(vocab_size=64, max_len=32, d_model=64, n_heads=4, n_layers=2, d_ff=128)
    optimizer, rng = Adam([model], lr=0.001), np.random.RandomState(0)
    x = rng.randint(0, 64, (8, 33))

    def step():
        _, loss = model(x[:, :-1], x[:, 1:])
        model.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss
    return step, lambda: list(model.params().values())


@program("NumPy-Neural-Network", "René Chenard", "MIT", ".", steps=20)
def sequential_conv(at):
    import neural_network as m
    np.random.seed(0)
    net, rng = m.NeuralNetwork(), np.random.RandomState(0)
    layers = [m.Reshape(output_shape=(1, 16, 16)), m.Conv2d(1, 5, (5, 5)), m.ReLU(), m.Flatten(), m.Linear(5 * 12 * 12, 25), m.ReLU(),
              m.Linear(25, 10), m.SoftmaxCategoricalCrossEntropy()]
    for layer in layers:
        net.add(layer)
    x, y = rng.rand(64, 256), rng.randint(0, 10, 64)

    def step():
        net.callbacks = []
        net.fit(x, y, epochs=1, batch_size=16)
    return step, lambda: [a for layer in layers for a in (getattr(layer, "weight", None), getattr(layer, "bias", None)) if a is not None]


@program("NumPy-Neural-Network", "René Chenard", "MIT", ".", steps=20)
def exclusive_or(at):
    import neural_network as m
    np.random.seed(0)
    net = m.NeuralNetwork()
    layers = [m.Linear(2, 3, optimizer=m.NesterovMomentum(lr=0.05)), m.Tanh(), m.Linear(3, 1, optimizer=m.NesterovMomentum(lr=0.05)),
              m.OutputLayer(activation_function="tanh", loss_function="mean_squared_error")]
    for layer in layers:
        net.add(layer)
    x, y = np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), np.array([[0], [1], [1], [0]])

    def step():
        net.callbacks = []
        net.fit(x, y, epochs=10, batch_size=1)
    return step, lambda: [layers[0].weight, layers[2].weight]
