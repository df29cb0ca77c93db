/* bind/hot/hot_ask.c -- hot.h: functions of Python's and NumPy's that are asked for what they give, since they change nothing. */
#include "bind/hot/hot_int.h"

#include <string.h>

#include "base/alloc.h"
#include "bind/accelerate/crossing.h"

/* ---- which functions: each has only to be asked */

/* NumPy's, by their names there. Their warnings are ufuncs' (others warn of arrays without elements, which are not given to them). */
static const char *const of_numpy[] = {
    "all", "allclose", "amax", "amin", "angle", "any", "append", "arange", "argmax", "argmin", "argpartition", "argsort", "argwhere", "around",
    "array", "array_equal", "array_equiv", "atleast_1d", "atleast_2d", "atleast_3d", "average", "bincount", "broadcast_to", "clip", "column_stack",
    "compress", "concatenate", "convolve", "copy", "correlate", "count_nonzero", "cross", "cumprod", "cumsum", "delete", "diag", "diagonal",
    "diagflat", "diff", "digitize", "dot", "dstack", "ediff1d", "einsum", "empty_like", "expand_dims", "extract", "eye", "fix", "flatnonzero", "flip",
    "fliplr", "flipud", "full", "full_like", "gradient", "histogram", "hstack", "identity", "inner", "insert", "interp", "intersect1d",
    "isclose", "isin", "kron", "linspace", "logspace", "max", "mean", "median", "meshgrid", "min", "moveaxis", "nansum", "nonzero", "ones", "ones_like",
    "outer", "pad", "partition", "percentile", "prod", "ptp", "quantile", "ravel", "repeat", "reshape", "roll", "rollaxis", "rot90", "round",
    "searchsorted", "select", "setdiff1d", "size", "sort", "split", "squeeze", "stack", "std", "sum", "swapaxes", "take", "take_along_axis",
    "tensordot", "tile", "trace", "transpose", "tri", "tril", "triu", "union1d", "unique", "vander", "var", "vdot", "vstack", "where", "zeros",
    "zeros_like", "linalg.cholesky", "linalg.cond", "linalg.det", "linalg.eig", "linalg.eigh", "linalg.eigvals", "linalg.eigvalsh", "linalg.inv",
    "linalg.lstsq", "linalg.matrix_power", "linalg.matrix_rank", "linalg.norm", "linalg.pinv", "linalg.qr", "linalg.slogdet", "linalg.solve",
    "linalg.svd", "linalg.multi_dot",
};

/* Methods of arrays, and of lists. */
static const char *const of_arrays[] = {
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "astype", "choose", "clip", "compress", "copy", "cumprod", "cumsum", "diagonal",
    "dot", "flatten", "item", "max", "mean", "min", "nonzero", "prod", "ptp", "ravel", "repeat", "reshape", "round", "searchsorted", "squeeze",
    "std", "sum", "swapaxes", "take", "tolist", "trace", "transpose", "var",
};
static const char *const of_lists[] = {"copy", "count", "index"};
static const char *const that_change_lists[] = {"clear", "extend", "insert", "pop", "remove", "reverse", "sort"};

/* Functions of numpy.random's, and methods of its Generator: each draws, and keeps nothing of it but in the generator. */
static const char *const of_random[] = {
    "beta", "binomial", "chisquare", "choice", "dirichlet", "exponential", "f", "gamma", "geometric", "gumbel", "hypergeometric", "integers", "laplace",
    "logistic", "lognormal", "logseries", "multinomial", "multivariate_normal", "negative_binomial", "normal", "pareto", "permutation", "permuted",
    "poisson", "power", "rand", "randint", "randn", "random", "random_sample", "rayleigh", "shuffle", "standard_cauchy", "standard_exponential",
    "standard_gamma", "standard_normal", "standard_t", "triangular", "uniform", "vonmises", "wald", "weibull", "zipf",
};
/* Of Python's random. (gauss keeps a number elsewhere.) */
static const char *const of_pythons_random[] = {
    "betavariate", "choice", "choices", "expovariate", "gammavariate", "getrandbits", "lognormvariate", "normalvariate", "paretovariate", "randint",
    "random", "randrange", "sample", "shuffle", "triangular", "uniform", "vonmisesvariate", "weibullvariate",
};

static const char *const builtins[] = {"abs", "divmod", "float", "int", "len", "list", "max", "min", "pow", "range", "round", "sorted", "sum", "tuple"};

static bool
is_among(const char *name, const char *const *names, size_t n)
{
    for (size_t k = 0; name && k < n; k++)
        if (strcmp(name, names[k]) == 0)
            return true;
    return false;
}

static bool
is_of_numpy(PyObject *f)
{
    static PyObject *found[FR_LEN(of_numpy)];

    for (size_t k = 0; k < FR_LEN(of_numpy); k++) {
        if (!found[k]) {
            found[k] = fr_numpy_attr(of_numpy[k]);
            PyErr_Clear();
        }
        if (found[k] == f)
            return true;
    }
    return false;
}

/* A function of SciPy's that only computes. */
static bool
is_of_scipy(PyObject *f)
{
    PyObject   *module = PyFunction_Check(f) || PyCFunction_Check(f) ? PyObject_GetAttrString(f, "__module__") : NULL;
    const char *name = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : NULL;
    bool        is = name && (strncmp(name, "scipy.special.", 14) == 0 || strncmp(name, "scipy.linalg.", 13) == 0 ||
                              strncmp(name, "scipy.spatial.distance", 22) == 0);

    PyErr_Clear();
    Py_XDECREF(module);
    return is;
}

static bool
is_builtin(const struct reader *r, PyObject *f)
{
    for (size_t k = 0; k < FR_LEN(builtins) && PyDict_Check(r->source->builtins); k++)
        if (PyDict_GetItemString(r->source->builtins, builtins[k]) == f)
            return true;
    return false;
}

static bool
is_method_of(PyObject *f, PyTypeObject *type, const char *const *names, size_t n)
{
    const char *name = Py_IS_TYPE(f, &PyMethodDescr_Type) && PyDescr_TYPE(f) == type ? PyUnicode_AsUTF8(PyDescr_NAME(f)) : NULL;

    PyErr_Clear();
    return is_among(name, names, n);
}

static bool
is_method(PyObject *f)
{
    return is_method_of(f, &PyArray_Type, of_arrays, FR_LEN(of_arrays)) || is_method_of(f, &PyList_Type, of_lists, FR_LEN(of_lists));
}

bool
fr_hot_may_ask(const struct reader *r, PyObject *f, PyObject *names)
{
    for (Py_ssize_t k = 0; names && k < PyTuple_GET_SIZE(names); k++) {
        const char *name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, k));

        PyErr_Clear();
        if (!name || strcmp(name, "out") == 0 || strcmp(name, "ddof") == 0 || strcmp(name, "key") == 0 ||
            strncmp(name, "overwrite", 9) == 0)
            return false;
    }
    return strcmp(Py_TYPE(f)->tp_name, "numpy.ufunc") == 0 || is_of_scipy(f) || is_of_numpy(f) || is_method(f) || is_builtin(r, f);
}

/* ---- arguments, and the result */

/* Whether an object is one of Python's own, of whose operators nobody's code is part: it has to be of that type in each run. */
static bool
is_container(const struct reader *r, const struct fr_hot_value *v, struct fr_hot_value *to)
{
    PyObject     *o = fr_hot_object(r->p, r->source, v->dtype);
    PyTypeObject *type = o ? Py_TYPE(o) : NULL;

    Py_XDECREF(o);
    to->object = (PyObject *)type;
    return type == &PyDict_Type || type == &PyTuple_Type || type == &PyUnicode_Type || type == &PySet_Type || type == &PyFrozenSet_Type ||
           type == &PyRange_Type;
}

/* Puts a value among the arguments, with what is in it; false: it is nothing that can be one. */
static bool
add_value(const struct reader *r, struct fr_hot_ask *ask, const struct fr_hot_value *v, struct fr_hot_value *to, int *n_items, bool is_draw)
{
    int first = *n_items;

    *to = *v;
    switch (v->kind) {
    case FR_HOT_PYTHON:
    case FR_HOT_NUMPY:
    case FR_HOT_ARRAY:
    case FR_HOT_LIST:
    case FR_HOT_NONE:
    case FR_HOT_RANGE:
    case FR_HOT_SHAPE: return true;
    case FR_HOT_OWNER: return is_draw || is_container(r, v, to);
    case FR_HOT_OBJECT: return !PyFunction_Check(v->object) && !PyMethod_Check(v->object) && !PyCode_Check(v->object); /* (it would be called) */
    case FR_HOT_TUPLE:
    case FR_HOT_DISPLAY:
    case FR_HOT_SLICE:
        if (first + v->ndim > FR_HOT_ASK_ITEMS)
            return false;
        to->items = (int16_t)first;
        *n_items += v->ndim;
        for (int k = 0; k < v->ndim; k++)
            if (!add_value(r, ask, &r->item[v->items + k], &ask->item[first + k], n_items, false))
                return false;
        return true;
    default: return false;
    }
}

/* What this instruction has been given; -1: no more is remembered. */
static int
guess_of(struct reader *r)
{
    struct fr_hot_program *p = r->p;

    for (int k = 0; k < p->n_guesses; k++)
        if (p->guess[k].frame == r->s.frame && p->guess[k].at == r->at)
            return k;
    if (p->n_guesses == FR_HOT_GUESSES)
        return -1;
    p->guess[p->n_guesses] = (struct fr_hot_guess){.frame = r->s.frame, .at = r->at};
    return p->n_guesses++;
}

/* Pushes a result, whose first register is given. */
static void
push_result(struct reader *r, const struct fr_hot_value *type, int to)
{
    struct fr_hot_value v = *type;

    v.reg = (int16_t)to;
    if (v.kind == FR_HOT_TUPLE) {
        if (r->n_items + v.n_parts > ITEMS) {
            fr_hot_leave(r);
            return;
        }
        v.items = (int16_t)r->n_items;
        for (int k = 0; k < v.n_parts; k++)
            r->item[r->n_items++] = (struct fr_hot_value){.kind = v.part[k].kind, .dtype = v.part[k].dtype, .ndim = v.part[k].ndim, .reg = (int16_t)(to + k)};
        v.n_parts = 0;
    }
    fr_hot_push(r, v);
}

/* What a function does: it changes its first argument, or its second; draws from numpy.random's generator; is a method of what draws. */
enum effect { NONE, CHANGES_FIRST = 1, CHANGES_SECOND = 2, DRAWS = 4, METHOD = 8 };

static const char *
name_of(PyObject *f)
{
    PyObject   *name = PyCFunction_Check(f) ? NULL : PyObject_GetAttrString(f, "__name__");
    const char *s = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;

    PyErr_Clear();
    Py_XDECREF(name); /* (the function has it; a built-in one makes a new string each time) */
    return PyCFunction_Check(f) ? ((PyCFunctionObject *)f)->m_ml->ml_name : s;
}

/* What is done to the items of a list that changes. */
static void
note_list(struct fr_hot_ask *a, PyObject *function, const struct fr_hot_value *arg, int n)
{
    static const char *const moves[] = {"clear", "extend", "insert", "reverse", "pop", "delitem"};
    const char              *name = a->changes == 1 && arg[0].kind == FR_HOT_LIST ? name_of(function) : NULL;

    a->moves = is_among(name, moves, FR_LEN(moves));
    a->takes_out = is_among(name, moves + 4, 2) && (n == 1 || (is_whole(&arg[1]) && arg[1].dtype != FR_BOOL));
}

static void
ask(struct reader *r, PyObject *function, const struct fr_hot_value *arg, int n, PyObject *names, int effect)
{
    struct fr_hot_ask *a = n <= FR_HOT_ASK_ARGS ? fr_calloc(1, sizeof *a) : NULL;
    int                n_items = 0, to = fr_hot_fresh(r, FR_HOT_CELLS);

    if (!a || r->ended) {
        fr_free(a);
        fr_hot_leave(r);
        return;
    }
    *a = (struct fr_hot_ask){.next = r->p->asks, .function = Py_NewRef(function), .names = Py_XNewRef(names), .n = n,
                             .changes = effect & CHANGES_FIRST ? 1 : effect & CHANGES_SECOND ? 2 : 0, .draws = effect & DRAWS};
    r->p->asks = a;
    note_list(a, function, arg, n);
    a->picks = Py_IS_TYPE(function, &PyCFunction_Type) && strcmp(((PyCFunctionObject *)function)->m_ml->ml_name, "getitem") == 0;
    a->guess = guess_of(r);
    for (int k = 0; k < n; k++)
        if (a->guess < 0 || !add_value(r, a, &arg[k], &a->arg[k], &n_items, effect & METHOD && k == 0)) {
            fr_hot_leave(r);
            return;
        }
    if (r->p->guess[a->guess].to.kind == FR_HOT_OPAQUE) {
        fr_hot_leave(r);
        return;
    }
    for (int k = 0; k < r->s.n_stack; k++) /* (threads may run meanwhile that let go of items of lists) */
        if (r->s.stack[k].is_borrowed) {
            fr_hot_emit(r, FR_HOT_HOLD, 0, r->s.stack[k].reg, 0);
            r->s.stack[k].is_borrowed = false;
        }
    fr_hot_emit(r, FR_HOT_ASK, to, 0, 0)->ask = a;
    r->p->makes = true;
    r->p->appends |= a->changes && a->arg[a->changes - 1].kind != FR_HOT_ARRAY;
    if (r->p->guess[a->guess].to.kind == FR_HOT_UNBOUND)
        fr_hot_leave(r);
    else
        push_result(r, &r->p->guess[a->guess].to, to);
}

/* Whether the program may draw from that: an object, or what a variable has (NULL). */
static bool
add_drawer(struct reader *r, PyObject *object, int var)
{
    struct fr_hot_program *p = r->p;

    for (int k = 0; k < p->n_drawers; k++)
        if (p->drawer[k].object == object && p->drawer[k].var == var)
            return true;
    if (p->n_drawers == FR_HOT_DRAWERS)
        return false;
    p->drawer[p->n_drawers].object = Py_XNewRef(object);
    p->drawer[p->n_drawers++].var = var;
    return true;
}

/* What is shuffled has to be what can be put back. */
static bool
is_drawn_for(const char *name, const struct fr_hot_value *arg, int n)
{
    return strcmp(name, "shuffle") != 0 || (n == 1 && (arg->kind == FR_HOT_ARRAY || arg->kind == FR_HOT_LIST));
}

/* A function of numpy.random's, or of Python's random; false: it is none. */
static bool
ask_module(struct reader *r, PyObject *f, const struct fr_hot_value *arg, int n, PyObject *names)
{
    static PyObject    *legacy;
    PyObject           *self = PyMethod_Check(f) ? PyMethod_GET_SELF(f) : PyCFunction_Check(f) ? PyCFunction_GET_SELF(f) : NULL, *as;
    const char         *name = self ? name_of(f) : NULL;
    struct fr_few_piece piece[FR_FEW_PIECES];
    int                 effect = name && strcmp(name, "shuffle") == 0 ? CHANGES_FIRST : NONE;

    if (!legacy)
        legacy = fr_numpy_attr("random.mtrand._rand");
    PyErr_Clear();
    if (!name || !is_drawn_for(name, arg, n))
        return false;
    if (self == legacy && is_among(name, of_random, FR_LEN(of_random))) {
        r->p->has_random = true;
        effect |= DRAWS;
    } else if (!is_among(name, of_pythons_random, FR_LEN(of_pythons_random)) || fr_few_state_of(self, piece) != 1 || !add_drawer(r, self, -1)) {
        return false;
    }
    if ((as = fr_called_instead(f)))
        ask(r, as, arg, n, names, effect);
    else
        fr_hot_leave(r);
    PyErr_Clear();
    Py_XDECREF(as);
    return true;
}

bool
fr_hot_draws(const struct reader *r, const struct fr_hot_value *owner)
{
    for (int k = 0; k < r->p->n_drawers; k++)
        if (!r->p->drawer[k].object && r->p->drawer[k].var == owner->dtype)
            return true;
    return false;
}

bool
fr_hot_load_drawer_method(struct reader *r, const struct fr_hot_value *owner, PyObject *name)
{
    PyObject           *o = owner->kind == FR_HOT_OWNER ? fr_hot_object(r->p, r->source, owner->dtype) : NULL;
    struct fr_few_piece piece[FR_FEW_PIECES];
    const char         *s = PyUnicode_AsUTF8(name);
    int                 n = o ? fr_few_state_of(o, piece) : 0;
    PyObject           *method = n ? _PyType_Lookup(Py_TYPE(o), name) : NULL;
    bool                is = method && s && (n == 1 ? is_among(s, of_pythons_random, FR_LEN(of_pythons_random)) : is_among(s, of_random, FR_LEN(of_random))) &&
                             add_drawer(r, NULL, owner->dtype);

    PyErr_Clear();
    if (o && PyDict_CheckExact(o) && s && strcmp(s, "get") == 0) {
        method = _PyType_Lookup(&PyDict_Type, name);
        is = method != NULL;
    }
    Py_XDECREF(o);
    if (!is)
        return false;
    fr_hot_push(r, (struct fr_hot_value){.kind = FR_HOT_OBJECT, .object = method, .reg = -1}); /* (of a type that is for ever) */
    fr_hot_push(r, *owner);
    return true;
}

void
fr_hot_ask_drawer(struct reader *r, PyObject *method, const struct fr_hot_value *arg, int n, PyObject *names)
{
    const char *name = name_of(method);

    if (!name || !is_drawn_for(name, arg + 1, n - 1))
        fr_hot_leave(r);
    else if (fr_hot_draws(r, &arg[0]))
        ask(r, method, arg, n, names, strcmp(name, "shuffle") == 0 ? METHOD | CHANGES_SECOND : METHOD);
    else
        ask(r, method, arg, n, names, NONE);
}

/* What plain calls have for a function, or a method: where that one rounds otherwise than NumPy's, the function of its name. A new
 * reference; NULL: an exception may be set. */
static PyObject *
in_plain_calls(PyObject *f)
{
    PyObject *function, *as;

    if (!is_method(f))
        return fr_called_instead(f);
    if (PyDescr_TYPE(f) != &PyArray_Type || fr_called_rounds(PyDescr_NAME(f)) == 0)
        return Py_NewRef(f);
    function = fr_numpy_attr(PyUnicode_AsUTF8(PyDescr_NAME(f)));
    as = function ? fr_called_instead(function) : NULL;
    Py_XDECREF(function);
    return as;
}

void
fr_hot_ask(struct reader *r, PyObject *function, const struct fr_hot_value *arg, int n, PyObject *names)
{
    PyObject *as = NULL;
    int       effect = NONE;

    if (!r->ended && ask_module(r, function, arg, n, names))
        return;
    if (!r->ended && fr_hot_may_ask(r, function, names))
        as = in_plain_calls(function);
    if (!as && !r->ended && !names && is_method_of(function, &PyList_Type, that_change_lists, FR_LEN(that_change_lists))) {
        as = Py_NewRef(function);
        effect = CHANGES_FIRST;
    }
    PyErr_Clear();
    if (as)
        ask(r, as, arg, n, names, effect);
    else
        fr_hot_leave(r);
    Py_XDECREF(as);
}

void
fr_hot_ask_operator(struct reader *r, const char *name, const struct fr_hot_value *arg, int n)
{
    static PyObject *module;
    PyObject        *f;
    bool             is_statement = strcmp(name, "setitem") == 0 || strcmp(name, "delitem") == 0;

    if (!module)
        module = PyImport_ImportModule("operator");
    f = module ? PyObject_GetAttrString(module, name) : NULL;
    PyErr_Clear();
    if (f)
        ask(r, f, arg, n, NULL, is_statement ? CHANGES_FIRST : NONE);
    else
        fr_hot_leave(r);
    Py_XDECREF(f);
    if (!r->ended && is_statement)
        fr_hot_pop(r);
}
