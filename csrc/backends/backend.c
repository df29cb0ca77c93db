/* Which backend is in use; see backend.h. */
#include "backends/backend.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/env.h"

const struct fr_backend *fr_backend = &fr_cpu_backend;

static const struct fr_backend *
find(const char *name)
{
    static const struct fr_backend *const all[] = {&fr_cpu_backend, &fr_ref_backend, &fr_apart_backend};

    for (size_t i = 0; i < FR_LEN(all); i++)
        if (!strcmp(name, all[i]->name))
            return all[i];
    return fr_backend;
}

bool
fr_backend_change(const char *name)
{
    const struct fr_backend *b = find(name);

    if (b != fr_backend && !(b->is_host && fr_backend->is_host))
        return false;
    fr_backend = b;
    return true;
}

fr_status
fr_backend_refused(const struct fr_err *said, struct fr_err *err, const char *fmt, ...)
{
    char    text[sizeof said->text];
    va_list ap;

    if (said->code != FR_ENOMEM) {
        memcpy(text, said->text, sizeof text);
        return fr_fail(err, said->code, "%s", text);
    }
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return fr_fail(err, FR_ENOMEM, "%s", text);
}

fr_status
fr_backend_init(struct fr_err *err)
{
    fr_backend = strcmp(fr_env.device, "cpu") ? &fr_cuda_backend : find(fr_env.backend);
    return fr_backend->start(err);
}
