/* NVIDIA GPUs as backends. */
#include "backends/backend.h"

#include "backends/cuda/chosen.h"
#include "backends/cuda/graph.h"
#include "backends/cuda/kernel.h"
#include "jit/nvrtc_ahead.h"

void
fr_cuda_look(void)
{
    static bool has_looked;

    if (!has_looked) {
        fr_nvrtc_configure();
        fr_cublas_configure();
    }
    has_looked = true;
}

void
fr_cuda_stop(void)
{
    fr_ahead_stop();
    fr_cuda_fold_kernels_free();
    fr_cuda_codes_free();
    fr_cuda_close();
}

static void
kernel_ran(struct fr_kernel *k, uint64_t us)
{
    (void)k, (void)us;
}

static fr_status
wait(const struct fr_backend *self, struct fr_err *err)
{
    struct fr_cuda_device *d;
    fr_status              st;

    if (!fr_cuda_is_open(self))
        return FR_OK;
    if ((st = fr_cuda_enter(self, &d, err)) != FR_OK)
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

/* Their sizes are known, and so are the forms of the kernel that they will want: several are compiled at once, while plans are made. */
static void
bind(const struct fr_kernel *k, struct fr_instance *in, int n, bool is_later)
{
    struct fr_cuda_kernel *c = (struct fr_cuda_kernel *)(uintptr_t)k;
    struct fr_cuda_device *d;
    struct fr_err          ignored;

    if (fr_cuda_enter(fr_backend_of(k->device), &d, &ignored) != FR_OK) /* the launch will say so */
        return;
    fr_cuda_ask(c, in, n, is_later, d);
    fr_cuda_leave(d);
}

static const struct fr_chooser chooser = {
    .count = fr_cuda_count_mask, .move = fr_cuda_move_chosen, .look = fr_cuda_look_at, .scatter = fr_cuda_scatter_rows,
};

static int
n_workers(void)
{
    return 1;
}

#define CUDA(n)                                                                                                        \
    [n] = {                                                                                                            \
        .name = "cuda:" #n, .device = FR_DEVICE_CUDA + n, .alloc = fr_cuda_alloc, .free = fr_cuda_free,                \
        .memory_stats = fr_cuda_memory_stats, .memory_reset_peak = fr_cuda_memory_reset_peak,                          \
        .memory_trim = fr_cuda_memory_trim, .wait = wait, .order = fr_cuda_order, .stream = fr_cuda_stream_of,         \
        .copy_in = fr_cuda_copy_in, .copy_out = fr_cuda_copy_out, .copy = fr_cuda_copy, .room = fr_cuda_room,   \
        .mark = fr_cuda_mark, .copy_in_beside = fr_cuda_copy_in_beside, .copy_out_beside = fr_cuda_copy_out_beside,    \
        .schedule = fr_cuda_schedule,  \
        .kernel_new = fr_cuda_kernel_new, .kernel_free = fr_cuda_kernel_free, .bind = bind, .unbind = fr_cuda_unbind,  \
        .kernel_ran = kernel_ran,                                                                                      \
        .kernel_wait = kernel_wait, .kernel_is_compiled = kernel_is_compiled, .kernel_waits = fr_cuda_kernel_waits,    \
        .launch = fr_cuda_launch,                                                                                      \
        .scan = fr_cuda_scan, .call = fr_cuda_call, .chooser = &chooser, .recorder = &fr_cuda_recorder,                \
        .n_workers = n_workers, .figures = fr_cuda_figures, .differs = fr_cuda_differs,                                \
    }

const struct fr_backend fr_cuda_backends[FR_CUDA_DEVICES] = {
    CUDA(0), CUDA(1), CUDA(2), CUDA(3), CUDA(4), CUDA(5), CUDA(6), CUDA(7),
    CUDA(8), CUDA(9), CUDA(10), CUDA(11), CUDA(12), CUDA(13), CUDA(14), CUDA(15),
};
