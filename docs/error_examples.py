"""Examples of every error, of which docs/generate.py makes docs/errors.rst: each runs, and what it raises is what the page shows.

SECTIONS: (title, text, examples); an example is (code, what it means), and its last statement raises. NUMPYS are those whose type
is NumPy's: they run once more with NumPy for frit, and the types are compared. APART are programs that a process of its own runs
with those settings in its environment; the page shows the last line that they write. NOT_SHOWN says of messages that no example
can have why that is; tests/test_docs.py looks for messages in the sources that are in neither."""

SETUP = """
import os, tempfile
import numpy as np
import frit
folder = tempfile.mkdtemp(prefix="frit-errors-")
a, v, w = frit.asarray(np.arange(6.0).reshape(2, 3)), frit.arange(3.0), frit.arange(4.0)
i, z, b = frit.arange(3), frit.ones(2, "c16"), frit.asarray([True, False])
"""

NUMPYS = (
    ("Shapes that do not fit", "", (
        "v + w", "frit.add(v, w)", "frit.where(a > 1, w, 0)", "frit.add(v, v, out=frit.zeros(2))", "a[:] = w", "v += a",
        "frit.broadcast_to(a, (3,))", "frit.broadcast_to(v, (-1, 3))", "a @ a", "a @ 2", "frit.dot(a, w)", "a.reshape(4, 2)",
        "a.reshape(-1, -1)",
        "a.transpose(0, 0)", "a.transpose(0, 1, 2)", "frit.swapaxes(a, 0, 5)", "frit.moveaxis(a, [0, 1], [0])",
        "frit.squeeze(a, axis=0)",
        "frit.concatenate([a, v])", "frit.concatenate([a, frit.ones((2, 4))])", "frit.concatenate([])",
        "frit.concatenate([frit.asarray(1.0)[()], v])", "frit.stack([a, v])", "frit.stack([])", "frit.diag(frit.zeros((2, 2, 2)))",
        "v.diagonal()", "a.diagonal(0, 0, 0)", "v.mT", "frit.matrix_transpose(v)", "frit.fliplr(v)", "v.shape = (2, 2)",
        "frit.cumulative_sum(a)",
        "frit.ones((2, 3, 3)) @ frit.ones((4, 3, 3))", "frit.broadcast_to(v, (2, 4))", "frit.broadcast_to(v, ())", "a.T.shape = 6",
        "frit.reshape(a.T, 6, copy=False)", "frit.expand_dims(v, tuple(range(69)))", "frit.zeros(1 << 80)",
        "frit.zeros((1,) * 70)", "frit.zeros(-1)", "frit.zeros(1 << 62)", "frit.zeros((1 << 40, 1 << 40))", "frit.zeros(3.5)",
        "frit.asarray([[1, 2], [3]])", "frit.broadcast_to(v, (1 << 62, 1 << 62, 3))")),
    ("Axes, indices and what is empty", "", (
        "frit.moveaxis(a, [0, 0], [0, 1])", "frit.squeeze(a, axis=True)", "frit.zeros((1,) * 60)[(None,) * 10]", "v.sum()[0]",
        "v.sum()[0] = 1", "del v.flat[0]",
        "a.sum(axis=5)", "a.sum(axis=(0, 0))", "a.sum(axis='x')", "frit.argmax(a, axis=2)", "frit.flip(a, axis=7)",
        "frit.expand_dims(a, 9)",
        "frit.zeros(0).max()", "frit.zeros(0).argmin()", "v[7]", "v[0, 0]", "v[1.5]", "v['a']", "a[..., ...]", "v[[0, 7]]",
        "v[np.array([True, False])]", "a[[0, 1], [0, 1, 2]]", "a[np.array([0.5])]", "v[(None,) * 70]", "frit.take(v, 9)",
        "a.item()", "v.item(9)", "del v[0]",
        "[1, 2, 3][v]", "[1, 2, 3][frit.asarray(1.5)]", "list(frit.asarray(2.0))", "len(frit.asarray(2.0))", "range(v)")),
    ("Dtypes and values that do not fit", "", (
        "bool(frit.zeros(0))", "frit.exp(v, dtype='i4')", "round(z[0])", "__import__('operator').concat(v, v)",
        "with np.errstate(divide='call'): float(v[1] / 0)", "with np.errstate(divide='log'): float(v[1] / 0)", "v << 1", "~v",
        "-b", "b - b", "z % 2", "i ** -1", "frit.zeros(2, 'u1') + 300", "i[0] = 2**70", "i + 2**70", "i += 1.5",
        "frit.add(v, v, out=i)",
        "frit.add(v, v, dtype='i4')", "v.imag = 1", "v.astype('i4', casting='safe')", "v.astype('nope')", "frit.ldexp(v, v)",
        "v[0] = 'x'", "v[0] = 1j", "i[0] = float('nan')", "v + object()", "frit.sin(None)", "hash(v)", "bool(v)", "float(v)",
        "int(a)",
        "f'{v:.2f}'", "v ** None", "frit.add(v, v, out=[1, 2, 3])", "frit.broadcast_to(v, (2, 3))[0] = 1.0",
        "frit.add(a, a, out=frit.broadcast_to(v, (2, 3)))", "pow(v, 2, 3)")),
    ("Arguments", "", (
        "frit.concatenate([v], 0, None, None)", "frit.zeros(True)", "v.argsort(*range(40))", "frit.add(v, v, v, out=v)",
        "v.reshape()", "v.resize(3, nope=1)",
        "v.sum().shape = (1,)", "v.sum().real = 3", "del v.flat", "frit.testing.nope", "frit.add(v)", "frit.add(v, v, nope=1)",
        "frit.sum(v, nope=1)", "frit.sum(a, 0, axis=1)", "frit.sum()", "frit.clip(v, 1)",
        "frit.add(v, v, casting='nope')", "frit.where(v > 1, 1)", "v.reshape(2.0, 3)", "v.copy(order='X')", "v.copy(order=1)",
        "frit.clip(v, 1, 2, min=0)",
        "frit.asarray(v, copy='never')", "frit.zeros(2, like=3)", "frit.var(v, ddof=1, correction=1)", "v.swapaxes(1)",
        "v.flags['NOPE']", "frit.asarray(np.frombuffer(b'12345678'), copy=False).flags.writeable = True",
        "v.flags.owndata = False", "del v.flags.writeable", "del v.shape", "del v.real", "v.nope", "frit.nope", "frit.linalg.nope",
        "frit.fft.nope",
        "frit.random.nope", "frit.arange()", "frit.arange(0, 3, 0)", "frit.split(v, 2)", "frit.take(v, [0], mode='nope')",
        "frit.concatenate(v[0])", "frit.concatenate([v], out=frit.zeros(3), dtype='f4')", "frit.eye('x')")),
)

OWN = (
    ("Settings", "`frit.config` checks each value before it changes anything; :doc:`settings` lists what each may be.", (
        ("frit.config(jit='fast')", "The setting has other words."),
        ("frit.config(debug=9)", "The number is out of its range."),
        ("frit.config(jit=1)", "The setting is a text."),
        ("frit.config(colour=1)", "There is no such setting."),
        ("frit.config(cache_dir='/tmp')", "It is read once, at import: set the variable before Python starts."),
        ("frit.config(backend='apart')", "Set the variable before Python starts."),
        ("frit.config(tune='lanes')", "Numbers of the machine are `name=value`, separated by commas: `frit.config.tuned()` lists "
                                      "them."),
    )),
    ("Accelerated functions, explain and install", "", (
        ("frit.accelerate(3)", "Decorate a function, a method, a `functools.partial` or another callable; of a class, methods."),
        ("frit.accelerate(np.sin, results='lists')", "`results` is one of two words."),
        ("frit.accelerate(np.sin, device='gpu')", "The name of a device is one of `frit.devices()`, or \"auto\"."),
        ("frit.explain(v * 2, 'assembler')", "`kind` is one of five."),
        ("frit.explain(3)", "Explain a function, whose call is made, or a Tensor."),
        ("frit.explain(lambda: frit.explain(np.sin)(v))()", "One call is explained at a time."),
        ("frit.install()", "It is a statement of a script that is run by itself; in a module or notebook use the decorator."),
    )),
    ("Estimates", "`frit.estimate` raises what the function itself raises, and these.", (
        ("frit.estimate(np.sin, values='some')(v)", ""),
        ("frit.estimate(np.sin, unknown='x')(v)", ""),
        ("class Handle:\n    def __reduce__(self): raise TypeError('a handle has no copy')\nfrit.estimate(lambda x, h: x)(v, "
         "Handle())",
         "The call is made with copies of its arguments, so that it leaves nothing behind. What pickle refuses has no copy: "
         "leave it out of "
         "the arguments."),
        ("frit.ShapeDtype((3, 3), 'f4', order='K')", ""),
        ("frit.ShapeDtype((-1, 3), 'f4')", ""),
        ("frit.ShapeDtype(3.5)", ""),
        ("frit.ShapeDtype(3, object)", "Objects, strings, dates and the like go through NumPy, with their values."),
        ("frit.estimate(3)", "It takes the function; what that gives takes the arguments."),
        ("e = frit.estimate(np.sin)\ne(v).diff(3)", ""),
        ("frit.max_batch(np.sin, axis=4)(v)", "No argument has that axis."),
        ("frit.max_batch(3)", ""),
        ("frit.max_batch(np.sin, memory='lots')(v)", "Bytes are a number, or a number with kB, MB, GB, TB, KiB, MiB, GiB or TiB."),
        ("frit.max_batch(np.sin, memory=10)(v)", "Not even one element fits."),
        ("frit.max_batch(lambda x: 1, memory='1 GB')(np.zeros((3, 0)))", "The need is the same for any size of that axis."),
        ("frit.max_batch(lambda x: x if x[0] > 0 else -x, memory='1 GB')(frit.ShapeDtype(10**6))",
         "The function asks for a value, which is not known of arrays without data: give `unknown=`, a number that it is taken "
         "to be."),
        ("frit.max_batch(lambda x: np.apply_along_axis(max, 0, x), memory='1 GB')(frit.ShapeDtype(10**6))",
         "The shape of what that function of NumPy's makes is not known. `frit.estimate` says the same in `stopped`."),
        ("frit.estimate(np.sin)(v).check(memory=10)", "The call needs more than there is; the message says what would fit."),
        ("e = frit.estimate(np.sin)\ne(np.ones(9)).diff(e(np.ones(3))).check(peak_bytes=0.5)",
         "The gate of a test: what has grown, and by how much."),
        ("e = frit.estimate(np.sin)\ne(v).diff(e(v)).check(speed=1)", "There is no such number in an estimate."),
        ("with frit.device('meta'):\n    float(frit.zeros(10**6).sum())",
         "Device \"meta\" has shapes and no values: `frit.estimate` uses it."),
    )),
    ("Profiles, scopes, and compiling ahead", "", (
        ("frit.profile(events=-1)", ""),
        ("frit.profile('epoch')", "Names are given by `name=`: what comes first is a function that is profiled."),
        ("with frit.profile() as p: pass\np.diff(3)", ""),
        ("with frit.profile() as p: pass\np.save('p.txt')", "A trace is .json, a page .html."),
        ("with frit.profile() as p: pass\np.end()", "It has ended with its statement."),
        ("with frit.profile(), frit.profile(): pass", "One at a time in a process. Functions that a profile decorates may call each other."),
        ("frit.scope(3)", "A scope has a name."),
        ("with frit.profile() as p: frit.eval(v + 1)\np.diff(p).check(speed=1)", "There is no such number in a profile."),
        ("frit.warmup(np.sin, values='some')(v)", ""),
        ("frit.warmup(3)", ""),
        ("frit.warmup(lambda: frit.warmup(np.sin)(v))()", "Within a function that is compiled ahead, arrays have no data."),
    )),
    ("Machines and energy", "", (
        ("frit.machine.load(__file__)", "The file is no JSON."),
        ("open(folder + '/m.json', 'w').write('{}')\nfrit.machine.load(folder + '/m.json')",
         "Fields are missing: `python -m frit.machine calibrate` writes a whole one."),
        ("frit.machine.use(3)", "It takes what `frit.machine.load`, `gpu` or `calibrate` gives."),
        ("frit.machine.use({})", "Likewise of any number that is missing or cannot be: the message names it."),
        ("frit.energy.Power.fit([0.5], [3.0], [100.0])", "Four numbers are fitted, so four rows are the least."),
        ("frit.energy.Limited([0.0], [1.0], [1.0])", ""),
    )),
    ("The kernel cache as a file", "`frit.cache.load` checks all of a file before it takes anything of it. The three are "
                                   "`frit.cache.ExportError`, which is a ValueError.", (
        ("open(folder + '/k', 'wb').write(b'something else')\nfrit.cache.load(folder + '/k')",
         "`frit.cache.export` has not written that file."),
        ("n = frit.cache.export(folder + '/k')\nd = open(folder + '/k', 'rb').read()\nopen(folder + '/k', 'wb').write(d[:20])\n"
         "frit.cache.load(folder + '/k')",
         "The copy is not whole: copy it again."),
        ("n = frit.cache.export(folder + '/k')\nd = bytearray(open(folder + '/k', 'rb').read())\nd[-1] ^= 1\nopen(folder + '/k', "
         "'wb').write(bytes(d))\n"
         "frit.cache.load(folder + '/k')", "A bit has changed on the way: copy it again."),
        ("frit.cache.load(folder + '/not there')", ""),
    )),
    ("Devices", "", (
        ("frit.device('tpu')", "Names are those of `frit.devices()`, and \"auto\"."),
        ("frit.zeros(3, device='gpu')", ""),
        ("frit.empty(3, device=3)", ""),
        ("v + v.to_device('meta')", "Bring one to the other's device: `t.to_device(u.device)`. Arrays and numbers of NumPy's go "
                                    "by themselves."),
        ("frit.intersect1d(v, v.to_device('meta'))", ""),
        ("v.to_device(3)", ""),
        ("v.to_device('cpu', stream=1)", "frit orders its own work; a stream is taken by `__dlpack__` alone."),
        ("frit.synchronize('cpu', 'cpu')", ""),
        ("v.__cuda_array_interface__", "The memory is the host's: `numpy.asarray`, or `to_device(\"cuda\")` before."),
    )),
    ("Memory that is shared with others", "", (
        ("frit.asarray(np.arange(3), dtype='f4', copy=False)", "There is no such view: leave `copy=False` out."),
        ("frit.asarray([1, 2], copy=False)", "A list has no memory that could be shared."),
        ("frit.asarray(np.zeros(3, [('a', 'f8'), ('b', 'i4')])['a'], copy=False)", "Leave `copy=False` out."),
        ("v.__dlpack__(stream=1)", "The host has no streams."),
        ("v.__dlpack__(dl_device=(2, 0))", "The tensor is elsewhere: `to_device` brings it."),
        ("v.__dlpack__(dl_device=3)", ""),
        ("v.__dlpack__(max_version='1')", ""),
        ("frit.broadcast_to(v, (2, 3)).__dlpack__()", "Consumers of DLPack before version 1.0 may write, and this is read-only: "
                                                      "`copy=True`, or `max_version=(1, 0)`."),
        ("class Odd:\n    def __dlpack_device__(self): return 1, 0\n    def __dlpack__(self, **keywords): return 3\n"
         "frit.from_dlpack(Odd())", ""),
        ("v.flags['OWNDATA'] = False", "Only `WRITEABLE` can be set."),
        ("np.random.default_rng(1).shuffle(a)", "Rows are views, and an exchange of two would write through both: "
                                                "`numpy.asarray(a)` is the same memory."),
    )),
    ("Functions that NumPy has not", "`frit.sigmoid`, `softplus`, `erf` and `erfc` name what they refuse.", (
        ("frit.sigmoid('x')", ""),
        ("frit.erf(np.ones(3, 'longdouble'))", "Tensors have no extended precision."),
        ("frit.softplus([1, None])", ""),
        ("frit.sigmoid(v, out=np.zeros(3))", "Results of these are stored into tensors."),
        ("frit.random.default_rng(1).integers(5, 5)", "The upper bound is left out of the range."),
        ("frit.random.default_rng(1).uniform(size=-1)", ""),
        ("frit.__array_namespace_info__().dtypes(kind='float')",
         "The Array API standard has other words: `bool`, `integral`, `real floating`, ..."),
        ("frit.testing.assert_bits_equal([1.0, 2.0], [1.0, 3.0])", "`frit.testing` compares bits."),
        ("frit.testing.assert_bits_equal([1.0], [1])", ""),
        ("frit.testing.assert_max_ulp([1.0], [1.1], 4)", ""),
    )),
)

APART = (
    ("Said on stderr", "These are no exceptions: the program goes on, and results are the same. Each is said once a process; "
                       "`FRIT_QUIET=1` "
     "says none, and `frit.show_config()` lists them.", (
        ("import frit", {"FRIT_JIT": "fast"}, "The variable has no such value, and the default holds."),
        ("import frit, numpy\nfrit.eval(frit.exp(frit.asarray(numpy.ones(1 << 16))) + 1)\nfrit.wait_for_compiles()",
         {"FRIT_GCCJIT": "/nowhere/libgccjit.so.0", "FRIT_JIT": "always"},
         "There is no libgccjit on this machine (Debian: `apt-get install libgccjit0 binutils`): the block interpreter runs all "
         "kernels."),
        ("import frit", {"FRIT_NUM_THREAD": "2"}, "There is no such variable, and one of nearly that name."),
        ("import frit\nfrit.cache.info()\nfrit.eval(frit.exp(frit.zeros(9)) + 1)\nfrit.wait_for_compiles()",
         {"FRIT_CACHE_DIR": "/proc/nowhere", "FRIT_JIT": "always"},
         "The folder cannot be made, is not this user's, or others may write to it."),
    )),
    ("Devices that are not there", "", (
        ("import frit\nfrit.device('cuda')", {"FRIT_CUDA_LIB": "/nowhere/libcuda.so.1"},
         "There is no NVIDIA driver; without one `\"auto\"` is the processor."),
        ("import frit\nfrit.zeros(3).to_device('cuda')", {"FRIT_CUDA_LIB": "/nowhere/libcuda.so.1"}, ""),
    )),
    ("Faults of the system", "", (
        ("import frit\nfrit.zeros(10**15).sum().item()", {}, "The array is larger than the memory that the system gives. State "
                                                             "is as before the call."),
        ("import frit\nfrit.cache.export('/tmp/x')", {"FRIT_CACHE": "0"},
         "Kernels are kept in memory only, and there is nothing to export."),
        ("import frit.cache\nimport sys\nfrom frit.__main__ import main\nmain(['missing.py'])", {},
         "`python -m frit` says what Python says of a script that is not there."),
        ("from frit.__main__ import main\nmain(['-m', 'no_such_module'])", {}, ""),
        ("import runpy, tempfile\nscript = tempfile.gettempdir() + '/script.py'\n"
         "with open(script, 'w') as file:\n    print('import frit\\nif True:\\n    frit.install()', file=file)\n"
         "runpy.run_path(script, run_name='__main__')", {}, "Move it out of the `if`: the statements behind it are read again "
                                                            "from the file."),
        ("import runpy, sys, tempfile\nbefore = tempfile.gettempdir() + '/before.json'\nwith open(before, 'w') as file:\n    "
         "print('{}', file=file)\n"
         "sys.argv = ['frit.estimate', '--against', before, 'script.py']\nrunpy.run_module('frit.estimate', run_name='__main__')",
         {},
         "The file was not written by `--json`."),
    )),
)

# {reason: parts of places ("folder/file.c:line") or of messages}
NOT_SHOWN = {
    "a notebook says them": ("_notebook.py",),
    "frit's own modules call these, with what they make themselves": (
        "bind/accelerate/", "bind/module.c", "_restore()", "numpy_call()", "give_back()", "config_set()", "explain_text()",
        "an ndarray is wanted", "tensors and a kind are wanted", "explain_begin()", "a file's name is a string", "bind/base/scope.c",
        "frit compiles ahead already",
        "Ufunc()", "__array_ufunc__()", "__array_function__()", "ir/parse.c", "jit/loop.c", "jit/emit_", "_numpy.py",
        "too many arguments",
        "no device was chosen", "a number is stored as one", "a size is one integer", "frit records already", "dot() takes from",
        "not supported for elements of", "Python integer out of bounds for"),
    "a GPU is needed, or memory of one": (
        "bind/tensor/cuda_array.c", "that others see", "stream cannot be", "others see the tensor's memory",
        "others see this memory", "backends/backend.c"),
    "other programs or damaged files are needed": (
        "DLTensor", "DLPack major version", "jit/export.c", "jit/compile_helpers.c", "jit/compile_job.c", "free-threaded",
        "this machine could not be measured",
        "a machine whose", "a machine without", "a machine that does nothing"),
    "a change meanwhile by another thread, or sizes that no memory has": ("list changed size", "lie further apart",
                                                                          "is not a multiple of the item size",
                                                                          "more than .* blocks", "scratch for a kernel"),
}
