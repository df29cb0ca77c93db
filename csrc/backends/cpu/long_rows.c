/* backends/cpu/long_rows.c -- few and very long rows: stage by stage, the elements in parallel
 * (space.h).
 *
 * Each stage is cut where the pairwise tree of its sums divides, so that joining the partial
 * results in the order of the tree gives the bits of the row in one piece. Between two stages run
 * the ROW instructions. */
#include <string.h>

#include "backends/cpu/pool.h"
#include "backends/cpu/space.h"

enum { PIECE_MIN = 4096 };

struct piece {
    int64_t start, n;
};

struct long_row {
    const struct fr_bound *b;
    char *const           *ptr; /* at the row */
    int                    stage;
    const struct fr_slot  *slots;
    struct piece          *pieces;
    struct fr_slot        *partial; /* [piece][reduction of the stage] */
    atomic_int             failed;
};

static size_t
slots_bytes(const struct fr_nest *nest)
{
    return (nest->n_insts * sizeof(struct fr_slot) + 63) & ~(size_t)63;
}

static uint32_t
stage_reduces(const struct fr_long_stage *s)
{
    return s->full.end - s->first_reduce;
}

static void
run_piece(void *arg, int64_t i, int worker)
{
    struct long_row            *row = arg;
    const struct fr_exec       *e = row->b->exec;
    const struct fr_program    *p = e->program;
    const struct fr_long_stage *s = &p->stages[row->stage];
    uint32_t                    n_reduces = stage_reduces(s);
    size_t                      n_slots = slots_bytes(e->kernel->nest);
    char           *mem = fr_launch_scratch(FR_SCRATCH_EXEC, e->scratch_bytes + n_slots);
    struct fr_slot *out;

    (void)worker;
    if (!mem) {
        fr_launch_fail(&row->failed, FR_ENOMEM);
        return;
    }
    out = (struct fr_slot *)mem;
    fr_exec_stage(e, row->stage, row->ptr, row->b->inner_stride, row->pieces[i].start,
                  row->pieces[i].n, row->b->in->scalars, row->slots, out, mem + n_slots);
    for (uint32_t k = 0; k < n_reduces; k++)
        row->partial[i * n_reduces + k] = out[p->steps[s->first_reduce + k].inst];
}

/* The result of reduction k from its partial results, joined in the order of the tree. */
static void
join_pieces(const struct fr_long_stage *s, const struct fr_program_step *st, int64_t n, int64_t max,
            const struct fr_slot *partial, uint32_t n_reduces, struct fr_slot *out)
{
    fr_op                op = (fr_op)(FR_OP_sum + st->op_row);
    bool                 indexed = fr_op_finds_index(op);
    struct fr_tree       t;
    struct fr_tree_stack stack;

    stack.top = 0;
    fr_tree_begin(&t, n, max, s->wide);
    for (; fr_tree_next(&t); partial += n_reduces)
        fr_tree_push(&stack, &t, op, st->in, partial->v.bytes, indexed ? &partial->index : NULL);
    fr_reduce_finish(op, st->in, stack.value[0].bytes, indexed ? &stack.index[0] : NULL,
                     out->v.bytes);
}

/* One row, stage by stage, each stage in pieces of about `max` elements. */
static fr_status
run_long_row(const struct fr_bound *b, char *const *ptr, int64_t max, struct fr_slot *slots,
             char *room, void *mem)
{
    const struct fr_exec    *e = b->exec;
    const struct fr_program *p = e->program;
    int64_t                  n_inner = b->in->n_inner;
    struct long_row          row = {.b = b, .ptr = ptr, .slots = slots};
    int                      n_stages = e->kernel->nest->n_stages;

    for (int s = 0; s < n_stages; s++) {
        const struct fr_long_stage *stage = &p->stages[s];
        uint32_t                    n_reduces = stage_reduces(stage);
        int64_t                     n = 0;
        fr_exec_mid(e, s, ptr, b->in->scalars, slots, mem);
        if (stage->full.first == stage->full.end)
            continue;
        row.stage = s;
        row.pieces = (struct piece *)room;
        if (n_reduces) {
            struct fr_tree t;
            fr_tree_begin(&t, n_inner, max, stage->wide);
            while (fr_tree_next(&t))
                row.pieces[n++] = (struct piece){t.start, t.n};
        } else {
            int64_t len = max & ~(int64_t)(FR_CUT - 1);
            for (int64_t j = 0; j < n_inner; j += len)
                row.pieces[n++] = (struct piece){j, n_inner - j < len ? n_inner - j : len};
        }
        row.partial = (struct fr_slot *)fr_space_align((char *)(row.pieces + n));
        if (!fr_pool_run(run_piece, &row, n))
            return FR_EINTR;
        if (row.failed != FR_OK)
            return (fr_status)row.failed;
        for (uint32_t k = 0; k < n_reduces; k++) {
            const struct fr_program_step *st = &p->steps[stage->first_reduce + k];
            join_pieces(stage, st, n_inner, max, row.partial + k, n_reduces, &slots[st->inst]);
        }
    }
    fr_exec_mid(e, n_stages, ptr, b->in->scalars, slots, mem);
    return FR_OK;
}

/* The most elements of a piece of a long row. */
static int64_t
long_piece(const struct fr_bound *b, int n_threads)
{
    int64_t n = fr_space_tasks(fr_space_row_cost(b->exec, b->in), n_threads);
    int64_t each = fr_space_share(b->in->n_inner, n, FR_CUT);

    return each < PIECE_MIN ? PIECE_MIN : each;
}

bool
fr_long_rows_wanted(const struct fr_bound *b, int n_threads)
{
    int64_t ps = fr_space_row_cost(b->exec, b->in);

    return (b->kept.total < n_threads && ps > b->nest->n_stages * FR_PHASE_PS) || ps > 2 * FR_TASK_PS;
}

fr_status
fr_long_rows_run(const struct fr_bound *b, int n_threads)
{
    int64_t               max = long_piece(b, n_threads);
    const struct fr_exec *e = b->exec;
    size_t                n_slots = slots_bytes(e->kernel->nest), most_reduces = 0, n_pieces;
    char                 *ptr[FR_MAX_OPERANDS], *room;
    void                 *mem;
    int64_t               since_poll = 0;
    fr_status             st = FR_OK;

    for (int s = 0; s < e->kernel->nest->n_stages; s++)
        if (stage_reduces(&e->program->stages[s]) > most_reduces)
            most_reduces = stage_reduces(&e->program->stages[s]);
    /* A tree cuts into at most twice as many pieces as even cutting (complex numbers: four times).
     */
    n_pieces = (size_t)(b->in->n_inner / max + 1) * 4 + 4;
    room =
        fr_launch_scratch(FR_SCRATCH_PLAN, e->scratch_bytes + n_slots + 128 +
                                               n_pieces * (sizeof(struct piece) +
                                                           most_reduces * sizeof(struct fr_slot)));
    if (!room)
        return FR_ENOMEM;
    mem = room;
    room += (e->scratch_bytes + 63) & ~(size_t)63;
    for (int64_t r = 0; r < b->kept.total && st == FR_OK; r++) {
        fr_space_move(b, &b->kept, r / b->kept.n_rows, b->in->ptr, ptr);
        fr_space_advance(b, ptr, b->row_stride, r % b->kept.n_rows);
        st = run_long_row(b, ptr, max, (struct fr_slot *)room, room + n_slots, mem);
        if (st == FR_OK && fr_launch_interrupted(&since_poll, fr_expect_row(e->kernel, b->in)))
            st = FR_EINTR;
    }
    return st;
}
