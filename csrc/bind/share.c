/* bind/share.c -- ndarrays whose memory tensors use in place: frit.asarray(copy=False), accelerate.
 *
 * Two ndarrays over one memory must become windows of one storage, or writes through one would not be
 * seen by the other. So the storage is made over the ndarray that owns the memory (the end of the chain
 * of .base), and a table finds it again by that owner for as long as the storage lives. */
#include <string.h>

#include "base/alloc.h"
#include "bind/bind.h"
#include "bind/npy.h"

/* A storage over somebody's memory. Its storage pointer is not a reference: the storage owns this. */
struct shared {
    PyObject        *root;        /* ndarray that owns the memory, one reference */
    struct fr_tensor whole;       /* over all of it */
    char            *low, *high;  /* its bytes, high exclusive */
    bool             partial;     /* it covers less than the memory that its owner has */
    struct shared   *next;
};

enum { N_BUCKETS = 256 };
static struct shared *buckets[N_BUCKETS];
static int            n_partial;

static struct shared **
bucket_of(PyObject *root)
{
    return &buckets[((uintptr_t)root >> 5) % N_BUCKETS];
}

static struct shared *
find(PyObject *root, fr_dtype d)
{
    for (struct shared *s = *bucket_of(root); s; s = s->next)
        if (s->root == root && s->whole.dtype == d)
            return s;
    return NULL;
}

/* The storage dies. */
static void
forget(void *owner)
{
    struct shared   *s = owner, **p;
    PyGILState_STATE gil;

    if (!Py_IsInitialized())
        return;
    gil = PyGILState_Ensure();
    for (p = bucket_of(s->root); *p && *p != s; p = &(*p)->next)
        ;
    if (*p)
        *p = s->next;
    n_partial -= s->partial;
    fr_layout_unref(s->whole.layout);
    Py_DECREF(s->root);
    fr_free(s);
    PyGILState_Release(gil);
}

static PyObject *
not_shareable(PyObject *array, const char *why)
{
    PyObject *dtype = PyObject_GetAttrString(array, "dtype");

    PyErr_Format(PyExc_TypeError, "frit cannot share the memory of an array of dtype %S: %s",
                 dtype ? dtype : Py_None, why);
    Py_XDECREF(dtype);
    return NULL;
}

/* The last ndarray in the chain of bases; *tensor is set where the memory is a Tensor's own. */
static PyObject *
root_of(PyObject *array, PyObject **tensor)
{
    PyObject *base;

    *tensor = NULL;
    while ((base = PyArray_BASE(fr_array(array))) != NULL) {
        if (fr_is_tensor(base)) {
            *tensor = base;
            break;
        }
        if (!PyArray_Check(base))
            break;
        array = base;
    }
    return array;
}

/* The array as a window of `t`, whose first element is at `data`; NULL without an exception where it
 * does not fit element by element. */
static PyObject *
window_of(PyObject *array, const struct fr_tensor *t, const char *data)
{
    PyArrayObject   *a = fr_array(array);
    int64_t          dims[FR_MAX_DIMS], strides[FR_MAX_DIMS], size = fr_dtype_size(t->dtype);
    int64_t          offset = PyArray_SIZE(a) ? PyArray_BYTES(a) - data : 0;
    struct fr_tensor out;
    struct fr_err    err;
    fr_status        st;

    if (offset % size)
        return NULL;
    for (int i = 0; i < PyArray_NDIM(a); i++) {
        if (PyArray_STRIDE(a, i) % size)
            return NULL;
        dims[i] = PyArray_DIM(a, i);
        strides[i] = PyArray_STRIDE(a, i) / size;
    }
    st = fr_tensor_window(t, PyArray_NDIM(a), dims, strides, offset / size, &out, &err);
    if (st == FR_OK)
        out.readonly = t->readonly || !PyArray_ISWRITEABLE(a);
    return fr_type_result(st, &out, &err);
}

/* The first byte of the memory and its length; false if elements do not lie side by side in it. */
static bool
block_of(PyObject *root, char **data, int64_t *n_elems)
{
    PyArrayObject *a = fr_array(root);

    *data = PyArray_BYTES(a);
    *n_elems = PyArray_SIZE(a);
    return PyArray_IS_C_CONTIGUOUS(a) || PyArray_IS_F_CONTIGUOUS(a);
}

static void
byte_bounds(PyObject *array, char **low, char **high)
{
    PyArrayObject *a = fr_array(array);

    *low = *high = PyArray_BYTES(a);
    if (PyArray_SIZE(a) == 0)
        return;
    for (int i = 0; i < PyArray_NDIM(a); i++) {
        npy_intp far = (PyArray_DIM(a, i) - 1) * PyArray_STRIDE(a, i);
        if (far < 0)
            *low += far;
        else
            *high += far;
    }
    *high += PyArray_ITEMSIZE(a);
}

/* Storages that cover only parts of a memory may meet: then one would not see the other's writes. */
static bool
collides(char *low, char *high)
{
    for (int i = 0; i < N_BUCKETS; i++)
        for (const struct shared *s = buckets[i]; s; s = s->next)
            if (s->low < high && low < s->high)
                return true;
    return false;
}

/* A new storage over all that `root` covers. */
static struct shared *
make(PyObject *root, fr_dtype d, bool partial)
{
    PyArrayObject   *a = fr_array(root);
    struct shared   *s = fr_calloc(1, sizeof *s);
    struct fr_tensor t;
    struct fr_err    err;
    fr_status        st;
    void            *data;

    if (!s) {
        PyErr_NoMemory();
        return NULL;
    }
    byte_bounds(root, &s->low, &s->high);
    if ((partial || n_partial) && collides(s->low, s->high)) {
        fr_free(s);
        not_shareable(root, "another tensor uses a part of it as another array");
        return NULL;
    }
    st = fr_tensor_from_memory(PyArray_DATA(a), d, PyArray_NDIM(a), (int64_t *)PyArray_DIMS(a),
                               (int64_t *)PyArray_STRIDES(a), false, forget, s, &t, &err);
    if (st != FR_OK) {
        fr_free(s);
        fr_errors_raise(st, &err);
        return NULL;
    }
    s->root = Py_NewRef(root);
    s->partial = partial;
    n_partial += partial;
    s->whole = t;
    fr_layout_ref(t.layout);
    s->next = *bucket_of(root);
    *bucket_of(root) = s;
    /* Its owner looks at the memory whenever it likes. */
    st = fr_tensor_export(&t, &data, &err);
    if (st != FR_OK) {
        fr_tensor_clear(&t);      /* ends `s` */
        fr_errors_raise(st, &err);
        return NULL;
    }
    /* The caller makes a window at once; until then the reference of `t` is its own. */
    return s;
}

PyObject *
fr_share(PyObject *module, PyObject *array)
{
    PyObject      *root, *tensor, *o;
    struct shared *s;
    struct fr_err  err;
    fr_dtype       d;
    char          *data;
    int64_t        n_elems;
    bool           fresh = false, partial = false;

    (void)module;
    if (!fr_numpy_is_array(array)) {
        PyErr_Format(PyExc_TypeError, "an ndarray is wanted, not %s", Py_TYPE(array)->tp_name);
        return NULL;
    }
    d = fr_numpy_array_dtype(array);
    if (d == FR_N_DTYPES)
        return not_shareable(array, "frit has no such dtype");
    if (PyArray_NDIM(fr_array(array)) > FR_MAX_DIMS)
        return not_shareable(array, "too many dimensions");
    if (!PyArray_ISALIGNED(fr_array(array)))
        return not_shareable(array, "its elements are not aligned");
    root = root_of(array, &tensor);
    if (tensor && fr_of(tensor)->dtype == d) {
        void     *first;
        fr_status st = fr_tensor_export(fr_of(tensor), &first, &err);
        if (st != FR_OK)
            return fr_errors_raise(st, &err);
        o = window_of(array, fr_of(tensor), first);
        return o || PyErr_Occurred() ? o : not_shareable(array, "its strides");
    }
    if (fr_numpy_array_dtype(root) != d || !block_of(root, &data, &n_elems) ||
        PyArray_NDIM(fr_array(root)) > FR_MAX_DIMS || !PyArray_ISALIGNED(fr_array(root))) {
        /* Seen in parts or in other types: this array by itself, if nobody shares the memory yet. */
        root = array;
        partial = PyArray_BASE(fr_array(array)) != NULL;
        data = PyArray_BYTES(fr_array(array));
    }
    s = find(root, d);
    if (!s) {
        s = make(root, d, partial);
        if (!s)
            return NULL;
        fresh = true;
    }
    o = window_of(array, &s->whole, data);
    if (fresh) { /* the window has its own reference now */
        struct fr_storage *storage = s->whole.storage;
        struct fr_layout  *layout = s->whole.layout;
        fr_storage_unref(storage);
        fr_layout_unref(layout);
    }
    return o || PyErr_Occurred() ? o : not_shareable(array, "its strides");
}

PyMethodDef fr_share_methods[] = {
    {"share", fr_share, METH_O,
     "share(array, /)\n--\n\n"
     "A Tensor over the ndarray's own memory: writes go both ways. Arrays over one memory become\n"
     "views of one storage. TypeError for dtypes and strides that frit does not have."},
    {NULL, NULL, 0, NULL},
};
