/* backends/estimate.h -- how long work takes on a device, before it has run there.  Called by runtime/place.c, which
 * chooses one.
 *
 * Everything that is assumed of devices is in struct fr_machine, and fr_estimate_us is all that is made of it:
 * whoever learns from the clock puts another function in its place. No result depends on either. */
#ifndef FR_BACKENDS_ESTIMATE_H
#define FR_BACKENDS_ESTIMATE_H

#include "backends/backend.h"
#include "jit/work.h"

/* An addition, a division (SLOW), an exponential (COSTLY). */
enum fr_work_class { FR_WORK_PLAIN, FR_WORK_SLOW, FR_WORK_COSTLY, FR_N_WORK };

enum { FR_MOST_LEVELS = 16 };

/* What a device is taken to be, all of it together. 1 GB/s is 1000 bytes a us, and 1 Gop/s 1000 operations. */
struct fr_machine {
    double launch_us;             /* from the launch of a kernel without elements to its end */
    double gbs;                   /* of its memory, */
    double gops[FR_N_WORK];       /* and of operations on numbers of 4 bytes; */
    double wide;                  /* one on an f64 takes so many times longer */
    double copy_us, copy_gbs;     /* between its memory and the host's; 0 of the host */

    /* Of a processor that has been measured (python/frit/machine.py); n_levels 0: it has not. One thread: */
    int    n_levels;              /* what it reads and writes of so many bytes, that it goes through again and again */
    struct fr_machine_level {
        double bytes, read_gbs, write_gbs, rewrite_gbs; /* the last: bytes that are read and written where they are */
    } level[FR_MOST_LEVELS], all_level[FR_MOST_LEVELS]; /* and all threads together */
    double kind_ps[FR_N_WORK_KINDS]; /* a byte of vector instructions of each kind (jit/work.h), */
    double load_ps, store_ps;     /* and of a load or store that the first cache answers */
    double row_ns, loop_ns;       /* the value of a row, and each loop over one, beside its elements, */
    double tail_ns;               /* the end of a loop that fills no vector, */
    double wait_ns;               /* and a cycle in which it waits for its own instructions */
    double vector_bytes;
    double product_gops[2];       /* of large products, f32 and f64; */
    double all_product_gops[2];   /* all threads */
    double threads;               /* as many as all of them are worth, where arithmetic is what takes time, */
    double shared_us;             /* that they take beside their share */

    /* Of a GPU whose data sheet is known (python/frit/_machine.py), though it may not be here; 0 multiprocessors: it is none. What
     * is in `gbs` is what kernels reach. */
    double n_multiprocessors;
    double output_us;             /* each array that a kernel writes beside the first */
    double l2_bytes;
    double rows_in_flight;        /* that a multiprocessor has begun to read and will read again, at 128 threads a row */
    double onchip_gbs;            /* what all multiprocessors together move through rows that wait for each other */
};

/* What a kernel does. */
struct fr_work {
    double bytes;                 /* read and written, */
    double ops[FR_N_WORK];        /* operations, one of 8 bytes that is no f64 as two, */
    double wide[FR_N_WORK];       /* and on f64 */
    /* Of what runs, as jit/work.h has it: */
    double read, written, rewritten; /* bytes: the last are read and written in one place */
    double memory;                /* how much memory that is; 0: `bytes` */
    struct fr_nest_share loop[FR_MOST_LOOPS + 1]; /* one after the other; the last: what is done once a row */
    double rows, loops, tails, waits; /* values of rows, loops over one, those that fill no vector at the end, cycles that are waited; */
    double elements, filled;      /* and those that vectors have room for; */
    double interpreted_ns;        /* beside all this, where the block interpreter does it; */
    double parts;                 /* threads that it can have, if accumulators are walked in order; 0: any number */
    double outputs;               /* arrays that are written; */
    double passes, row_bytes, row_threads;   /* times that a GPU reads a row of so many bytes, 0: there are none; threads that do */
    double product;               /* multiplications and additions of matrix products, */
    double product_filled;        /* and as many more as take the time of edges that fill no vectors and no registers; */
    bool   is_product_wide;       /* of f64 */
};

/* The figures of a device, which FRIT_TUNE may set. FR_EDEVICE: it does not open. */
fr_status fr_machine_of(fr_device, struct fr_machine *out, struct fr_err *);
/* The host as it was measured, or a GPU that is not here: from here on FR_DEVICE_META; all 0: it is as the host. It takes
 * work that was counted (fr_work_add_nest and so on); the figures of the host take bytes and operations alone. */
void      fr_machine_measured(const struct fr_machine *);
/* Adds n operations on numbers of a dtype. */
void      fr_work_add(struct fr_work *, fr_op, fr_dtype, double n);
/* In which memory an operand lies: its number, the bytes of that, and of those where the operand begins. */
struct fr_work_memory {
    int     number;
    double  bytes;
    int64_t begin;
};
/* Adds what a nest does over an instance, whose operands are in these memories; a call; a running result. Memory that several
 * elements share counts once, and so does what several operands read of one. */
void      fr_work_add_nest(struct fr_work *, const struct fr_nest *, const struct fr_instance *, const struct fr_work_memory *);
void      fr_work_add_call(struct fr_work *, const struct fr_call *);
void      fr_work_add_scan(struct fr_work *, fr_op, fr_dtype, const struct fr_instance *);
/* How many operations it is, whatever they take. */
double    fr_work_ops(const struct fr_work *);
/* How long the work takes there, its operands being there. */
double    fr_estimate_us(const struct fr_machine *, const struct fr_work *);
/* How soon it could be done there at best, with nothing beside its bytes or its operations. */
double    fr_limit_us(const struct fr_machine *, const struct fr_work *);
/* How long so many bytes take from one device to another; NULL: the host. */
double    fr_estimate_copy_us(const struct fr_machine *from, const struct fr_machine *to, double n_bytes);

#endif
