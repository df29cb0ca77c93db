/* bind/numpy/few_random.c -- few.h: single random numbers from numpy.random's own generator, which stands where NumPy's
 * function would leave it. How its RandomState draws is frozen (NEP 19). */
#include "bind/numpy/few.h"

#include <math.h>
#include <string.h>

/* The generator, as numpy.random has it now. */
static struct generator {
    PyObject *state;            /* numpy.random's RandomState */
    PyObject *bits;             /* its bit generator, */
    PyObject *acquire, *release;/* the methods of that one's lock, */
    bitgen_t *draw;             /* and what draws */
    bool      is_looked_for;
} generator;

static bool
read_bits(PyObject *bits)
{
    PyObject *capsule = PyObject_GetAttrString(bits, "capsule"), *lock = capsule ? PyObject_GetAttrString(bits, "lock") : NULL;

    Py_CLEAR(generator.bits);
    Py_XSETREF(generator.acquire, lock ? PyObject_GetAttrString(lock, "acquire") : NULL);
    Py_XSETREF(generator.release, lock ? PyObject_GetAttrString(lock, "release") : NULL);
    generator.draw = generator.release && generator.acquire ? PyCapsule_GetPointer(capsule, "BitGenerator") : NULL;
    if (generator.draw)
        generator.bits = Py_NewRef(bits);
    Py_XDECREF(capsule);
    Py_XDECREF(lock);
    return generator.draw != NULL;
}

/* Takes the generator's lock. NULL: there is none of this kind, unless an exception is set. */
static bitgen_t *
begin(void)
{
    static PyObject *name;
    PyObject        *bits, *locked;
    bool             is;

    if (FR_UNLIKELY(!generator.is_looked_for)) {
        generator.is_looked_for = true;
        name = PyUnicode_InternFromString("_bit_generator");
        generator.state = name ? fr_numpy_attr("random.mtrand._rand") : NULL;
        PyErr_Clear();
    }
    if (!generator.state || !(bits = PyObject_GetAttr(generator.state, name))) {
        PyErr_Clear();
        return NULL;
    }
    is = bits == generator.bits || read_bits(bits); /* numpy.random.set_bit_generator() puts another in its place */
    Py_DECREF(bits);
    if (!is) {
        PyErr_Clear();
        return NULL;
    }
    if (!(locked = PyObject_CallNoArgs(generator.acquire)))
        return NULL;
    Py_DECREF(locked);
    return generator.draw;
}

static bool
end(void)
{
    PyObject *done = PyObject_CallNoArgs(generator.release);

    Py_XDECREF(done);
    return done != NULL;
}

/* ---- normal numbers */

/* Marsaglia and Bray, A convenient method for generating normal variables, SIAM Review 6 (1964), as RandomState has it. */
double
fr_few_draw_normal(struct fr_few_normal *g)
{
    double x, y, square, by;

    if (g->has_kept) {
        x = g->kept;
        g->has_kept = 0;
        g->kept = 0;
        return x;
    }
    do {
        x = 2.0 * g->draw->next_double(g->draw->state) - 1.0;
        y = 2.0 * g->draw->next_double(g->draw->state) - 1.0;
        square = x * x + y * y;
    } while (square >= 1.0 || square == 0.0);
    by = sqrt(-2.0 * log(square) / square);
    g->kept = by * x;
    g->has_kept = 1;
    return by * y;
}

static double
double_of(PyObject *o)
{
    double v = o ? PyFloat_AsDouble(o) : NAN;

    Py_XDECREF(o);
    PyErr_Clear();
    return v;
}

/* Where in a RandomState that is, after it has drawn one number and kept another; 0: nowhere. */
static size_t
place_in(PyObject *state, double kept)
{
    size_t found = 0, n = 0, size = (size_t)Py_TYPE(state)->tp_basicsize;

    for (size_t k = sizeof(PyObject); k + sizeof(struct fr_few_normal) <= size; k += sizeof(void *)) {
        const struct fr_few_normal *g = (struct fr_few_normal *)((char *)state + k);

        if ((uintptr_t)g->draw - (uintptr_t)state < size && g->has_kept == 1 && g->kept == kept) {
            found = k;
            n++;
        }
    }
    return n == 1 ? found : 0;
}

/* The same of RandomStates as NumPy has them: that one is looked into for once, and has to give what ours gives. */
static size_t
place_of_normal(void)
{
    PyObject *type = (PyObject *)Py_TYPE(generator.state), *one = PyObject_CallFunction(type, "i", 5);
    PyObject *two = one ? PyObject_CallFunction(type, "i", 5) : NULL, *state = NULL, *name = NULL;
    size_t    at = 0;

    if (two && double_of(PyObject_CallMethod(one, "standard_normal", NULL)) == double_of(PyObject_CallMethod(two, "standard_normal", NULL)) &&
        (name = PyUnicode_FromString("gauss")) && (state = PyObject_CallMethod(one, "get_state", "O", Py_False)) && PyDict_Check(state)) {
        PyObject             *kept = PyDict_GetItemWithError(state, name);
        struct fr_few_normal *g;

        at = kept ? place_in(one, double_of(Py_NewRef(kept))) : 0;
        g = (struct fr_few_normal *)((char *)one + at);
        for (int k = 0; at && k < 40; k++)
            if (fr_few_draw_normal(g) != double_of(PyObject_CallMethod(two, "standard_normal", NULL)))
                at = 0;
    }
    PyErr_Clear();
    Py_XDECREF(one);
    Py_XDECREF(two);
    Py_XDECREF(state);
    Py_XDECREF(name);
    return at;
}

bool
fr_few_generator_begin(struct fr_few_generator *g)
{
    static size_t normal_at;
    static bool   is_looked_for;
    bool          is;

    if (!(g->draw = begin()))
        return false;
    is = strcmp(Py_TYPE(generator.bits)->tp_name, "numpy.random._mt19937.MT19937") == 0;
    g->n_bytes = 624 * sizeof(uint32_t) + sizeof(int); /* the key, and the place in it */
    if (is && !is_looked_for) {
        is_looked_for = true;
        normal_at = place_of_normal();
    }
    g->normal = is && normal_at ? (struct fr_few_normal *)((char *)generator.state + normal_at) : NULL;
    if (is)
        return true;
    end();
    PyErr_Clear();
    return false;
}

bool
fr_few_generator_end(void)
{
    return end();
}

/* ---- the state of others */

void
fr_few_keep(const struct fr_few_piece *piece, int n, char *kept, bool back)
{
    for (int k = 0; k < n; kept += piece[k++].n)
        if (back)
            memcpy(piece[k].at, kept, piece[k].n);
        else
            memcpy(kept, piece[k].at, piece[k].n);
}

/* Of a Generator: the struct that its capsule leads to (where the numbers are, and a half of one that was kept), and these. */
static int
pieces_of_generator(PyObject *drawer, struct fr_few_piece piece[FR_FEW_PIECES])
{
    PyObject *bits = PyObject_GetAttrString(drawer, "bit_generator"), *capsule = NULL;
    bitgen_t *draw = NULL;
    int       n = 0;

    if (bits && strcmp(Py_TYPE(bits)->tp_name, "numpy.random._pcg64.PCG64") == 0 && (capsule = PyObject_GetAttrString(bits, "capsule")))
        draw = PyCapsule_GetPointer(capsule, "BitGenerator");
    if (draw) {
        char *numbers = *(char **)draw->state;

        piece[0] = (struct fr_few_piece){draw->state, 2 * sizeof(void *)};
        piece[1] = (struct fr_few_piece){numbers, 32};
        n = numbers > (char *)bits && numbers + 32 <= (char *)bits + Py_TYPE(bits)->tp_basicsize ? 2 : 0; /* (the drawer holds them) */
    }
    PyErr_Clear();
    Py_XDECREF(bits);
    Py_XDECREF(capsule);
    return n;
}

static int
pieces_of_python(PyObject *drawer, struct fr_few_piece piece[FR_FEW_PIECES])
{
    PyTypeObject *base = Py_TYPE(drawer)->tp_base;

    piece[0] = (struct fr_few_piece){(char *)drawer + sizeof(PyObject), (size_t)base->tp_basicsize - sizeof(PyObject)};
    return piece[0].n <= FR_FEW_GENERATOR_BYTES;
}

/* Whether a drawer that is made with `make` draws the same again after its state was put back. */
static bool
comes_back(PyObject *make, const char *const *methods, int (*pieces)(PyObject *, struct fr_few_piece *))
{
    PyObject           *drawer = make ? PyObject_CallFunction(make, "i", 5) : NULL;
    struct fr_few_piece piece[FR_FEW_PIECES];
    char                kept[FR_FEW_PIECES * FR_FEW_GENERATOR_BYTES];
    double              was[4];
    int                 n = drawer ? pieces(drawer, piece) : 0;
    bool                same = n > 0;

    for (int twice = 0; same && twice < 2; twice++) {
        fr_few_keep(piece, n, kept, twice);
        for (int k = 0; k < 4; k++) {
            double v = double_of(PyObject_CallMethod(drawer, methods[k % 2], k % 2 ? "i" : NULL, 7));

            same = same && (twice ? v == was[k] : !isnan(v));
            was[k] = v;
        }
    }
    PyErr_Clear();
    Py_XDECREF(drawer);
    return same;
}

int
fr_few_state_of(PyObject *drawer, struct fr_few_piece piece[FR_FEW_PIECES])
{
    static const char *const methods[2][2] = {{"random", "integers"}, {"random", "getrandbits"}};
    static PyObject         *types[2];
    static bool              is_looked_for, works[2];

    if (!is_looked_for) {
        PyObject *module = PyImport_ImportModule("random"), *make = fr_numpy_attr("random.default_rng");

        is_looked_for = true;
        types[0] = fr_numpy_attr("random.Generator");
        types[1] = module ? PyObject_GetAttrString(module, "Random") : NULL;
        PyErr_Clear();
        works[0] = types[0] && comes_back(make, methods[0], pieces_of_generator);
        works[1] = types[1] && comes_back(types[1], methods[1], pieces_of_python);
        Py_XDECREF(module);
        Py_XDECREF(make);
    }
    if (works[0] && Py_IS_TYPE(drawer, (PyTypeObject *)types[0]))
        return pieces_of_generator(drawer, piece);
    return works[1] && Py_IS_TYPE(drawer, (PyTypeObject *)types[1]) ? pieces_of_python(drawer, piece) : 0;
}

/* A number below n: the bits that n - 1 has, until they are one. */
int64_t
fr_few_below(const bitgen_t *g, int64_t n)
{
    uint64_t most = (uint64_t)n - 1, mask = most, v;

    if (most == 0)
        return 0;
    for (int shift = 1; shift < 64; shift *= 2)
        mask |= mask >> shift;
    if (most <= UINT32_MAX) {
        if (most == UINT32_MAX)
            return g->next_uint32(g->state);
        while ((v = g->next_uint32(g->state) & mask) > most)
            ;
    } else {
        while ((v = g->next_uint64(g->state) & mask) > most)
            ;
    }
    return (int64_t)v;
}

PyObject *
fr_few_randint(fr_args args, Py_ssize_t n, PyObject *names)
{
    int64_t   low = 0, high, v;
    bitgen_t *g;

    if (n < 1 || n > 2 || names || !fr_few_int(args[n - 1], &high) || (n == 2 && !fr_few_int(args[0], &low)) ||
        low < INT32_MIN || high > INT32_MAX || low >= high || !(g = begin()))
        return NULL;
    v = low + fr_few_below(g, high - low);
    return end() ? PyLong_FromLongLong(v) : NULL;
}

PyObject *
fr_few_uniform(fr_args args, Py_ssize_t n, PyObject *names)
{
    double    low = 0, high = 1, v;
    bitgen_t *g;

    if (n == 1 || n > 2 || names || (n == 2 && (!fr_few_number(args[0], &low) || !fr_few_number(args[1], &high))) ||
        !isfinite(high - low) || high < low || !(g = begin()))
        return NULL;
    v = g->next_double(g->state);
    return end() ? PyFloat_FromDouble(low + (high - low) * v) : NULL;
}

/* ---- np.random.choice of one */

/* How many there are to choose from; 0: it is another call. */
static int64_t
count_of(PyObject *of)
{
    int64_t n;
    double  f;

    if (PyArray_CheckExact(of))
        return PyArray_NDIM(fr_array(of)) == 1 && PyTypeNum_ISNUMBER(PyArray_TYPE(fr_array(of))) ? PyArray_DIM(fr_array(of), 0) : 0;
    if (PyList_CheckExact(of)) {
        n = PyList_GET_SIZE(of);
        for (Py_ssize_t k = 0; k < n; k++) {
            PyObject *x = PyList_GET_ITEM(of, k), *first = PyList_GET_ITEM(of, 0);
            int64_t   i;

            if (Py_TYPE(x) != Py_TYPE(first) || !(fr_few_int(x, &i) || fr_few_float(x, &f)))
                return 0;
        }
        return n <= FR_FEW ? n : 0;
    }
    return fr_few_int(of, &n) && n > 0 && n <= INT32_MAX ? n : 0;
}

static PyObject *
item_of(PyObject *of, int64_t i)
{
    PyObject *x;
    int64_t   v;
    double    f;

    if (PyArray_CheckExact(of))
        return PyArray_Scalar(PyArray_GETPTR1(fr_array(of), i), PyArray_DESCR(fr_array(of)), of);
    if (!PyList_CheckExact(of))
        return PyLong_FromLongLong(i);
    x = PyList_GET_ITEM(of, i);
    if (fr_few_float(x, &f))
        return fr_few_scalar(f);
    return fr_few_int(x, &v) ? fr_numpy_scalar_from(FR_I64, &v) : NULL;
}

/* The sum, and what addition loses of it added again (Kahan 1965), as numpy.random does it. */
static double
kahan_sum(const double *v, int64_t n)
{
    double sum = v[0], lost = 0;

    for (int64_t i = 1; i < n; i++) {
        double y = v[i] - lost, t = sum + y;

        lost = (t - sum) - y;
        sum = t;
    }
    return sum;
}

/* The sums of the first of n chances, divided by the last; false: NumPy has something to say of them. */
static bool
add_chances(PyObject *p, int64_t n, double sums[FR_FEW])
{
    double v[FR_FEW] = {0}, sum = 0;

    if (PyArray_CheckExact(p)) {
        if (!fr_few_is_of(p, NPY_DOUBLE, 1) || PyArray_DIM(fr_array(p), 0) != n)
            return false;
    } else if (!PyList_CheckExact(p) || PyList_GET_SIZE(p) != n) {
        return false;
    }
    for (int64_t i = 0; i < n; i++) {
        if (PyArray_CheckExact(p))
            v[i] = fr_few_doubles(p)[i];
        else if (!fr_few_number(PyList_GET_ITEM(p, i), &v[i]))
            return false;
        if (!(v[i] >= 0))
            return false;
        sums[i] = sum = i ? sum + v[i] : v[i];
    }
    if (!(fabs(kahan_sum(v, n) - 1) <= 1e-8))
        return false;
    for (int64_t i = 0; i < n; i++)
        sums[i] /= sum;
    return true;
}

PyObject *
fr_few_choice(fr_args args, Py_ssize_t n, PyObject *names)
{
    int64_t   count = n == 1 ? count_of(args[0]) : 0, i = 0;
    double    sums[FR_FEW];
    bool      has_chances = names && PyTuple_GET_SIZE(names) == 1 && fr_few_is_named(names, "p");
    bitgen_t *g;

    if (count == 0 || (names && !has_chances) || (has_chances && (count > FR_FEW || !add_chances(args[1], count, sums))) ||
        !(g = begin()))
        return NULL;
    if (has_chances) {
        double at = g->next_double(g->state);

        while (i < count - 1 && sums[i] <= at)
            i++;
    } else {
        i = fr_few_below(g, count);
    }
    return end() ? item_of(args[0], i) : NULL;
}
