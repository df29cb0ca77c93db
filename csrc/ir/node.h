/* ir/node.h -- the nodes that tracing makes: 64 bytes each, in a slab, named by u32 ids.
 *
 * A node is born when an operation is traced and dies with its last reference: from storages
 * (what Python holds) or from nodes that read it. A dead node is never computed. `seq` counts births; it
 * is a topological order, and also orders every reader of an old version before the store that makes the new one.
 * When a node has been computed it becomes a leaf in place. Everything here runs under the GIL. */
#ifndef FR_IR_NODE_H
#define FR_IR_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "core/buffer.h"
#include "core/device.h"
#include "core/layout.h"
#include "ir/op.h"

typedef uint32_t fr_ref;
#define FR_NO_NODE     0u    /* id 0 is never a node */
#define FR_SCALAR_HERE 1u    /* the argument is the number in `u.bits` of the node that has it; a scalar node that
                                lives for ever, so that references on it are counted like any others */

struct fr_node {
    union {
        struct {
            uint8_t   op;
            fr_device device;      /* where it is computed, as its arguments are, or where a leaf belongs; of scalars
                                      ANY. What is not AUTO reads nothing that is AUTO and computes */
            fr_dtype  dtype;
            uint8_t   n_args;
        };
        uint32_t      head;        /* the four in one */
    };
    uint32_t          refs;        /* storages + readers */
    uint16_t          held;        /* of these, storages */
    uint16_t          height;      /* nodes on the longest way down to a leaf, which has 0; saturates */
    uint32_t          seq;
    fr_ref            arg[3];      /* STORE: previous version, value, window (a VIEW node) */
    uint32_t          site;        /* place in the user's code, and what is warned about there */
    struct fr_layout *layout;      /* of the result; dense unless the node is a VIEW */
    union {
        uint64_t bits;             /* the number of FR_SCALAR_HERE, or the first half of a SCALAR */
        int64_t  offset;           /* VIEW: elements from its argument's first */
        uint32_t axes;             /* REDUCE: mask over the argument's axes; SCAN, IOTA, TAKE: the axis; CAST: for
                                      which operation, plus 1, if that is one call with it */
    } u;
    union {
        struct fr_buffer *buffer;  /* LEAF */
        uint64_t          bits_hi; /* SCALAR: second half of a complex number */
        fr_dtype          number;  /* of u.bits, with FR_SCALAR_HERE */
    } v;
    uint32_t          mark;        /* the last traversal that came by; 0: none */
    uint32_t          index;       /* belongs to whoever traverses; on the free list the next free id */
};
_Static_assert(sizeof(struct fr_node) == 64, "one node, one cache line");
_Static_assert(FR_N_OPS <= UINT8_MAX, "a node has a byte for its operation");
#define FR_DEVICE_HEAD(device) ((uint32_t)(device) << 8) /* in `head`, of a little-endian processor */
#define FR_DEVICES_HEAD        FR_DEVICE_HEAD(0xff)

/* Where that is computed for which no operand says it: the thread's choice, ANY if it has none; else the process'. Mostly no thread has
 * one, and then nobody looks for his own. */
extern FR_HIDDEN fr_device fr_device_usual;
extern FR_HIDDEN int       fr_devices_chosen;   /* threads that have one */
FR_HIDDEN fr_device        fr_device_of_thread(void);
FR_HIDDEN void             fr_device_choose(fr_device);
static inline fr_device
fr_device_chosen(void)
{
    return FR_LIKELY(fr_devices_chosen == 0) ? FR_DEVICE_ANY : fr_device_of_thread();
}
static inline fr_device
fr_device_now(void)
{
    fr_device d = fr_device_chosen();

    return d == FR_DEVICE_ANY ? fr_device_usual : d;
}

extern FR_HIDDEN struct fr_node *fr_nodes;    /* the slab; moves when it grows */
extern FR_HIDDEN uint32_t fr_nodes_cap;       /* ids below this have been in use */
extern FR_HIDDEN uint32_t fr_nodes_pending;   /* computing nodes that are alive and not leaves */
extern FR_HIDDEN uint64_t fr_nodes_made;      /* births; their low bits are `seq` */
extern FR_HIDDEN uint64_t fr_elems_made, fr_arrays_made; /* elements of what was traced, and how much of it has axes */
extern FR_HIDDEN fr_ref   fr_nodes_free;      /* head of the free list */

/* The computing nodes in order of birth: fr_born[seq % FR_MAX_BORN] for each `seq` from fr_born_from on, before
 * which none was born that is still alive. What is there is right if the node has that `seq` and computes. */
enum { FR_MAX_BORN = 1 << 15 };
extern FR_HIDDEN fr_ref   fr_born[FR_MAX_BORN];
extern FR_HIDDEN uint64_t fr_born_from;

/* What each traced operation runs through is inline: a call would cost as much as the work. */

static inline bool
fr_node_computes(const struct fr_node *n)    /* something has to run for its value */
{
    return n->op != FR_OP_leaf && n->op != FR_OP_scalar && n->op != FR_OP_view;
}

/* A site is the number of a line, and above it how the operation was written and which of the processor's flags
 * (backends/cpu/fpe.h) the user's state warns about where it was traced. */
#define FR_SITE_LINE(site)  ((site) & 0x1ffffff)
#define FR_SITE_INSTEAD     (1u << 25)    /* stands for another operation: square for a power, floor_divide for divmod */
#define FR_SITE_UFUNC       (1u << 26)    /* a ufunc, no operator of numbers */
#define FR_SITE_MASKED      (1u << 27)    /* a ufunc that was told where to compute */
#define FR_SITE_WARNS(site) ((site) >> 28)
#define FR_SITE_WARNINGS    (0xfu << 28)
#define FR_SITE_WRITTEN(site) ((site) & (FR_SITE_LINE(~0u) | FR_SITE_INSTEAD | FR_SITE_UFUNC))

/* A larger slab; false when memory is out. */
bool   fr_nodes_grow(void);

/* A new node with refs 0, seq and site set, the other fields zero; of a computing one, the device is the one for which no
 * argument says another. FR_NO_NODE when memory is out. */
static inline fr_ref
fr_node_new(fr_op op, fr_dtype dtype, uint32_t site)
{
    struct fr_node *n;
    fr_ref          id;

    if (FR_UNLIKELY(fr_nodes_free == FR_NO_NODE) && !fr_nodes_grow())
        return FR_NO_NODE;
    id = fr_nodes_free;
    n = &fr_nodes[id];
    FR_ASSERT(n->op == FR_N_OPS); /* else it is on the free list while somebody has it */
    fr_nodes_free = n->index;
    *n = (struct fr_node){.op = op, .dtype = dtype, .site = site, .seq = (uint32_t)fr_nodes_made++};
    if (fr_node_computes(n)) {
        n->device = fr_device_now();
        fr_nodes_pending++;
        fr_born[n->seq % FR_MAX_BORN] = id;
    }
    return id;
}

/* True if a was born before b (births wrap around). */
static inline bool fr_seq_before(uint32_t a, uint32_t b) { return (int32_t)(a - b) < 0; }

/* The node itself, or of which it is a window. */
static inline struct fr_node *
fr_node_base(fr_ref id)
{
    struct fr_node *n = &fr_nodes[id];

    return n->op == FR_OP_view ? &fr_nodes[n->arg[0]] : n;
}

/* The node is computed where its arguments up to k are, the last of which is elsewhere than it would be: AUTO if one of
 * them is. */
void   fr_node_follow(struct fr_node *, int k);

/* Sets argument k and takes a reference on it. */
static inline void
fr_node_set_arg(fr_ref id, int k, fr_ref arg)
{
    struct fr_node *n = &fr_nodes[id], *a = &fr_nodes[arg];

    FR_ASSERT(a->op != FR_N_OPS);
    FR_ASSERT(!fr_node_computes(a) || fr_seq_before(a->seq, n->seq)); /* births are a topological order */
    n->arg[k] = arg;
    if (n->device == FR_DEVICE_ANY) /* of a view */
        n->device = a->device;
    else if (FR_UNLIKELY(a->device != n->device) && a->device != FR_DEVICE_ANY)
        fr_node_follow(n, k);
    a->refs++;
    if (a->height >= n->height && a->height < UINT16_MAX)
        n->height = (uint16_t)(a->height + 1);
}

static inline void fr_node_ref(fr_ref id) { fr_nodes[id].refs++; }

/* A free node is known by its operation. The other byte is to be written anyway, so that one store will do. */
#define FR_FREE_HEAD ((struct fr_node){.op = FR_N_OPS}.head)

FR_INLINE void
fr_node_put_back(struct fr_node *n, fr_ref id)
{
    n->head = FR_FREE_HEAD;
    n->index = fr_nodes_free;
    fr_nodes_free = id;
}

/* Frees a node without references in the usual case: it computes, from two arguments that live on. */
FR_INLINE bool
fr_node_free_usual(fr_ref id)
{
    struct fr_node *n = &fr_nodes[id], *x, *y;

    if (FR_UNLIKELY(n->n_args != 2) || FR_UNLIKELY(!fr_node_computes(n)))
        return false;
    x = &fr_nodes[n->arg[0]];
    y = &fr_nodes[n->arg[1]];
    FR_ASSERT(n->refs == 0 && n->held == 0 && fr_nodes_pending > 0);
    FR_ASSERT(x->refs > 0 && y->refs > 0 && (x != y || x->refs > 1));
    if (FR_UNLIKELY(--x->refs == 0))
        goto first_dies;
    if (FR_UNLIKELY(--y->refs == 0))
        goto second_dies;
    fr_nodes_pending--;
    n->layout->refs--;
    fr_node_put_back(n, id);
    return true;
second_dies:
    y->refs++;
first_dies:
    x->refs++;
    return false;
}

/* Frees a node without references and, iteratively, what only it kept alive. */
void   fr_node_free(fr_ref id);
/* Drops a reference. */
static inline void
fr_node_unref(fr_ref id)
{
    FR_ASSERT(fr_nodes[id].refs > 0);
    if (--fr_nodes[id].refs == 0)
        fr_node_free(id);
}
/* Turns a computed node into a leaf over `buffer` (one reference moves in) and drops its arguments. It belongs where it was
 * computed, unless others see the memory, which is not ours. */
void   fr_node_realise(fr_ref id, struct fr_buffer *buffer);

#endif
