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

/* ---- lines of FRIT_LOG ---- */

enum { N_RECENT = 256 };

/* The line that was said of a format, a name and a place, whose text need not be made again. */
static struct recent {
    const char         *format;
    uint64_t            name;      /* its hash */
    uint32_t            site;
    struct fr_log_line *line;
} recent[N_RECENT];

static void
say(const char *text, uint64_t n)
{
    if (n == 1)
        PySys_FormatStderr("frit: %s\n", text);
    else if (n)
        PySys_FormatStderr("frit: %s, %llu times\n", text, (unsigned long long)n);
}

static struct fr_log_line *
line_of(PyObject *text)
{
    const char *s = text ? PyUnicode_AsUTF8(text) : NULL;

    return s ? fr_log_line(s) : NULL;
}

void
fr_info_log(const char *format, const char *name)
{
    const uint32_t site = FR_SITE_LINE(fr_site_here());
    uint64_t       hash = 0xcbf29ce484222325u;
    struct recent *at;

    for (const char *s = name; *s; s++)
        hash = (hash ^ (unsigned char)*s) * 0x100000001b3u;
    at = &recent[(hash ^ site * 0x9e3779b9u ^ (uintptr_t)format) % N_RECENT];
    if (at->format != format || at->name != hash || at->site != site || !at->line) {
        PyObject *where = fr_site_text(site), *text = where ? PyUnicode_FromFormat(format, name, where) : NULL;

        *at = (struct recent){format, hash, site, line_of(text)};
        Py_XDECREF(text);
        Py_XDECREF(where);
        PyErr_Clear();
    }
    if (at->line)
        say(fr_log_text(at->line), fr_log_again(at->line));
}

void
fr_info_log_text(PyObject *text)
{
    struct fr_log_line *line = line_of(text);

    PyErr_Clear();
    if (line)
        say(fr_log_text(line), fr_log_again(line));
}

void
fr_info_log_rest(void)
{
    fr_log_rest(say);
}

/* ---- syncs ---- */

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
    if (FR_UNLIKELY(fr_env.log_bits & FR_LOG_SYNCS))
        fr_info_log("computed for %s at %U", sync_names[why]);
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
