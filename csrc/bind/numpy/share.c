/* bind/numpy/share.c -- ndarrays whose memory tensors use in place: frit.asarray(copy=False), accelerate.
 *
 * Two ndarrays over one memory must become windows of one storage, or writes through one would not be
 * seen by the other. So the storage is made over the ndarray that owns the memory (the end of the chain
 * of .base), and a table finds it again by that owner for as long as the storage lives. */
#include <string.h>

#include "base/alloc.h"
#include "bind/numpy/numpy.h"
#include "bind/numpy/npy.h"

/* A storage over somebody's memory. Its storage pointer is not a reference; it goes when the last handle
 * does. The entry lives on until nothing pending reads the memory. */
struct shared {
    PyObject        *root;        /* ndarray that owns the memory, one reference; NULL: it rests */
    struct fr_tensor whole;       /* over all of it; storage NULL: dead */
    char            *data;        /* of the first element of `whole` */
    char            *low, *high;  /* its bytes, high exclusive */
    bool             partial;     /* other storages over the same owner are possible */
    struct shared   *next;        /* of the same root's bucket */
    struct shared   *next_alive;  /* of the same storage's bucket */
};

enum { N_BUCKETS = 256 };
static struct shared *buckets[N_BUCKETS];      /* by root */
static struct shared *alive[N_BUCKETS];        /* by storage */
static int            n_partial;

static struct shared **
bucket_of(PyObject *root)
{
    return &buckets[((uintptr_t)root >> 5) % N_BUCKETS];
}

static struct shared **
alive_of(const struct fr_storage *storage)
{
    return &alive[((uintptr_t)storage >> 5) % N_BUCKETS];
}

static void
link_root(struct shared *s)
{
    s->next = *bucket_of(s->root);
    *bucket_of(s->root) = s;
}

static void
unlink_root(struct shared *s)
{
    struct shared **p = bucket_of(s->root);

    while (*p && *p != s)
        p = &(*p)->next;
    if (*p)
        *p = s->next;
}

/* The entry of the block, dead or alive; one that is alive if there is one. */
static struct shared *
find(PyObject *root, fr_dtype d, const char *data)
{
    struct shared *found = NULL;

    for (struct shared *s = *bucket_of(root); s; s = s->next)
        if (s->root == root && s->whole.dtype == d && s->data == data &&
            (!found || s->whole.storage))
            found = s;
    return found;
}

static struct shared *
find_alive(const struct fr_storage *storage)
{
    struct shared *s = *alive_of(storage);

    while (s && s->whole.storage != storage)
        s = s->next_alive;
    return s;
}

void
fr_share_died(struct fr_storage *storage)
{
    for (struct shared **p = alive_of(storage); *p; p = &(*p)->next_alive)
        if ((*p)->whole.storage == storage) {
            (*p)->whole.storage = NULL;
            *p = (*p)->next_alive;
            return;
        }
}

/* Nothing reads the memory any more. */
static void
forget(void *owner)
{
    struct shared   *s = owner;
    PyGILState_STATE gil;

    if (!Py_IsInitialized())
        return;
    gil = PyGILState_Ensure();
    unlink_root(s);
    n_partial -= s->partial;
    fr_share_died(s->whole.storage);
    fr_layout_unref(s->whole.layout);
    Py_XDECREF(s->root);
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

PyObject *
fr_share_root(PyObject *array, PyObject **tensor)
{
    PyObject *base;

    *tensor = NULL;
    while ((base = PyArray_BASE(fr_array(array))) != NULL) {
        if (PyMemoryView_Check(base)) /* np.asarray(t) takes the buffer of an ndarray over t */
            base = PyMemoryView_GET_BUFFER(base)->obj;
        if (!base)
            break;
        if (fr_is_memory(base)) {
            *tensor = base;
            break;
        }
        if (!PyArray_Check(base))
            break;
        array = base;
    }
    return array;
}

/* Whether an array of dtype d among complex numbers may show one of their components. */
static bool
may_be_component(PyObject *array, fr_dtype d, fr_dtype of)
{
    PyArrayObject *a = fr_array(array);

    if (!fr_dtype_is_complex(of) || fr_dtype_info[of].component != d)
        return false;
    for (int i = 0; i < PyArray_NDIM(a); i++)
        if (PyArray_DIM(a, i) > 1 && PyArray_STRIDE(a, i) % fr_dtype_size(of))
            return false;
    return true;
}

fr_dtype
fr_share_dtype(PyObject *array)
{
    PyObject *tensor, *root = fr_share_root(array, &tensor);
    fr_dtype  d = fr_numpy_array_dtype(array), of = tensor ? fr_of(tensor)->dtype : fr_numpy_array_dtype(root);

    if (!tensor && !PyArray_IS_C_CONTIGUOUS(fr_array(root)) && !PyArray_IS_F_CONTIGUOUS(fr_array(root)))
        return d; /* each array has a storage of its own */
    return d != FR_N_DTYPES && of != FR_N_DTYPES && may_be_component(array, d, of) ? of : d;
}

/* The array as a window of `t`, whose first element is at `data`; NULL without an exception where it
 * does not fit element by element. */
static PyObject *
window_of(PyObject *array, const struct fr_tensor *t, const char *data)
{
    PyArrayObject   *a = fr_array(array);
    int64_t          dims[FR_MAX_DIMS], strides[FR_MAX_DIMS], size = PyArray_ITEMSIZE(a);
    int64_t          offset = PyArray_SIZE(a) ? PyArray_BYTES(a) - data : 0;
    struct fr_tensor out, part;
    struct fr_err    err;
    fr_status        st;

    if (fr_numpy_array_dtype(array) != t->dtype) {
        PyObject *o;

        if ((st = fr_tensor_component(t, false, &part, &err)) != FR_OK)
            return fr_errors_raise(st, &err);
        o = window_of(array, &part, data);
        fr_tensor_clear(&part);
        return o;
    }
    if (offset % size)
        return NULL;
    for (int i = 0; i < PyArray_NDIM(a); i++) {
        if (PyArray_STRIDE(a, i) % size)
            return NULL;
        dims[i] = PyArray_DIM(a, i);
        strides[i] = PyArray_STRIDE(a, i) / size;
    }
    if (!fr_tensor_may_walk(t, PyArray_NDIM(a), dims, strides))
        return NULL;
    st = fr_tensor_window(t, PyArray_NDIM(a), dims, strides, offset / size, &out, &err);
    if (st == FR_OK)
        out.readonly = t->readonly || !PyArray_ISWRITEABLE(a);
    return fr_type_result(st, &out, &err);
}

void
fr_share_bounds(PyObject *array, char **low, char **high)
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

bool
fr_share_meet(PyObject *a, PyObject *b)
{
    char *low, *high, *from, *to;

    fr_share_bounds(a, &low, &high);
    fr_share_bounds(b, &from, &to);
    return low < to && from < high;
}

/* Storages that cover only parts of a memory may meet: then one would not see the other's writes. */
static bool
collides(char *low, char *high)
{
    for (int i = 0; i < N_BUCKETS; i++)
        for (const struct shared *s = buckets[i]; s; s = s->next)
            if (s->whole.storage && s->low < high && low < s->high)
                return true;
    return false;
}

/* What a storage is made over: memory and its shape, in elements of one dtype. */
struct block {
    char    *data;
    int      ndim;
    int64_t  dims[FR_MAX_DIMS], strides[FR_MAX_DIMS];     /* strides in bytes */
    bool     partial;
};

static void
block_of_array(PyObject *array, struct block *b)
{
    PyArrayObject *a = fr_array(array);

    b->data = PyArray_BYTES(a);
    b->ndim = PyArray_NDIM(a);
    for (int i = 0; i < b->ndim; i++) {
        b->dims[i] = PyArray_DIM(a, i);
        b->strides[i] = PyArray_STRIDE(a, i);
    }
}

/* All of the owner's memory if its elements lie side by side: in its own shape, or as a row of elements
 * of dtype d where it holds something else (bytes of a file, records). Else the array by itself.
 * Returns whose memory it is: root or array. */
static PyObject *
choose_block(PyObject *root, PyObject *array, fr_dtype d, struct block *b)
{
    PyArrayObject *r = fr_array(root);
    int64_t        size = fr_dtype_size(d);

    b->partial = false;
    if (!PyArray_IS_C_CONTIGUOUS(r) && !PyArray_IS_F_CONTIGUOUS(r)) {
        b->partial = true;
        block_of_array(array, b);
        return array;
    }
    if (fr_numpy_array_dtype(root) == d && PyArray_NDIM(r) <= FR_MAX_DIMS &&
               PyArray_ISALIGNED(r)) {
        block_of_array(root, b);
    } else {
        int64_t phase = (PyArray_BYTES(fr_array(array)) - PyArray_BYTES(r)) % size;
        b->partial = true; /* other types may look at it too */
        b->data = PyArray_BYTES(r) + phase;
        b->ndim = 1;
        b->dims[0] = (PyArray_NBYTES(r) - phase) / size;
        b->strides[0] = size;
    }
    return root;
}

/* A new storage over the block; *t is the first handle of it, which the caller clears. */
static struct shared *
make(PyObject *root, const struct block *b, fr_dtype d, struct fr_tensor *t)
{
    struct shared *s = fr_malloc(sizeof *s);
    struct fr_err  err;
    fr_status      st;

    if (!s) {
        PyErr_NoMemory();
        return NULL;
    }
    *s = (struct shared){.data = b->data, .partial = b->partial};
    fr_share_bounds(root, &s->low, &s->high);
    st = fr_tensor_from_memory(b->data, FR_DEVICE_ANY, d, b->ndim, b->dims, b->strides, false, forget, s, t, &err);
    if (st != FR_OK) {
        fr_free(s);
        fr_errors_raise(st, &err);
        return NULL;
    }
    s->root = Py_NewRef(root);
    n_partial += b->partial;
    s->whole = *t;
    fr_layout_ref(t->layout);
    link_root(s);
    s->next_alive = *alive_of(t->storage);
    *alive_of(t->storage) = s;
    return s;
}

/* Before a storage over this block is made: ends storages that collide with it and only wait for their
 * stores. False, with an exception, if others are left. */
static bool
make_way(PyObject *root, const struct block *b)
{
    char *low, *high;

    fr_share_bounds(root, &low, &high);
    if (!(b->partial || n_partial) || !collides(low, high))
        return true;
    if (fr_runtime_flush(NULL) == FR_OK && !collides(low, high))
        return true;
    if (!PyErr_Occurred())
        not_shareable(root, "another tensor uses a part of it as another array");
    return false;
}

PyObject *
fr_share(PyObject *module, PyObject *array)
{
    PyObject        *root, *tensor, *o;
    struct shared   *s;
    struct block     b;
    struct fr_tensor first = {.storage = NULL};
    struct fr_err    err;
    fr_status        st;
    fr_dtype         d;
    uint32_t         look;
    void            *data;

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
    root = fr_share_root(array, &tensor);
    d = fr_share_dtype(array);
    if (tensor) {
        if (fr_of(tensor)->dtype != d)
            return not_shareable(array, "its memory is a tensor of another dtype");
        if (fr_object(tensor)->end != FR_END_LOOK) /* the tensor may have moved on */
            return not_shareable(array, "it shows a tensor for reading");
        st = fr_tensor_data(fr_of(tensor), &data, &err);
        if (st != FR_OK)
            return fr_errors_raise(st, &err);
        o = window_of(array, fr_of(tensor), data);
        return o || PyErr_Occurred() ? o : not_shareable(array, "its strides");
    }
    root = choose_block(root, array, d, &b);
    s = find(root, d, b.data);
    if (!s || !s->whole.storage) {
        /* Something pending reads the memory, from the time of an earlier storage. */
        if (s && (st = fr_eval_all(&err)) != FR_OK)
            return fr_errors_raise(st, &err);
        if (!make_way(root, &b))
            return NULL;
        s = find(root, d, b.data); /* another thread may have made it while kernels ran */
    }
    if (!s || !s->whole.storage) {
        if (!(s = make(root, &b, d, &first)))
            return NULL;
        /* Both sides may write at any time from now on. */
        if ((st = fr_tensor_export(&first, true, &data, &look, &err)) != FR_OK) {
            fr_tensor_clear(&first);
            return fr_errors_raise(st, &err);
        }
    }
    if (first.storage && array == root && !b.partial) {
        first.readonly = !PyArray_ISWRITEABLE(fr_array(array));
        if ((o = fr_type_result(FR_OK, &first, &err)))
            fr_type_become_base(o);
        return o;
    }
    o = window_of(array, &s->whole, s->data);
    if (first.storage)
        fr_tensor_clear(&first); /* the window has its own reference now */
    if (o && array == root)
        fr_type_become_base(o);
    return o || PyErr_Occurred() ? o : not_shareable(array, "its strides");
}

/* ---- loans: the caller of an accelerated function waits, so nobody else looks at the memory
 *
 * The next call gets other arrays of the same shapes, as a rule. So what stands for an argument, Tensor, storage
 * and node, is not made and dropped with each call: it rests, lent but over nobody's memory, and only the
 * memory is exchanged. The last to rest is the first to go: arguments that are looked for in the order in which
 * they are given, and rest in the reverse one, are found at once. */

enum { MAX_RESTING = 64 };
static struct resting {
    PyObject      *tensor;
    struct shared *s;
} resting[MAX_RESTING];
static int n_resting;

bool
fr_share_is_idle(PyObject *tensor)
{
    return fr_object(tensor)->end == FR_END_LOAN && fr_storage_is_idle(fr_of(tensor)->storage);
}

bool
fr_share_rest(PyObject *tensor)
{
    struct shared *s;
    PyObject      *root;

    if (Py_REFCNT(tensor) != 1 || fr_object(tensor)->weakrefs || !fr_share_is_idle(tensor))
        return false;
    s = find_alive(fr_of(tensor)->storage);
    if (!s || s->partial || fr_tensor_is_component(fr_of(tensor)))
        return false;
    if (n_resting == MAX_RESTING) { /* for the one that has been resting longest */
        PyObject *oldest = resting[0].tensor;
        memmove(resting, resting + 1, sizeof resting[0] * --n_resting);
        Py_DECREF(oldest);
    }
    unlink_root(s);
    root = s->root;
    s->root = NULL;
    resting[n_resting++] = (struct resting){tensor, s};
    Py_DECREF(root);
    return true;
}

static bool
lies_like(PyObject *array, const struct fr_layout *l, int64_t size)
{
    PyArrayObject *a = fr_array(array);

    if (PyArray_NDIM(a) != l->ndim)
        return false;
    for (int i = 0; i < l->ndim; i++)
        if (PyArray_DIM(a, i) != fr_layout_dims(l)[i] || PyArray_STRIDE(a, i) != fr_layout_strides(l)[i] * size)
            return false;
    return true;
}

/* Whether the Tensor could stand for the array, which is a window of root. */
static bool
suits(const struct resting *r, PyObject *array, PyObject *root, fr_dtype d)
{
    const struct fr_tensor *t = fr_of(r->tensor);
    int64_t                 size = fr_dtype_size(d);

    if (t->dtype != d || fr_object(r->tensor)->is_base != (array == root) || !lies_like(root, r->s->whole.layout, size))
        return false;
    if (array == root)
        return t->whole;
    return lies_like(array, t->layout, size) &&
           PyArray_BYTES(fr_array(array)) - PyArray_BYTES(fr_array(root)) == t->offset * size;
}

/* Puts a storage that no root is known of over the memory of another one, which lies in the same way. */
static void
move_to(struct shared *s, PyObject *root)
{
    FR_ASSERT(!s->partial && !find(root, s->whole.dtype, PyArray_BYTES(fr_array(root)))); /* one storage over one memory */
    s->root = Py_NewRef(root);
    s->high += PyArray_BYTES(fr_array(root)) - s->data;
    s->low = s->data = PyArray_BYTES(fr_array(root));
    link_root(s);
    fr_storage_exchange(s->whole.storage, s->data);
}

/* A Tensor that rests, over this array now; NULL, without an exception, if none suits. */
static PyObject *
wake(PyObject *array)
{
    PyObject *tensor, *root = fr_share_root(array, &tensor);
    fr_dtype  d = fr_numpy_array_dtype(array);

    if (tensor || n_partial || d == FR_N_DTYPES || fr_numpy_array_dtype(root) != d ||
        !PyArray_ISALIGNED(fr_array(root)))
        return NULL;
    for (struct shared *s = *bucket_of(root); s; s = s->next)
        if (s->root == root)
            return NULL;
    for (int i = n_resting; i-- > 0;) {
        struct shared *s = resting[i].s;

        if (!suits(&resting[i], array, root, d))
            continue;
        tensor = resting[i].tensor;
        memmove(resting + i, resting + i + 1, sizeof resting[0] * (size_t)(--n_resting - i));
        move_to(s, root);
        fr_of(tensor)->readonly = !PyArray_ISWRITEABLE(fr_array(array));
        fr_object(tensor)->locked = false; /* which was about the array before */
        return tensor;
    }
    return NULL;
}

PyObject *
fr_share_borrow(PyObject *array)
{
    PyObject *o = n_resting && PyArray_Check(array) ? wake(array) : NULL;

    if (!o) {
        if (!(o = fr_share(NULL, array)))
            return NULL;
        fr_storage_lend(fr_of(o)->storage);
        fr_object(o)->end = FR_END_LOAN;
    }
    fr_object(o)->token = PyArray_BASE(fr_array(array)) == NULL;
    return o;
}

fr_status
fr_share_give_back(PyObject *tensor, bool keep, struct fr_err *err)
{
    if (fr_object(tensor)->end != FR_END_LOAN && fr_object(tensor)->end != FR_END_LOAN_RESHAPED)
        return FR_OK;
    fr_object(tensor)->end = FR_END_NOTHING;
    return fr_storage_reclaim(fr_of(tensor)->storage, keep, err);
}

/* NumPy's own resize, which does not ask who sees the array. */
static int
resize_array(PyObject *array, int ndim, const int64_t *dims)
{
    npy_intp     n[FR_MAX_DIMS];
    PyArray_Dims shape = {n, ndim};
    PyObject    *done;

    for (int k = 0; k < ndim; k++)
        n[k] = (npy_intp)dims[k];
    done = PyArray_Resize(fr_array(array), &shape, 0, NPY_ANYORDER);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

void
fr_share_reshape(PyObject *array, PyObject *tensor)
{
    const struct fr_layout *l = fr_of(tensor)->layout;
    PyObject               *type, *value, *trace, *shape = NULL;
    int                     st;

    if (fr_object(tensor)->end != FR_END_LOAN_RESHAPED)
        return;
    PyErr_Fetch(&type, &value, &trace);
    if (PyArray_ISONESEGMENT(fr_array(array)))
        st = resize_array(array, l->ndim, fr_layout_dims(l));
    else if ((st = (shape = PyObject_GetAttrString(tensor, "shape")) ? 0 : -1) == 0)
        st = PyObject_SetAttrString(array, "shape", shape);
    if (st < 0)
        PyErr_WriteUnraisable(array); /* no memory: it keeps the one that it had */
    Py_XDECREF(shape);
    PyErr_Restore(type, value, trace);
}

/* The loan of the old memory ends and one of the new begins. Views of the old are over a copy of it, for NumPy frees it. */
int
fr_share_resize(PyObject *tensor, int ndim, const int64_t *dims)
{
    struct fr_storage *old = fr_of(tensor)->storage;
    struct shared     *s = find_alive(old);
    PyObject          *array = s->root, *copy = NULL, *other = NULL;
    struct fr_tensor   t;
    struct fr_err      err;
    uint8_t            end = fr_object(tensor)->end;
    fr_status          st;

    fr_object(tensor)->end = FR_END_NOTHING;
    if ((st = fr_storage_reclaim(old, true, &err)) != FR_OK)
        fr_errors_raise(st, &err);
    else
        copy = PyArray_NewCopy(fr_array(array), NPY_KEEPORDER);
    if (copy) {
        unlink_root(s);
        move_to(s, copy); /* and `array` keeps the reference that s had */
    }
    if (!copy || resize_array(array, ndim, dims) < 0) { /* all is as before */
        if (copy) {
            unlink_root(s);
            move_to(s, array);
            Py_DECREF(array);
            Py_DECREF(copy);
            Py_DECREF(copy);
        }
        fr_storage_lend(old);
        fr_object(tensor)->end = end;
        return -1;
    }
    Py_DECREF(copy);
    other = fr_share_borrow(array);
    Py_DECREF(array);
    if (!other)
        return -1;
    fr_type_be_no_base(tensor);
    fr_type_be_no_base(other);
    t = *fr_of(tensor);
    *fr_of(tensor) = *fr_of(other);
    *fr_of(other) = t;
    fr_object(other)->end = FR_END_NOTHING;
    fr_object(tensor)->end = FR_END_LOAN_RESHAPED;
    fr_type_become_base(tensor);
    Py_DECREF(other);
    return 0;
}

static PyObject *
borrow(PyObject *module, PyObject *array)
{
    (void)module;
    return fr_share_borrow(array);
}

/* Ends loans; with `keep` false, stores that have not been computed are taken back. */
static PyObject *
give_back(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    struct fr_err err;
    fr_status     st = FR_OK, failed = FR_OK;
    bool          keep = n == 2 && PyObject_IsTrue(args[1]) > 0;

    (void)module;
    if (n != 2 || !PyList_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "give_back() takes a list of pairs and a bool");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(args[0]); i++) {
        PyObject *pair = Py_NewRef(PyList_GET_ITEM(args[0], i));
        PyObject *tensor = PyTuple_CheckExact(pair) && PyTuple_GET_SIZE(pair) == 2 ? PyTuple_GET_ITEM(pair, 1) : NULL;
        if (tensor && fr_is_tensor(tensor)) {
            fr_share_reshape(PyTuple_GET_ITEM(pair, 0), tensor);
            st = fr_share_give_back(tensor, keep, failed == FR_OK ? &err : NULL);
            failed = failed == FR_OK ? st : failed;
        }
        Py_DECREF(pair);
    }
    return failed == FR_OK ? Py_NewRef(Py_None) : fr_errors_raise(failed, &err);
}

PyMethodDef fr_share_methods[] = {
    {"share", fr_share, METH_O,
     "share(array, /)\n--\n\n"
     "A Tensor over the ndarray's own memory. Operations that read it and stores into it are computed\n"
     "at once, because others may write at any time. Arrays over one memory become views of one\n"
     "storage. TypeError for dtypes and strides that frit does not have."},
    {"borrow", borrow, METH_O,
     "borrow(array, /)\n--\n\n"
     "The same until give_back(), for a time in which nobody else uses the memory: all is lazy."},
    {"give_back", (PyCFunction)(void (*)(void))give_back, METH_FASTCALL,
     "give_back(pairs, keep, /)\n--\n\n"
     "Ends what borrow() began, of pairs of an array and its tensor: what was stored is in the arrays and nothing reads them any more. With\n"
     "keep false, stores that have not been computed are taken back."},
    {NULL, NULL, 0, NULL},
};
