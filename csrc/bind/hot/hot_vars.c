/* bind/hot/hot_vars.c -- hot.h: the loop's variables, and globals. */
#include "bind/hot/hot_int.h"

#include <string.h>

#include "bind/accelerate/crossing.h"

/* ---- variables and globals */

void
fr_hot_load(struct reader *r, int i)
{
    struct fr_hot_value v = r->s.var[i];

    if (v.kind == FR_HOT_OWNER) {
        fr_hot_push(r, v);
        return;
    }
    if (v.kind == FR_HOT_OPAQUE && !r->p->is_set[i]) {
        fr_hot_push(r, (struct fr_hot_value){.kind = FR_HOT_OWNER, .dtype = (uint8_t)i, .reg = -1});
        return;
    }
    if (v.kind == FR_HOT_UNBOUND || v.kind == FR_HOT_OPAQUE) {
        fr_hot_leave(r);
        return;
    }
    v.reg = (int16_t)i;
    v.is_free = false;
    fr_hot_push(r, v);
}

/* Values that are still that of variable i get a place of their own, for it is about to change. */
static void
keep_old(struct reader *r, int i)
{
    struct fr_hot_value *all[FR_HOT_STACK + ITEMS];
    int                  n = 0, to = -1;

    for (int k = 0; k < r->s.n_stack; k++)
        all[n++] = &r->s.stack[k];
    for (int k = 0; k < r->n_items; k++)
        all[n++] = &r->item[k];
    for (int k = 0; k < n; k++) {
        if (all[k]->reg != i || all[k]->kind == FR_HOT_OBJECT || all[k]->kind == FR_HOT_NONE ||
            all[k]->kind == FR_HOT_NULL)
            continue;
        if (to < 0)
            fr_hot_move(r, all[k], to = fr_hot_fresh(r, FR_HOT_CELLS));
        all[k]->reg = (int16_t)to;
    }
}

void
fr_hot_store(struct reader *r, int i)
{
    struct fr_hot_value v = fr_hot_pop(r);

    if (!r->ended && v.kind == FR_HOT_DISPLAY)
        v = fr_hot_new_list(r, &v);
    if (r->ended)
        return;
    if (v.kind == FR_HOT_NULL && !r->p->owner[i]) { /* it had none before a comprehension */
        keep_old(r, i);
        r->s.var[i] = (struct fr_hot_value){.kind = FR_HOT_UNBOUND};
        return;
    }
    if ((!is_number(&v) && v.kind != FR_HOT_ARRAY && v.kind != FR_HOT_LIST && v.kind != FR_HOT_NONE) ||
        (r->p->owner[i] && (r->s.var[i].kind == FR_HOT_OPAQUE || r->s.var[i].kind == FR_HOT_UNBOUND))) {
        fr_hot_leave(r);
        return;
    }
    if (v.reg != i && v.reg < FR_HOT_VARS)
        fr_hot_as_object(r, &v);
    keep_old(r, i);
    if (v.is_free && r->p->n_ins && r->p->ins[r->p->n_ins - 1].to == v.reg && is_number(&v))
        r->p->ins[r->p->n_ins - 1].to = (uint16_t)i; /* there at once */
    else
        fr_hot_move(r, &v, i);
    r->p->has_views |= v.kind == FR_HOT_ARRAY || v.kind == FR_HOT_LIST;
    v.reg = (int16_t)i;
    v.is_free = v.is_borrowed = false;
    r->s.var[i] = v;
}

void
fr_hot_take_variable(struct reader *r, int i)
{
    if (r->s.var[i].kind == FR_HOT_UNBOUND)
        fr_hot_push(r, (struct fr_hot_value){.kind = FR_HOT_NULL, .reg = -1});
    else
        fr_hot_load(r, i);
    keep_old(r, i);
    r->s.var[i] = (struct fr_hot_value){.kind = FR_HOT_UNBOUND};
}

bool
fr_hot_guard_holds(const struct fr_hot_program *p, int k, PyObject *o)
{
    if (p->guard[k].value)
        return o == p->guard[k].value;
    return o && PyFunction_Check(o) && fr_whose_written(PyFunction_GET_CODE(o)) == p->guard[k].code &&
           (!p->guard[k].defaults || p->guard[k].defaults == PyFunction_GET_DEFAULTS(o));
}

/* Numbers, None and strings lead to nothing. */
static bool
are_plain(PyObject *defaults)
{
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(defaults); k++) {
        PyObject *o = PyTuple_GET_ITEM(defaults, k);

        if (o != Py_None && !PyBool_Check(o) && !PyLong_CheckExact(o) && !PyFloat_CheckExact(o) && !PyUnicode_CheckExact(o))
            return false;
    }
    return true;
}

bool
fr_hot_defaults_hold(const struct reader *r, PyCodeObject *code, PyObject *defaults)
{
    for (int k = 0; k < r->p->n_guards; k++)
        if (r->p->guard[k].code == (PyObject *)code)
            return r->p->guard[k].defaults == defaults;
    return false;
}

/* Adds one, of a name in a module, of an owner (+ 1), or a global. */
static bool
add_guard(struct reader *r, PyObject *name, PyObject *of, int owner, PyObject *value)
{
    struct fr_hot_program *p = r->p;
    int                    n = p->n_guards;

    for (int k = 0; k < n; k++)
        if (p->guard[k].name == name && p->guard[k].of == of && p->guard[k].owner == owner)
            return fr_hot_guard_holds(p, k, value);
    if (n == (int)FR_LEN(p->guard))
        return false;
    p->guard[n].name = Py_NewRef(name);
    p->guard[n].of = Py_XNewRef(of);
    p->guard[n].owner = owner;
    if (PyFunction_Check(value)) {
        PyObject *defaults = PyFunction_GET_DEFAULTS(value);

        p->guard[n].code = Py_NewRef(fr_whose_written(PyFunction_GET_CODE(value)));
        if (defaults && are_plain(defaults))
            p->guard[n].defaults = Py_NewRef(defaults);
    } else {
        p->guard[n].value = Py_NewRef(value);
    }
    p->n_guards++;
    return true;
}

/* The variable that a global is which is assigned in the loop, also where a function reads it that is
 * called there; -1: it is none. */
static int
assigned_global(const struct reader *r, PyObject *name)
{
    const struct fr_hot_program *p = r->p;
    bool                         in_module = !(r->source->code->co_flags & CO_OPTIMIZED);

    for (int i = 0; i < p->n_vars; i++)
        if (p->name[i] == name && !p->is_global[i] && !p->is_inner[i] && !p->owner[i] && (in_module || p->is_stored_global[i]))
            return i;
    return -1;
}

bool
fr_hot_add_guard(struct reader *r, PyObject *name, PyObject *of, PyObject *value)
{
    if (of && PyModule_GetDict(of) == r->source->globals && assigned_global(r, name) >= 0)
        return false;
    return add_guard(r, name, of, 0, value);
}

bool
fr_hot_load_owned_method(struct reader *r, const struct fr_hot_value *owner, PyObject *name)
{
    PyObject *o = fr_hot_object(r->p, r->source, owner->dtype), *f = fr_hot_method(o, name);

    Py_XDECREF(o); /* (the frame has it) */
    for (int i = 0; i < r->p->n_vars; i++) /* (it may be assigned in the loop) */
        if (r->p->owner[i] && r->p->is_set[i] && r->p->name[i] == name)
            return false;
    if (!f || !add_guard(r, name, NULL, owner->dtype + 1, f))
        return false;
    fr_hot_push(r, (struct fr_hot_value){.kind = FR_HOT_OBJECT, .object = f, .reg = -1});
    fr_hot_push(r, *owner);
    return true;
}

static bool
is_of_heap(PyTypeObject *type)
{
    return PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE);
}

/* Whether it is the module of that name, which is there as long as Python is. */
static bool
is_loaded(PyObject *module, const char *name)
{
    PyObject *modules = PyImport_GetModuleDict();

    return modules && PyDict_Check(modules) && PyDict_GetItemString(modules, name) == module;
}

/* Whether an object may be a guard's: a function, a class or a module that leads to nothing of the user's, or a function of
 * the user's, which is not held. */
bool
fr_hot_may_hold(PyObject *o)
{
    struct fr_few_piece piece[FR_FEW_PIECES];

    if (PyModule_Check(o)) {
        const char *name = PyModule_GetName(o);

        PyErr_Clear();
        return name && is_loaded(o, name);
    }
    if (PyMethod_Check(o)) /* numpy.random's, or random's */
        return !is_of_heap(Py_TYPE(PyMethod_GET_SELF(o))) || fr_few_state_of(PyMethod_GET_SELF(o), piece) == 1;
    if (PyCFunction_Check(o) && PyCFunction_GET_SELF(o) && !PyModule_Check(PyCFunction_GET_SELF(o)))
        return fr_few_state_of(PyCFunction_GET_SELF(o), piece) == 1;
    return PyCallable_Check(o) && !is_of_heap(Py_TYPE(o)) && !(PyType_Check(o) && is_of_heap((PyTypeObject *)o));
}

void
fr_hot_store_name(struct reader *r, PyObject *name)
{
    int i = assigned_global(r, name);

    if (i >= 0)
        fr_hot_store(r, i);
    else
        fr_hot_leave(r);
}

/* A global of another module: a constant, as long as it is the same. */
static void
load_global_of(struct reader *r, PyObject *module, PyObject *name)
{
    PyObject           *o = fr_hot_global_of(r->source, module, name);
    struct fr_hot_value v;

    if (o)
        fr_hot_type(o, &v);
    if (!o || (v.kind != FR_HOT_PYTHON && !fr_hot_may_hold(o)) || !fr_hot_add_guard(r, name, module, o))
        fr_hot_leave(r);
    else if (v.kind == FR_HOT_PYTHON)
        fr_hot_load_constant(r, o);
    else
        fr_hot_push(r, (struct fr_hot_value){.kind = FR_HOT_OBJECT, .object = o, .reg = -1});
}

void
fr_hot_load_global(struct reader *r, PyObject *name)
{
    struct fr_hot_program *p = r->p;
    PyObject              *o = fr_hot_global(r->source, name);
    struct fr_hot_value    v;
    int                    assigned = assigned_global(r, name);

    if (frame_of(r)->module) {
        load_global_of(r, frame_of(r)->module, name);
        return;
    }
    if (assigned >= 0) {
        fr_hot_load(r, assigned);
        return;
    }
    for (int i = 0; i < p->n_vars; i++)
        if (p->is_global[i] && p->name[i] == name) {
            r->s.var[i] = p->global_type[i];
            fr_hot_load(r, i);
            return;
        }
    if (!o) {
        fr_hot_leave(r);
        return;
    }
    fr_hot_type(o, &v);
    if (is_number(&v) || v.kind == FR_HOT_ARRAY || v.kind == FR_HOT_LIST || PyDict_CheckExact(o) || PyTuple_CheckExact(o) || PyAnySet_CheckExact(o)) {
        if (p->n_vars == FR_HOT_VARS) {
            fr_hot_leave(r);
            return;
        }
        p->name[p->n_vars] = Py_NewRef(name);
        p->is_global[p->n_vars] = p->is_used[p->n_vars] = true;
        p->global_type[p->n_vars] = r->s.var[p->n_vars] = v;
        fr_hot_load(r, p->n_vars++);
        return;
    }
    if (v.kind != FR_HOT_OPAQUE || !fr_hot_may_hold(o) || !fr_hot_add_guard(r, name, NULL, o)) {
        fr_hot_leave(r);
        return;
    }
    fr_hot_push(r, (struct fr_hot_value){.kind = FR_HOT_OBJECT, .object = o, .reg = -1});
}

/* The variable that an attribute of an object is; -1: none. */
static int
attribute_of(const struct reader *r, const struct fr_hot_value *owner, PyObject *name)
{
    for (int i = 0; i < r->p->n_vars; i++)
        if (r->p->owner[i] == owner->dtype + 1 && r->p->name[i] == name)
            return i;
    return -1;
}

bool
fr_hot_load_owned(struct reader *r, const struct fr_hot_value *owner, PyObject *name)
{
    int i = owner->kind == FR_HOT_OWNER ? attribute_of(r, owner, name) : -1;

    if (i >= 0)
        fr_hot_load(r, i);
    return i >= 0;
}

void
fr_hot_store_attribute(struct reader *r, PyObject *name)
{
    struct fr_hot_value owner = fr_hot_pop(r);
    int                 i = !r->ended && owner.kind == FR_HOT_OWNER ? attribute_of(r, &owner, name) : -1;

    if (i >= 0)
        fr_hot_store(r, i);
    else
        fr_hot_leave(r);
}
