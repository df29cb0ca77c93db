/* base/clock.h -- the two clocks: one to measure by, and one that waiting ends by. */
#ifndef FR_BASE_CLOCK_H
#define FR_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds since some moment; never set back. */
static inline int64_t
fr_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline int64_t
fr_now_us(void)
{
    return fr_now_ns() / 1000;
}

/* The time so many nanoseconds from now, for pthread_cond_timedwait. */
static inline struct timespec
fr_time_in_ns(int64_t ns)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    ns += t.tv_nsec;
    t.tv_sec += (time_t)(ns / 1000000000);
    t.tv_nsec = (long)(ns % 1000000000);
    return t;
}

#endif
