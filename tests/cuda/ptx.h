/* tests/cuda/ptx.h -- NVIDIA's PTX, run on the processor: kernels are proved without a GPU.
 *
 * The fake driver beside this file and tests/test_ptx.py call it.  Compile all ptx_*.c of this folder, with
 *
 *     cc -std=gnu11 -O3 -march=native -ffp-contract=off -fno-strict-aliasing -fno-math-errno -fno-trapping-math
 *        -frounding-math ... -lm -lpthread
 *
 * (without -ffp-contract=off results are wrong, -fno-strict-aliasing and -frounding-math are wanted, the others are for
 * speed).  Modules do not change once they are parsed, but for their variables: launches may run at once.
 *
 * Results are bit-exact where the PTX ISA defines them.  Where it does not:
 *
 *     NaN         f32 and f16 arithmetic gives 0x7fffffff and 0x7fff; f64 keeps the first NaN of its operands, quieted,
 *                 and makes 0xfff8000000000000; abs, neg, copysign and selections work on bits
 *     x / 0       of integers: all ones; x % 0: x
 *     cvt of NaN  to an integer: 0, or the sign bit alone if either type has 64 bits (as the ISA says since 9.0)
 *     approx      rcp.approx and div.approx (also .full) round correctly, or are off by up to one unit in the last place
 *                 if the launch asks for that; ex2, lg2, sin, cos, tanh, sqrt and rsqrt.approx are refused when parsed
 *     add, mul    without .rn, which ptxas may contract, are not contracted; ptx_facts says where the first one stands
 *     atom.add    of f32 flushes denormals, but not in .shared
 *     shfl        from a lane that does not take part gives 0xdeadbeef
 *     lanes       of a warp: those of the deepest call go first, of these the ones with the lowest address, as far as
 *                 they do not wait for others
 *     warps       and blocks run one after the other: a block that waits for a later one never ends
 *     memory      addresses below 2^56 are global; shared, local, param memory and code have windows above
 *
 * Shared memory is watched for races: two threads of a block touch a byte, one of them writes, and no barrier is between
 * them.  bar.sync orders those that wait at it; bar.warp.sync, and any other .sync of a warp, the lanes of its mask.
 * Only the first and the last reader since a barrier are known. */
#ifndef TESTS_CUDA_PTX_H
#define TESTS_CUDA_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ptx_module;
struct ptx_kernel;

/* NULL: why is in `error`, with the line. */
struct ptx_module *ptx_parse(const char *text, char *error, size_t cap);
void               ptx_free(struct ptx_module *); /* NULL is fine */
const struct ptx_kernel *ptx_find(const struct ptx_module *, const char *name);

/* A .global or .const variable of the module: where it is (for the host as well) and its bytes. */
bool ptx_variable(const struct ptx_module *, const char *name, uint64_t *address, size_t *n_bytes);

/* What ptxas would say of a kernel. */
struct ptx_facts {
    int             n_params;
    const uint32_t *param_bytes, *param_offset; /* of each */
    uint32_t        all_params_bytes;
    uint32_t        shared_bytes;               /* static, of all functions that it may call */
    uint32_t        local_bytes;                /* of a thread, without recursion */
    uint32_t        n_pred, n_b16, n_b32, n_b64; /* virtual registers of the kernel itself */
    uint32_t        n_registers;                /* of 32 bits: the most that live at once, in it or one that it calls */
    uint32_t        max_threads, max_block[3];  /* .maxntid; 1024 if it has none */
    uint32_t        target;                     /* 80 of sm_80 */
    uint32_t        n_instructions;             /* in the text, of all functions that it may call */
    uint32_t        contracts_at;               /* line of the first add or mul that ptxas may contract; 0: none */
    bool            recursive;
};
void ptx_facts(const struct ptx_kernel *, struct ptx_facts *);

/* Global memory. `find`: the host's pointer for n bytes at `address`, and the allocation it lies in, [*first, *end)
 * on the device; NULL if they are not all in one. What it says holds until the launch is over. */
struct ptx_memory {
    void *(*find)(void *arg, uint64_t address, size_t n, bool writes, uint64_t *first, uint64_t *end);
    void *arg;
};

struct ptx_launch {
    uint32_t grid[3], block[3];
    uint32_t dynamic_shared;
    void   **params;                            /* as for cuLaunchKernel */
    uint64_t max_instructions;                  /* of all warps together; 0: no limit */
    int      n_threads;                         /* of the host, that take blocks: 0 is 1 */
    bool     allows_races;                      /* of shared memory: they are not looked for */
    bool     backwards;                         /* the last block and the last warp first */
    bool     blurs;                             /* approximations are wrong by a unit in the last place */
};

/* Accesses of one instruction to global memory. A sector has 32 bytes; ideal is the least number of them that holds
 * the bytes. */
struct ptx_site {
    uint32_t line;
    bool     stores;
    uint64_t n_accesses, n_sectors, n_ideal;    /* accesses of a warp */
};

enum { PTX_SITES = 256 };

/* What a launch did. All of it is set by ptx_launch. */
struct ptx_counts {
    uint64_t n_instructions;                    /* of warps */
    uint64_t n_lane_instructions;               /* of threads */
    uint64_t n_threads, n_blocks;
    uint64_t load_bytes, store_bytes;           /* of global memory, as asked for by threads */
    uint64_t load_sectors, store_sectors, ideal_load_sectors, ideal_store_sectors;
    uint64_t n_conflicts;                       /* extra cycles of shared memory, because two words are in one bank */
    uint64_t n_barriers;                        /* of blocks */
    uint64_t n_divergent;                       /* branches where lanes of a warp part */
    uint32_t deepest_call;                      /* 0: no thread called a function */
    uint32_t n_sites;
    struct ptx_site sites[PTX_SITES];
};

/* 0, or 1 with what was wrong in `error`: the kernel and line, the thread and, for an access, the address. `counts`
 * may be NULL. */
int ptx_launch(const struct ptx_kernel *, const struct ptx_launch *, const struct ptx_memory *,
               struct ptx_counts *counts, char *error, size_t cap);

#endif
