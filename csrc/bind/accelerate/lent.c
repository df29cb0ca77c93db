/* bind/accelerate/lent.c -- what is lent for the length of an outermost call that crosses the membrane (membrane.h): the one
 * tensor of each array that came.
 *
 * Arrays over one memory are windows of one storage (share.c). What cannot be lent, since frit has no such dtype or layout,
 * stays an array; where it meets the memory of what is lent, everything over that memory is computed at once from then on. */
#include "bind/accelerate/membrane.h"

#include <string.h>

#include "base/alloc.h"
#include "bind/numpy/npy.h"

FR_THREAD_LOCAL bool fr_membrane_is_active, fr_membrane_is_plain;
FR_THREAD_LOCAL uint64_t fr_membrane_n_large;

/* ---- the table: arrays of the outermost call, with references to both */

static FR_THREAD_LOCAL struct fr_lent table;

/* Whether a tensor stands for the array: not where it stays one, or was noted as one. */
static bool
has_tensor(const struct fr_loan *l)
{
    return l->tensor && l->tensor != l->array;
}

static uint32_t
slot_of(const struct fr_lent *t, const PyObject *array)
{
    return (uint32_t)(((uintptr_t)array >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 40) & (uint32_t)(2 * t->room - 1);
}

static struct fr_loan *
find(const struct fr_lent *t, const PyObject *array)
{
    if (!t->n)
        return NULL;
    for (uint32_t i = slot_of(t, array); t->slot[i]; i = (i + 1) & (uint32_t)(2 * t->room - 1))
        if (t->loan[t->slot[i] - 1].array == array)
            return &t->loan[t->slot[i] - 1];
    return NULL;
}

static void
put(struct fr_lent *t, int k)
{
    uint32_t i = slot_of(t, t->loan[k].array);

    while (t->slot[i])
        i = (i + 1) & (uint32_t)(2 * t->room - 1);
    t->slot[i] = k + 1;
}

/* Lets go of loans that nobody else holds any more, of a long call that gets ever new arrays. */
static void
sweep(struct fr_lent *t)
{
    int n = 0;

    for (int k = 0; k < t->n; k++) {
        struct fr_loan l = t->loan[k];

        if (l.tensor && Py_REFCNT(l.array) == 1 &&
            (!has_tensor(&l) || (Py_REFCNT(l.tensor) == 1 && fr_share_is_idle(l.tensor)))) {
            if (has_tensor(&l))
                fr_loans_end(&l, 1);
            Py_DECREF(l.array);
        } else {
            t->loan[n++] = l;
        }
    }
    t->n = n;
}

/* Makes room for one more. */
static bool
grow(struct fr_lent *t)
{
    int             room;
    struct fr_loan *loan;
    int32_t        *slot;

    sweep(t);
    room = !t->room ? 32 : t->n > t->room / 2 ? 2 * t->room : t->room;
    loan = fr_malloc((size_t)room * sizeof *loan);
    slot = fr_calloc(2 * (size_t)room, sizeof *slot);
    if (!loan || !slot) {
        fr_free(loan);
        fr_free(slot);
        PyErr_NoMemory();
        return false;
    }
    if (t->n)
        memcpy(loan, t->loan, (size_t)t->n * sizeof *loan);
    fr_free(t->loan);
    fr_free(t->slot);
    t->loan = loan;
    t->slot = slot;
    t->room = room;
    for (int k = 0; k < t->n; k++)
        put(t, k);
    return true;
}

/* ---- what is lent */

/* Whether the array sees memory of one that stays as it is (staying), or of one that is lent. */
static bool
meets(PyObject *array, bool staying)
{
    for (int k = 0; k < table.n && (!staying || table.n_staying + table.n_noted); k++)
        if (has_tensor(&table.loan[k]) != staying && fr_share_meet(table.loan[k].array, array))
            return true;
    return false;
}

/* What is lent of the memory that the array sees is lent no longer: operations that read it and stores into it are computed
 * at once. */
static int
end_meeting(PyObject *array)
{
    struct fr_err err;

    for (int k = 0; k < table.n; k++)
        if (has_tensor(&table.loan[k]) && fr_share_meet(table.loan[k].array, array)) {
            fr_share_reshape(table.loan[k].array, table.loan[k].tensor);
            if (fr_errors_check(fr_share_give_back(table.loan[k].tensor, true, &err), &err) < 0)
                return -1;
            fr_object(table.loan[k].tensor)->end = FR_END_STANDS;
        }
    return 0;
}

static PyObject *
share(PyObject *array)
{
    PyObject *t = fr_share(NULL, array);

    if (t)
        fr_object(t)->end = FR_END_STANDS;
    return t;
}

PyObject *
fr_lent_come(PyObject *array)
{
    struct fr_loan *known = find(&table, array);
    PyObject       *t;

    if (FR_UNLIKELY(known && known->tensor == array)) { /* it may be seen as an array, too: nothing over it is put off */
        if (!(t = share(array)))
            return NULL;
        known->tensor = t;
    }
    if (known)
        return Py_NewRef(known->tensor ? known->tensor : array);
    if (table.n == table.room && !grow(&table))
        return NULL;
    t = FR_UNLIKELY(table.n_staying + table.n_noted) && meets(array, true) ? share(array) : fr_share_borrow(array);
    if (!t) {
        if (!PyErr_ExceptionMatches(PyExc_TypeError))
            return NULL;
        PyErr_Clear();
        if (meets(array, false) && end_meeting(array) < 0)
            return NULL;
        table.n_staying++;
    }
    table.loan[table.n] = (struct fr_loan){Py_NewRef(array), t};
    put(&table, table.n++);
    return Py_NewRef(t ? t : array);
}

void
fr_lent_note(PyObject *array)
{
    struct fr_loan *known;

    if (!PyArray_CheckExact(array) || find(&table, array))
        return;
    if (table.n == table.room && !grow(&table)) {
        PyErr_Clear(); /* then it is lent when it comes, and what the call does to the array itself is seen late */
        return;
    }
    known = &table.loan[table.n];
    *known = (struct fr_loan){Py_NewRef(array), array};
    put(&table, table.n++);
    table.n_noted++;
}

PyObject *
fr_lent_array(PyObject *tensor)
{
    for (int k = 0; k < table.n_twins; k++)
        if (table.twin[k].tensor == tensor)
            return table.twin[k].array;
    if (!fr_is_tensor(tensor))
        return NULL;
    if (fr_membrane_is_active && fr_object(tensor)->end == FR_END_NOTHING)
        return NULL;
    for (int k = 0; k < table.n; k++)
        if (table.loan[k].tensor == tensor)
            return table.loan[k].array;
    return NULL;
}

/* An operand that is an array is not copied, but lent like all others. */
static PyObject *
lend_operand(PyObject *array)
{
    PyObject *t;

    if (!fr_membrane_is_active || !PyArray_CheckExact(array))
        return NULL;
    t = Py_REFCNT(array) == 1 ? fr_numpy_wrap(array, NULL) : fr_lent_come(array); /* what was made of a list is nobody's */
    if (!t || fr_is_tensor(t))
        return t;
    Py_DECREF(t);
    return NULL;
}

bool
fr_lent_part(void)
{
    struct fr_err        err;
    int                  n;
    const struct fr_loan *loan = fr_lent_loans(&n);
    fr_status            st = fr_loans_eval(loan, n, NULL, false, &err);
    struct fr_loan      *twin;

    if (st == FR_OK && n && !(twin = fr_realloc(table.twin, (size_t)(table.n_twins + n) * sizeof *twin)))
        st = FR_ENOMEM;
    else if (st == FR_OK && n)
        table.twin = twin;
    if (fr_errors_check(st, &err) < 0 || !fr_loans_give_back(loan, n, true))
        return false;
    fr_membrane_is_active = false;
    fr_membrane_is_plain = true;
    for (int k = 0; k < n; k++) {
        struct fr_loan *l = &table.loan[k];

        if (Py_REFCNT(l->tensor) == 1) {
            fr_loans_end(l, 1);
        } else {
            fr_object(l->tensor)->end = FR_END_NOTHING;
            fr_made_leave(l->tensor);
            table.twin[table.n_twins++] = (struct fr_loan){Py_NewRef(l->array), l->tensor};
        }
        l->tensor = NULL;
        table.n_staying++;
    }
    fr_made_leave_all(NULL);
    table.has_parted = true;
    return true;
}

bool
fr_lent_has_parted(void)
{
    return table.has_parted;
}

void
fr_lent_resume(void)
{
    for (int k = 0; k < table.n; k++)
        Py_DECREF(table.loan[k].array);
    if (table.n)
        memset(table.slot, 0, 2 * (size_t)table.room * sizeof *table.slot);
    table.n = table.n_staying = 0;
    table.has_parted = false;
}

static bool
is_loan(PyObject *tensor)
{
    return fr_object(tensor)->end == FR_END_LOAN || fr_object(tensor)->end == FR_END_LOAN_RESHAPED;
}

static bool
is_busy(const struct fr_loan *l)
{
    return has_tensor(l) && is_loan(l->tensor) && !fr_share_is_idle(l->tensor);
}

/* Computes what is stored into the memory of a loan and what reads it. */
static fr_status
open_loan(PyObject *tensor, struct fr_err *err)
{
    struct fr_storage *s = fr_of(tensor)->storage;
    fr_status          st = fr_storage_reclaim(s, true, err);

    fr_storage_lend(s);
    return st;
}

bool
fr_lent_open(PyObject *tensor)
{
    struct fr_err err;

    return !is_loan(tensor) || fr_errors_check(open_loan(tensor, &err), &err) == 0;
}

bool
fr_lent_keep_loud(PyObject *array)
{
    return end_meeting(array) == 0;
}

bool
fr_lent_settle(void)
{
    struct fr_loan few[32], *busy = few;
    struct fr_err  err;
    fr_status      st;
    int            n = 0;

    for (int k = 0; k < table.n; k++)
        n += is_busy(&table.loan[k]);
    if (n == 0)
        return true;
    if (n > (int)FR_LEN(few) && !(busy = fr_malloc((size_t)n * sizeof *busy))) {
        PyErr_NoMemory();
        return false;
    }
    n = 0;
    for (int k = 0; k < table.n; k++)
        if (is_busy(&table.loan[k]))
            busy[n++] = table.loan[k];
    st = fr_loans_eval(busy, n, NULL, false, &err);
    for (int i = 0; i < n && st == FR_OK; i++)
        st = open_loan(busy[i].tensor, &err);
    if (busy != few)
        fr_free(busy);
    return fr_errors_check(st, &err) == 0;
}

/* ---- the beginning and the end */

void
fr_lent_begin(struct fr_lent *another)
{
    *another = table;
    table = (struct fr_lent){.n = 0};
    fr_value_lend = lend_operand;
}

const struct fr_loan *
fr_lent_loans(int *n_lent)
{
    int n = 0;

    for (int k = 0; k < table.n; k++)
        if (has_tensor(&table.loan[k])) {
            struct fr_loan l = table.loan[k];

            table.loan[k] = table.loan[n];
            table.loan[n++] = l;
        }
    for (int i = 0; i < 2 * table.room; i++)
        table.slot[i] = 0;
    for (int k = 0; k < table.n; k++)
        put(&table, k);
    *n_lent = n;
    return table.loan;
}

const struct fr_loan *
fr_lent_twins(int *n)
{
    *n = table.n_twins;
    return table.twin;
}

void
fr_lent_end(int n_lent, const struct fr_lent *another)
{
    struct fr_lent t = table;

    table = *another;
    fr_loans_end(t.loan, n_lent);
    for (int k = 0; k < t.n; k++)
        Py_DECREF(t.loan[k].array);
    for (int k = 0; k < t.n_twins; k++) {
        Py_DECREF(t.twin[k].array);
        Py_DECREF(t.twin[k].tensor);
    }
    fr_free(t.twin);
    fr_free(t.loan);
    fr_free(t.slot);
}
