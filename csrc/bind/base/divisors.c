/* bind/base/divisors.c -- the number that each place in the user's code divided by last. */
#include "bind/base/base.h"

enum { DIVISORS = 512 };
static struct {
    uint32_t site;
    bool     varies;
    double   v;
} divisors[DIVISORS];

bool
fr_divisors_alike(double v)
{
    size_t i;

    FR_TRACE_HERE();
    i = fr_trace_site % DIVISORS;
    if (divisors[i].site != fr_trace_site) {
        divisors[i].site = fr_trace_site;
        divisors[i].varies = false;
        divisors[i].v = v;
    }
    divisors[i].varies |= divisors[i].v != v;
    return !divisors[i].varies;
}

bool
fr_divisors_inverse(uint32_t site, double inverse)
{
    size_t i = site % DIVISORS;

    return divisors[i].site == site && !divisors[i].varies && divisors[i].v * inverse == 1;
}
