/* jit/export.c -- an export:
 *
 *     head
 *     struct entry, code      for each kernel; kernels of one object have its code once, behind the first of them
 *     digest[32]              of all that is before it
 *
 * The magic, the length and the last digest are the same in all formats, so damage is told from other versions. */
#include "jit/export.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "jit/cache.h"
#include "jit/compile_int.h"
#include "jit/load.h"

enum { FORMAT = 1 };

#if defined __x86_64__
enum { MACHINE = EM_X86_64 };
#elif defined __aarch64__
enum { MACHINE = EM_AARCH64 };
#else
enum { MACHINE = EM_NONE };
#endif

static const char magic[8] = {'F', 'R', 'I', 'T', 'E', 'X', 'P', '\n'};

struct head {
    char     magic[8];
    uint64_t n_bytes; /* of the whole file */
    uint32_t format, machine, codegen, n_entries;
    uint8_t  helper[FR_DIGEST_BYTES];
    char     version[32];
};

struct entry {
    struct fr_key        key;
    struct fr_key_origin origin;
    uint8_t              digest[FR_DIGEST_BYTES]; /* of the code */
    uint64_t             n_bytes;                 /* of the code */
    uint64_t             code;                    /* where it is */
};

/* ---- writing --------------------------------------------------------------------------------- */

struct writer {
    char         *bytes;
    size_t        n, cap;
    struct head   head;
    struct entry *entries; /* those that are written */
    size_t        entries_cap;
};

static fr_status
append(struct writer *w, const void *bytes, size_t n, struct fr_err *err)
{
    /* Twice as much as before, for there are as many steps as kernels. */
    if (w->n + n > w->cap && !FR_GROW(w->bytes, w->cap, 2 * (w->n + n)))
        return fr_no_memory(err, "an export of kernels");
    memcpy(w->bytes + w->n, bytes, n);
    w->n += n;
    return FR_OK;
}

/* Where the same code is already; 0 if it is not. */
static uint64_t
find_code(const struct writer *w, const struct entry *e)
{
    for (uint32_t i = w->head.n_entries; i-- > 0;) /* kernels of one object were written together */
        if (w->entries[i].n_bytes == e->n_bytes && !memcmp(w->entries[i].digest, e->digest, sizeof e->digest))
            return w->entries[i].code;
    return 0;
}

static fr_status
add_kernel(struct writer *w, const struct fr_key *key, const struct fr_key_origin *origin, const void *code, size_t n,
           struct fr_err *err)
{
    struct entry e = {.key = *key, .origin = *origin, .n_bytes = n};
    bool         is_new;
    fr_status    st;

    fr_key_hash_bytes(code, n, e.digest);
    if (!FR_GROW(w->entries, w->entries_cap, (size_t)w->head.n_entries + 1))
        return fr_no_memory(err, "a list of kernels");
    e.code = find_code(w, &e);
    is_new = !e.code;
    if (is_new)
        e.code = w->n + sizeof e;
    TRY(append(w, &e, sizeof e, err));
    if (is_new)
        TRY(append(w, code, n, err));
    w->entries[w->head.n_entries++] = e;
out:
    return st;
}

static fr_status
write_kernels(struct writer *w, const struct fr_key *keys, size_t n_keys, struct fr_err *err)
{
    fr_status st = FR_OK;

    TRY(append(w, &w->head, sizeof w->head, err));
    for (size_t i = 0; i < n_keys && st == FR_OK; i++) {
        struct fr_key_origin origin;
        struct fr_err        ignored;
        void                *code;
        size_t               n;

        if (fr_cache_get(&keys[i], &origin, &code, &n, &ignored) != FR_OK)
            continue; /* gone meanwhile, or damaged */
        if (!memcmp(origin.maker.helper, w->head.helper, sizeof w->head.helper))
            st = add_kernel(w, &keys[i], &origin, code, n, err);
        fr_free(code);
    }
out:
    return st;
}

/* What is known before any kernel is looked at. */
static fr_status
begin_head(struct head *head, const char *version, struct fr_err *err)
{
    *head = (struct head){.format = FORMAT, .machine = MACHINE, .codegen = FR_CODEGEN_VERSION};
    memcpy(head->magic, magic, sizeof magic);
    snprintf(head->version, sizeof head->version, "%s", version);
    return fr_key_hash_file(fr_manager.setup.program, head->helper, err);
}

fr_status
fr_export_make(const char *version, void **bytes, size_t *n, uint64_t *n_kernels, struct fr_err *err)
{
    struct writer  w = {0};
    struct fr_key *keys = NULL;
    uint8_t        digest[FR_DIGEST_BYTES];
    size_t         n_keys = 0;
    fr_status      st;

    TRY(begin_head(&w.head, version, err));
    TRY(fr_cache_keys(&keys, &n_keys, err));
    TRY(write_kernels(&w, keys, n_keys, err));
    w.head.n_bytes = w.n + sizeof digest;
    memcpy(w.bytes, &w.head, sizeof w.head);
    fr_key_hash_bytes(w.bytes, w.n, digest);
    TRY(append(&w, digest, sizeof digest, err));
    *bytes = w.bytes;
    *n = w.n;
    *n_kernels = w.head.n_entries;
    w.bytes = NULL; /* the caller owns it now */
out:
    fr_free(w.bytes);
    fr_free(w.entries);
    fr_free(keys);
    return st;
}

/* ---- checking -------------------------------------------------------------------------------- */

struct reader {
    const char  *bytes;
    size_t       n;           /* without the last digest */
    struct head  head;
    struct entry entry;       /* the last one read */
    size_t       at;          /* of the next one */
};

static fr_status
check_whole(struct reader *r, struct fr_err *err)
{
    uint8_t digest[FR_DIGEST_BYTES];

    if (memcmp(r->bytes, magic, r->n < sizeof magic ? r->n : sizeof magic))
        return fr_fail(err, FR_EFOREIGN, "this is no export of frit's kernels");
    if (r->n < sizeof r->head + sizeof digest)
        return fr_fail(err, FR_ECORRUPT, "the export is cut off after %zu bytes", r->n);
    memcpy(&r->head, r->bytes, sizeof r->head);
    if (r->head.n_bytes != r->n)
        return fr_fail(err, FR_ECORRUPT, "the export has %zu bytes instead of %llu", r->n,
                       (unsigned long long)r->head.n_bytes);
    r->n -= sizeof digest;
    fr_key_hash_bytes(r->bytes, r->n, digest);
    if (memcmp(digest, r->bytes + r->n, sizeof digest))
        return fr_fail(err, FR_ECORRUPT, "the export was altered: its digest is another one");
    return FR_OK;
}

/* Whether it is this build's. `mine` is the head of what would be written here. */
static fr_status
check_build(const struct reader *r, const struct head *mine, struct fr_err *err)
{
    const struct head *h = &r->head;

    if (h->format != mine->format)
        return fr_fail(err, FR_EUNFIT, "the export has format %u, and this frit reads format %u", h->format, mine->format);
    if (h->machine != mine->machine)
        return fr_fail(err, FR_EUNFIT, "the export is for another architecture (ELF machine %u, this is %u)", h->machine,
                       mine->machine);
    if (h->codegen != mine->codegen || memcmp(h->helper, mine->helper, sizeof h->helper))
        return fr_fail(err, FR_EUNFIT,
                       "the export was written by another build of frit (%.31s, build %02x%02x%02x%02x; "
                       "this is %.31s, build %02x%02x%02x%02x)",
                       h->version, h->helper[0], h->helper[1], h->helper[2], h->helper[3], mine->version,
                       mine->helper[0], mine->helper[1], mine->helper[2], mine->helper[3]);
    return FR_OK;
}

/* The next entry, of which all numbers are in bounds; its code lies in the file. */
static fr_status
next_entry(struct reader *r, struct fr_err *err)
{
    struct entry *e = &r->entry;
    uint8_t       digest[FR_DIGEST_BYTES];

    if (r->n - r->at < sizeof *e)
        return fr_fail(err, FR_ECORRUPT, "the export has fewer kernels than it says");
    memcpy(e, r->bytes + r->at, sizeof *e);
    r->at += sizeof *e;
    if (e->code > r->at || e->n_bytes > r->n - e->code || memcmp(e->origin.features + FR_KEY_FEATURES - 2, "\0", 2) ||
        memcmp(e->origin.maker.helper, r->head.helper, sizeof r->head.helper))
        return fr_fail(err, FR_ECORRUPT, "the export has a kernel that is not as frit writes them");
    if (e->code == r->at)
        r->at += e->n_bytes;
    fr_key_hash_bytes(r->bytes + e->code, e->n_bytes, digest);
    if (memcmp(digest, e->digest, sizeof digest))
        return fr_fail(err, FR_ECORRUPT, "the export has a kernel whose code was altered");
    return FR_OK;
}

/* What its code needs and this processor lacks; NULL: it runs here. */
static const char *
lacks(const struct entry *e)
{
    return fr_key_missing_feature(&e->origin, &fr_manager.origin);
}

static fr_status
check_kernels(struct reader *r, struct fr_err *err)
{
    const char *missing = NULL, *of_this;
    uint64_t    n_run = 0;
    fr_status   st = FR_OK;

    for (uint32_t i = 0; i < r->head.n_entries; i++) {
        TRY(next_entry(r, err));
        if ((of_this = lacks(&r->entry))) {
            missing = of_this;
            continue;
        }
        n_run++;
        if (fr_load_check(r->bytes + r->entry.code, r->entry.n_bytes, err) != FR_OK)
            return fr_fail(err, FR_ECORRUPT, "the export has a kernel whose code frit-cc did not make");
    }
    if (r->at != r->n)
        return fr_fail(err, FR_ECORRUPT, "the export has more in it than its kernels");
    if (r->head.n_entries && !n_run)
        return fr_fail(err, FR_EUNFIT, "all kernels of the export need %.40s, which this processor lacks or FRIT_ISA leaves out",
                       missing);
out:
    return st;
}

/* ---- taking over ----------------------------------------------------------------------------- */

static fr_status
take_kernels(struct reader *r, uint64_t *n_taken, struct fr_err *err)
{
    struct fr_key_origin last = {0};
    fr_status            st = FR_OK;

    for (uint32_t i = 0; i < r->head.n_entries; i++) {
        const struct entry *e = &r->entry;

        TRY(next_entry(r, err));
        if (lacks(e))
            continue;
        TRY(fr_cache_hold(&e->key, &e->origin, r->bytes + e->code, e->n_bytes, err));
        if (memcmp(&last, &e->origin, sizeof last))
            TRY(fr_memo_add_origin(&e->origin, err));
        last = e->origin;
        ++*n_taken;
    }
out:
    fr_manager.imports_read = false;
    return st;
}

fr_status
fr_export_take(const void *bytes, size_t n, const char *version, uint64_t *n_taken, struct fr_err *err)
{
    struct reader r = {.bytes = bytes, .n = n, .at = sizeof r.head};
    struct head   mine;
    fr_status     st;

    *n_taken = 0;
    TRY(check_whole(&r, err));
    TRY(begin_head(&mine, version, err));
    TRY(check_build(&r, &mine, err));
    TRY(check_kernels(&r, err));
    r.at = sizeof r.head;
    TRY(take_kernels(&r, n_taken, err));
out:
    return st;
}
