"""Recurrent networks, transformers, embeddings and policy gradients."""
import functools
import os
import types

import numpy as np

from .tools import loop, program, script, without, without_plots


@program("deep-learning-samples", "Eli Bendersky, Andrej Karpathy", "Unlicense", "min-char-rnn", compared=2)
def char_rnn_script(at):
    os.chdir(os.path.join(at, "min-char-rnn"))
    m, one_round = loop("min-char-rnn.py")
    one_round()

    def step():
        for _ in range(3):
            one_round()
    return step, lambda: [m.Wxh, m.Whh, m.Why, m.bh, m.by, m.smooth_loss]


@program("deep-learning-samples", "Eli Bendersky", "Unlicense", "min-char-rnn")
def char_lstm_script(at):
    os.chdir(os.path.join(at, "min-char-rnn"))
    m, one_round = loop("min-char-lstm.py")
    one_round()
    return one_round, lambda: [m.Wf, m.Wi, m.Wcc, m.Wo, m.Wy, m.smooth_loss]


@program("min-char-rnn", "Andy Maloney", "BSD-3")
def char_rnn_classes(at):
    m = script(os.path.join(at, "min-char-rnn.py"))
    data = m.InputData(os.path.join(at, "data", "Shakespeare-small.txt"), m.TRAINING_SEQUENCE_LENGTH, False, "a")
    rnn, memory = m.RNN(data.vocab_size, m.TRAINING_HIDDEN_SIZE, m.TRAINING_LEARNING_RATE), np.zeros((m.TRAINING_HIDDEN_SIZE, 1))

    def step():
        nonlocal memory
        inputs, targets = data.nextInputsAndTargets()
        loss, dWxh, dWhh, dWhy, dbh, dby, memory = rnn.train(inputs, targets, data.vocab_size, memory)
        rnn.update(dWxh, dWhh, dWhy, dbh, dby)
        return loss
    return step, lambda: [rnn.Wxh, rnn.Whh, rnn.Why, rnn.mWhh]


@program("lstm", "Nicolas Jimenez", "none")
def lstm_nodes(at):
    m = script(os.path.join(at, "test.py"))
    parameters = m.LstmParam(100, 50)
    net, y = m.LstmNetwork(parameters), [-0.5, 0.2, 0.1, -0.5]
    x = [np.random.random(50) for _ in y]

    def step():
        for _ in range(3):
            for one in x:
                net.x_list_add(one)
            loss = net.y_list_is(y, m.ToyLossLayer)
            parameters.apply_diff(lr=0.1)
            net.x_list_clear()
        return loss
    return step, lambda: [parameters.wg, parameters.wi, parameters.bf]


def _letters(at, *path):
    with open(os.path.join(at, *path), encoding="utf8") as file:
        return file.read()


@program("LSTM_from_scratch", "G. Singh", "none")
def gru_letters(at):
    from lstm_archs import GRU
    text = _letters(at, "input.txt")
    letters = sorted(set(text))
    hot, net, h, k = np.eye(len(letters)), GRU(str_size=len(letters), hidden_size=30), np.zeros((30, 1)), 0

    def step():
        nonlocal h, k
        inputs, target = ([hot[:, [letters.index(c)]] for c in text[k + o:k + o + 25]] for o in (0, 1))
        loss, h = net.train(inputs, target, h, learning_rate=5e-3)
        k += 25
        return loss
    return step, lambda: net.param


@program("hipsternet", "Augustinus Kristiadi", "Unlicense", ".", steps=30)
def hipster_lstm(at):
    import hipsternet.neuralnet as nn
    import hipsternet.solver as solver
    text = _letters(at, "data", "text_data", "japan.txt")
    index = {c: k for k, c in enumerate(sorted(set(text)))}
    x = np.array([index[c] for c in text])
    net = nn.LSTM(len(index), H=64, char2idx=index, idx2char={k: c for c, k in index.items()})

    def step():
        solver.adam_rnn(net, x, np.append(x[1:], 0), alpha=1e-3, mb_size=10, n_iter=3, print_after=1000)
    return step, lambda: net.model


@program("rnn-from-scratch", "Victor Zhou", "MIT", ".", steps=30)
def rnn_words(at):
    m, one_round = loop(os.path.join(at, "main.py"))
    return one_round, lambda: [m.rnn.Whh, m.rnn.Wxh, m.rnn.Why, m.rnn.bh]


@program("picoGPT", "Jay Mody", "MIT", steps=20)
def pico_gpt(at):
    from gpt2 import gpt2
    rng, n = np.random.RandomState(0), 96

    def line(a, b):
        return {"w": rng.randn(a, b).astype(np.float32) * 0.1, "b": np.zeros(b, np.float32)}

    def norm():
        return {"g": np.ones(n, np.float32), "b": np.zeros(n, np.float32)}
    blocks = [{"mlp": {"c_fc": line(n, 4 * n), "c_proj": line(4 * n, n)},
               "attn": {"c_attn": line(n, 3 * n), "c_proj": line(n, n)}, "ln_1": norm(), "ln_2": norm()} for _ in range(4)]
    wte, wpe = rng.randn(300, n).astype(np.float32), rng.randn(128, n).astype(np.float32)
    words, seen = [1, 2, 3], []

    def step():
        for _ in range(3):
            logits = gpt2(words, wte, wpe, blocks, norm_last, 6)
            words.append(int(np.argmax(logits[-1])))
        seen.append(logits)
    norm_last = norm()
    return step, lambda: seen


@program("llama3.np", "Sang Park", "MIT", steps=20)
def llama(at):
    import llama3
    from config import ModelArgs
    args, rng = ModelArgs(dim=96, n_layers=3, n_heads=4, vocab_size=500), np.random.RandomState(0)

    def random(*shape):
        return rng.randn(*shape).astype(np.float32) * 0.1
    weights = {"model.embed_tokens.weight": random(500, 96), "model.norm.weight": random(96), "lm_head.weight": random(500, 96)}
    for k in range(3):
        name = f"model.layers.{k}."
        weights |= {name + f"self_attn.{p}_proj.weight": random(96, 96) for p in "qkvo"}
        weights |= {name + "mlp.up_proj.weight": random(256, 96), name + "mlp.gate_proj.weight": random(256, 96),
                    name + "mlp.down_proj.weight": random(96, 256), name + "input_layernorm.weight": random(96),
                    name + "post_attention_layernorm.weight": random(96)}
    llama3.load_parameters = lambda path: weights
    model, given = llama3.Llama("", args), []

    def step():
        given.append(np.concatenate(list(model.generate(np.array([[1, 5, 7, 9]]), 24))))
    return step, lambda: [*given, model.layers[0].attention.cache_k]


@program("Numpy-Transformer", "Ultron09", "MIT (README)", steps=20)
def gpt_training(at):
    import train as m
    data = m.TextDataset(_letters(at, "README.md"), 32)
    model = m.GPT(data.vocab_size, d_model=64, num_layers=2, num_heads=4, d_ff=128, max_seq_len=32)
    optimizer = m.AdamOptimizer(3e-4)

    def step():
        inputs, targets = data.get_batch(8)
        loss, grad = m.cross_entropy_loss(model.forward(inputs), targets)
        model.backward(grad)
        optimizer.update(model.get_parameters(), model.get_gradients())
        return loss
    return step, lambda: [p for _, p in model.get_parameters()]


@program("word2vec_numpy", "Derek Chia", "none", steps=12)
def word2vec(at):
    m = script(os.path.join(at, next(f for f in os.listdir(at) if f.endswith(".py"))), before="w2v = word2vec()")
    np.array, array = functools.partial(np.array, dtype=object), np.array      # (rows of other lengths)
    model = m.word2vec()
    data = model.generate_training_data(m.settings, m.corpus)
    np.array = array

    def step():
        model.train(data)
        return model.loss
    return step, lambda: [model.w1, model.w2, model.loss]


class _Pong:
    """Stands in for the game: frames and rewards by chance, an episode of 40 steps."""

    def __init__(self):
        self.rng, self.k = np.random.RandomState(0), 0
        self.frames = self.rng.randint(0, 256, (16, 210, 160, 3)).astype(np.uint8)

    def reset(self):
        return self.frames[self.k % 16].copy(), {}

    def step(self, action):
        self.k += 1
        return self.reset()[0], float(self.rng.randint(-1, 2)), self.k % 40 == 0, False, {}


@program("pg-pong-2025", "Shushu Zhang, Andrej Karpathy", "none", steps=30)
def pong(at):
    without("gymnasium", "ale_py", make=lambda *a, **k: _Pong())
    m, one_round = loop(os.path.join(at, "pg-pong-2025.py"), batch_size=2)

    def step():
        for _ in range(20):
            one_round()
    return step, lambda: [m.model["W1"], m.model["W2"], m.rmsprop_cache["W1"]]


@program("mrJazzzz-word2vec_numpy", "mrJazzzz", "none", steps=30)
def skip_gram(at):
    rng = np.random.RandomState(0)
    with open("text8", "w", encoding="utf8") as file:
        file.write(" ".join(f"w{k}" for k in rng.zipf(1.3, 20000) if k < 2000))
    m, one_round = loop(os.path.join(at, "main.py"), epochs=1000, max_iters=300, t=1e-2)
    return one_round, lambda: [m.W_in, m.W_out]


@program("rl_algorithms", "Daniel Seita", "MIT", steps=20)
def evolution_strategy(at):
    without_plots()
    m = script(os.path.join(at, "es", "toy_es.py"))
    args = types.SimpleNamespace(sol_index=1, num_iters=30, print_every=20, npop=50, sigma=0.1, lrate=0.001)

    def step():
        m.run_es(args)
    return step, lambda: [np.random.rand()]
