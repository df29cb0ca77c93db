/* bind/numpy/npy.h -- NumPy's C interface, for files that read its objects; only numpy.c imports it. */
#ifndef FR_BIND_NUMPY_NPY_H
#define FR_BIND_NUMPY_NPY_H

#include "bind/base/object.h"

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL fr_numpy_api
#ifndef FR_NUMPY_IMPORTS
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>

extern FR_HIDDEN PyArray_Descr *fr_numpy_descrs[FR_N_DTYPES];
extern FR_HIDDEN fr_dtype       fr_numpy_by_typenum[NPY_NTYPES_LEGACY];  /* FR_N_DTYPES: not ours */

static inline fr_dtype
fr_numpy_dtype_of(const PyArray_Descr *descr)
{
    int i = descr->type_num;

    return i >= 0 && i < NPY_NTYPES_LEGACY && descr->byteorder != '>' && descr->byteorder != '<'
               ? fr_numpy_by_typenum[i]
               : FR_N_DTYPES;
}

static inline PyArrayObject *
fr_array(PyObject *o)
{
    return (PyArrayObject *)o;
}

#endif
