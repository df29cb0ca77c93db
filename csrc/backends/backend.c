/* Devices by their names, and which backend is the host's; see backend.h. */
#include "backends/backend.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backends/cuda/device.h"
#include "base/env.h"
#include "base/log.h"
#include "ir/node.h"

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
fr_device_named(const char *name, fr_device *out, struct fr_err *err)
{
    int  ordinal = 0;
    char rest;

    if (!strcmp(name, "cpu")) {
        *out = FR_DEVICE_HOST;
        return FR_OK;
    }
    if (!strcmp(name, "auto")) {
        *out = FR_DEVICE_AUTO;
        return FR_OK;
    }
    if (!strcmp(name, "meta")) {
        *out = FR_DEVICE_META;
        return FR_OK;
    }
    if (!strcmp(name, "cuda") || (sscanf(name, "cuda:%d%c", &ordinal, &rest) == 1 && ordinal >= 0 && ordinal < FR_CUDA_DEVICES)) {
        *out = (fr_device)(FR_DEVICE_CUDA + ordinal);
        return FR_OK;
    }
    return fr_fail(err, FR_EVALUE, "Device not understood: it is \"cpu\", \"auto\", \"meta\", \"cuda\" or "
                   "\"cuda:0\" to \"cuda:%d\", but received: %.80s", FR_CUDA_DEVICES - 1, name);
}

const char *
fr_device_name(fr_device d)
{
    if (d == FR_DEVICE_AUTO)
        return "auto";
    return d < FR_DEVICE_CUDA ? "cpu" : fr_backend_of(d)->name;
}

fr_status
fr_device_open(fr_device d, struct fr_err *err)
{
    struct fr_cuda_device *opened;
    fr_status              st;

    if (!fr_device_is_cuda(d))
        return FR_OK;
    fr_cuda_look();
    if ((st = fr_cuda_enter(&fr_cuda_backends[d - FR_DEVICE_CUDA], &opened, err)) == FR_OK)
        fr_cuda_leave(opened);
    return st;
}

static enum { UNKNOWN, FOUND, NONE } auto_is;
static fr_device auto_gpu;

static void
use_the_host(void)
{
    auto_is = NONE;
    if (fr_device_usual == FR_DEVICE_AUTO)
        fr_device_usual = FR_DEVICE_HOST;
}

fr_device
fr_device_auto(void)
{
    struct fr_err ignored;

    for (int i = 0, n = auto_is == UNKNOWN ? fr_device_count() : 0; i < n && auto_is == UNKNOWN; i++)
        if (fr_device_open((fr_device)(FR_DEVICE_CUDA + i), &ignored) == FR_OK) {
            auto_gpu = (fr_device)(FR_DEVICE_CUDA + i);
            auto_is = FOUND;
        }
    if (auto_is == UNKNOWN)
        use_the_host();
    return auto_is == FOUND ? auto_gpu : FR_DEVICE_ANY;
}

void
fr_device_auto_fails(const struct fr_err *why)
{
    fr_warn_once("auto", "%s: device=\"auto\" is the processor from here on", why->text);
    use_the_host();
}

fr_status
fr_device_at(uint64_t address, fr_device *out, struct fr_err *err)
{
    int       ordinal = 0;
    fr_status st;

    fr_cuda_look();
    st = fr_cuda_at(address, &ordinal, err);
    *out = (fr_device)(FR_DEVICE_CUDA + ordinal);
    return st;
}

int
fr_device_count(void)
{
    fr_cuda_look();
    return fr_cuda_count();
}

fr_status
fr_backend_init(struct fr_err *err)
{
    fr_status st;

    fr_backend = find(fr_env.backend);
    if ((st = fr_device_named(fr_env.device, &fr_device_usual, err)) != FR_OK)
        return st;
    if (fr_device_usual == FR_DEVICE_AUTO && !fr_cuda_is_there())
        use_the_host();
    if (fr_device_usual != FR_DEVICE_HOST)
        fr_cuda_look();
    return fr_backend->start(err);
}

void
fr_backend_stop(void)
{
    fr_backend->stop();
    fr_cuda_stop();
}
