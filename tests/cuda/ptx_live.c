#include "ptx_int.h"
void
ptx_live(struct ptx_kernel *fn)
{
    fn->n_live = fn->n_pred / 32 + (fn->n_b16 + fn->n_b32) + 2 * fn->n_b64;
}
