/* runtime/spread.h -- which group runs on which device, from what is known of both.  Called by place.c, and by
 * tests/c/test_spread.c: it knows neither nodes nor devices, and nothing outlives a call.
 *
 * A list scheduler: groups are taken in an order in which they can run, and each goes where it is done first, after
 * those that are there already and after its operands have been copied, each once. That looks no further than one
 * group, so it is held against everything on one device, which pays copies that only all groups together are worth. */
#ifndef FR_RUNTIME_SPREAD_H
#define FR_RUNTIME_SPREAD_H

#include "backends/estimate.h"

enum { FR_SPREAD_DEVICES = 4 };     /* the first is the host */

struct fr_load {                    /* a group */
    struct fr_work work;
    uint8_t        may;             /* devices that may run it, as bits; the host always may */
    int            first, n;        /* of `reads` */
    int            makes;           /* a value, the first of its list; or -1 */
    int            on;              /* the answer, */
    double         us[FR_SPREAD_DEVICES]; /* and what it takes on each, without copies */
};

struct fr_value {                   /* an array */
    double  bytes;
    int     next;                   /* that the same group makes, which is before all that read it; or -1 */
    uint8_t at;                     /* if none does: where it is, devices as bits */
    bool    shown;                  /* it is wanted on the host at the end */
};

struct fr_spread {
    int                      n_devices, n_loads, n_values;
    const struct fr_machine *machine;       /* [n_devices] */
    struct fr_load          *load;
    const struct fr_value   *value;
    const int               *reads;         /* values */
    bool                     together;      /* all run on one device, and which may not run one of them is none */
    double                   us[FR_SPREAD_DEVICES]; /* answers: until all is done, on this one as far as may be, */
    double                   us_spread;             /* and as chosen */
    double                  *ready;         /* [n_values] room: since when it is there, */
    uint8_t                 *copied;        /* [n_values] and where */
};

/* Fills in every `on` and `us`. */
void fr_spread_over(struct fr_spread *);

#endif
