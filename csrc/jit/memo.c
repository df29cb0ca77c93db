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
    if (fr_cache_get(&key, &bytes, &n, &err) != FR_OK)
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
        fr_cache_put(&key, &memo, sizeof memo, &err);
}
