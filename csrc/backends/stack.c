#include "backends/stack.h"

#include <string.h>

/* Bytes from one element to the next along an axis; nothing steps along an axis of size 1. */
static int64_t
step(const struct fr_layout *l, int axis, int size)
{
    return fr_layout_dims(l)[axis] == 1 ? 0 : fr_layout_strides(l)[axis] * size;
}

/* The same along axis k of the stack; 0 where operand o, whose last `core` axes are no stack, has no such axis. */
static int64_t
stack_step(const struct fr_stack *s, int o, int k)
{
    int axis = k - s->n_outer + s->layout[o]->ndim - s->core[o];

    return k >= 0 && axis >= 0 ? step(s->layout[o], axis, s->size) : 0;
}

/* Outer axes that the last one continues are one axis with it, as all of a stack whose elements lie side by side. */
static void
merge(struct fr_stack *s)
{
    for (; s->n_walked > 0; s->n_walked--) {
        const int     k = s->n_walked - 1;
        const int64_t n = fr_layout_dims(s->layout[2])[k];
        bool          goes_on = true;

        if (n == 1)
            continue;
        for (int o = 0; o < 3; o++)
            goes_on &= stack_step(s, o, k) == s->dims[0] * s->steps[o];
        if (!goes_on && s->dims[0] != 1)
            return;
        for (int o = 0; o < 3 && s->dims[0] == 1; o++)
            s->steps[o] = stack_step(s, o, k);
        s->dims[0] *= n;
    }
}

/* Axes of the stack are those before the last two of each operand (the last one, of a vector), broadcast. */
void
fr_stack_begin(struct fr_stack *s, const struct fr_call *c, char *const *ptr)
{
    const struct fr_layout *l[3] = {c->in[0], c->in[1], c->out};
    const bool              rows = l[0]->ndim > 1, columns = l[1]->ndim > 1;

    *s = (struct fr_stack){.dims = {1, 1, fr_layout_dims(l[0])[l[0]->ndim - 1], 1}, .size = fr_dtype_size(c->dtype),
                           .core = {1 + rows, 1 + columns, rows + columns}};
    memcpy(s->layout, l, sizeof l);
    memcpy(s->at, ptr, sizeof s->at);
    s->steps[4] = step(l[0], l[0]->ndim - 1, s->size);
    s->steps[5] = step(l[1], l[1]->ndim - s->core[1], s->size);
    if (rows) {
        s->dims[1] = fr_layout_dims(l[0])[l[0]->ndim - 2];
        s->steps[3] = step(l[0], l[0]->ndim - 2, s->size);
        s->steps[7] = step(l[2], l[2]->ndim - s->core[2], s->size);
    }
    if (columns) {
        s->dims[3] = fr_layout_dims(l[1])[l[1]->ndim - 1];
        s->steps[6] = step(l[1], l[1]->ndim - 1, s->size);
        s->steps[8] = step(l[2], l[2]->ndim - 1, s->size);
    }
    s->n_outer = l[2]->ndim - s->core[2];
    s->dims[0] = s->n_outer ? fr_layout_dims(l[2])[s->n_outer - 1] : 1;
    for (int o = 0; o < 3; o++)
        s->steps[o] = stack_step(s, o, s->n_outer - 1);
    s->n_walked = s->n_outer ? s->n_outer - 1 : 0;
    merge(s);
}

bool
fr_stack_next(struct fr_stack *s)
{
    for (int k = s->n_walked - 1; k >= 0; k--) {
        bool wraps = ++s->index[k] == fr_layout_dims(s->layout[2])[k];

        for (int o = 0; o < 3; o++)
            if (s->at[o])
                s->at[o] += stack_step(s, o, k) * (wraps ? 1 - s->index[k] : 1);
        if (!wraps)
            return true;
        s->index[k] = 0;
    }
    return false;
}
