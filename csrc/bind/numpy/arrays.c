/* bind/numpy/arrays.c -- memory of ndarrays in and out.
 *
 * A tensor shows itself to NumPy as an ndarray over its own memory whose base has the same handle: the
 * storage lives as long as the ndarray. Where nobody else sees the memory, the ndarray owns it. A new ndarray from NumPy
 * becomes a tensor over its memory, and the storage holds the ndarray. */
#include "bind/numpy/numpy.h"
#include "base/alloc.h"
#include "bind/numpy/npy.h"
#include "core/buffer.h"

/* ---- copies in */

/* One of everything that the array repeats (axes of stride 0), as a view of the whole shape. */
static fr_status
copy_repeated(PyArrayObject *a, fr_dtype d, struct fr_tensor *out, struct fr_err *err)
{
    int64_t          dims[FR_MAX_DIMS];
    int              ndim = PyArray_NDIM(a);
    struct fr_tensor once;
    fr_status        st;

    for (int k = 0; k < ndim; k++)
        dims[k] = PyArray_STRIDE(a, k) ? PyArray_DIM(a, k) : 1;
    st = fr_tensor_from_copy(PyArray_DATA(a), d, ndim, dims, (int64_t *)PyArray_STRIDES(a), &once, err);
    if (st != FR_OK)
        return st;
    st = fr_tensor_broadcast(&once, ndim, (int64_t *)PyArray_DIMS(a), out, err);
    fr_tensor_clear(&once);
    if (st == FR_OK)
        out->readonly = true;
    return st;
}

/* Of no elements, as it lies: a result is laid out as its operands are. */
static fr_status
copy_nothing(PyArrayObject *a, fr_dtype d, struct fr_tensor *out, struct fr_err *err)
{
    int64_t         *dims = (int64_t *)PyArray_DIMS(a), strides[FR_MAX_DIMS];
    struct fr_tensor empty;
    fr_status        st = fr_trace_empty(PyArray_NDIM(a), dims, NULL, d, &empty, err);

    if (st != FR_OK)
        return st;
    fr_tensor_set_anywhere(&empty);
    for (int k = 0; k < PyArray_NDIM(a); k++)
        strides[k] = PyArray_STRIDE(a, k) / fr_dtype_size(d);
    st = fr_tensor_window(&empty, PyArray_NDIM(a), dims, strides, 0, out, err);
    fr_tensor_clear(&empty);
    return st;
}

static bool
repeats(PyArrayObject *a)
{
    if (PyArray_SIZE(a) == 0)
        return false;
    for (int k = 0; k < PyArray_NDIM(a); k++)
        if (PyArray_STRIDE(a, k) == 0 && PyArray_DIM(a, k) > 1)
            return true;
    return false;
}

static int
copy_array(PyObject *array, bool operand, struct fr_tensor *out)
{
    fr_dtype       d = fr_numpy_array_dtype(array);
    PyArrayObject *a;
    struct fr_err  err;
    fr_status      st;

    if (PyArray_NDIM(fr_array(array)) > FR_MAX_DIMS)
        return FR_VALUE_FALLBACK;
    if (d != FR_N_DTYPES && PyArray_ISALIGNED(fr_array(array))) {
        a = fr_array(Py_NewRef(array));
    } else {
        int typenum = PyArray_TYPE(fr_array(array));
        if (typenum < 0 || typenum >= NPY_NTYPES_LEGACY || fr_numpy_by_typenum[typenum] == FR_N_DTYPES)
            return FR_VALUE_FALLBACK;
        d = fr_numpy_by_typenum[typenum];
        Py_INCREF(fr_numpy_descrs[d]);
        a = fr_array(PyArray_FromArray(fr_array(array), fr_numpy_descrs[d],
                                       NPY_ARRAY_ALIGNED | NPY_ARRAY_NOTSWAPPED));
        if (!a)
            return FR_VALUE_ERROR;
    }
    /* Stores that are still to happen into memory that this ndarray may share come first. */
    st = fr_runtime_flush(&err);
    if (st == FR_OK && operand && repeats(a))
        st = copy_repeated(a, d, out, &err);
    else if (st == FR_OK && operand && PyArray_SIZE(a) == 0)
        st = copy_nothing(a, d, out, &err);
    else if (st == FR_OK)
        st = fr_tensor_from_copy(PyArray_DATA(a), d, PyArray_NDIM(a), (int64_t *)PyArray_DIMS(a),
                                 (int64_t *)PyArray_STRIDES(a), out, &err);
    fr_info_copied_bytes += (uint64_t)PyArray_NBYTES(a);
    Py_DECREF(a);
    return fr_errors_check(st, &err);
}

int
fr_numpy_copy(PyObject *array, struct fr_tensor *out)
{
    return copy_array(array, false, out);
}

int
fr_numpy_copy_operand(PyObject *array, struct fr_tensor *out)
{
    return copy_array(array, true, out);
}

/* ---- tensors out */

/* The address of the tensor's elements, and the object that keeps them there, whose end is the end of the array that it is the
 * base of. */
static PyObject *
base_of_view(const struct fr_tensor *t, enum fr_view mode, void **data)
{
    struct fr_tensor_object *base = fr_type_new();
    struct fr_err            err;
    fr_status                st;

    if (!base)
        return PyErr_NoMemory();
    fr_tensor_copy(t, &base->t);
    if (mode != FR_VIEW_READ) {
        bool writes = mode >= FR_VIEW_EXPORT && !t->readonly;

        st = fr_tensor_export(&base->t, writes, data, &base->token, &err);
        base->end = st == FR_OK ? FR_END_LOOK : FR_END_NOTHING;
    } else if ((st = fr_tensor_data(&base->t, data, &err)) == FR_OK) {
        base->token = fr_tensor_hold(&base->t);
        base->end = FR_END_HOLD;
    }
    if (st == FR_OK) {
        Py_SET_TYPE((PyObject *)base, fr_memory_type);
        return (PyObject *)base;
    }
    Py_DECREF(base);
    return fr_errors_raise(st, &err);
}

/* An array of these elements, which does not know yet what keeps them there. */
static PyObject *
array_over(const struct fr_tensor *t, void *data, bool writes)
{
    static char             nowhere[64];
    const struct fr_layout *l = t->layout;
    npy_intp                dims[FR_MAX_DIMS], strides[FR_MAX_DIMS];
    int                     size = fr_dtype_size(t->dtype), flags = NPY_ARRAY_ALIGNED | (writes ? NPY_ARRAY_WRITEABLE : 0);

    for (int i = 0; i < l->ndim; i++) {
        dims[i] = fr_layout_dims(l)[i];
        strides[i] = fr_layout_strides(l)[i] * size;
    }
    Py_INCREF(fr_numpy_descrs[t->dtype]);
    return PyArray_NewFromDescr(&PyArray_Type, fr_numpy_descrs[t->dtype], l->ndim, dims, strides, data ? data : nowhere, flags,
                                NULL);
}

/* ---- arrays that own memory of ours: NumPy frees it by a handler of their own (NEP 49) */

struct owned {
    PyDataMem_Handler handler;
    struct fr_buffer *buffer;  /* NULL: NumPy has had other memory for it since */
};

static void *
owned_malloc(void *ctx, size_t n)
{
    (void)ctx;
    return fr_malloc(n);
}

static void *
owned_calloc(void *ctx, size_t n, size_t size)
{
    (void)ctx;
    return fr_calloc(n, size);
}

static void
owned_free(void *ctx, void *p, size_t n)
{
    struct owned *w = ctx;

    (void)n;
    if (w->buffer && w->buffer->mem == p) {
        fr_buffer_unref(w->buffer);
        w->buffer = NULL;
    } else {
        fr_free(p);
    }
}

static void *
owned_realloc(void *ctx, void *p, size_t n)
{
    struct owned *w = ctx;
    void         *new;

    if (!w->buffer || w->buffer->mem != p)
        return fr_realloc(p, n);
    if ((new = fr_malloc(n))) {
        memcpy(new, p, n < w->buffer->n_bytes ? n : w->buffer->n_bytes);
        owned_free(ctx, p, 0);
    }
    return new;
}

static void
owned_end(PyObject *capsule)
{
    struct owned *w = PyCapsule_GetPointer(capsule, "mem_handler");

    fr_buffer_unref(w->buffer);
    fr_free(w);
}

/* The array owns the memory that it sees from now on; the reference moves in. */
static bool
give_memory(PyObject *array, struct fr_buffer *b)
{
    struct owned *w = fr_malloc(sizeof *w);
    PyObject     *capsule = NULL;

    if (w) {
        *w = (struct owned){{"frit", 1, {w, owned_malloc, owned_calloc, owned_realloc, owned_free}}, b};
        capsule = PyCapsule_New(w, "mem_handler", owned_end);
    } else {
        PyErr_NoMemory();
    }
    if (!capsule) {
        fr_buffer_unref(b);
        fr_free(w);
        return false;
    }
    ((PyArrayObject_fields *)array)->mem_handler = capsule;
    PyArray_ENABLEFLAGS(fr_array(array), NPY_ARRAY_OWNDATA);
    return true;
}

/* Whether arrays have their handler where this NumPy's headers say. */
static bool
can_own(void)
{
    static int can = -1;

    if (can < 0) {
        npy_intp  n = 1;
        PyObject *a = PyArray_SimpleNew(1, &n, NPY_DOUBLE), *handler = a ? ((PyArrayObject_fields *)a)->mem_handler : NULL;

        can = handler && PyArray_Type.tp_basicsize >= (Py_ssize_t)sizeof(PyArrayObject_fields) &&
              PyCapsule_IsValid(handler, "mem_handler");
        PyErr_Clear();
        Py_XDECREF(a);
    }
    return can;
}

/* An array that owns the tensor's memory; NULL without an exception: somebody else sees it, too. */
static PyObject *
owner_of(const struct fr_tensor *t)
{
    struct fr_err     err;
    fr_status         st;
    struct fr_buffer *b;
    PyObject         *array;

    if (!can_own())
        return NULL;
    if (!(b = fr_tensor_take(t, &st, &err)))
        return st != FR_OK ? fr_errors_raise(st, &err) : NULL;
    if (!(array = array_over(t, b->mem, true)))
        fr_buffer_unref(b);
    else if (!give_memory(array, b))
        Py_CLEAR(array);
    return array;
}

PyObject *
fr_numpy_view_of(const struct fr_tensor *t, enum fr_view mode)
{
    PyObject        *array, *base;
    void            *data;

    if (FR_UNLIKELY(fr_tensor_is_away(t))) {
        struct fr_tensor copy;
        struct fr_err    err;

        if (fr_errors_check(fr_tensor_to_device(t, FR_DEVICE_HOST, &copy, &err), &err) < 0)
            return NULL;
        array = fr_numpy_view_of(&copy, mode);
        if (array) /* what somebody writes into it would not be there */
            PyArray_CLEARFLAGS(fr_array(array), NPY_ARRAY_WRITEABLE);
        fr_tensor_clear(&copy);
        return array;
    }
    array = mode == FR_VIEW_OWN ? owner_of(t) : NULL;
    if (array || PyErr_Occurred())
        return array;
    if (!(base = base_of_view(t, mode, &data)))
        return NULL;
    array = array_over(t, data, mode >= FR_VIEW_EXPORT && !t->readonly);
    if (!array) {
        Py_DECREF(base);
        return NULL;
    }
    if (PyArray_SetBaseObject(fr_array(array), base) < 0) {
        Py_DECREF(array);
        return NULL;
    }
    return array;
}

PyObject *
fr_numpy_view(PyObject *tensor, enum fr_view mode)
{
    FR_TRACE_HERE();
    return fr_numpy_view_of(fr_of(tensor), mode);
}

void
fr_numpy_look_forever(PyObject *view)
{
    struct fr_tensor_object *base = fr_object(PyArray_BASE(fr_array(view)));

    if (base->end == FR_END_LOOK)
        base->end = FR_END_NOTHING;
}

int
fr_numpy_keep(PyObject *view)
{
    struct fr_tensor_object *base = fr_object(PyArray_BASE(fr_array(view)));
    struct fr_err            err;
    uint32_t                 look;
    void                    *data;

    if (base->end != FR_END_HOLD)
        return 0;
    if (fr_errors_check(fr_tensor_export(&base->t, false, &data, &look, &err), &err) < 0)
        return -1;
    if (data != PyArray_DATA(fr_array(view))) { /* stored to meanwhile: it keeps what it shows */
        fr_storage_unlook(base->t.storage, look);
        return 0;
    }
    fr_tensor_unhold(base->token);
    base->end = FR_END_LOOK;
    base->token = look;
    return 0;
}

PyObject *
fr_numpy_scalar_of(PyObject *tensor)
{
    PyObject *view, *copy;

    FR_TRACE_HERE();
    if (fr_of(tensor)->layout->ndim == 0)
        return fr_numpy_scalar_at(fr_of(tensor));
    if (!(view = fr_numpy_view(tensor, FR_VIEW_READ)))
        return NULL;
    copy = PyArray_NewCopy(fr_array(view), NPY_KEEPORDER);
    Py_DECREF(view);
    return copy;
}

PyObject *
fr_numpy_shown(PyObject *tensor)
{
    return fr_object(tensor)->scalar ? fr_numpy_scalar_of(tensor) : fr_numpy_view(tensor, FR_VIEW_EXPORT);
}

PyObject *
fr_numpy_given(PyObject *tensor)
{
    return fr_object(tensor)->scalar ? fr_numpy_scalar_of(tensor) : fr_numpy_view(tensor, FR_VIEW_OWN);
}

PyObject *
fr_numpy_scalar_at(const struct fr_tensor *t)
{
    struct fr_err err;
    void         *data;
    fr_status     st = fr_tensor_data(t, &data, &err);

    return st == FR_OK ? fr_numpy_scalar_from(t->dtype, data) : fr_errors_raise(st, &err);
}

/* ---- new ndarrays in */

static void
release_array(void *owner)
{
    PyGILState_STATE gil;

    if (!Py_IsInitialized())
        return; /* the process ends: its memory goes with it */
    gil = PyGILState_Ensure();
    Py_DECREF((PyObject *)owner);
    PyGILState_Release(gil);
}

/* The new ndarray, which nobody else refers to, as a Tensor over the same memory. */
static PyObject *
adopt(PyObject *array)
{
    PyArrayObject   *a = fr_array(array);
    struct fr_tensor t;
    struct fr_err    err;
    fr_status        st;

    st = fr_tensor_from_memory(PyArray_DATA(a), FR_DEVICE_ANY, fr_numpy_array_dtype(array), PyArray_NDIM(a),
                               (int64_t *)PyArray_DIMS(a), (int64_t *)PyArray_STRIDES(a),
                               !PyArray_ISWRITEABLE(a), release_array, array, &t, &err);
    if (st != FR_OK)
        return fr_errors_raise(st, &err);
    Py_INCREF(array); /* until nothing reads the memory any more */
    fr_storage_claim(t.storage);
    return fr_type_take(&t);
}

/* True if only the caller of the function that made it can reach the array's memory. */
static bool
is_free(PyObject *array)
{
    PyArrayObject *a = fr_array(array);

    if (!PyArray_CheckExact(array) || Py_REFCNT(array) != 1 || !PyArray_ISALIGNED(a))
        return false;
    if (PyArray_CHKFLAGS(a, NPY_ARRAY_OWNDATA))
        return true;
    /* reshape() and friends return a view of an array that nobody else has. */
    return PyArray_BASE(a) && PyArray_CheckExact(PyArray_BASE(a)) && is_free(PyArray_BASE(a));
}

/* True if the array is a part of one that only items of `tuple` are parts of, as those of nonzero(). */
static bool
is_free_part(PyObject *array, PyObject *tuple)
{
    PyObject  *base = PyArray_CheckExact(array) ? PyArray_BASE(fr_array(array)) : NULL;
    Py_ssize_t n = 0;

    if (!base || !PyArray_CheckExact(base) || Py_REFCNT(array) != 1 ||
        !PyArray_ISALIGNED(fr_array(array)) ||
        !PyArray_CHKFLAGS(fr_array(base), NPY_ARRAY_OWNDATA))
        return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        PyObject *o = PyTuple_GET_ITEM(tuple, i);

        n += PyArray_CheckExact(o) && PyArray_BASE(fr_array(o)) == base;
    }
    return Py_REFCNT(base) == n;
}

static bool
has_whole_strides(PyArrayObject *a)
{
    for (int i = 0; i < PyArray_NDIM(a); i++)
        if (PyArray_STRIDE(a, i) % PyArray_ITEMSIZE(a))
            return false;
    return true;
}

PyObject *
fr_numpy_wrap(PyObject *array, PyObject *tuple)
{
    struct fr_tensor t;

    if (!(is_free(array) || (tuple && is_free_part(array, tuple))) ||
        fr_numpy_array_dtype(array) == FR_N_DTYPES ||
        PyArray_NDIM(fr_array(array)) > FR_MAX_DIMS)
        return Py_NewRef(array);
    if (has_whole_strides(fr_array(array)))
        return adopt(array);
    return fr_numpy_copy(array, &t) == FR_VALUE_OK ? fr_type_take(&t) : NULL;
}

PyObject *
fr_numpy_number(PyObject *scalar)
{
    PyArray_Descr *descr = PyArray_DescrFromScalar(scalar);
    bool           ours = descr && fr_numpy_dtype_of(descr) != FR_N_DTYPES;
    PyObject      *array, *o;

    Py_XDECREF(descr);
    if (!ours)
        return descr ? Py_NewRef(scalar) : NULL;
    array = PyArray_FromScalar(scalar, NULL);
    o = array ? adopt(array) : NULL;
    Py_XDECREF(array);
    if (o)
        fr_type_set_scalar(o, true);
    return o;
}

PyObject *
fr_numpy_window(PyObject *array, PyObject *view, PyObject *tensor)
{
    PyArrayObject   *a = fr_array(array), *v = fr_array(view);
    PyObject        *base = array;
    int64_t          dims[FR_MAX_DIMS], strides[FR_MAX_DIMS], offset;
    struct fr_tensor t;
    struct fr_err    err;
    fr_status        st;
    int              size = (int)PyArray_ITEMSIZE(v);

    while (base && base != view)
        base = PyArray_CheckExact(base) ? PyArray_BASE(fr_array(base)) : NULL;
    if (!base || PyArray_NDIM(a) > FR_MAX_DIMS ||
        fr_numpy_array_dtype(array) != fr_of(tensor)->dtype || !has_whole_strides(a) ||
        (PyArray_BYTES(a) - PyArray_BYTES(v)) % size)
        return NULL;
    for (int i = 0; i < PyArray_NDIM(a); i++) {
        dims[i] = PyArray_DIM(a, i);
        strides[i] = PyArray_STRIDE(a, i) / size;
    }
    if (!fr_tensor_may_walk(fr_of(tensor), PyArray_NDIM(a), dims, strides))
        return NULL;
    offset = PyArray_SIZE(a) ? (PyArray_BYTES(a) - PyArray_BYTES(v)) / size : 0;
    st = fr_tensor_window(fr_of(tensor), PyArray_NDIM(a), dims, strides, offset, &t, &err);
    return fr_type_result(st, &t, &err);
}
