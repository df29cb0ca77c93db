/* bind/tensor/index.h -- what keys of t[key] are made of: window.c and key.c, for index.c. */
#ifndef FR_BIND_TENSOR_INDEX_H
#define FR_BIND_TENSOR_INDEX_H

#include "bind/tensor/tensor.h"

/* What an index comes to: a window relative to the tensor. */
struct fr_window {
    int     ndim;
    int64_t dims[FR_MAX_DIMS], strides[FR_MAX_DIMS], offset;
    bool    scalar;     /* integers only: NumPy copies the element out */
};
enum { FR_KIND_ERROR = -1, FR_KIND_WINDOW, FR_KIND_ADVANCED };

/* What one item of a key is. */
enum fr_item { FR_ITEM_INTEGER, FR_ITEM_SLICE, FR_ITEM_ELLIPSIS, FR_ITEM_NEWAXIS, FR_ITEM_OTHER, FR_ITEM_BAD };

/* ---- window.c: those that return an int return an FR_KIND_*; ADVANCED: there is an array among the items. */
enum fr_item fr_window_classify(PyObject *);
/* The items of a key, or the key of t, as a window over what it is a key of; *w is empty. */
int fr_window_parse(const struct fr_layout *, PyObject *const *items, int n, struct fr_window *w);
int fr_window_of_key(const struct fr_tensor *t, PyObject *key, struct fr_window *w);
/* Element i of an axis, by its number; one axis more. */
int fr_window_add_integer(struct fr_window *, const struct fr_layout *, int axis, int64_t i);
int fr_window_add_axis(struct fr_window *, int64_t dim, int64_t stride);
int fr_window_too_many(const struct fr_layout *, int n);

/* ---- key.c: a key with arrays of integers or masks that stand side by side. They return an FR_VALUE_*; FALLBACK: it is
 * something else. fr_key_join: t[key] = t[key] op value, one place after the other, as a ufunc's `at` does it. */
int fr_key_get(PyObject *self, PyObject *key, PyObject **result);
int fr_key_set(PyObject *self, PyObject *key, PyObject *value);
int fr_key_join(PyObject *self, PyObject *key, PyObject *value, fr_op op);

#endif
