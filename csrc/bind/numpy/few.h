/* bind/numpy/few.h -- NumPy's functions where few elements are in it: what they give, without what their Python does on the
 * way, which takes ten times as long as the arithmetic.
 *
 * Each does the usual calls: arguments by position, arrays and numbers of NumPy's and Python's own types. To any other call
 * it gives NULL without an exception, and has done nothing; so does one whose arithmetic has raised a flag, or is about to
 * fail: NumPy knows what to say. The results are NumPy's to the bit, and lie as NumPy's do. */
#ifndef FR_BIND_NUMPY_FEW_H
#define FR_BIND_NUMPY_FEW_H

#include "bind/numpy/npy.h"
#include "bind/numpy/numpy.h"

typedef PyObject *(*fr_few)(fr_args args, Py_ssize_t n, PyObject *names);

/* By NumPy's name, "linalg.inv"; NULL: it has none. */
fr_few    fr_few_of(const char *name);
/* The same of NumPy's function itself, but for those of numpy.random. */
fr_few    fr_few_function(PyObject *function);
/* The names, a new tuple. */
PyObject *fr_few_names(void);

/* ---- few_random.c: numpy.random's own generator, for those who draw many numbers */

#include <numpy/random/bitgen.h>

/* How RandomState draws normal numbers: two at a time, of which it keeps one. */
struct fr_few_normal {
    bitgen_t *draw;
    int       has_kept;
    double    kept;
};
double    fr_few_draw_normal(struct fr_few_normal *);

enum { FR_FEW_GENERATOR_BYTES = 2560 };
struct fr_few_generator {
    bitgen_t             *draw;
    size_t                n_bytes; /* of its state */
    struct fr_few_normal *normal;  /* NULL: it is not known where that is */
};
/* Takes its lock, until fr_few_generator_end(); false: it is of another kind than NumPy's first, or an exception is set. */
bool      fr_few_generator_begin(struct fr_few_generator *);
bool      fr_few_generator_end(void);
/* What else draws: numpy.random.Generator of PCG64, and Python's random.Random. Where its state is, in how many pieces; 0: it is of
 * another kind. */
enum { FR_FEW_PIECES = 2 };
struct fr_few_piece {
    void  *at;
    size_t n;
};
int       fr_few_state_of(PyObject *drawer, struct fr_few_piece piece[FR_FEW_PIECES]);
/* Copies n pieces to `kept`, one after the other; or from there. */
void      fr_few_keep(const struct fr_few_piece *piece, int n, char *kept, bool back);
/* A number below n. */
int64_t   fr_few_below(const bitgen_t *, int64_t n);

/* ---- what the files share */

enum { FR_FEW = 1024 }; /* elements of a result, or of an argument: with more NumPy takes no longer */

/* An array of numbers or bools that lies as C has it, in the machine's byte order. */
static inline bool
fr_few_is_array(PyObject *x)
{
    return PyArray_CheckExact(x) && PyTypeNum_ISNUMBER(PyArray_TYPE(fr_array(x))) &&
           PyArray_ISCARRAY_RO(fr_array(x)) && PyArray_SIZE(fr_array(x)) <= FR_FEW;
}

static inline bool
fr_few_is_of(PyObject *x, int typenum, int ndim)
{
    return PyArray_CheckExact(x) && PyArray_TYPE(fr_array(x)) == typenum && PyArray_NDIM(fr_array(x)) == ndim &&
           PyArray_ISCARRAY_RO(fr_array(x)) && PyArray_SIZE(fr_array(x)) <= FR_FEW;
}

static inline double *
fr_few_doubles(PyObject *array)
{
    return PyArray_DATA(fr_array(array));
}

/* Python's int or np.int64, and no bool. */
static inline bool
fr_few_int(PyObject *x, int64_t *v)
{
    if (PyLong_CheckExact(x))
        return fr_value_small_int(x, v);
    if (!Py_IS_TYPE(x, &PyLongArrType_Type))
        return false;
    *v = PyArrayScalar_VAL(x, Long);
    return true;
}

/* Python's float or np.float64. */
static inline bool
fr_few_float(PyObject *x, double *v)
{
    if (!PyFloat_CheckExact(x) && !Py_IS_TYPE(x, &PyDoubleArrType_Type))
        return false;
    *v = PyFloat_AS_DOUBLE(x);
    return true;
}

/* Either of these: an int becomes the double that it is. */
static inline bool
fr_few_number(PyObject *x, double *v)
{
    int64_t i;

    if (fr_few_float(x, v))
        return true;
    if (!fr_few_int(x, &i) || i > (INT64_C(1) << 53) || i < -(INT64_C(1) << 53))
        return false;
    *v = (double)i;
    return true;
}

/* Whether the first named argument has that name. */
static inline bool
fr_few_is_named(PyObject *names, const char *name)
{
    return PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), name) == 0;
}

/* A shape, which is a number or a tuple (or list) of them, of few elements: how many axes, -1: it is none. */
enum { FR_FEW_AXES = 8 };
int       fr_few_shape(PyObject *o, npy_intp dims[FR_FEW_AXES]);
/* np.float64 of a number. */
PyObject *fr_few_scalar(double);

#define FEW(name, function) PyObject *function(fr_args args, Py_ssize_t n, PyObject *names);
#include "bind/numpy/few.def"

#endif
