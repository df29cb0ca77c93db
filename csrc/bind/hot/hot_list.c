/* bind/hot/hot_list.c -- hot.h: lists, whose items are looked at one by one. */
#include "bind/hot/hot_int.h"

#include <string.h>

/* What a list's items seem to be, after it got one. */
static void
note_item(struct fr_hot_value *list, const struct fr_hot_value *v)
{
    if (list->n_parts > 0 || v->kind == FR_HOT_NONE)
        return;
    list->part[0].kind = v->kind;
    list->part[0].dtype = v->dtype;
    list->part[0].ndim = v->ndim;
    list->n_parts = 1;
    for (int k = 0; v->kind == FR_HOT_LIST && k < v->n_parts && k + 1 < FR_HOT_PARTS; k++) {
        list->part[k + 1] = v->part[k];
        list->n_parts++;
    }
}

/* A value as one that a list gets: what is written out becomes a list of its own. */
static struct fr_hot_value
as_item(struct reader *r, const struct fr_hot_value *v)
{
    struct fr_hot_value item = v->kind == FR_HOT_DISPLAY ? fr_hot_new_list(r, v) : *v;

    if (!is_number(&item) && item.kind != FR_HOT_ARRAY && item.kind != FR_HOT_NONE && item.kind != FR_HOT_LIST)
        fr_hot_leave(r);
    fr_hot_as_object(r, &item);
    return item;
}

/* Emits an instruction that puts the object of a value into a list. */
static void
emit_item(struct reader *r, enum fr_hot_op op, int to, int a, int b, const struct fr_hot_value *item)
{
    struct fr_hot_ins *in = fr_hot_emit(r, op, to, a, b);

    in->n = item->ndim;
    in->i = item->kind | item->dtype << 8;
    r->p->appends = true;
}

/* The register of a value that is boxed. */
static int
reg_of(const struct fr_hot_value *item)
{
    return item->kind == FR_HOT_NONE ? TEMPORARY : item->reg;
}

static void
append_to(struct reader *r, struct fr_hot_value *list, const struct fr_hot_value *v)
{
    const struct fr_hot_value item = as_item(r, v);

    emit_item(r, FR_HOT_APPEND, list->reg, reg_of(&item), 0, &item);
    note_item(list, &item);
}

struct fr_hot_value
fr_hot_new_list(struct reader *r, const struct fr_hot_value *of)
{
    struct fr_hot_value v = {.kind = FR_HOT_LIST, .reg = (int16_t)fr_hot_fresh(r, 1)};

    fr_hot_emit(r, FR_HOT_NEW_LIST, v.reg, 0, 0);
    r->p->makes = true;
    for (int k = 0; k < of->ndim && !r->ended; k++) {
        const struct fr_hot_value item = r->item[of->items + k];

        append_to(r, &v, &item);
    }
    return v;
}

void
fr_hot_list_item(struct reader *r, const struct fr_hot_value *list, int index)
{
    struct fr_hot_value v = {.kind = list->part[0].kind, .dtype = list->part[0].dtype, .ndim = list->part[0].ndim};
    struct fr_hot_ins  *in;

    if (list->n_parts == 0 || v.kind == FR_HOT_NONE) {
        fr_hot_leave(r);
        return;
    }
    for (int k = 1; k < list->n_parts; k++)
        v.part[v.n_parts++] = list->part[k];
    v.is_borrowed = v.kind == FR_HOT_ARRAY || v.kind == FR_HOT_LIST;
    v.reg = (int16_t)fr_hot_fresh(r, 1);
    in = fr_hot_emit(r, FR_HOT_LIST_ITEM, v.reg, list->reg, index);
    in->n = v.kind;
    in->c = v.dtype;
    in->i = v.ndim;
    r->p->makes = true;
    fr_hot_push(r, v);
}

void
fr_hot_list_store(struct reader *r, const struct fr_hot_value *list, int index, const struct fr_hot_value *v)
{
    const struct fr_hot_value item = as_item(r, v);

    emit_item(r, FR_HOT_LIST_STORE, reg_of(&item), list->reg, index, &item);
}

void
fr_hot_append(struct reader *r, struct fr_hot_value list, const struct fr_hot_value *v)
{
    const int reg = list.reg;

    append_to(r, &list, v);
    if (reg < FR_HOT_VARS && r->s.var[reg].kind == FR_HOT_LIST && !r->p->is_global[reg]) {
        r->s.var[reg].n_parts = list.n_parts;
        memcpy(r->s.var[reg].part, list.part, sizeof list.part);
    }
    fr_hot_push(r, (struct fr_hot_value){.kind = FR_HOT_NONE, .reg = -1});
}

bool
fr_hot_array_of_list(struct reader *r, const struct fr_hot_value *list, struct fr_hot_value *out)
{
    int kind = list->n_parts ? list->part[0].kind : FR_HOT_PYTHON, d = list->n_parts ? list->part[0].dtype : FR_F64;

    if (kind != FR_HOT_PYTHON && kind != FR_HOT_NUMPY)
        return false;
    *out = fr_hot_new_array(r, (fr_dtype)d, 1);
    fr_hot_emit(r, FR_HOT_LIST_ARRAY, out->reg, list->reg, 0)->c = (uint16_t)d;
    return !r->ended;
}
