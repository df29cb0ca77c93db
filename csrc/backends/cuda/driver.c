#include "backends/cuda/driver.h"

#include <pthread.h>

#include "base/env.h"
#include "base/library.h"

enum { OLDEST = 12000 };   /* pools are there since 11.2, and what NVRTC 12 makes runs from 12.0 on */

static struct fr_cuda_driver driver;
static char                  path[FR_ENV_STR_LEN];
static bool                  is_open, is_child; /* of the process that opened it */

static const struct fr_symbol symbols[] = {
#define DRIVER(field, name, arguments) {name, offsetof(struct fr_cuda_driver, field)},
#include "backends/cuda/driver.def"
};

const char *
fr_cuda_driver_path(void)
{
    return path;
}

static const char *
file_name(void)
{
    return *fr_env.cuda_lib ? fr_env.cuda_lib : "libcuda.so.1";
}

bool
fr_cuda_is_there(void)
{
    const char   *file = file_name();
    struct fr_err ignored;

    return fr_library_open("CUDA driver", &file, 1, NULL, 0, NULL, path, sizeof path, &ignored) == FR_OK;
}

fr_status
fr_cuda_check(int result, const char *what, struct fr_err *err)
{
    const char *name = NULL, *text = NULL;

    if (FR_LIKELY(result == FR_CUDA_OK))
        return FR_OK;
    if (driver.error_name) {
        driver.error_name(result, &name);
        driver.error_text(result, &text);
    }
    return fr_fail(err, result == FR_CUDA_OUT_OF_MEMORY ? FR_ENOMEM : FR_EDEVICE, "CUDA: %s: %s (%s)", what,
                   text ? text : "unknown error", name ? name : "no name");
}

static void
note_child(void)
{
    is_child = true;
}

static fr_status
open_driver(struct fr_err *err)
{
    const char *file = file_name();
    int         version = 0;
    fr_status   st;

    TRY(fr_library_open("CUDA driver", &file, 1, symbols, (int)FR_LEN(symbols), &driver, path, sizeof path, err));
    TRY(fr_cuda_check(driver.init(0), "the driver does not start", err));
    TRY(fr_cuda_check(driver.version(&version), "the driver's version", err));
    if (version < OLDEST)
        TRY(fr_fail(err, FR_EDEVICE, "the CUDA driver is for CUDA %d.%d; frit needs one for %d.%d or newer", version / 1000,
                    version % 1000 / 10, OLDEST / 1000, OLDEST % 1000 / 10));
    if (pthread_atfork(NULL, NULL, note_child))
        TRY(fr_no_memory(err, "the fork handler"));
    is_open = true;
out:
    return st;
}

fr_status
fr_cuda_driver(const struct fr_cuda_driver **out, struct fr_err *err)
{
    fr_status st = is_open ? FR_OK : open_driver(err);

    *out = NULL;
    if (st != FR_OK)
        return st;
    /* The driver works in no child of a process that had it: it would hang there, or fail anywhere. */
    if (FR_UNLIKELY(is_child))
        return fr_fail(err, FR_EDEVICE, "this process was forked from one that used a CUDA device, and can not use it: start "
                       "processes with multiprocessing's \"spawn\" or \"forkserver\"");
    *out = &driver;
    return FR_OK;
}
