/* bind/tensor/pair.h -- the operands of an operator, read directly from their objects where those are tensors and plain
 * Python numbers. For number.c and power.c. */
#ifndef FR_BIND_TENSOR_PAIR_H
#define FR_BIND_TENSOR_PAIR_H

#include "bind/tensor/tensor.h"

/* A Python number beside a tensor of dtype d, if it surely fits. */
static inline bool
fast_number(PyObject *o, fr_dtype d, struct fr_arg *arg)
{
    if (fr_value_fast(o, arg))
        return true;
    if ((d >= FR_F16 || d == FR_I64) && PyLong_CheckExact(o) &&
        fr_value_small_int(o, &arg->n.v.i64)) {
        arg->n.dtype = FR_I64;
        arg->n.weak = 'i';
        return true;
    }
    return false;
}

static inline bool
fast_pair(PyObject *a, PyObject *b, struct fr_arg *args)
{
    if (fr_is_tensor(a)) {
        args[0].t = fr_of(a);
        if (FR_LIKELY(fr_is_tensor(b))) {
            args[1].t = fr_of(b);
            return true;
        }
        return fast_number(b, fr_of(a)->dtype, &args[1]);
    }
    args[1].t = fr_of(b); /* one of the two is a tensor, or we had not been called */
    return fr_is_tensor(b) && fast_number(a, fr_of(b)->dtype, &args[0]);
}

#endif
