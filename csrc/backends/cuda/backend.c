/* An NVIDIA GPU as a backend. */
#include "backends/backend.h"

#include "backends/cpu/launch.h"
#include "backends/cuda/kernel.h"
#include "jit/nvrtc_ahead.h"

/* The host's own functions (backends/host.h) are the CPU's; the device is opened when it is first wanted. */
static void
stop(void)
{
    fr_cpu_stop();
    fr_ahead_stop();
    fr_cuda_fold_kernels_free();
    fr_cuda_codes_free();
    fr_cuda_close();
}

static fr_status
start(struct fr_err *err)
{
    fr_nvrtc_configure();
    return fr_cpu_start(err);
}

static void
begin(void)
{
}

static void
kernel_ran(struct fr_kernel *k, uint64_t elapsed_us, uint64_t n_bytes)
{
    (void)k, (void)elapsed_us, (void)n_bytes;
}

static fr_status
wait(struct fr_err *err)
{
    struct fr_cuda_device *d;
    fr_status              st = fr_cuda_enter(&d, err);

    if (st != FR_OK)
        return st;
    st = fr_cuda_wait(d, err);
    fr_cuda_leave(d);
    return st;
}

static fr_status
kernel_wait(struct fr_kernel *k, struct fr_err *err)
{
    (void)k, (void)err;
    return FR_OK;
}

static bool
kernel_is_compiled(const struct fr_kernel *k)
{
    const struct fr_cuda_kernel *c = (const struct fr_cuda_kernel *)k;
    bool                         any = false;

    for (int i = 0; i < FR_CUDA_FORMS; i++)
        any |= c->code[i].function != NULL;
    return any;
}

/* Its sizes are known, and so is the form of the kernel that it will want: several are compiled at once, while plans are made. */
static void
bind(const struct fr_kernel *k, struct fr_instance *in)
{
    struct fr_cuda_kernel *c = (struct fr_cuda_kernel *)(uintptr_t)k;
    struct fr_cuda_device *d;
    struct fr_err          ignored;

    if (fr_cuda_enter(&d, &ignored) != FR_OK) /* the launch will say so */
        return;
    fr_cuda_kernel_ask(c, fr_cuda_likely_form(c, in, d), d);
    fr_cuda_leave(d);
}

static int
n_workers(void)
{
    return 1;
}

const struct fr_backend fr_cuda_backend = {
    .name = "cuda", .start = start, .begin = begin, .stop = stop, .look_ahead = fr_cpu_look_ahead,
    .alloc = fr_cuda_alloc, .free = fr_cuda_free, .memory_stats = fr_cuda_memory_stats,
    .memory_reset_peak = fr_cuda_memory_reset_peak, .memory_trim = fr_cuda_memory_trim,
    .wait = wait, .copy_in = fr_cuda_copy_in, .copy_out = fr_cuda_copy_out, .copy = fr_cuda_copy,
    .schedule = fr_cuda_schedule, .kernel_new = fr_cuda_kernel_new, .kernel_free = fr_cuda_kernel_free, .bind = bind, .kernel_ran = kernel_ran,
    .kernel_wait = kernel_wait, .kernel_is_compiled = kernel_is_compiled,
    .launch = fr_cuda_launch, .scan = fr_cuda_scan, .call = fr_cuda_call, .n_workers = n_workers,
};
