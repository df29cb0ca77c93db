/* tests/c/test_jit.c -- compilation, cache and loader without Python: a shared library that
 * tests/test_jit_parts.py drives. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/ref/ref.h"
#include "base/alloc.h"
#include "base/blake2b.h"
#include "base/env.h"
#include "base/log.h"
#include "jit/cache.h"
#include "jit/compile.h"
#include "jit/load.h"
#include "jit/loop.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT void
test_blake2b(const void *p, size_t n, const void *key, size_t n_key, size_t n_digest, void *out)
{
    struct fr_blake2b h;

    fr_blake2b_init(&h, n_digest, key, n_key);
    fr_blake2b_update(&h, p, n / 3);
    fr_blake2b_update(&h, (const char *)p + n / 3, n - n / 3);
    fr_blake2b_final(&h, out);
}

/* ---- compilation ----------------------------------------------------------------------------- */

/* features: separated by spaces. */
EXPORT void
test_configure(const char *helper, const char *features)
{
    static char  text[1024];
    const char  *list[64];
    int          n = 0;

    fr_env_load();
    snprintf(text, sizeof text, "%s", features);
    for (char *save, *s = strtok_r(text, " ", &save); s && n < 63; s = strtok_r(NULL, " ", &save))
        list[n++] = s;
    list[n] = NULL;
    fr_compile_configure(helper, list);
}

struct answer {
    const struct fr_nest_code *code;
    atomic_int                 n;     /* how often ready() was called */
    struct fr_nest            *nest;
};

static void
ready(void *arg, const struct fr_nest_code *code)
{
    struct answer *a = arg;

    a->code = code;
    atomic_fetch_add(&a->n, 1);
}

/* A nest and the answer to come, for test_run and friends; NULL when the text is wrong. */
EXPORT struct answer *
test_nest(const char *text)
{
    struct answer *a = calloc(1, sizeof *a);
    struct fr_err  err;

    if (fr_nest_parse(text, &a->nest, &err) != FR_OK) {
        fprintf(stderr, "%s\n%s\n", err.text, text);
        free(a);
        return NULL;
    }
    return a;
}

EXPORT void
test_want(struct answer *a, int lookup)
{
    fr_compile_want(a->nest, lookup, ready, a);
    fr_compile_nudge(); /* the manager may have been asleep already */
}

EXPORT int test_answered(struct answer *a) { return atomic_load(&a->n); }
EXPORT int test_has_code(struct answer *a) { return a->code != NULL; }
EXPORT int test_has_stages(struct answer *a) { return a->code && a->code->stage; }
EXPORT size_t test_scratch(struct answer *a) { return fr_nest_scratch(a->nest); }
EXPORT int test_wait(double s) { return fr_compile_wait(s, NULL); }
EXPORT void test_stop(void) { fr_compile_stop(); }
EXPORT const char *test_unavailable(void) { return fr_compile_unavailable(); }

EXPORT void
test_stats(uint64_t *out)
{
    struct fr_compile_stats s;

    fr_compile_stats(&s);
    memcpy(out, &s, sizeof s);
}

EXPORT void
test_run(struct answer *a, char *const *ptr, const int64_t *row_stride, const int64_t *inner_stride,
         int64_t n_rows, int64_t n_inner, const void *scalars)
{
    void *scratch = aligned_alloc(64, (fr_nest_scratch(a->nest) + 64) & ~(size_t)63);

    a->code->rows(ptr, row_stride, inner_stride, n_rows, n_inner, scalars, scratch);
    free(scratch);
}

/* The same by the reference executor. */
EXPORT int
test_ref(struct answer *a, char **ptr, const int64_t *stride, int64_t n_rows, int64_t n_inner,
         const void *scalars)
{
    struct fr_instance in = {.n_rows = n_rows, .n_inner = n_inner, .ptr = ptr, .stride = stride,
                             .scalars = scalars};
    struct fr_err      err = {FR_OK, ""};
    fr_status          st = fr_ref_launch(a->nest, &in, &err);

    if (st != FR_OK)
        fprintf(stderr, "%s\n", err.text);
    return st;
}

/* Whether every operation of the nest has a recipe. */
EXPORT int
test_supported(const char *text)
{
    static char         *ptr[FR_MAX_OPERANDS], room[16]; /* accumulators are initialised */
    static const int64_t stride[2 * FR_MAX_OPERANDS];
    static const char    scalars[16 * 64];
    struct fr_instance   in = {.n_rows = 0, .ptr = ptr, .stride = stride, .scalars = scalars};
    struct fr_nest    *nest = NULL;
    struct fr_err      err;
    fr_status          st = fr_nest_parse(text, &nest, &err);

    for (int k = 0; k < FR_MAX_OPERANDS; k++)
        ptr[k] = room;
    if (st == FR_OK)
        st = fr_ref_launch(nest, &in, &err);
    fr_nest_free(nest);
    return st == FR_OK;
}

/* The functions for parts of rows, as the launcher calls them. */
EXPORT void
test_stage(struct answer *a, int stage, char *const *ptr, const int64_t *inner_stride, int64_t j0,
           int64_t n, const void *scalars, const struct fr_slot *slots, struct fr_slot *out)
{
    a->code->stage[stage](ptr, inner_stride, j0, n, scalars, slots, out, NULL);
}

EXPORT void
test_mid(struct answer *a, int stage, char *const *ptr, const void *scalars, struct fr_slot *slots)
{
    a->code->mid[stage](ptr, scalars, slots);
}

/* ---- cache and loader ------------------------------------------------------------------------ */

static struct fr_key
key_from(const char *name)
{
    struct fr_key     k;
    struct fr_blake2b h;

    fr_blake2b_init(&h, sizeof k.bytes, NULL, 0);
    fr_blake2b_update(&h, name, strlen(name));
    fr_blake2b_final(&h, k.bytes);
    return k;
}

EXPORT int
test_cache_put(const char *name, const void *bytes, size_t n, char *message)
{
    struct fr_key k = key_from(name);
    struct fr_err err = {FR_OK, ""};
    int           st = fr_cache_put(&k, NULL, bytes, n, &err);

    strcpy(message, err.text);
    return st;
}

/* Returns the status; the bytes go to out, which has room for cap. */
EXPORT int
test_cache_get(const char *name, void *out, size_t cap, size_t *n)
{
    struct fr_key k = key_from(name);
    struct fr_err err;
    void         *bytes;
    int           st = fr_cache_get(&k, NULL, &bytes, n, &err);

    if (st == FR_OK) {
        if (*n <= cap)
            memcpy(out, bytes, *n);
        fr_free(bytes);
    }
    return st;
}

EXPORT void
test_cache_info(char *dir, int cap, uint64_t *n_entries, uint64_t *n_bytes)
{
    fr_cache_info(dir, cap, n_entries, n_bytes);
}

EXPORT int
test_cache_clear(void)
{
    struct fr_err err;

    return fr_cache_clear(&err);
}

EXPORT int
test_load_check(const void *bytes, size_t n, char *message)
{
    struct fr_err err = {FR_OK, ""};
    int           st = fr_load_check(bytes, n, &err);

    strcpy(message, err.text);
    return st;
}

/* Loads it, without a look at what it has, and unloads it. */
EXPORT int
test_load_place(const void *bytes, size_t n)
{
    struct fr_err     err = {FR_OK, ""};
    struct fr_object *o = NULL;
    int               st = fr_object_get(bytes, n, &o, &err);
    struct fr_nest_code code;

    if (st == FR_OK)
        fr_object_find(o, "none", 1, &code, &err);
    fr_object_unref(o);
    return st;
}

/* Loads it for as long as test_drop is not called. */
EXPORT struct fr_object *
test_keep(const void *bytes, size_t n)
{
    struct fr_err     err = {FR_OK, ""};
    struct fr_object *o = NULL;

    return fr_object_get(bytes, n, &o, &err) == FR_OK ? o : NULL;
}

EXPORT void test_drop(struct fr_object *o) { fr_object_unref(o); }

/* Calls the kernel `ab` by its table, as a function without arguments. */
EXPORT int
test_call(struct fr_object *o)
{
    struct fr_err       err = {FR_OK, ""};
    struct fr_nest_code code;
    int (*f)(void);

    if (fr_object_find(o, "ab", 0, &code, &err) != FR_OK || !code.mid)
        return -1;
    memcpy(&f, &code.mid[0], sizeof f);
    return f();
}

EXPORT int test_warnings(char *out, int cap) { return fr_warnings(out, cap); }
EXPORT void test_fail_at(long n) { fr_alloc_fail_at(n); }
EXPORT long test_fail_count(void) { return fr_alloc_count(); }
EXPORT long test_live(void) { return fr_alloc_live(); }
