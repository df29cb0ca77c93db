#include "jit/recipe_math.h"
#define LATER(name) fr_status recipe_real_##name(code_t c, fr_dtype in, const struct fr_mnum *x, struct fr_mnum *out) { (void)c; (void)in; (void)x; (void)out; return FR_ENOTSUP; }
      LATER(arcsin) LATER(arccos) LATER(arctan)
  LATER(arcsinh) LATER(arccosh) LATER(arctanh) LATER(cbrt) LATER(erfc)  
LATER(arctan2) LATER(hypot) LATER(power) LATER(logaddexp) LATER(logaddexp2)
