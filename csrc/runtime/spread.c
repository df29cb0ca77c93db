#include "runtime/spread.h"

#define WORTH 0.9              /* of the time on one device: parts have plans of their own, and wait for each other */
enum { EACH_ALONE = -1 };      /* goes where it is done first */

static const struct fr_machine *
apart(const struct fr_spread *z, int d)
{
    return d == 0 ? NULL : &z->machine[d];
}

/* A device that has the value. */
static int
holder(const struct fr_spread *z, int value)
{
    int d = 0;

    while (d < z->n_devices - 1 && !(z->copied[value] >> d & 1))
        d++;
    return d;
}

/* When a device that is free from then on has done a group; the copies are noted if it is to be so. */
static double
end_on(struct fr_spread *z, const struct fr_load *l, int d, double free_us, bool note)
{
    double at = free_us;

    for (int i = l->first; i < l->first + l->n; i++) {
        const int v = z->reads[i];

        at = z->ready[v] > at ? z->ready[v] : at;
        if (!(z->copied[v] >> d & 1)) {
            at += fr_estimate_copy_us(apart(z, holder(z, v)), apart(z, d), z->value[v].bytes);
            if (note)
                z->copied[v] |= (uint8_t)(1 << d);
        }
    }
    return at + l->us[d];
}

static bool
may(const struct fr_load *l, int d)
{
    return d == 0 || l->may >> d & 1;
}

/* Chooses, and says when everything is done. */
static double
walk(struct fr_spread *z, int wanted)
{
    double busy[FR_SPREAD_DEVICES] = {0}, last = 0;

    for (int v = 0; v < z->n_values; v++) {
        z->ready[v] = 0;
        z->copied[v] = z->value[v].at;
    }
    for (int i = 0; i < z->n_loads; i++) {
        struct fr_load *l = &z->load[i];
        double          best = end_on(z, l, 0, busy[0], false);

        l->on = 0;
        for (int d = 1; d < z->n_devices; d++) {
            double end;

            if (!may(l, d) || (wanted != EACH_ALONE && wanted != d))
                continue;
            end = end_on(z, l, d, busy[d], false);
            if (wanted == d || end < best) {
                best = end;
                l->on = d;
            }
        }
        busy[l->on] = end_on(z, l, l->on, busy[l->on], true);
        last = busy[l->on] > last ? busy[l->on] : last;
        for (int v = l->makes; v >= 0; v = z->value[v].next) {
            z->ready[v] = busy[l->on];
            z->copied[v] = (uint8_t)(1 << l->on);
        }
    }
    for (int v = 0; v < z->n_values; v++) /* (what was there before stays there, too) */
        if (z->value[v].shown && !(z->copied[v] & 1)) {
            busy[0] = (z->ready[v] > busy[0] ? z->ready[v] : busy[0]) +
                      fr_estimate_copy_us(apart(z, holder(z, v)), NULL, z->value[v].bytes);
            last = busy[0] > last ? busy[0] : last;
        }
    return last;
}

static bool
all_may(const struct fr_spread *z, int d)
{
    for (int i = 0; i < z->n_loads; i++)
        if (!may(&z->load[i], d))
            return false;
    return true;
}

void
fr_spread_over(struct fr_spread *z)
{
    int    best = 0;
    double spread;

    for (int i = 0; i < z->n_loads; i++)
        for (int d = 0; d < z->n_devices; d++)
            z->load[i].us[d] = fr_estimate_us(&z->machine[d], &z->load[i].work);
    for (int d = 0; d < z->n_devices; d++) {
        z->us[d] = walk(z, d);
        if (z->us[d] < z->us[best] && (!z->together || all_may(z, d)))
            best = d;
    }
    z->us_spread = z->us[best];
    if (!z->together && (spread = walk(z, EACH_ALONE)) < WORTH * z->us[best])
        z->us_spread = spread;
    else
        walk(z, best);
}
