#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* SCHED_BATCH, syscall */
#endif
#include "base/background.h"

#include <errno.h>
#include <signal.h>

#include "base/alloc.h"

int
fr_thread_start(pthread_t *out, void *(*run)(void *), void *arg, size_t stack_bytes)
{
    pthread_attr_t attr;
    sigset_t       all, old;
    int            error;

    if (fr_alloc_may_fail())
        return EAGAIN;
    if ((error = pthread_attr_init(&attr)) != 0)
        return error;
    pthread_attr_setstacksize(&attr, stack_bytes);
    /* Threads inherit the mask. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    error = pthread_create(out, &attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return error;
}

#ifdef __linux__

#include <sched.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* struct sched_attr of sched_setattr(2), which older C libraries do not declare. */
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t  nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline_ns, period_ns;
};

void
fr_background(int niceness)
{
    int own = getpriority(PRIO_PROCESS, 0); /* on Linux the thread's */

    /* Since Linux 6.12 the runtime of such a thread is the slice that it asks for. Who wakes up and asks for less
     * need not wait for its end. */
    struct attributes a = {.size = sizeof a, .policy = SCHED_BATCH, .nice = own > niceness ? own : niceness,
                           .runtime_ns = 100000000};

    syscall(SYS_sched_setattr, 0, &a, 0);
}

#else

void
fr_background(int niceness)
{
    (void)niceness;
}

#endif
