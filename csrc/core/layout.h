/* core/layout.h -- dims and strides of arrays, interned: equal layouts are the same pointer.
 *
 * Strides count elements, not bytes. A layout does not say where in memory its first element is;
 * that offset travels beside it, so that windows at different places share one layout.
 * References are counted; the table drops unreferenced layouts when it grows. Under the GIL, but for struct fr_layouts. */
#ifndef FR_CORE_LAYOUT_H
#define FR_CORE_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

enum { FR_MAX_DIMS = 32 };

struct fr_layout {
    uint32_t refs;
    uint32_t hash;
    int64_t  n_elems;            /* product of dims */
    uint8_t  ndim;
    bool     c_contig, f_contig; /* as NumPy's flags */
    bool     dense;              /* a permutation of a C-contiguous array: covers n_elems in a row */
    int64_t  dims_strides[];     /* dims[ndim], then strides[ndim] */
};

static inline const int64_t *fr_layout_dims(const struct fr_layout *l) { return l->dims_strides; }
static inline const int64_t *fr_layout_strides(const struct fr_layout *l)
{
    return l->dims_strides + l->ndim;
}

static inline bool
fr_layout_same_dims(const struct fr_layout *a, const struct fr_layout *b)
{
    if (a == b)
        return true;
    if (a->ndim != b->ndim)
        return false;
    for (int k = 0; k < a->ndim; k++)
        if (a->dims_strides[k] != b->dims_strides[k])
            return false;
    return true;
}

/* The interned layout; the caller owns one reference. NULL when memory is out. strides NULL: C order,
 * or, as NumPy does for an array without elements, all 0. */
struct fr_layout *fr_layout_get(int ndim, const int64_t *dims, const int64_t *strides);
/* Layouts that are not the process's: made in the arena, and equal only among themselves. From here on, until NULL is
 * given, the calling thread's are those. They may then be used as long as the arena is there, by one thread at a time. */
struct fr_layouts {
    struct fr_arena   *arena;
    struct fr_layout **layout;
    size_t             n, cap;
};
void      fr_layouts_use(struct fr_layouts *);
/* A reference to this layout, or, where the thread's are others, to theirs of the same dims and strides; NULL: no memory. */
struct fr_layout *fr_layout_here(struct fr_layout *);

static inline struct fr_layout *
fr_layout_ref(struct fr_layout *l)
{
    FR_ASSERT(l->refs > 0); /* else the next sweep may have freed it */
    l->refs++;
    return l;
}
/* NULL is fine. Unreferenced layouts stay in the table until a sweep: most come back in the next step. */
static inline void
fr_layout_unref(struct fr_layout *l)
{
    FR_ASSERT(!l || l->refs > 0);
    if (l)
        l->refs--;
}

/* Product of dims, or FR_ERANGE when bytes would overflow ("array is too big", as NumPy). */
fr_status fr_dims_count(int ndim, const int64_t *dims, int itemsize, int64_t *n, struct fr_err *);
/* NumPy's broadcasting of two shapes; FR_EVALUE names both shapes. `what` is the operation. */
fr_status fr_dims_broadcast(int na, const int64_t *a, int nb, const int64_t *b, int *n, int64_t *out,
                            const char *what, struct fr_err *);
/* The shape of a matrix product as NumPy's matmul gives it: vectors lose their axis, stacks of matrices
 * broadcast. FR_EVALUE names both shapes. */
fr_status fr_dims_product(int na, const int64_t *a, int nb, const int64_t *b, int *n, int64_t *out,
                          struct fr_err *err);
/* "(3, 4)" into buf; returns buf. */
char     *fr_dims_print(int ndim, const int64_t *dims, char *buf, int cap);
/* Strides of a view of `l` with other dims over the same elements in C order (NumPy's reshape
 * without a copy); false when there is none. */
bool      fr_layout_reshape(const struct fr_layout *l, int ndim, const int64_t *dims,
                            int64_t *strides);
/* Strides of `l` seen with ndim axes, no fewer than it has: 0 along those that it lacks or has with size 1. */
void      fr_strides_broadcast(const struct fr_layout *l, int ndim, int64_t *out);
/* Strides in C order, an axis of 0 counted as one of 1. */
void      fr_strides_c_order(int ndim, const int64_t *dims, int64_t *out);
/* The axes in the order in which NumPy's iterator walks them, perm[0] the innermost: by the strides of the
 * operands (each already broadcast to ndim, 0 where broadcast). */
void      fr_axes_inwards(int ndim, const int64_t *dims, int n_operands,
                          const int64_t *const *strides, int *perm);
/* Sorts axes by falling size of their strides; those of one size keep their order. */
void      fr_axes_by_stride(int *axes, int n, const int64_t *strides);
/* The strides that NumPy gives a freshly allocated result of an element-wise operation with operands
 * of these strides (order 'K'): all 0 where it has no elements. */
void      fr_strides_keep_order(int ndim, const int64_t *dims, int n_operands,
                                const int64_t *const *strides, int64_t *out);
/* The same for a copy: axes sorted by stride, in C order where strides are equal. A broadcast axis
 * (stride 0) becomes the innermost, unlike above. All 0 where there are no elements. */
void      fr_strides_copy_order(int ndim, const int64_t *dims, const int64_t *strides, int64_t *out);

/* Exact overlap of two windows over one storage: bounds first, then a bounded Diophantine search.
 * "Unknown" counts as overlap. Offsets and strides in elements. */
bool      fr_overlap(const struct fr_layout *a, int64_t offset_a, const struct fr_layout *b,
                     int64_t offset_b);

#endif
