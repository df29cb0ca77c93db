/* bind/tensor/product.h -- one product, and what it is told. product.c has it, dot.c calls it, too. */
#ifndef FR_BIND_TENSOR_PRODUCT_H
#define FR_BIND_TENSOR_PRODUCT_H

#include "bind/numpy/numpy.h"

/* Both operands as handles. FR_VALUE_* */
int       fr_product_operands(fr_args, bool binary, struct fr_value *x);
/* The value of out= when it is the only keyword; NULL when there is none. False: something else too. */
bool      fr_product_only_out(fr_args, Py_ssize_t nargs, PyObject *kw, PyObject **out);
/* out= that a product of these shapes can be stored into without a word from NumPy. `exact`: dot wants the very dtype, in C
 * order. */
bool      fr_product_fits(const struct fr_tensor *a, const struct fr_tensor *b, PyObject *out, bool exact);
/* The product, and the same stored into `out`, which has its shape: a new reference. `how`: FR_SITE_INSTEAD where it is
 * dot's. */
PyObject *fr_product_of(const struct fr_tensor *a, const struct fr_tensor *b, uint32_t how);
PyObject *fr_product_into(const struct fr_tensor *a, const struct fr_tensor *b, PyObject *out, uint32_t how);

#endif
