/* bind/base/element.c -- one element in memory as a number, C's and Python's. */
#include <string.h>

#include "bind/base/base.h"

void
fr_element_number(fr_dtype d, const void *p, struct fr_number *n)
{
    n->dtype = d;
    n->weak = 0;
    n->huge = n->negative = false;
    switch (d) {
    case FR_BOOL: n->v.i64 = *(const uint8_t *)p != 0; break;
    case FR_I8: n->v.i64 = *(const int8_t *)p; break;
    case FR_I16: n->v.i64 = *(const int16_t *)p; break;
    case FR_I32: n->v.i64 = *(const int32_t *)p; break;
    case FR_I64: n->v.i64 = *(const int64_t *)p; break;
    case FR_U8: n->v.i64 = *(const uint8_t *)p; break;
    case FR_U16: n->v.i64 = *(const uint16_t *)p; break;
    case FR_U32: n->v.i64 = *(const uint32_t *)p; break;
    case FR_U64: n->v.u64 = *(const uint64_t *)p; break;
    case FR_F16: n->v.f64 = PyFloat_Unpack2(p, PY_LITTLE_ENDIAN); break;
    case FR_F32: n->v.f64 = *(const float *)p; break;
    case FR_F64: n->v.f64 = *(const double *)p; break;
    case FR_C64:
        n->v.c128[0] = ((const float *)p)[0];
        n->v.c128[1] = ((const float *)p)[1];
        break;
    case FR_C128: memcpy(n->v.c128, p, sizeof n->v.c128); break;
    case FR_N_DTYPES: break;
    }
}

PyObject *
fr_element_python(fr_dtype d, const void *p)
{
    struct fr_number n;

    fr_element_number(d, p, &n);
    switch (fr_dtype_kind(d)) {
    case 'b': return PyBool_FromLong((long)n.v.i64);
    case 'i': return PyLong_FromLongLong(n.v.i64);
    case 'u': return PyLong_FromUnsignedLongLong(n.v.u64);
    case 'f': return PyFloat_FromDouble(n.v.f64);
    default: return PyComplex_FromDoubles(n.v.c128[0], n.v.c128[1]);
    }
}
