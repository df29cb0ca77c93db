/* tests/cuda/nvrtc.c -- NVRTC with a gate: FRIT_NVRTC_LIB names the library that this is in, FAKE_NVRTC_OF the real one.
 *
 * While the gate is shut (fake_nvrtc_shut), who compiles waits before it, so a test knows what has not been compiled yet; SLOW: each for
 * a while. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "fake.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t  opens = PTHREAD_COND_INITIALIZER;
enum { SLOW_NS = 200000000 };
static enum { OPEN, SHUT, SLOW } state;
static uint64_t        n_waiting, n_compiled;

EXPORT void
fake_nvrtc_shut(int shut)
{
    pthread_mutex_lock(&lock);
    state = shut;
    pthread_cond_broadcast(&opens);
    pthread_mutex_unlock(&lock);
}

/* Who waits, and what has been compiled. */
EXPORT void
fake_nvrtc_counts(uint64_t out[2])
{
    pthread_mutex_lock(&lock);
    out[0] = n_waiting;
    out[1] = n_compiled;
    pthread_mutex_unlock(&lock);
}

static void *
real(const char *name)
{
    const char *path = getenv("FAKE_NVRTC_OF");
    void       *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;

    return library ? dlsym(library, name) : NULL;
}

#define FORWARD(name, parameters, arguments)                                                                            \
    EXPORT int name parameters                                                                                          \
    {                                                                                                                   \
        int (*f) parameters = (int (*) parameters)(uintptr_t)real(#name);                                               \
                                                                                                                        \
        return f ? f arguments : 7;                                                                                     \
    }

FORWARD(nvrtcVersion, (int *major, int *minor), (major, minor))
FORWARD(nvrtcGetNumSupportedArchs, (int *n), (n))
FORWARD(nvrtcGetSupportedArchs, (int *archs), (archs))
FORWARD(nvrtcCreateProgram, (void **p, const char *text, const char *name, int n, const char *const *headers, const char *const *names),
        (p, text, name, n, headers, names))
FORWARD(nvrtcDestroyProgram, (void **p), (p))
FORWARD(nvrtcGetProgramLogSize, (void *p, size_t *n), (p, n))
FORWARD(nvrtcGetProgramLog, (void *p, char *log), (p, log))
FORWARD(nvrtcGetCUBINSize, (void *p, size_t *n), (p, n))
FORWARD(nvrtcGetCUBIN, (void *p, char *out), (p, out))
FORWARD(nvrtcGetPTXSize, (void *p, size_t *n), (p, n))
FORWARD(nvrtcGetPTX, (void *p, char *out), (p, out))

EXPORT int
nvrtcCompileProgram(void *p, int n, const char *const *options)
{
    int (*f)(void *, int, const char *const *) = (int (*)(void *, int, const char *const *))(uintptr_t)real("nvrtcCompileProgram");
    struct timespec until;
    int             result;

    pthread_mutex_lock(&lock);
    n_waiting++;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (until.tv_nsec += SLOW_NS) / 1000000000;
    until.tv_nsec %= 1000000000;
    for (bool late = false; state == SHUT || (state == SLOW && !late);)
        late |= pthread_cond_timedwait(&opens, &lock, &until) == ETIMEDOUT;
    n_waiting--;
    pthread_mutex_unlock(&lock);
    result = f ? f(p, n, options) : 7;
    pthread_mutex_lock(&lock);
    n_compiled++;
    pthread_mutex_unlock(&lock);
    return result;
}
