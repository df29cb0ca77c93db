/* bind/tensor/html.c -- a Tensor as HTML, for notebooks: its shape, dtype, device and bytes; of a computed one the values, or
 * the corners of them as NumPy formats them; of a pending one the operations that it waits for. Nothing is computed. */
#include <limits.h>

#include "backends/backend.h"
#include "bind/tensor/tensor.h"

/* Larger tables show so many rows and columns at each end. So no more than MOST_ROWS * MOST_COLUMNS elements are formatted. */
enum { MOST_ROWS = 60, MOST_COLUMNS = 20, END_ROWS = 5, END_COLUMNS = 10 };

/* The indices of one axis that a table shows. */
struct shown {
    int64_t index[MOST_ROWS > 2 * END_COLUMNS ? MOST_ROWS : 2 * END_COLUMNS];
    int     n, gap; /* "..." stands before number `gap`; -1: nowhere */
};

static void
choose(struct shown *s, int64_t size, int most, int at_ends)
{
    s->gap = size > most ? at_ends : -1;
    s->n = size > most ? 2 * at_ends : (int)size;
    for (int i = 0; i < s->n; i++)
        s->index[i] = size > most && i >= at_ends ? size - s->n + i : i;
}

/* ---- pieces of text, collected in a list */

/* Takes over the text; false: an exception is set. */
static bool
put(PyObject *list, PyObject *text)
{
    bool ok = text && PyList_Append(list, text) == 0;

    Py_XDECREF(text);
    return ok;
}

static bool
put_text(PyObject *list, const char *text)
{
    return put(list, PyUnicode_FromString(text));
}

/* The text as it is to be read. Takes it over; NULL stays NULL. */
static PyObject *
escaped(PyObject *text)
{
    static const char *const pairs[][2] = {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}};

    for (size_t i = 0; i < FR_LEN(pairs) && text; i++) {
        PyObject *from = PyUnicode_FromString(pairs[i][0]), *to = PyUnicode_FromString(pairs[i][1]);

        Py_SETREF(text, from && to ? PyUnicode_Replace(text, from, to, -1) : NULL);
        Py_XDECREF(from);
        Py_XDECREF(to);
    }
    return text;
}

/* As people read them: "1.5 MB". */
static PyObject *
bytes_text(int64_t n)
{
    PyObject *units = PyImport_ImportModule("frit._units");
    PyObject *text = units ? PyObject_CallMethod(units, "bytes_text", "L", (long long)n) : NULL;

    Py_XDECREF(units);
    return text;
}

/* ---- what it is */

/* "waits for 3 operations, whose values take 1.5 MB" */
static PyObject *
waits_text(const struct fr_tensor *t)
{
    int64_t       n_nodes, n_bytes;
    struct fr_err err;
    PyObject     *bytes, *text;

    if (fr_errors_check(fr_tensor_waits_for(t, &n_nodes, &n_bytes, &err), &err) < 0 || !(bytes = bytes_text(n_bytes)))
        return NULL;
    text = PyUnicode_FromFormat("pending: it waits for %lld operation%s, whose values take %U", (long long)n_nodes,
                                n_nodes == 1 ? "" : "s", bytes);
    Py_DECREF(bytes);
    return text;
}

static bool
put_head(PyObject *list, PyObject *self, bool has_data)
{
    const struct fr_tensor *t = fr_of(self);
    PyObject *shape = PyObject_GetAttrString(self, "shape"), *bytes = bytes_text(t->layout->n_elems * fr_dtype_size(t->dtype));
    PyObject *state = fr_tensor_is_pending(t) ? waits_text(t) : PyUnicode_FromString(has_data ? "" : "without data");
    PyObject *dtype = PyObject_Str(fr_numpy_dtype(t->dtype)), *text = NULL;

    if (shape && bytes && state && dtype)
        text = PyUnicode_FromFormat("shape %S, %U, on %s, %U%s%U", shape, dtype, fr_device_name(fr_tensor_place(t)), bytes,
                                    PyUnicode_GET_LENGTH(state) ? "; " : "", state);
    Py_XDECREF(shape);
    Py_XDECREF(bytes);
    Py_XDECREF(state);
    Py_XDECREF(dtype);
    return put_text(list, "<div><b>frit.Tensor</b> ") && put(list, escaped(text)) && put_text(list, "</div>");
}

/* ---- its values */

/* [[i], [j], ...] of what is shown of an axis of rows, or [i, j, ...]. */
static PyObject *
index_list(const struct shown *s, bool nested)
{
    PyObject *list = PyList_New(s->n);

    for (int i = 0; list && i < s->n; i++) {
        PyObject *item = Py_BuildValue(nested ? "[L]" : "L", (long long)s->index[i]);

        if (item)
            PyList_SET_ITEM(list, i, item);
        else
            Py_CLEAR(list);
    }
    return list;
}

/* The elements that are shown, as an array with one axis. */
static PyObject *
elements(PyObject *view, int ndim, const struct shown *rows, const struct shown *columns)
{
    PyObject *key = PyTuple_New(ndim), *corner = NULL, *flat = NULL;

    for (int d = 0; key && d < ndim; d++) {
        PyObject *index = d == ndim - 1   ? index_list(columns, false)
                          : d == ndim - 2 ? index_list(rows, true)
                                          : PyLong_FromLong(0);

        if (index)
            PyTuple_SET_ITEM(key, d, index);
        else
            Py_CLEAR(key);
    }
    if (key)
        corner = ndim == 0 ? Py_NewRef(view) : PyObject_GetItem(view, key);
    if (corner)
        flat = PyObject_CallMethod(corner, "reshape", "i", -1);
    Py_XDECREF(key);
    Py_XDECREF(corner);
    return flat;
}

/* NumPy's text of each, all in one format, as a list. NULL without an exception: the user's own formatter gives something else. */
static PyObject *
cells_of(PyObject *flat, Py_ssize_t n)
{
    PyObject *f = fr_numpy_attr("array2string"), *args = PyTuple_Pack(1, flat), *text = NULL, *bare = NULL, *bar = NULL, *cells = NULL;
    PyObject *kw = Py_BuildValue("{s:i,s:i,s:s}", "max_line_width", INT_MAX, "threshold", INT_MAX, "separator", "|");

    if (f && args && kw && (text = PyObject_Call(f, args, kw)) && (bar = PyUnicode_FromString("|")) &&
        (bare = PyUnicode_Substring(text, 1, PyUnicode_GET_LENGTH(text) - 1)))
        cells = PyUnicode_Split(bare, bar, -1);
    if (cells && PyList_GET_SIZE(cells) != n)
        Py_CLEAR(cells);
    Py_XDECREF(f);
    Py_XDECREF(args);
    Py_XDECREF(kw);
    Py_XDECREF(text);
    Py_XDECREF(bare);
    Py_XDECREF(bar);
    return cells;
}

static bool
put_gap(PyObject *list, const char *tag)
{
    return put(list, PyUnicode_FromFormat("<%s>&hellip;</%s>", tag, tag));
}

static bool
put_column_heads(PyObject *list, const struct shown *columns, bool has_rows)
{
    bool ok = put_text(list, has_rows ? "<thead><tr><th></th>" : "<thead><tr>");

    for (int i = 0; i < columns->n && ok; i++)
        ok = (i != columns->gap || put_gap(list, "th")) &&
             put(list, PyUnicode_FromFormat("<th>%lld</th>", (long long)columns->index[i]));
    return ok && put_text(list, "</tr></thead>");
}

static bool
put_row(PyObject *list, PyObject *const *cell, const struct shown *columns)
{
    bool ok = true;

    for (int i = 0; i < columns->n && ok; i++)
        ok = (i != columns->gap || put_gap(list, "td")) &&
             put_text(list, "<td style=\"white-space: pre; font-family: monospace\">") &&
             put(list, escaped(Py_NewRef(cell[i]))) && put_text(list, "</td>");
    return ok;
}

static bool
put_gap_row(PyObject *list, const struct shown *columns)
{
    bool ok = put_text(list, "<tr>") && put_gap(list, "th");

    for (int i = 0; i < columns->n + (columns->gap >= 0) && ok; i++)
        ok = put_gap(list, "td");
    return ok && put_text(list, "</tr>");
}

static bool
put_cells(PyObject *list, PyObject *cells, int ndim, const struct shown *rows, const struct shown *columns)
{
    bool ok = put_text(list, "<table>") && (ndim == 0 || put_column_heads(list, columns, ndim > 1)) && put_text(list, "<tbody>");

    for (int i = 0; i < rows->n && ok; i++) {
        ok = (i != rows->gap || put_gap_row(list, columns)) && put_text(list, "<tr style=\"text-align: right\">");
        if (ndim > 1)
            ok = ok && put(list, PyUnicode_FromFormat("<th>%lld</th>", (long long)rows->index[i]));
        ok = ok && put_row(list, ((PyListObject *)cells)->ob_item + (Py_ssize_t)i * columns->n, columns) && put_text(list, "</tr>");
    }
    return ok && put_text(list, "</tbody></table>");
}

/* Which plane of more than two axes it is: the first one. */
static bool
put_plane(PyObject *list, int ndim)
{
    bool ok = put_text(list, "<div>[");

    for (int d = 0; d < ndim - 2 && ok; d++)
        ok = put_text(list, "0, ");
    return ok && put_text(list, ":, :] is</div>");
}

static bool
put_values(PyObject *list, PyObject *self)
{
    const struct fr_layout *l = fr_of(self)->layout;
    const int               ndim = l->ndim;
    struct shown            rows, columns;
    PyObject               *view = NULL, *flat = NULL, *cells = NULL;
    bool                    ok = false;

    if (l->n_elems == 0)
        return true;
    choose(&rows, ndim > 1 ? fr_layout_dims(l)[ndim - 2] : 1, MOST_ROWS, END_ROWS);
    choose(&columns, ndim > 0 ? fr_layout_dims(l)[ndim - 1] : 1, MOST_COLUMNS, END_COLUMNS);
    if ((view = fr_numpy_view(self, FR_VIEW_READ)) && (flat = elements(view, ndim, &rows, &columns)) &&
        ((cells = cells_of(flat, (Py_ssize_t)rows.n * columns.n)) || !PyErr_Occurred()))
        ok = (ndim <= 2 || put_plane(list, ndim)) &&
             (cells ? put_cells(list, cells, ndim, &rows, &columns)
                    : put_text(list, "<pre>") && put(list, escaped(PyObject_Str(flat))) && put_text(list, "</pre>"));
    Py_XDECREF(view);
    Py_XDECREF(flat);
    Py_XDECREF(cells);
    return ok;
}

PyObject *
fr_html(PyObject *self, PyObject *unused)
{
    const struct fr_tensor *t = fr_of(self);
    bool                    has_data = fr_tensor_device(t) != FR_DEVICE_META;
    PyObject               *list, *nothing, *html = NULL;

    (void)unused;
    if (fr_call_depth) /* an array stands there, which has no HTML: who asks shows its text */
        Py_RETURN_NONE;
    list = PyList_New(0);
    nothing = PyUnicode_FromString("");
    if (list && nothing && put_text(list, "<div>") && put_head(list, self, has_data) &&
        (fr_tensor_is_pending(t) || !has_data || put_values(list, self)) && put_text(list, "</div>"))
        html = PyUnicode_Join(nothing, list);
    Py_XDECREF(list);
    Py_XDECREF(nothing);
    return html;
}
