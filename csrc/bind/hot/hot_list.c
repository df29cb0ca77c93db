/* bind/hot/hot_list.c -- hot.h: lists, whose items are looked at one by one. */
#include "bind/hot/hot_int.h"

#include <string.h>

void
fr_hot_append_to(struct reader *r, struct fr_hot_value *list, const struct fr_hot_value *v)
{
    const struct fr_hot_value item = *v;

    if (list->kind == FR_HOT_DISPLAY)
        *list = fr_hot_new_list(r, list);
    if (list->kind == FR_HOT_LIST && !r->ended)
        fr_hot_append_item(r, list, &item);
    else
        fr_hot_leave(r);
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
    const struct fr_hot_value item = fr_hot_as_item(r, v);

    fr_hot_emit_item(r, FR_HOT_LIST_STORE, fr_hot_reg_of(&item), list->reg, index, &item);
}

void
fr_hot_append(struct reader *r, struct fr_hot_value list, const struct fr_hot_value *v)
{
    const int reg = list.reg;

    fr_hot_append_item(r, &list, v);
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
