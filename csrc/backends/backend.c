/* Which backend is in use; see backend.h. */
#include "backends/backend.h"

#include <string.h>

#include "base/env.h"

const struct fr_backend *fr_backend = &fr_cpu_backend;

fr_status
fr_backend_init(struct fr_err *err)
{
    static const struct fr_backend *const all[] = {&fr_cpu_backend, &fr_ref_backend, &fr_apart_backend};

    for (size_t i = 0; i < FR_LEN(all); i++)
        if (!strcmp(fr_env.backend, all[i]->name))
            fr_backend = all[i];
    return fr_backend->start(err);
}
