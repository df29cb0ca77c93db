/* runtime/bands.h -- looking for steps that run band by band.  Private to bands.c, which says what that is,
 * band_items.c (what goes together) and band_place.c (where temporaries are); and to chunks.c, which looks at operands, too. */
#ifndef FR_RUNTIME_BANDS_H
#define FR_RUNTIME_BANDS_H

#include "runtime/plan.h"

enum {
    FR_BAND_NOBODY = -1, /* no item makes it */
    FR_BAND_SPOILT = -2, /* one writes it, but nobody can tell what readers need */
};

struct fr_band_finder {
    struct fr_plan     *p;
    const int32_t      *to;         /* [n_nodes] last step that touches the memory of each root */
    struct fr_arena    *arena;
    int32_t            *maker;      /* [n_nodes] item; FR_BAND_NOBODY, FR_BAND_SPOILT */
    int32_t            *walker;     /* [n_nodes] the first item that goes through it, or touches it; FR_BAND_NOBODY, */
    int64_t            *walked;     /* [n_nodes] and with which stride; 0: none goes through it */
    int64_t            *made;       /* [n_nodes] the stride of the maker's axis, */
    int64_t            *line;       /* [n_nodes] and of what has lines of it: from one line to the next; 0: it has not */
    double             *unit, *seen; /* [n_nodes] bytes of a root that a unit touches, and one item of it */
    int32_t            *touched;    /* [n_touched] roots that have been looked at */
    int                 n_touched;
    bool                has_lines;  /* of one of them, at least */
    int64_t             factor;     /* by which units are to become longer for the item that is being added */
    struct fr_band      band;       /* that is being looked for */
    struct fr_band_item item[FR_BAND_ITEMS];
    struct fr_instance  view[FR_BAND_ITEMS];  /* of each item: what is cut, */
    struct fr_band_item outer[FR_BAND_ITEMS]; /* which is one unit of this */
    int                 n_outer;    /* 0: it is all of it */
    struct fr_band_need need[FR_BAND_NEEDS];
    int64_t             longest[FR_BAND_ITEMS]; /* most indices of it that a band has */
    double              accesses;   /* bytes that the items of a unit touch */
};

static inline bool
fr_band_writes(const struct fr_step *s, int k)
{
    return s->kind == FR_STEP_SCAN ? k == 1 : (s->kernel->nest->operands[k].flags & FR_OPERAND_WRITTEN) != 0;
}

static inline int64_t
fr_band_size(const struct fr_step *s, int k)
{
    return fr_dtype_size(s->kind == FR_STEP_SCAN ? s->dtype : s->kernel->nest->operands[k].dtype);
}

static inline const int64_t *
fr_band_strides(const struct fr_instance *in, int k)
{
    return in->stride + (size_t)k * (size_t)(in->n_outer + 2);
}

/* The bytes from index 0 that the operand reaches along all axes but one, and how many it touches. */
struct fr_band_reach {
    int64_t low, high, touched;
};

static inline struct fr_band_reach
fr_band_reach(const struct fr_instance *in, int k, int but, int64_t size)
{
    const int64_t       *stride = fr_band_strides(in, k);
    struct fr_band_reach r = {0, size, size};

    for (int a = 0; a < in->n_outer + 2; a++) {
        int64_t n = fr_instance_dim(in, a);

        if (a == but || stride[a] == 0)
            continue;
        *(stride[a] < 0 ? &r.low : &r.high) += stride[a] * (n - 1);
        r.touched *= n;
    }
    return r;
}

static inline bool
fr_band_has(const struct fr_band *b, int step)
{
    return step >= b->first && step < b->first + b->n_steps;
}

/* The node has memory only while a band runs. */
static inline bool
fr_band_is_inner(const struct fr_band_finder *z, int n)
{
    return z->maker[n] >= 0 && z->maker[n] < z->band.n_items && z->p->place[n].kind == FR_PLACE_ARENA &&
           fr_band_has(&z->band, z->to[n]);
}

/* Whether an instance of a launch or a scan may be cut along an axis: nothing is folded along it. */
bool      fr_band_may_cut(const struct fr_step *, const struct fr_instance *, int axis);
/* Forgets the last band. */
void      fr_band_forget(struct fr_band_finder *);
/* As many steps from `first` on as go together, up to `end`: items, and what they need of each other. */
void      fr_band_gather(struct fr_band_finder *, int first, int end);
/* Makes the band, which has been cut, the plan's: places, operands, kernels. */
fr_status fr_band_keep(struct fr_band_finder *, struct fr_err *);

#endif
