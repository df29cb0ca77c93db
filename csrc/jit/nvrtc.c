#include "jit/nvrtc.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/library.h"
#include "base/log.h"
#include "jit/cache.h"

typedef struct nvrtc_program_of *program_t;

/* Declared by us from NVRTC's documentation; its header is not used. */
#define NVRTC_FUNCTIONS(F)                                                                                              \
    F(version, "nvrtcVersion", (int *major, int *minor))                                                                \
    F(n_archs, "nvrtcGetNumSupportedArchs", (int *n))                                                                   \
    F(archs, "nvrtcGetSupportedArchs", (int *archs))                                                                    \
    F(new_, "nvrtcCreateProgram", (program_t *, const char *text, const char *name, int n_headers, const char *const *headers, \
                                   const char *const *names))                                                           \
    F(compile, "nvrtcCompileProgram", (program_t, int n_options, const char *const *options))                           \
    F(free, "nvrtcDestroyProgram", (program_t *))                                                                       \
    F(log_size, "nvrtcGetProgramLogSize", (program_t, size_t *))                                                        \
    F(log, "nvrtcGetProgramLog", (program_t, char *))                                                                   \
    F(cubin_size, "nvrtcGetCUBINSize", (program_t, size_t *))                                                           \
    F(cubin, "nvrtcGetCUBIN", (program_t, char *))                                                                      \
    F(ptx_size, "nvrtcGetPTXSize", (program_t, size_t *))                                                               \
    F(ptx, "nvrtcGetPTX", (program_t, char *))

static struct nvrtc {
#define FIELD(field, name, arguments) int (*field) arguments;
    NVRTC_FUNCTIONS(FIELD)
#undef FIELD
} rtc;

static const struct fr_symbol symbols[] = {
#define ROW(field, name, arguments) {name, offsetof(struct nvrtc, field)},
    NVRTC_FUNCTIONS(ROW)
#undef ROW
};

enum { FAST_SINCE = 12090 };     /* the version that compiles twice as fast, if asked to optimise less */
enum { MAX_ARCHS = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool            is_open;
static char            path[FR_ENV_STR_LEN];
static struct fr_library_files files;
static int             archs[MAX_ARCHS], n_archs, version;
static atomic_ullong   n_compiled, n_hits, n_misses, compile_us;

void
fr_nvrtc_configure(void)
{
    fr_library_files(&files, "nvrtc", fr_env.nvrtc_lib);
}

static int
by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static fr_status
open_library(struct fr_err *err)
{
    int       major = 0, minor = 0;
    fr_status st = fr_library_open("CUDA compiler (NVRTC; pip install nvidia-cuda-nvrtc-cu12)", files.file, files.n, symbols,
                                   (int)FR_LEN(symbols), &rtc, path, sizeof path, err);

    if (st != FR_OK)
        return st;
    if (rtc.version(&major, &minor) || rtc.n_archs(&n_archs) || n_archs < 1 || n_archs > MAX_ARCHS || rtc.archs(archs))
        return fr_fail(err, FR_EDEVICE, "%s does not say what it compiles for", path);
    qsort(archs, (size_t)n_archs, sizeof *archs, by_number);
    version = 1000 * major + 10 * minor;
    is_open = true;
    return FR_OK;
}

static fr_status
begin(struct fr_err *err)
{
    fr_status st = FR_OK;

    pthread_mutex_lock(&lock);
    if (!is_open)
        st = open_library(err);
    pthread_mutex_unlock(&lock);
    return st;
}

/* What to compile for: code of an architecture runs on later ones of the same generation, PTX on all later ones. */
static fr_status
choose(int device, int *arch, bool *ptx, struct fr_err *err)
{
    *arch = 0;
    for (int i = 0; i < n_archs; i++)
        if (archs[i] <= device)
            *arch = archs[i];
    *ptx = *arch / 10 != device / 10;
    if (*arch == 0)
        return fr_fail(err, FR_EDEVICE, "%s compiles for sm_%d and newer, and the device is sm_%d", path, archs[0], device);
    return FR_OK;
}

/* What the compiler says, into the message and, as a whole, to those who debug. */
static fr_status
complain(program_t program, int arch, struct fr_err *err)
{
    size_t    n = 0;
    char     *log;
    fr_status st;

    rtc.log_size(program, &n);
    if (!(log = fr_malloc(n + 1)))
        return fr_no_memory(err, "the log of NVRTC");
    log[n] = '\0';
    if (n)
        rtc.log(program, log);
    if (fr_env.debug >= 1)
        fr_log(1, "NVRTC: %s", log);
    st = fr_fail(err, FR_EDEVICE, "NVRTC %d.%d can not compile a kernel for sm_%d: %s", version / 1000, version % 1000 / 10, arch, log);
    fr_free(log);
    return st;
}

static fr_status
take_image(program_t program, struct fr_image *out, struct fr_err *err)
{
    int (*size)(program_t, size_t *) = out->is_ptx ? rtc.ptx_size : rtc.cubin_size;
    int (*get)(program_t, char *) = out->is_ptx ? rtc.ptx : rtc.cubin;

    if (size(program, &out->n) || out->n == 0)
        return fr_fail(err, FR_EDEVICE, "NVRTC made no code for sm_%d", out->arch);
    if (!(out->bytes = fr_malloc(out->n)))
        return fr_no_memory(err, "code for a GPU");
    return get(program, out->bytes) ? fr_fail(err, FR_EDEVICE, "NVRTC gave no code for sm_%d", out->arch) : FR_OK;
}

/* What is asked of NVRTC, and what the cache calls that. */
struct job {
    int           arch;
    bool          is_ptx;
    char          target[40];
    const char   *options[4 + FR_NVRTC_DEFINES];
    int           n_options;
    struct fr_key key;
};

static fr_status
prepare(const struct fr_nvrtc_source *of, struct job *job, struct fr_err *err)
{
    int       n = 0;
    fr_status st;

    if ((st = begin(err)) != FR_OK || (st = choose(of->arch, &job->arch, &job->is_ptx, err)) != FR_OK)
        return st;
    snprintf(job->target, sizeof job->target, "--gpu-architecture=%s_%d", job->is_ptx ? "compute" : "sm", job->arch);
    job->options[n++] = job->target;
    job->options[n++] = "--fmad=false";
    job->options[n++] = "--std=c++17";
    for (int i = 0; i < FR_NVRTC_DEFINES && *of->defines[i]; i++)
        job->options[n++] = of->defines[i];
    if (of->is_quick && version >= FAST_SINCE)
        job->options[n++] = "--Ofast-compile=mid";
    job->n_options = n;
    fr_key_of_text(&job->key, of->text, job->options, n, version);
    return FR_OK;
}

/* Out of the cache on disk, where everything is sealed by whoever wrote it. */
fr_status
fr_nvrtc_find(const struct fr_nvrtc_source *of, struct fr_image *out, struct fr_err *err)
{
    struct job    job = {0};
    struct fr_err ignored;
    void         *bytes;
    fr_status     st = prepare(of, &job, err);

    *out = (struct fr_image){0};
    if (st != FR_OK)
        return st;
    if (fr_cache_get(&job.key, NULL, &bytes, &out->n, &ignored) != FR_OK) {
        atomic_fetch_add(&n_misses, 1);
        return FR_OK;
    }
    *out = (struct fr_image){.bytes = bytes, .n = out->n, .arch = job.arch, .is_ptx = job.is_ptx};
    atomic_fetch_add(&n_hits, 1);
    return FR_OK;
}

fr_status
fr_nvrtc_compile(const struct fr_nvrtc_source *of, struct fr_image *out, struct fr_err *err)
{
    struct job    job = {0};
    struct fr_err ignored;
    program_t     program = NULL;
    int64_t       t0;
    fr_status     st = prepare(of, &job, err);

    *out = (struct fr_image){.arch = job.arch, .is_ptx = job.is_ptx};
    if (st != FR_OK)
        return st;
    t0 = fr_now_us();
    if (rtc.new_(&program, of->text, "frit.cu", 0, NULL, NULL))
        return fr_fail(err, FR_EDEVICE, "NVRTC takes no program");
    if (rtc.compile(program, job.n_options, job.options))
        TRY(complain(program, of->arch, err));
    TRY(take_image(program, out, err));
    atomic_fetch_add(&n_compiled, 1);
    atomic_fetch_add(&compile_us, (uint64_t)(fr_now_us() - t0));
    if (fr_env.debug >= 2)
        fr_log(2, "NVRTC made %zu bytes of %s for sm_%d in %lld us", out->n, out->is_ptx ? "PTX" : "code", out->arch,
               (long long)(fr_now_us() - t0));
    fr_cache_put(&job.key, NULL, out->bytes, out->n, &ignored);
out:
    rtc.free(&program);
    if (st != FR_OK)
        fr_image_clear(out);
    return st;
}

void
fr_nvrtc_stats(struct fr_nvrtc_stats *out)
{
    *out = (struct fr_nvrtc_stats){n_compiled, n_hits, n_misses, compile_us};
}

void
fr_image_clear(struct fr_image *image)
{
    fr_free(image->bytes);
    *image = (struct fr_image){0};
}
