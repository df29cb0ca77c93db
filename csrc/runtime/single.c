/* runtime/single.c -- see single.h. */
#include "runtime/single.h"

enum { N_KERNELS = 256 };

/* Kernels that were wanted of late, by keys that say all that their nests follow from. They are kept until others take their places. */
static struct {
    uint64_t          key;
    struct fr_kernel *kernel;
} kernels[N_KERNELS];

/* How operand o moves along the row. */
FR_INLINE enum fr_access
access_of(const struct fr_single *z, int o)
{
    int64_t step = z->n_axes ? z->stride[o][z->n_axes - 1] : 1;
    bool    last = o == z->n_operands - 1;

    if (z->form == FR_SINGLE_FOLD && last)
        return FR_ACCESS_ZERO;
    if (FR_LIKELY(step == 1))
        return FR_ACCESS_UNIT;
    if (last)
        return FR_ACCESS_STRIDED;
    return step == 0 && z->form == FR_SINGLE_MAP ? FR_ACCESS_ZERO : fr_access_of(z->dtype[o], step);
}

/* ---- its nest ---- */

struct writer {
    struct fr_nest    nest;
    struct fr_inst    inst[FR_SINGLE_ARGS + 2];
    struct fr_operand operand[FR_SINGLE_ARGS + 1];
    fr_dtype          scalar[FR_SINGLE_ARGS];
};

static uint16_t
append(struct writer *w, struct fr_inst in)
{
    w->inst[w->nest.n_insts] = in;
    return (uint16_t)w->nest.n_insts++;
}

/* Argument k as an instruction: a number's, or the load of an operand, made once for all who read it. */
static uint16_t
argument(struct writer *w, const struct fr_single *z, int k)
{
    int            o = z->operand[k];
    struct fr_inst in = {.kind = FR_INST_LOAD, .level = FR_LEVEL_FULL, .dtype = z->dtype[o < 0 ? 0 : o], .operand = (uint16_t)o};

    if (o < 0) {
        in = (struct fr_inst){.kind = FR_INST_SCALAR, .dtype = z->number_dtype[w->nest.n_scalars], .operand = w->nest.n_scalars};
        w->scalar[w->nest.n_scalars++] = in.dtype;
        return append(w, in);
    }
    for (uint32_t i = 0; i < w->nest.n_insts; i++)
        if (w->inst[i].kind == FR_INST_LOAD && w->inst[i].operand == o)
            return (uint16_t)i;
    if (access_of(z, o) == FR_ACCESS_ZERO)
        in.level = FR_LEVEL_ROW;
    return append(w, in);
}

static void
write_nest(struct writer *w, const struct fr_single *z)
{
    int            last = z->n_operands - 1;
    fr_dtype       dtype = z->dtype[last];
    struct fr_inst op = {.kind = FR_INST_OP, .level = FR_LEVEL_FULL, .dtype = dtype, .op = z->op};
    struct fr_inst store = {.kind = FR_INST_STORE, .level = FR_LEVEL_FULL, .dtype = dtype, .operand = (uint16_t)last};

    *w = (struct writer){.nest = {.n_stages = 1, .insts = w->inst, .operands = w->operand, .scalar_dtype = w->scalar}};
    w->nest.n_operands = (uint16_t)z->n_operands;
    for (int o = 0; o < z->n_operands; o++)
        w->operand[o] = (struct fr_operand){.dtype = z->dtype[o], .access = access_of(z, o)};
    w->operand[last].flags = FR_OPERAND_WRITTEN;
    for (int k = 0; k < z->n_args; k++)
        op.a[k] = argument(w, z, k);
    if (z->form == FR_SINGLE_FOLD) {
        op.kind = FR_INST_REDUCE;
        op.level = store.level = FR_LEVEL_ROW;
        op.stage = store.stage = 1;
        w->nest.flags = FR_NEST_REDUCES;
    } else if (z->form == FR_SINGLE_ACCUM) {
        store.kind = FR_INST_ACCUM;
        store.op = z->op;
    }
    /* A copy is a load and a store; what stays the same along a row is spread by a cast. */
    store.a[0] = op.a[0];
    if (z->form != FR_SINGLE_ACCUM &&
        (op.op != FR_OP_cast || w->inst[op.a[0]].dtype != dtype || w->inst[op.a[0]].level != FR_LEVEL_FULL))
        store.a[0] = append(w, op);
    append(w, store);
}

/* ---- running it ---- */

static fr_status
find_kernel(const struct fr_single *z, uint64_t key, struct fr_kernel **out, struct fr_err *err)
{
    uint64_t      at = key * 0xff51afd7ed558ccdu >> 56;
    struct writer w;
    fr_status     st;

    _Static_assert(N_KERNELS == 1 << 8, "of which a hash has 8 bits");
    if (FR_LIKELY(kernels[at].key == key)) {
        *out = kernels[at].kernel;
        return FR_OK;
    }
    write_nest(&w, z);
    if ((st = fr_kernel_get(FR_DEVICE_HOST, &w.nest, out, err)) != FR_OK)
        return st;
    if (kernels[at].kernel)
        fr_kernel_unref(kernels[at].kernel);
    kernels[at].key = key;
    kernels[at].kernel = *out;
    return FR_OK;
}

fr_status
fr_single_run(struct fr_single *z, struct fr_err *err)
{
    bool             (*poll)(void) = fr_backend_interrupted;
    int                n = z->n_axes, n_outer = n > 2 ? n - 2 : 0;
    int64_t            stride[(FR_SINGLE_ARGS + 1) * FR_MAX_DIMS], *s = stride;
    uint64_t           key = z->key << 2 | z->form;
    struct fr_instance in;
    struct fr_kernel  *kernel;
    fr_status          st;

    _Static_assert(FR_N_OPS <= 1 << 8 && FR_N_DTYPES <= 1 << 4 && FR_ACCESS_FOURTH < 1 << 3, "a key has 60 bits");
    for (int o = 0; o < z->n_operands; o++) {
        int64_t size = fr_dtype_size(z->dtype[o]);

        key = key << 7 | (uint64_t)z->dtype[o] << 3 | access_of(z, o);
        for (int p = 0; p < n - 1; p++)
            *s++ = z->stride[o][p] * size;
        if (n < 2)
            *s++ = 0;
        *s++ = n > 0 ? z->stride[o][n - 1] * size : size;
    }
    if ((st = find_kernel(z, key, &kernel, err)) != FR_OK)
        return st;
    in.n_outer = n_outer;
    in.n_packed = in.joined = 0;
    for (int p = 0; p < n_outer; p++)
        in.outer[p] = z->dims[p];
    in.n_rows = n > 1 ? z->dims[n - 2] : 1;
    in.n_inner = n > 0 ? z->dims[n - 1] : 1;
    in.ptr = z->mem;
    in.own = NULL;
    in.stride = stride;
    in.scalars = z->number;
    fr_backend->bind(kernel, &in, 1, false);
    fr_backend_interrupted = NULL; /* it may be in the place of an argument, and could not be done again */
    st = fr_backend->launch(kernel, &in, 1, err);
    fr_backend_interrupted = poll;
    return st;
}
