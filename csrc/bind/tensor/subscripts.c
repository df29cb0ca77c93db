#include "bind/tensor/subscripts.h"

#include <ctype.h>
#include <string.h>

enum { N_LETTERS = FR_EINSUM_LETTERS,
       DOTS = N_LETTERS };      /* what the first axis of an ellipsis is called, from left to right */

/* How many letters come before the next comma, arrow or end; -1: something else is there. *dots: before how many of them
 * an ellipsis stands; -1: there is none. */
static int
count_letters(const char *s, int *dots)
{
    int n = 0;

    for (*dots = -1; *s && *s != ',' && *s != '-'; s++) {
        if (isalpha((unsigned char)*s)) {
            n++;
        } else if (*s == '.' && *dots < 0 && s[1] == '.' && s[2] == '.') {
            *dots = n;
            s += 2;
        } else if (*s != ' ') {
            return -1;
        }
    }
    return n;
}

/* Labels of one list of subscripts, an ellipsis being `n_dots` axes that end with the last one of all. Returns where the
 * list ends. */
static const char *
read_labels(const struct fr_einsum *z, const char *s, int n_dots, uint8_t *label)
{
    for (; *s && *s != ',' && *s != '-'; s++) {
        if (isalpha((unsigned char)*s))
            *label++ = (uint8_t)*s;
        if (*s == '.') {
            for (int k = z->n_dots - n_dots; k < z->n_dots; k++)
                *label++ = (uint8_t)(DOTS + k);
            s += 2;
        }
    }
    return s;
}

static bool
has(const uint8_t *label, int n, int of)
{
    return memchr(label, of, (size_t)n) != NULL;
}

/* The axes of the result, by the arrow or by what occurs once. */
static bool
read_result(struct fr_einsum *z, const char *s)
{
    int n, dots;

    if (s[0] != '-') {
        for (int k = 0; k < z->n_dots; k++)
            z->axis[z->n_out++] = (uint8_t)(DOTS + k);
        for (int c = 0; c < N_LETTERS && z->n_out < FR_MAX_DIMS; c++)
            if (z->count[c] == 1)
                z->axis[z->n_out++] = (uint8_t)c;
        return true;
    }
    if (s[1] != '>' || (n = count_letters(s + 2, &dots)) < 0 || (z->n_dots && dots < 0) || n + z->n_dots > FR_MAX_DIMS)
        return false;
    z->n_out = n + (dots < 0 ? 0 : z->n_dots);
    if (*read_labels(z, s + 2, z->n_dots, z->axis))
        return false;
    for (int k = 0; k < z->n_out; k++)
        if (!z->count[z->axis[k]] || has(z->axis, k, z->axis[k]))
            return false;
    return true;
}

bool
fr_einsum_parse(struct fr_einsum *z, const char *s)
{
    const char *at = s;
    int         n, dots, dims[FR_EINSUM_OPERANDS];

    for (int i = 0; i < z->n; i++, at++) {
        int ndim = z->t[i]->layout->ndim;

        if ((n = count_letters(at, &dots)) < 0 || (dots < 0 ? ndim != n : ndim < n) || z->t[i]->layout->n_elems == 0)
            return false;
        dims[i] = dots < 0 ? 0 : ndim - n;
        z->n_dots = dims[i] > z->n_dots ? dims[i] : z->n_dots;
        at += strcspn(at, ",-");
        if ((*at == ',') != (i < z->n - 1))
            return false;
    }
    at = s;
    for (int i = 0; i < z->n; i++) {
        at = read_labels(z, at, dims[i], z->label[i]);
        at += *at == ',';
        for (int k = 0; k < z->t[i]->layout->ndim; k++)
            z->count[z->label[i][k]]++;
    }
    if (!read_result(z, at))
        return false;
    z->n_axes = z->n_out;
    for (int c = 0; c < N_LETTERS; c++)
        if (z->count[c] && !has(z->axis, z->n_out, c)) {
            if (z->n_axes == FR_MAX_DIMS)
                return false;
            z->axis[z->n_axes++] = (uint8_t)c;
        }
    for (int a = 0; a < z->n_axes; a++)
        z->dims[a] = 1;
    return true;
}

bool
fr_einsum_has(const struct fr_einsum *z, int i, int a)
{
    return has(z->label[i], z->t[i]->layout->ndim, z->axis[a]);
}

bool
fr_einsum_window(struct fr_einsum *z, int i, int64_t *dims, int64_t *strides)
{
    const struct fr_layout *l = z->t[i]->layout;

    for (int a = 0; a < z->n_axes; a++) {
        bool found = false;

        dims[a] = 1;
        strides[a] = 0;
        for (int k = 0; k < l->ndim; k++) {
            if (z->label[i][k] != z->axis[a])
                continue;
            if (found && dims[a] != fr_layout_dims(l)[k])
                return false;
            found = true;
            dims[a] = fr_layout_dims(l)[k];
            strides[a] += fr_layout_strides(l)[k];
        }
        if (dims[a] != 1 && z->dims[a] != 1 && z->dims[a] != dims[a])
            return false;
        z->dims[a] = dims[a] != 1 ? dims[a] : z->dims[a];
    }
    return true;
}
