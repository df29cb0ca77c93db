"""Draws small programs of classes, closures, containers and generators, as the lines that stage.py runs.

What a name leads to has a kind that is known while drawing: v an array of one axis, m a square matrix, s a number that NumPy
or Python made, i a small int, lv and dv a list and a dictionary of arrays. A statement is drawn from the idioms below, each of
which belongs to a feature that can be left out. `$v` in an idiom is any expression of that kind, `@v` something that can be
written into, `#v` a new local that is from then on of the kind, `%n` the length of vectors; other names are as they stand."""
import random
import re

FEATURES = {
    "writes": "into arrays, in place, with out=, through views",
    "names": "attributes, globals and members bound anew",
    "left": "lists, deques, queues and dictionaries that collect",
    "notes": "what is printed, formatted and looked at on the way",
    "raises": "exceptions of NumPy's and of others, caught or not",
    "blocks": "branches, loops, with-blocks",
    "functions": "comprehensions, lambdas, callbacks, partial, reduce, decorators",
    "copies": "copy, deepcopy, pickle, json",
    "foreign": "ctypes, memoryview, struct: memory by its address",
    "random": "NumPy's random numbers",
    "generators": "generators that live across calls",
    "threads": "threads that call what is accelerated",
    "classes": "slots, dataclasses, properties, operators, super",
    "aliases": "one memory by several names",
    "identity": "is, id and base",
    "steps": "what the script does between the calls",
    "state": "errstate and recorded warnings",
    "dtypes": "arrays of other dtypes",
    "reflection": "getattr, vars, type, isinstance, match",
    "methods": "methods accelerated by themselves",
    "held": "arrays in what Python or NumPy made of them: exceptions, partial, queues, iterators, arrays of objects, other threads",
    "bases": "of which array another is a view, as .base tells it",
    "named": "texts of exceptions that name types",
}
# What is not the same today, for a known reason.
KNOWN = "held", "bases", "named"

VECTORS = {
    None: ["$v + $v", "$v - $v", "$v * 0.5", "$v * $v", "2 * $v - 1", "-$v", "np.maximum($v, 0)", "np.minimum($v, $v)", "np.abs($v)",
           "np.where($v > 0, $v, $v)", "$m.sum(axis=0)", "$m.mean(axis=1)", "$m[$i]", "$m[:, $i]", "$m.T[0]", "$v[::-1]", "$v.copy()",
           "np.clip($m @ $v, -9, 9)", "np.dot($v, $m) % 4", "np.sqrt(np.abs($v))", "np.square($v)", "$v / 2", "np.cumsum($v)", "$v * $s",
           "np.sort($v)", "np.zeros_like($v)", "np.ones(%n)", "np.zeros(%n)", "$m.max(axis=-1)", "np.floor($v)", "$m.diagonal()",
           "np.concatenate([$v[1:], $v[:1]])", "np.round($v, 1)", "np.roll($v, 1)", "np.array($v)", "np.asarray($v)", "$v[...]",
           "$v.reshape(-1)", "np.take($v, np.arange(%n) % 2 % %n)", "$v[np.argsort($v, kind='stable')]", "np.full(%n, $s)",
           "np.clip($v, -1, 1)", "$v + $i", "$v % 3", "$v // 2", "($v > $v) * 1.0", "$v[:, None][:, 0]", "np.stack([$v, $v])[1]",
           "np.outer($v, $v)[0]", "np.einsum('ij,j->i', $m, $v)", "$v.clip(0)", "$v.ravel()", "np.array([$s] * %n)", "$v.astype('f8')",
           "np.array($lv)[0]", "np.stack($lv).sum(axis=0)", "np.mean($lv, axis=0)", "np.vstack($lv)[-1]", "np.concatenate($lv)[:%n]",
           "np.add($lv, 1)[0]", "($v + $lv)[0]", "np.column_stack($lv)[:, 0]", "np.asarray([$v, $v])[1]", "$v + [$s] * %n", "np.cumsum($lv, axis=1)[0]",
           "np.squeeze($v[None])", "np.transpose($v)", "np.hstack([$v, $s])[:%n]", "np.select([$v > 0], [$v], 1)", "np.diff($v, append=$s)"],
    "functions": ["twice($v)", "add_to($v)", "(lambda a: a * 2 + $v)($v)", "scaled($v)", "sum([$v, $v])", "table($i)", "many($v, $v, scale=2)",
                  "functools.reduce(lambda a, b: a + b, $lv)", "list(map(lambda a: a + $v, $lv))[0]", "[a * 2 for a in $lv][-1]",
                  "sorted($lv, key=lambda a: float(a.sum()))[0]", "max($lv, key=np.sum)", "{k: a + 1 for k, a in $dv.items()}['w']",
                  "next(a for a in $lv)", "sum(a * 0.5 for a in $lv)", "traced($v)", "list($dv.values())[0]", "np.apply_along_axis(np.sort, 0, $v)",
                  "operator.add($v, $v)", "min($lv, key=lambda a: a[0])", "np.vectorize(lambda a: a * 2.0)($v)", "np.sum($lv, axis=0)"],
    "random": ["np.round(np.random.rand(%n), 1)", "np.random.randint(0, 3, %n) * 1.0", "np.floor(rng.random(%n) * 4)", "rs.permutation($v)",
               "np.floor(rs.randn(%n))", "rng.permutation($v)", "$v * (np.random.rand(%n) > 0.5)", "np.random.permutation($v)", "rng.choice($v, %n)"],
    "reflection": ["getattr($o, 'w')", "operator.attrgetter('w')($o)", "operator.itemgetter('w')($dv)", "vars($p)['w']", "getattr($o, 'nothing', $v)"],
    "copies": ["copy.copy($v)", "copy.deepcopy($o).w", "pickle.loads(pickle.dumps($v))", "copy.copy($o).w", "pickle.loads(pickle.dumps($o)).w",
               "np.array(json.loads(json.dumps($v.tolist()))) * 1.0"],
    "foreign": ["np.frombuffer($v.tobytes(), dtype='f8')[:%n] + 0", "np.array(memoryview($v.copy()))", "np.asarray(memoryview($v)) * 1",
                "np.array(array.array('d', $v.tolist()))", "np.fromiter($v, 'f8')"],
    "generators": ["next(it, np.ones(%n))", "list(pairs($lv))[-1][1]"],
    "classes": ["$o.scaled($v)", "$o.forward($v)", "$o($v)", "$o.half", "$o[$i] * $v", "($o + $o).w", "A.twice($v)", "$o.made().w", "type($o).of().w"],
}
KINDS = {
    "s": {None: ["$v.sum()", "$v.mean()", "$v.max()", "$v[$i]", "$v[0]", "$v[-1]", "float($v.sum())", "$m[$i, $i]", "$v.min()", "np.sum($v)", "0.5",
                 "1.5", "2", "$m.sum()", "abs($v[0])", "np.float64(0.25)", "$v.std()", "$s + $s", "$s * 0.5", "-$s", "$v.item(0)", "np.max($v)",
                 "np.median($v)", "$v.tolist()[0]", "round(float($s), 2)", "$m.trace()", "max($s, $s)", "$v.any()", "$v.ptp() if hasattr($v, 'ptp') else 1",
                 "np.add.reduce($v)", "$v.var()", "np.mean($m)"],
          "functions": ["sum(a.sum() for a in $lv)", "sum($v)", "min(a[0] for a in $lv)", "max($v)", "len([a for a in $v if a > 0])", "sum($v.tolist())"],
          "random": ["round(np.random.rand(), 1)", "np.floor(np.random.uniform(-2, 2))", "rs.randint(4)", "rng.integers(0, 5)", "round(random.random(), 1)"],
          "classes": ["$o.size()", "$o.k", "len($o)"],
          "left": ["np.mean(losses) if losses else 1", "np.array([0, *losses]).max()", "np.sum($lv)", "losses[-1] if losses else 1.0", "len(losses)", "sum(losses[-2:])"]},
    "i": {None: ["0", "%n - 1", "-1", "len($v) - 1", "$v.argmax()", "int($v.argmin())", "k % %n", "np.count_nonzero($v > 0) % %n", "$v.ndim - 1",
                 "int(abs($v[0])) % %n if abs($v[0]) < 9 else 0", "$m.shape[0] - 1", "int($v.sum() > 1) % %n", "np.int64(0)", "$m.argmax() % %n",
                 "np.nonzero($v == $v[0])[0][0]"]},
    "b": {None: ["$s > 0", "$v[0] < 1", "k % 2", "$i > 0", "($v > 0).any()", "$v.sum() >= $s", "not $s", "$s", "len($v) > 2", "$v.shape == (%n,)",
                 "np.array_equal($v, $v)", "0 < $s < 2", "np.isfinite($v).all()", "$v.dtype == 'f8'", "np.allclose($v, $v)", "(0, 1)[bool($s > 0)]"],
          "identity": ["$v is $v", "$v is not $v", "$v.base is $v", "any(a is $v for a in $lv)", "$o is $o"],
          "reflection": ["isinstance($v, np.ndarray)", "type($v) is np.ndarray", "isinstance($s, float)", "isinstance($s, (int, np.integer))",
                         "hasattr($o, 'cache')", "np.isscalar($s)", "callable($o)", "isinstance($o, A)"],
          "left": ["'w' in params", "len(kept) > 3", "losses and losses[-1] > 0"]},
    "m": {None: ["$m + $m", "$m * 0.5", "$m - $v", "$m.T", "np.clip($m @ $m, -9, 9)", "np.outer($v, $v)", "$v[:, None] * $v", "np.maximum($m, 0)",
                 "np.eye(%n)", "$m * $v[:, None]", "$m.copy()", "np.where($m > 0, $m, 0)", "np.zeros((%n, %n))", "$m[::-1]", "np.dot($m.T, $m) % 5",
                 "np.stack([$v] * %n)", "$m - $m.mean(axis=0)", "np.broadcast_to($v, (%n, %n)) + 0", "np.tril($m)", "$m.reshape(%n, %n)",
                 "np.tile($v, (%n, 1))", "np.diag($v)", "np.array([$v] * %n)", "$m + $m.sum(axis=1, keepdims=True)"]},
}
# Statements: feature, weight, lines. `{}` is a block of further statements.
STATEMENTS = """
writes 5|@v += $v
writes 5|@v -= 0.5 * $v
writes 3|@m -= 0.25 * np.outer($v, $v)
writes 3|@m += $m
writes 2|@v *= $s
writes 2|@v[...] = $v
writes 2|@v[1:] = $v[:-1]
writes 2|@v[$i] = $s
writes 2|@v[$i] += $s
writes 2|@v[$v > 0] = 0
writes 1|@v[$v < 0] *= -1
writes 2|@m[$i] = $v
writes 2|@m[:, $i] += $v
writes 1|@m[$i, $i] += 1
writes 1|@m.T[...] = $m
writes 1|@m[np.arange(%n), np.arange(%n)] = $v
writes 2|np.add($v, $v, out=@v)
writes 1|np.multiply(@v, 0.5, @v)
writes 1|np.maximum($v, 0, out=@v)
writes 1|np.dot($m, $v, out=@v)
writes 1|@v.fill($s)
writes 1|@v.sort()
writes 1|np.copyto(@v, $v)
writes 1|np.add.at(@v, [0, 0], 1)
writes 1|@v[:] = [$s] * %n
writes 1|@v.put([0], $s)
writes 1|@v //= 2
writes 1|#v = @v; #v += 1
writes 1|@v[::-1][...] = $v
writes 1|@m[$i][...] = 0
writes 1|@m[...] = $v
writes 1|@v[:2] -= $v[:2]
writes 1|@m.reshape(-1)[0] = $s
writes 1|np.negative(@v, out=@v)
writes 1|@v.flat[0] = $s
names 4|@v = $v
names 2|@v = @v + $v
names 2|@m = $m
names 2|@v, @v = @v, @v
names 2|$p.cache = ($v, $v)
names 2|$p.cache = {'x': $v, 'n': $s}
names 1|$p.cache = $v > 0
names 1|$p.extra = [$v, ($s, $v)]
names 1|$p.k = $s
names 1|$p.k += 1
names 1|$p.other = $p
names 1|params['new%k'] = $v
names 1|params['w'] = params['w'] - 0.5 * $v
names 1|params.update(w=$v)
names 1|@lv[0] = $v
names 1|G0 = $v
names 1|G0 = G0 * 0.5 + $v
names 1|counter += 1
names 1|(@v, #s) = $v, $s
names 1|*rest, #v = $lv
names 1|A.scale = $v
names 1|if (#v := $v)[0] > 0: @v = #v
names 1|del params['gone']
aliases 2|@v = $v; @v = $v[::-1]
aliases 2|$p.part = $v[1:]
aliases 2|$p.part += 1
aliases 1|@v = $m[$i]
aliases 1|$p.w = @v = $v.copy()
aliases 1|kept[:] = [$v[1:], $v]
aliases 1|$p.seen = $m.T
left 5|losses.append($s)
left 3|losses.append(($v * $v).mean())
left 4|kept.append($v)
left 2|kept.append($v[1:])
left 2|kept.append(($v, $s))
left 2|kept.append({'s': $s, 'v': $v})
left 2|recent.append($v)
left 1|recent.appendleft($s)
left 2|history['loss'].append($s)
left 1|history.setdefault('v', []).extend([$v, $s])
held 1|jobs.put($v)
held 1|jobs.put($v); #v = jobs.get(); kept.append(#v)
left 1|heapq.heappush(heap, (float($s), k))
left 1|kept += [$v, $v]
left 1|kept.insert(0, $v)
left 1|kept.extend(a + 1 for a in $lv)
left 1|kept.append(np.zeros(%n)); kept[-1] += $v
held 1|kept.append(lambda: $v)
left 1|seen.add(float($s))
left 1|totals[bool($s > 0)] += $s
held 1|kept.append(zip([$v], [$s]))
left 1|keep($v)
left 1|keep($s)
left 1|space.w = $v
left 1|space.log = [$s, $v]
left 1|kept.append(Pair($v, $s))
left 1|kept.append([$v, [$v, $s]])
held 1|kept.append(functools.partial(np.add, $v))
left 1|losses.extend([a.sum() for a in $lv])
held 1|kept.append(iter([$v]))
left 1|objects[0, k] = $v
notes 3|note($v)
notes 3|note($s)
notes 2|note(f"{$s:.2f} {$v}")
notes 1|note('%s %r' % ($v, $s))
notes 1|note('{} {:.3f}'.format($v, float($s)))
notes 1|print($s, $v, file=out)
notes 1|note(str($v), len($v))
notes 1|note($v.shape, $v.dtype, $v.strides, $v.flags.writeable)
notes 1|note([$s, $s], {'a': $s})
notes 1|note(json.dumps([float($s), $v.tolist()]))
notes 1|note(json.dumps({'losses': losses[-2:]}))
notes 1|note(hash($s) == hash(float($s)))
notes 1|note($s == $s, $s != 1, bool($s))
notes 1|note(repr($lv))
notes 1|note($v.tolist(), list($v))
notes 1|note(range(int(%n))[$i], [0] * ($i + 1))
notes 1|note('x' * $i)
notes 1|note([10, 20, 30, 40, 50, 60, 70, 80, 90][$i])
notes 1|note(divmod(float($s), 2))
notes 1|note($v.__class__.__name__, $s.__class__.__name__)
notes 1|note($v.sum().dtype, $v.max().shape)
notes 1|out.write(f"{$s!r} {$v!s}")
identity 2|note($v is $v, $v is @v)
identity 2|ids = {id(@v): 'a', id(@v): 'b'}; note(ids.get(id(@v)), len(ids))
identity 1|note(id(@v) == id(@v), @v is $lv[0])
identity 1|note($v.base is @v, np.shares_memory(@v, @v))
identity 1|note(np.may_share_memory(@v, $v))
identity 1|note(@v in [None, 1] if False else [a is @v for a in $lv])
identity 1|note(weakref.ref(@v)() is @v)
reflection 1|note(type($v), type($s))
reflection 1|note(isinstance($v, np.ndarray), isinstance($s, np.floating), type($s) is np.float64)
reflection 1|setattr($p, 'w', $v)
reflection 1|$p.__dict__['w'] = $v
reflection 1|note(sorted(k for k in vars($p)))
reflection 1|note(show($v), show($s))
reflection 1|match $v:;    case np.ndarray():;        note('array');    case _:;        note('other')
reflection 1|match $s:;    case float():;        note('float');    case int():;        note('int');    case _:;        note('other')
reflection 1|note(callable(getattr($v, 'sum')), hasattr($s, 'dtype'))
reflection 1|note(np.ndim($s), np.shape($v), np.result_type($v, 1))
reflection 1|note(dir($v) == dir(np.ones(1)), sys.getsizeof($s) > 0)
held 1|raise ValueError('asked', $v)
raises 1|if $b: raise RuntimeError($s)
raises 1|#v = @v + np.ones(%n + 1)
raises 1|@v[%n + 3] = 1
raises 1|@v += np.ones((2, %n))
raises 1|@v[...] = 'text'
raises 1|#s = $v[%n + 2]
raises 1|#v = $o.missing
raises 1|#v = params['none']
raises 1|#v = np.concatenate([$v, $m])
raises 1|#v = $v.reshape(%n + 1)
raises 1|#s = int($v)
raises 1|assert $s > 1e9, 'small'
raises 1|#v = $v @ np.ones(%n + 2)
raises 1|#v = np.linalg.inv(np.zeros((2, 2)))
raises 1|#v = $v['a']
raises 1|#s = float($v)
raises 1|if $v: pass
raises 1|{}[$v] = 1
raises 1|$v.nothing()
raises 1|#v = $v.sum(axis=3)
held 1|$v.flags.writeable = False; $v[0] = 1
raises 5|try:;    *;    !;    *;except Exception as e:;    note(type(e).__name__, str(e));    *
raises 3|try:;    *;    !;except (ValueError, IndexError) as e:;    note(str(e.args[0]));finally:;    *
held 1|try:;    *;    raise Stop('now', $v, $s);except Stop as e:;    kept.append(e);    kept.append(e.args[1])
raises 2|try:;    !;except Exception as e:;    kept.append(e.args);else:;    *
raises 1|try:;    *;    !;except Exception as e:;    raise RuntimeError('again') from e
raises 1|with contextlib.suppress(ValueError, IndexError):;    !;    *
blocks 4|if $b:;    *;    *;else:;    *
blocks 3|for j in range(3):;    *;    *
blocks 2|for j in range($i):;    *
blocks 2|for a in $lv:;    a += 1;    *
blocks 2|for row in $m:;    note(row.sum());    *
blocks 2|for name in list(params):;    params[name] -= 0.5 * params[name]
blocks 1|for name, p in params.items():;    p *= 0.5
blocks 1|for j, a in enumerate($lv):;    #v = a * j;    if $b: break;else:;    *
blocks 1|for a, b in zip($lv, $lv):;    a -= 0.5 * b
blocks 1|for a in $v:;    if a > 0: continue;    losses.append(a)
blocks 1|j = 0;while j < 3:;    j += 1;    *;    if $b: break
blocks 2|with changed($p):;    *
blocks 1|with lock:;    *
blocks 1|for j in np.arange(2):;    @v[j % %n] = j
blocks 1|for j, s in np.ndenumerate($v):;    @v[j] = s * 2
state 2|with np.errstate(all='ignore'):;    #v = $v / 0
state 2|try:;    with np.errstate(all='raise'):;        #v = $v / np.zeros(%n);        *;except FloatingPointError as e:;    note(str(e))
state 2|with warnings.catch_warnings(record=True) as w, np.errstate(all='warn'):;    warnings.simplefilter('always');    #v = 1 / ($v * 0);    *;note([(str(k.message), k.category.__name__) for k in w][:1])
state 1|old = np.seterr(over='ignore'); note(old['over']); np.seterr(**old)
state 1|with np.printoptions(precision=2):;    note($v / 3)
functions 1|def inner(a, c=$v):;    return a + c;#v = inner($v)
functions 1|def inner():;    nonlocal #n;    #n = #n + 1;#n = $v;inner()
held 1|f = functools.partial(np.multiply, $v);#v = f($v)
functions 1|list(map(kept.append, $lv))
functions 1|#v = list(filter(lambda a: a.sum() > 0, $lv + [$v]))[0]
functions 1|np.add($v, 1, out=table(0))
held 1|$p.hook = lambda a: a + $v
functions 1|#v = run_all([lambda: $v, lambda: $v + 1])
functions 1|make = lambda c: (lambda: c * 2);kept.append(make($v)())
copies 2|#p = copy.copy($p);#p.w += 1
copies 2|#p = copy.deepcopy($p);#p.w += 1;note(#p.w is $p.w)
copies 1|#p = pickle.loads(pickle.dumps($p));note(#p.w);kept.append(#p)
copies 1|kept.append(copy.deepcopy([$v, $v]))
copies 1|kept.append(pickle.dumps($v))
copies 1|blob = pickle.dumps(($v, $s));note(pickle.loads(blob))
copies 1|b = io.BytesIO();np.save(b, $v);b.seek(0);#v = np.load(b)
copies 1|kept.append(params.copy());kept.append(list($lv))
held 1|memoryview(@v)[0] = 2
held 1|note(memoryview($v).tolist(), memoryview($v).format)
held 1|views.append(memoryview(@v))
foreign 2|if @1.flags.c_contiguous: ctypes.memset(@1.ctypes.data, 0, @1.itemsize)
foreign 1|if @1.flags.c_contiguous: note(ctypes.string_at(@1.ctypes.data, @1.nbytes))
foreign 1|note(hashlib.md5($v.tobytes()).hexdigest())
foreign 1|note(struct.pack('d', $s))
foreign 1|note(bytes($v.copy().data)[:8], bytearray($v.copy())[:4])
foreign 1|kept.append(np.frombuffer(bytearray($v.tobytes()), dtype=$v.dtype))
foreign 1|@v.__setitem__(0, $s); note(@v.__getitem__(0))
foreign 1|note(@1.__array_interface__['data'][0] == @1.ctypes.data)
foreign 1|kept.append(np.lib.stride_tricks.as_strided(@v, (1,), (0,)))
held 1|kept.append(np.from_dlpack(@v))
random 2|np.random.shuffle(@v)
random 1|rng.shuffle(@v)
random 1|rs.shuffle(@m)
random 1|np.random.seed(k + 1)
random 1|if np.random.rand() > 0.5:;    *
random 1|@v[np.random.randint(%n)] = 0
random 1|#v = rng.choice($m)
random 1|rng.random(out=np.empty(%n)); note(rng.random())
random 1|losses.append(np.random.rand())
generators 2|kept.append(next(it, None))
generators 1|gen = (a * 2 for a in $lv);kept.append(next(gen))
generators 1|kept.append((a * 2 for a in $lv))
generators 1|for a, b in pairs($lv):;    kept.append(a + b)
held 1|it = pairs($lv)
held 1|kept.append(sent.send($v))
held 1|kept.extend(flat([$lv, [$v]]))
threads 1|ts = [threading.Thread(target=work, args=(q, $v)) for q in objs];for t in ts:;    t.start();    t.join()
held 1|with concurrent.futures.ThreadPoolExecutor(1) as ex:;    kept.append(ex.submit(twice, $v).result())
threads 1|local.w = $v;note(local.w)
classes 3|#v = $o.forward($v)
classes 2|$o.step($v)
classes 2|$o.half = $v
classes 1|$o[$i] = $s
classes 1|$o += $v
classes 1|with $o as #p:;    *
classes 1|for a in $o:;    kept.append(a)
classes 1|#p = $o.made();kept.append(#p)
classes 1|#v = ($o + $o).w
classes 1|note($o == $o, $s in $o)
classes 1|#p = type($o)($v);objs.append(#p)
classes 1|slots.w = $v;slots.w *= 2;kept.append(slots.w)
classes 1|data.log.append($s);data.w = $v;data.w += 1
classes 1|kept.append(dataclasses.replace(data, w=$v))
classes 1|note(dataclasses.asdict(Record(w=$v, log=[$s])))
classes 1|pair = Pair($v, $s);#v = pair.a;kept.append(pair._replace(b=pair.b + 1))
classes 1|lazy = Lazy($v);note(lazy.total is lazy.total);kept.append(lazy)
classes 1|$o.params['w'] -= 0.5 * $v
classes 1|for p in $o.params.values():;    p -= 0.5
classes 1|#v = super(type($o), $o).scaled($v)
classes 1|f = $o.forward;#v = f($v);kept.append(f)
dtypes 2|#v = $v.astype('f4');kept.append(#v.sum())
dtypes 1|#v = ($v > 0)
dtypes 1|#v = np.nan_to_num($v).clip(-99, 99).astype('i8');kept.append(#v.sum())
held 1|kept.append(np.array([$v, None], dtype=object))
dtypes 1|kept.append(np.matrix([1.0, 2.0]) * $s)
dtypes 1|kept.append(np.ma.array($v, mask=$v > 0).sum())
dtypes 1|#v = ($v + 1j).real
dtypes 1|ints[...] = np.nan_to_num($v).clip(-99, 99);ints += 1;kept.append(ints.sum())
dtypes 1|ints += $v
dtypes 1|kept.append($v.view('i8')[0])
dtypes 1|table2 = np.zeros(2, [('a', 'f8')]);table2['a'] += $s;kept.append(table2)
"""
STEPS = """
4|G0[0] = 7
3|G0 = G0 * 0.5
3|G0 += 1
2|o0.w = np.ones(%n)
2|o0.w = G0
2|o0.w += 1
2|o0.w[:] = o1.w
1|o1 = o0
1|o0, o1 = o1, o0
2|params['w'] = np.ones(%n)
1|params['w'] += 1
1|losses.clear()
1|del kept[:]
2|if isinstance(r, np.ndarray) and r.flags.writeable: r[...] = 1
1|if isinstance(r, np.ndarray) and r.shape == (%n,): G0 = r
1|if isinstance(r, np.ndarray) and r.shape == (%n,): o0.w = r
1|if isinstance(r, tuple): kept.extend(r)
1|if isinstance(r, (types.GeneratorType, map, zip)): kept.append(list(r))
1|if isinstance(r, types.FunctionType): kept.append(r())
1|A.step = lambda self, x: note('other step')
1|A.forward = lambda self, x: x + self.w
1|B.forward = A.forward
1|A.scale = np.full(%n, 3.0)
1|twice = lambda x: x * 3
1|scaled = functools.partial(np.multiply, 0.5)
1|it = batches(o0)
1|kept.append(next(it, None))
1|o0 = copy.deepcopy(o0)
1|o0.__class__ = type(o1)
1|for v in views: v[0] = 5
1|np.random.seed(3)
1|M0[...] = M0.T.copy()
1|M0 = np.eye(%n)
1|lists[0] = G0
1|lists.reverse()
1|lists = [G0, o0.w]
1|o0.forward = lambda x: x * 2
1|for a in recent: note(a)
1|kept[:] = [a for a in kept if not isinstance(a, np.ndarray)]
1|o0.w = np.ones(%n, 'f4')
1|G0 = np.ones(%n, 'i8')
1|o0.w = G0[::-1]
1|note(sent.send(G0))
1|for a in kept: note(a) if isinstance(a, (np.ndarray, float)) else None
1|gc.collect()
1|k0 = o0.forward(G0)
1|t = threading.Thread(target=work, args=(o0, G0)); t.start(); t.join()
1|G0 = G0.copy()
1|add_to = collect()
"""
HEADER = """
import array, collections, concurrent.futures, contextlib, copy, ctypes, dataclasses, functools, gc, hashlib, heapq, io, json, operator, pickle
import queue, random, struct, sys, threading, types, warnings, weakref
log, losses, kept, views, heap, objs, seen = [], [], [], [], [], [], set()
out, jobs, lock, local, space = io.StringIO(), queue.Queue(), threading.Lock(), threading.local(), types.SimpleNamespace()
recent, history, totals, objects = collections.deque(maxlen=4), collections.defaultdict(list), collections.Counter(), {}
rng, rs, counter, ints = np.random.default_rng(3), np.random.RandomState(4), 0, np.arange(%n)
Pair = collections.namedtuple('Pair', 'a b')
class Stop(Exception):
    pass
@dataclasses.dataclass
class Record:
    w: object
    log: list = dataclasses.field(default_factory=list)
class Slots:
    __slots__ = 'w', 'q'
class Lazy:
    def __init__(self, w):
        self.w = w
    @functools.cached_property
    def total(self):
        return self.w * 2
slots, data = Slots(), Record(np.ones(%n))
slots.w = np.ones(%n)
def note(*values):
    log.append(repr(values))
def keep(value):
    kept.append(value)
def noted(f):
    @functools.wraps(f)
    def inner(*args, **kw):
        log.append(f.__name__)
        return f(*args, **kw)
    return inner
@noted
def traced(x):
    return x + 1
def twice(x):
    return x * 2
def many(*xs, scale=1, **kw):
    return sum(xs) * scale
def collect():
    total = np.zeros(%n)
    def add(x):
        nonlocal total
        total = total + x
        return total
    return add
add_to = collect()
@functools.lru_cache(None)
def table(i):
    return np.arange(float(%n)) + i
scaled = functools.partial(np.multiply, 2)
@functools.singledispatch
def show(x):
    return 'other'
@show.register(np.ndarray)
def show_array(x):
    return 'array'
@show.register(float)
def show_float(x):
    return 'float'
def pairs(xs):
    for x in xs:
        y = x * 0.5
        yield x, y
def flat(xs):
    for x in xs:
        yield from x
def batches(o):
    for i in range(9):
        o.w += 1
        x = o.w * i
        yield x
def sends():
    total = np.zeros(%n)
    while True:
        x = yield total
        total = total + x
sent = sends()
next(sent)
@contextlib.contextmanager
def changed(o):
    old, o.w = o.w, o.w * 2
    try:
        yield o
    finally:
        o.w = old
def run_all(fs):
    return sum(f() for f in fs)
def work(o, x):
    try:
        o.step(x)
    except Exception as e:
        note(type(e).__name__)
"""
METHODS = {     # name: (parameters, [choices of decorators and fixed bodies, or None for a drawn body], result)
    "forward": ("self, x, k=1", "v"), "step": ("self, x, k=0", "v"), "scaled": ("self, x", "v"), "size": ("self", "s"),
}
FIXED = """
    @property
    def half(self):
        return self.w * 0.5
    @half.setter
    def half(self, new):
        self.w[...] = new
    def __call__(self, x):
        return self.forward(x) + self.w
    def __getitem__(self, i):
        return self.w[i]
    def __setitem__(self, i, x):
        self.w[i] = x
    def __len__(self):
        return len(self.w)
    def __iter__(self):
        yield self.w
        yield from self.parts
    def __add__(self, other):
        return type(self)(self.w + other.w)
    def __iadd__(self, x):
        self.w += x
        return self
    def __enter__(self):
        note('enter')
        self.w += 1
        return self
    def __exit__(self, *error):
        note('exit', error[0] and error[0].__name__)
        self.w -= 1
    def __contains__(self, x):
        return bool((self.w == x).any())
    @staticmethod
    def twice(x):
        return x * 2
    @classmethod
    def of(cls):
        return cls(cls.scale + 1)
    def made(self):
        new = type(self)(self.w[::-1])
        new.parent = self
        return new
"""

FILL = re.compile(r"([$@#])(lv|dv|[vmsibopn1])|%n|%k")


def parsed(text, start):
    out = []
    for line in text.strip("\n").splitlines():
        head, code = line.split("|", 1)
        out.append((*head.split()[:start], int(head.split()[-1]), code))
    return out


STATEMENTS, STEPS = parsed(STATEMENTS, 1), parsed(STEPS, 0)
FAULTY = [code for feature, _, code in STATEMENTS if feature == "raises" and ":;" not in code]
STATEMENTS = [(f, w / 4 if code in FAULTY else w, code) for f, w, code in STATEMENTS]     # which end all that follows


class Scope:
    """What can be named at some place: kind to expressions."""

    def __init__(self, draw, **names):
        self.draw, self.names, self.made = draw, {k: list(v) for k, v in names.items()}, 0

    def leaf(self, kind):
        names = self.names.get(kind, [])
        return self.draw.r.choice(names + names[-2:]) if names else None

    def expression(self, kind, depth):
        r = self.draw.r
        if kind == "p":
            kind = "o"
        name = self.leaf(kind)
        if kind in ("o", "lv", "dv") or name and (depth <= 0 or r.random() < 0.55):
            return name
        forms = self.draw.forms[kind]
        if depth <= 0:
            forms = {"v": [f"np.ones({self.draw.n})"], "m": [f"np.eye({self.draw.n})"], "i": ["0"], "s": ["0.5", "1", "2"], "b": ["k > 1"]}[kind]
        text, _ = self.filled(r.choice(forms), depth - 1)
        return f"({text})" if re.search(r" |^-|^lambda", text) else text

    def filled(self, text, depth):
        same, new = {}, {}

        def one(m):
            mark, kind = m[1], m[2]
            if m[0] == "%n":
                return str(self.draw.n)
            if m[0] == "%k":
                return str(self.draw.r.randrange(3))
            if mark == "#":
                if kind not in new:
                    self.made += 1
                    new[kind] = f"t{self.made}"
                return new[kind]
            if mark == "@":
                if kind == "1":
                    return same.setdefault(kind, self.target("v"))
                return self.target(kind)
            return self.expression(kind, depth)
        text = FILL.sub(one, text)
        return text, new

    def target(self, kind):
        return self.leaf(kind) or f"np.ones({self.draw.n})"

    def statement(self, depth=0):
        """The lines of one statement."""
        r = self.draw.r
        choices = [(w, c) for f, w, c in STATEMENTS if f in self.draw.on and (depth < 3 or "*" not in c.replace(" ", "").split(";"))]
        code = r.choices([c for _, c in choices], [w for w, _ in choices])[0] if choices else "note(k)"
        return self.lines(code, depth)

    def lines(self, code, depth):
        r = self.draw.r
        lines, made = [], {}
        pieces = code.split(";")
        text, made = self.filled("\0".join(pieces), r.choice([0, 1, 1, 2]))
        pieces = text.split("\0")
        new = [(kind, name) for kind, name in made.items()]
        nested = len(pieces) > 1 and any(p.startswith("    ") for p in pieces)
        before = {k: len(v) for k, v in self.names.items()}
        for piece in pieces:
            indent, body = re.match(r"( *)(.*)", piece).groups()
            if body == "*":
                lines += [indent + k for k in self.statement(depth + 1)]
            elif body == "!":
                lines += [indent + k for k in self.lines(r.choice(FAULTY), depth + 1)]
            else:
                lines.append(indent + body)
        for kind, n in before.items():      # what a block made is not sure to be there after it
            if nested:
                del self.names[kind][n:]
        for kind, name in new:
            if kind in "vsmo" and not nested and "nonlocal" not in code and "raise" not in code:
                self.names.setdefault(kind, []).append(name)
            elif kind == "p" and not nested:
                self.names["o"].append(name)
        return lines

    def body(self, n):
        out = []
        for _ in range(n):
            out += self.statement()
        return out


class Draw:
    def __init__(self, seed, without=KNOWN):
        self.r = random.Random(f"script {seed}")
        self.on = set(FEATURES) - {"bases", "named", *without}
        self.n = self.r.choice([1, 2, 3, 3, 4, 5, 8] + [60] * (self.r.random() < 0.15))
        # Of the rest each program has some.
        self.on = {f for f in sorted(self.on) if self.r.random() < 0.6}
        self.forms = {"v": [t for f, ts in VECTORS.items() if f is None or f in self.on for t in ts]}
        for kind, table in KINDS.items():
            self.forms[kind] = [t for f, ts in table.items() if f is None or f in self.on for t in ts]
        self.lines = []

    def array(self):
        n, r = self.n, self.r
        return r.choice([f"np.arange({n}.0) / 4 - 1", f"np.ones({n})", f"np.arange({n}.0)", f"np.full({n}, 0.5)", f"np.arange({n})[::-1] / 2",
                         f"np.zeros({n})", f"np.linspace(-1, 1, {n})"] + ([f"np.arange({n})", f"np.ones({n}, 'f4')"] if "dtypes" in self.on else []))

    def matrix(self):
        n, r = self.n, self.r
        return r.choice([f"np.eye({n})", f"(np.arange({n * n}.0).reshape({n}, {n}) % 5) / 4 - 0.5", f"np.ones(({n}, {n}))", f"np.zeros(({n}, {n}), order='F')"])

    def globals(self, text):
        stored = {k for k in ("G0", "G1", "M0", "counter", "kept", "it", "lists", "ints", "o0", "o1") if re.search(rf"(?<![\w.])\(?{k}(, [\w.]+)? *[-+*/@%|&]*=(?!=)|, {k} = ", text)}
        return [f"global {', '.join(sorted(stored))}"] if stored else []

    def function(self, head, scope, result, n):
        body = scope.body(n)
        if result:
            body.append(f"return {result(scope)}")
        body = self.globals("\n".join(body)) + body
        return [head] + ["    " + k for k in body]

    def scope(self, own=(), extra=()):
        names = {"v": ["G0", "G1", "params['w']", "lists[0]", "o0.w", "o1.w", *[f"{s}.w" for s in own], *[f"{s}.parts[0]" for s in own], *extra],
                 "m": ["M0", *[f"{s}.m" for s in own], "o0.m"], "s": ["o0.k"], "i": [], "o": [*own * 3, "o0", "o1"],
                 "lv": ["lists", *[f"{s}.parts" for s in own]], "dv": ["params", *[f"{s}.params" for s in own]], "b": []}
        return Scope(self, **names)

    def classes(self):
        r = self.r
        accelerated = "methods" in self.on and r.random() < 0.5
        for name, base in (("A", ""), ("B", "(A)")):
            out = [f"class {name}{base}:"]
            if not base:
                out += [f"    scale = {self.array()}", "    def __init__(self, w):",
                        f"        self.w, self.m, self.k, self.cache = w, {self.matrix()}, 1, None",
                        f"        self.parts, self.params = [{self.array()}, w], {{'w': {self.array()}, 'u': w}}", "        self.part = w[1:]"]
                if r.random() < 0.5:
                    out += ["    def __getstate__(self):", "        return dict(vars(self), cache=None)"]
                out += FIXED.strip("\n").splitlines()
            elif r.random() < 0.7:
                out += ["    def __init__(self, w):", "        super().__init__(w)", f"        self.w = {r.choice(['w.copy()', 'w + 1', 'self.w[::-1]', 'w'])}"]
            methods = ["forward", "step", "scaled", "size"] if not base else r.sample(["forward", "step"], r.choice([0, 1, 2]))
            for method in methods:
                parameters, kind = METHODS[method]
                small = method in ("scaled", "size")
                scope = self.scope(("self",), ["x", "x"] if "x" in parameters else [])
                scope.names["o"] = ["self"]         # methods that call each other's objects end nowhere
                if accelerated and method == "forward" or r.random() < 0.06 and "methods" in self.on:
                    out.append("    @accelerate")

                def result(scope, kind=kind, base=base, method=method):
                    if base and r.random() < 0.5 and method != "size":
                        return f"super().{method}(x) + {scope.expression(kind, 1)}"
                    return scope.expression(kind, 2)
                on, forms = self.on, self.forms
                self.on = self.on - {"classes", "threads", "generators", "copies"} - ({"raises", "left", "names"} if small else set())
                self.forms = {k: [t for t in ts if "$o" not in t and "twice(" not in t] for k, ts in forms.items()}
                out += ["    " + k for k in self.function(f"def {method}({parameters}):", scope, result, r.choice([0, 1]) if small else r.choice([1, 2, 3, 4]))]
                self.on, self.forms = on, forms
            self.lines += out

    def result(self, scope):
        r = self.r
        v, s = scope.expression("v", 1), scope.expression("s", 1)
        return r.choice([v] * 4 + [s, f"({v}, {s})", f"{{'v': {v}, 's': {s}}}", f"[{v}, ({s}, {v})]", scope.leaf("v"), scope.leaf("v"), scope.expression("m", 2)]
                        + [f"Pair({v}, {s})", scope.leaf("o"), f"map(lambda a: a + {v}, lists)", f"(a * 2 for a in {scope.leaf('lv')})",
                           "None", f"np.array([{s}, {s}])", f"{v}, kept[-1:]"]
                        + [f"functools.partial(np.add, {v})", f"zip([{v}], [{s}])", f"lambda: {v}"] * ("held" in self.on))

    def draw(self):
        r, n = self.r, self.n
        self.lines += HEADER.replace("%n", str(n)).strip().splitlines()
        self.lines += [f"G0 = {self.array()}", f"G1 = {r.choice([self.array(), 'G0', 'G0[::-1]', 'G0'])}", f"M0 = {self.matrix()}",
                       f"params = {{'w': {r.choice(['G0', self.array()])}, 'b': {self.array()}}}", f"lists = [{self.array()}, {r.choice(['G1', self.array()])}]"]
        self.classes()
        self.lines += [f"o0 = {r.choice('AB')}({r.choice([self.array(), 'G0', 'M0[0]', 'G0[:]'])})",
                       f"o1 = {r.choice('AB')}({r.choice([self.array(), 'o0.w', 'G1', 'o0.m[:, 0]'])})", "objs += [o0, o1]", "it = batches(o1)"]
        if r.random() < 0.3:
            self.lines.append(r.choice(["o1.params = o0.params", "o1.parts = o0.parts", "o0.m = M0", "o1.m = o0.m.T", "lists[0] = o0.w", "params['w'] = o1.w"]))
        only = "methods" in self.on and r.random() < 0.2
        if not only:
            self.lines.append("@accelerate")
        self.lines += self.function("def run(x, k):", self.scope(extra=["x", "x", "x"]), self.result, r.choice([2, 3, 4, 5, 7]))
        args = r.choice(["G0", "G0", "o0.w", "np.ones(%n)", "G0 + 0.5", "params['w']", "M0[0]", "G1"]).replace("%n", str(n))
        often = r.choice([0.3, 1.0]) if "steps" in self.on else 0
        for k in range(r.choice([3, 5, 5, 6])):
            if k and r.random() < often:
                for _ in range(r.choice([1, 1, 2])):
                    self.lines.append(r.choices([c for _, c in STEPS], [w for w, _ in STEPS])[0].replace("%n", str(n)))
            self.lines.append(f"r = run({args}, {k})" if r.random() < 0.93 else f"r = [run(k=k, x={args}) for k in range(2)]")
        return self.lines


def draw(seed, without=KNOWN):
    """The lines of a script; the same for the same seed and features."""
    return Draw(seed, without).draw()
