/* tests/cuda/ptx_int.h -- what the parts of the interpreter share: the code that ptx_parse.c makes and ptx_run.c
 * runs. */
#ifndef TESTS_CUDA_PTX_INT_H
#define TESTS_CUDA_PTX_INT_H

#include <string.h>

#include "ptx.h"

enum { LANES = 32, N_BARRIERS = 16, CACHE_ALIGN = 64 };

/* Windows of the spaces in generic addresses. */
#define SHARED_BASE ((uint64_t)1 << 56)
#define LOCAL_BASE  ((uint64_t)2 << 56)
#define PARAM_BASE  ((uint64_t)3 << 56)
#define CODE_BASE   ((uint64_t)4 << 56)
#define SPACE_MASK  (~(SHARED_BASE - 1))

/* An operand: bytes from one of three bases, the registers of a frame, constants and special registers. A register is
 * an array of 32 lanes, a predicate a word with a bit for each. */
typedef uint32_t ref;
enum { IN_FRAME = 0u, IN_CONSTS = 1u << 30, IN_SPECIALS = 2u << 30, OFFSET = (1u << 30) - 1 };
#define NO_REF UINT32_MAX

/* Special registers: places in a warp's block of them. */
enum special {
    SP_TID_X, SP_TID_Y, SP_TID_Z, SP_LANE, SP_NTID_X, SP_NTID_Y, SP_NTID_Z, SP_CTAID_X, SP_CTAID_Y, SP_CTAID_Z,
    SP_NCTAID_X, SP_NCTAID_Y, SP_NCTAID_Z, SP_WARPID, SP_NWARPID, SP_LANEMASK_EQ, SP_LANEMASK_LT, SP_LANEMASK_LE, SP_LANEMASK_GT,
    SP_LANEMASK_GE, SP_DYNAMIC_SIZE, SP_TOTAL_SIZE, SP_CLOCK, SP_ZERO, SP_ONE, SP_GRIDID, N_SPECIALS,
    SP_DYNAMIC_AT = N_SPECIALS,                 /* those of 64 bits take two places */
    SP_CLOCK64 = SP_DYNAMIC_AT + 2, SP_END = SP_CLOCK64 + 2
};
#define SPECIAL(k) (IN_SPECIALS | (uint32_t)(k) * LANES * 4)

enum type { T_NONE, T_PRED, T_B8, T_U8, T_S8, T_B16, T_U16, T_S16, T_B32, T_U32, T_S32, T_B64, T_U64, T_S64, T_F16, T_BF16,
            T_F32, T_F64, T_F16X2, T_BF16X2, T_B128, N_TYPES };

enum space { S_GENERIC, S_GLOBAL, S_SHARED, S_LOCAL, S_PARAM, S_CONST, S_FRAME /* .param of a function */ };

enum kind { K_ALU, K_MEM, K_BRA, K_BRX, K_CALL, K_RET, K_EXIT, K_BAR, K_SYNC, K_TRAP, K_NOP };

struct warp;
struct insn;
typedef void alu_fn(struct warp *, const struct insn *, uint32_t mask);
typedef bool mem_fn(struct warp *, const struct insn *, uint32_t mask); /* false: a fault, noted in the warp */

typedef uint32_t compare_fn(const void *a, const void *b); /* bits of the lanes where it is so */

/* One instruction. What the fields mean is up to its function; usually d = f(a, b, c). */
struct insn {
    union {
        alu_fn *alu, *inner;
        mem_fn *mem;
    } fn;
    ref      d, d2, a, b, c, e;
    ref      guard;                             /* a predicate, or NO_REF */
    uint8_t  kind, guard_not, space, n;         /* n: elements of a vector, or another small number */
    uint8_t  size, width, is_signed, address_width; /* bytes in memory, of the register, of the address register */
    uint8_t  op, mode, not_c, type;
    uint32_t line, target, site;                /* target: an instruction, function or row of a table */
    int64_t  imm;
    alu_fn  *changed;                           /* the function within .ftz, .sat and roundings */
    compare_fn *compare;
    uint32_t change;
    const char *name;                           /* the mnemonic, for messages */
};

enum { CH_FTZ = 1, CH_SAT = 2, CH_RZ = 4, CH_RM = 8, CH_RP = 16, CH_APPROX = 32, CH_ROUND = CH_RZ | CH_RM | CH_RP };

struct variable {
    char    *name;
    uint64_t at;                                /* offset in its space, or address */
    uint32_t n_bytes, align;
    uint8_t  space, is_reg, width, type;
    bool     is_open;                           /* without a size: the launch's dynamic shared memory */
    ref      reg;                               /* of a parameter that is a register */
    int      owner;                             /* the function it is declared in, or -1 */
};

struct passed {                                 /* an argument or result of a call */
    ref      reg;
    uint32_t at, n_bytes;                       /* a .param variable's place in the frame */
    bool     is_reg;
    void    *reg_at;
};
enum { MAX_PASSED = 32 };
struct call {
    int           n_in, n_out;
    struct passed in[MAX_PASSED], out[4];
};

struct table {                                  /* of a brx.idx */
    uint32_t n, *target;
};

struct ptx_kernel {                             /* any function */
    struct ptx_module *module;
    char     *name;
    bool      is_entry, has_body, recursive, visited;
    uint32_t  first, end;                       /* instructions */
    int       n_params, n_results;
    struct variable *params, *results;
    uint32_t *param_bytes, *param_offset, all_params_bytes;
    uint32_t  regs_bytes, area_bytes;           /* a frame's registers, and .param variables of each lane */
    uint32_t  local_bytes;
    uint32_t  n_pred, n_b16, n_b32, n_b64;
    uint32_t  max_block[3], max_threads;
    uint32_t  n_live, contracts_at;
    int       index;
    uint32_t *calls;                            /* functions it calls */
    int       n_calls;
    bool      calls_any;                        /* by address */
    struct { uint32_t at, width, n; } *rooms;   /* its registers */
    int       n_rooms;
};

struct ptx_module {
    struct insn       *code;
    uint32_t           n_code;
    struct ptx_kernel **functions;
    int                n_functions;
    unsigned char     *consts;                  /* of 32 lanes each */
    uint32_t           consts_bytes, consts_cap, n_constants;
    struct { uint64_t bits; uint32_t width, at; } *constants;
    struct variable  **variables;
    int                n_variables;
    ref               *refs;                    /* elements of vectors */
    uint32_t           n_refs;
    struct call      **calls;
    int                n_calls;
    struct table      *tables;
    int                n_tables;
    unsigned char     *memory;                  /* of .global and .const variables */
    uint64_t           memory_bytes, memory_cap;
    uint32_t           shared_bytes, n_sites, target;
    char             **names;                   /* mnemonics */
    int                n_names;
};

/* ---- running ---- */

struct frame {
    struct frame            *parent, *next, *made_before; /* next: free ones of the function */
    const struct ptx_kernel *fn;
    uint32_t                 return_pc, id, depth, live; /* lanes that have not returned */
    const struct call       *call;
    uint64_t                 local_at;          /* offset of its .local variables */
    unsigned char           *regs, *area;
};

/* Where an instruction's last access was. */
struct range {
    uint64_t       first, end;
    unsigned char *host;                        /* of `first` */
};

/* One byte, or a few, of shared memory: who touched it last. */
struct touch {
    uint32_t tick, line;
    uint16_t thread;
    bool     is_set, atomic;
};
struct shadow {
    struct touch write, read[2];
};

struct worker;

struct warp {
    unsigned char *base[4];                     /* of operands */
    struct frame  *current;
    uint32_t       group;                       /* lanes that run */
    uint32_t       pc[LANES];
    struct frame  *frame[LANES];
    uint32_t       exists, exited, at_sync, at_bar; /* lanes */
    uint32_t       bar_id[LANES], sync_mask[LANES];
    uint32_t       index, ticks_base, known[LANES][LANES]; /* by sync of part of a warp */
    bool           knows_parts;
    unsigned char *specials, *local;
    struct worker *w;
    uint64_t       n_since, n_lanes;            /* instructions that the worker does not know of yet; all of lanes */
    uint64_t       scratch[6][LANES];
};

struct barrier {
    uint32_t n_arrived, n_expected, n_wait;     /* threads: by bar.arrive, wanted (0: all), that wait */
    uint32_t popc, all, any;
    uint32_t arrived_warps;                     /* by bar.arrive */
};

struct state;

/* A thread of the host, with one block at a time. */
struct worker {
    const struct state *s;
    struct warp  *warps;
    uint32_t      n_warps, n_block_threads, n_alive;
    unsigned char *shared;
    uint32_t      shared_bytes;
    struct shadow *shadow;                      /* of the first byte of each unit; NULL: races are not looked for */
    uint8_t       *units;                       /* bytes of the units of each 8 bytes */
    uint32_t      tick, full_tick, *warp_knows; /* n_warps x n_warps */
    struct barrier barriers[N_BARRIERS];
    uint32_t      ctaid[3];
    struct range *ranges;                       /* one for each site */
    struct frame **free_frames, *frames;        /* by function; all that were made */
    uint32_t      next_frame;
    size_t        local_stride;
    struct ptx_counts *counts;                  /* NULL: not asked for */
    struct ptx_site *sites;
    uint64_t      n_done;                       /* instructions */
    bool          failed;
    char          error[512];
};

struct state {
    const struct ptx_module *m;
    const struct ptx_kernel *k;
    const struct ptx_launch *l;
    const struct ptx_memory *memory;
    unsigned char *params;
    uint64_t       n_blocks;
    bool           races, many;
    void          *lock;                        /* for atomics, if there are many workers */
};

/* A loop over the bits of a mask. */
#define EACH_OF(m, i) \
    for (uint32_t rest_ = (m), i; rest_ && (i = (uint32_t)__builtin_ctz(rest_), true); rest_ &= rest_ - 1)

static inline void *
at(const struct warp *w, ref r)
{
    return w->base[r >> 30] + (r & OFFSET);
}

/* Notes what went wrong in a thread; false. */
bool ptx_fault(struct warp *, const struct insn *, int lane, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ptx_alu.c */
struct alu_row {
    const char *key;
    alu_fn     *fn;
    uint8_t     wide[5];                        /* bytes of d, a, b, c: 0 none, 1 a predicate */
};
const struct alu_row *ptx_alu_find(const char *key);
alu_fn ptx_alu_changed;                         /* runs in->changed with .ftz, .sat or a rounding */
alu_fn ptx_alu_lop3, ptx_alu_prmt, ptx_alu_pack, ptx_alu_unpack, ptx_alu_setp, ptx_alu_local, ptx_alu_clock;
alu_fn ptx_alu_space, ptx_alu_activemask, ptx_alu_set, ptx_alu_carry;
compare_fn *ptx_compare_find(const char *op, enum type); /* NULL: there is none */

/* ptx_cvt.c */
alu_fn   ptx_cvt;
float    ptx_from_half(uint16_t);
float    ptx_from_bfloat(uint16_t);
uint16_t ptx_round_half(double, int change, bool bfloat);

/* ptx_memory.c */
mem_fn ptx_load, ptx_store, ptx_atomic, ptx_load_param, ptx_load_frame, ptx_store_frame, ptx_copy_async;
void   ptx_warp_synced(struct warp *, uint32_t lanes);

/* ptx_sync.c */
int  ptx_sync_arrive(struct warp *, const struct insn *, uint32_t m, uint32_t pc);
void ptx_sync_release(struct warp *);           /* lets go those that waited for one another */
bool ptx_sync_ready(const struct warp *);       /* true if there are any */

/* ptx_token.c */
int ptx_type_bytes(enum type);

/* ptx_live.c */
bool ptx_live(struct ptx_kernel *);             /* finds n_live, and smaller frames; false: out of memory */

#endif
