/* jit/nvrtc.h -- CUDA C to code for a GPU by NVIDIA's run-time compiler, looked up when it is first wanted.
 *
 * FRIT_NVRTC_LIB names it; else it is looked for in NVIDIA's Python packages (nvidia-cuda-nvrtc), where fr_library_look
 * has found them, then where the dynamic linker does. Texts have no headers, so nothing else of a toolkit is needed. */
#ifndef FR_JIT_NVRTC_H
#define FR_JIT_NVRTC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Has it looked for, by the thread that imports us: later ones may not have Python's lock, or wait for who has it. */
void        fr_nvrtc_configure(void);

/* What the driver loads: a cubin for one architecture, or PTX, which it compiles for newer ones. */
struct fr_image {
    char  *bytes;       /* fr_malloc'ed */
    size_t n;
    int    arch;        /* 90: sm_90, or compute_90 */
    bool   is_ptx;
};

enum { FR_NVRTC_DEFINES = 4, FR_NVRTC_DEFINE_BYTES = 48 };
struct fr_nvrtc_source {
    const char *text;
    int         arch;       /* of the device: major * 10 + minor */
    bool        is_quick;   /* in half the time, with the same bits, where NVRTC can */
    char        defines[FR_NVRTC_DEFINES][FR_NVRTC_DEFINE_BYTES];   /* "-DOUTER=1"; "" behind fewer */
};

/* Both on any thread, at the same time as others. Code that was compiled before, from the cache on disk (jit/cache.h); bytes is NULL:
 * it is not there. FR_EDEVICE: no NVRTC, or it knows nothing as old as this device. */
fr_status   fr_nvrtc_find(const struct fr_nvrtc_source *, struct fr_image *out, struct fr_err *err);
/* Has NVRTC compile it, and puts it into the cache. FR_EDEVICE, also where the text is wrong: with NVRTC's words. */
fr_status   fr_nvrtc_compile(const struct fr_nvrtc_source *, struct fr_image *out, struct fr_err *err);
void        fr_image_clear(struct fr_image *);

struct fr_nvrtc_stats {
    uint64_t n_compiled, n_disk_hits, n_disk_misses, compile_us;
};
void        fr_nvrtc_stats(struct fr_nvrtc_stats *);

#endif
