/* bind/base/info.c -- counters of what happened at the edge to Python. */
#include <string.h>

#include "base/log.h"
#include "base/span.h"
#include "base/ways.h"
#include "bind/base/base.h"
#include "ir/node.h"
#include "runtime/explain.h"

uint64_t fr_info_copied_bytes;

static uint64_t syncs[FR_N_SYNCS], n_syncs;

static const char *const sync_names[] = {
#define FR_SYNC_NAME(name) #name,
    FR_SYNCS(FR_SYNC_NAME)
#undef FR_SYNC_NAME
};

void (*fr_info_wanted)(const struct fr_tensor *);

void
fr_info_sync(enum fr_sync why, const struct fr_tensor *t)
{
    static struct fr_span_known known[FR_N_SYNCS];

    if (FR_UNLIKELY(fr_info_wanted != NULL))
        fr_info_wanted(t);
    if (!fr_tensor_is_pending(t))
        return;
    if (FR_UNLIKELY(fr_spans_on()))
        fr_span_why = (struct fr_span_why){fr_span_name_of(&known[why], sync_names[why]), fr_site_here()};
    syncs[why]++;
    n_syncs++;
    if (FR_UNLIKELY(fr_explain_is_on))
        fr_explain_sync(sync_names[why], fr_site_here());
    if (FR_UNLIKELY(fr_env.log_bits & FR_LOG_SYNCS)) {
        PyObject *where = fr_site_text(fr_site_here());
        if (where)
            PySys_FormatStderr("frit: computed for %s at %U\n", sync_names[why], where);
        Py_XDECREF(where);
        PyErr_Clear();
    }
}

PyObject *
fr_info_syncs(void)
{
    PyObject *dict = PyDict_New();

    for (int i = 0; dict && i < FR_N_SYNCS; i++)
        if (syncs[i]) {
            PyObject *n = PyLong_FromUnsignedLongLong(syncs[i]);

            if (!n || PyDict_SetItemString(dict, sync_names[i], n) < 0)
                Py_CLEAR(dict);
            Py_XDECREF(n);
        }
    return dict;
}

void
fr_info_call_counters(struct fr_call_counters *c)
{
    *c = (struct fr_call_counters){fr_stats_kernels(), fr_ways_taken[FR_WAY_handed], n_syncs, fr_nodes_made,
                                    fr_elems_made, fr_arrays_made, fr_stats_strange(), fr_stats_evals(), fr_type_made};
}

void
fr_info_reset(void)
{
    memset(syncs, 0, sizeof syncs);
    n_syncs = 0;
    fr_info_copied_bytes = 0;
}
