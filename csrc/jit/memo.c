#include "jit/memo.h"

#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "jit/cache.h"
#include "jit/helper.h"

struct memo {
    uint8_t  compiler[FR_DIGEST_BYTES];
    uint64_t device, inode, n_bytes;
    int64_t  changed_ns;
    char     path[FR_HELPER_PATH];
};

static bool
describe_compiler(struct memo *memo)
{
    struct stat st;

    if (stat(memo->path, &st) < 0)
        return false;
    memo->device = st.st_dev;
    memo->inode = st.st_ino;
    memo->n_bytes = (uint64_t)st.st_size;
    memo->changed_ns = st.st_ctim.tv_sec * 1000000000ll + st.st_ctim.tv_nsec;
    return true;
}

bool
fr_memo_read(const struct fr_key_maker *maker, uint8_t *digest)
{
    struct fr_key key;
    struct fr_err err;
    struct memo   old, seen;
    void         *bytes;
    size_t        n;
    bool          known = false;

    memset(&seen, 0, sizeof seen);
    fr_key_of_compiler(&key, maker);
    if (fr_cache_get(&key, NULL, &bytes, &n, &err) != FR_OK)
        return false;
    if (n == sizeof old) {
        memcpy(&old, bytes, sizeof old);
        old.path[sizeof old.path - 1] = '\0';
        memcpy(seen.path, old.path, sizeof seen.path);
        memcpy(seen.compiler, old.compiler, sizeof seen.compiler);
        /* A compiler that is gone has left good code behind. */
        known = !describe_compiler(&seen) || !memcmp(&seen, &old, sizeof old);
        memcpy(digest, old.compiler, sizeof old.compiler);
    }
    fr_free(bytes);
    return known;
}

void
fr_memo_write(const struct fr_key_maker *maker, const char *path, size_t n)
{
    struct fr_key key;
    struct fr_err err;
    struct memo   memo;

    memset(&memo, 0, sizeof memo);
    if (n >= sizeof memo.path)
        return;
    memcpy(memo.compiler, maker->compiler, sizeof memo.compiler);
    memcpy(memo.path, path, n);
    fr_key_of_compiler(&key, maker);
    if (describe_compiler(&memo))
        fr_cache_put(&key, NULL, &memo, sizeof memo, &err);
}

int
fr_memo_origins(const struct fr_key_maker *maker, struct fr_key_origin out[FR_MEMO_ORIGINS])
{
    struct fr_key key;
    struct fr_err err;
    void         *bytes;
    size_t        n, count;

    fr_key_of_origins(&key, maker);
    if (fr_cache_get(&key, NULL, &bytes, &n, &err) != FR_OK)
        return 0;
    count = n / sizeof *out;
    if (count > FR_MEMO_ORIGINS || count * sizeof *out != n)
        count = 0;
    memcpy(out, bytes, count * sizeof *out);
    fr_free(bytes);
    for (size_t i = 0; i < count; i++) /* the last two bytes end the text of features */
        memset(out[i].features + sizeof out[i].features - 2, 0, 2);
    return (int)count;
}

fr_status
fr_memo_add_origin(const struct fr_key_origin *origin, struct fr_err *err)
{
    struct fr_key_origin all[FR_MEMO_ORIGINS + 1];
    struct fr_key        key;
    int                  n = fr_memo_origins(&origin->maker, all + 1), kept = 1;

    all[0] = *origin;
    for (int i = 1; i <= n; i++)
        if (memcmp(&all[i], origin, sizeof *origin))
            all[kept++] = all[i];
    fr_key_of_origins(&key, &origin->maker);
    return fr_cache_hold(&key, NULL, all, sizeof *all * (size_t)(kept < FR_MEMO_ORIGINS ? kept : FR_MEMO_ORIGINS), err);
}
