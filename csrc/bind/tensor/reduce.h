/* bind/tensor/reduce.h -- from the functions of reductions.c to the traces of reduce.c. */
#ifndef FR_BIND_TENSOR_REDUCE_H
#define FR_BIND_TENSOR_REDUCE_H

#include "bind/tensor/tensor.h"

/* Arguments by meaning, NULL where they were not given. */
struct fr_request {
    PyObject *a, *axis, *dtype, *out, *keepdims, *initial, *where, *ddof, *mean, *correction;
};

/* Each traces one reduction into *result and returns FR_VALUE_OK, _ERROR, or _FALLBACK where it is NumPy's. */
int fr_reduce_trace_reduce(fr_op, const struct fr_request *, PyObject **result); /* sum ... all */
int fr_reduce_trace_arg(fr_op, const struct fr_request *, PyObject **result);
enum fr_moment { FR_MEAN, FR_VAR, FR_STD };
int fr_reduce_trace_moment(enum fr_moment, const struct fr_request *, PyObject **result);
int fr_reduce_trace_ptp(const struct fr_request *, PyObject **result);
int fr_reduce_trace_count(const struct fr_request *, PyObject **result);
int fr_reduce_trace_scan(fr_op, const struct fr_request *, PyObject **result);

#endif
