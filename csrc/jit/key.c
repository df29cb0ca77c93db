#include "jit/key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"

/* Lengths are hashed with the contents, so that no two lists of parts give the same bytes. */
static void
add_part(struct fr_blake2b *h, const void *bytes, size_t n)
{
    uint64_t len = n;

    fr_blake2b_update(h, &len, sizeof len);
    fr_blake2b_update(h, bytes, n);
}

bool
fr_key_set_features(struct fr_key_origin *origin, const char *const *features)
{
    size_t at = 0;

    memset(origin->features, 0, sizeof origin->features);
    for (; *features; features++) {
        size_t n = strlen(*features) + 1;

        if (at + n >= sizeof origin->features)
            return false;
        memcpy(origin->features + at, *features, n);
        at += n;
    }
    return true;
}

const char *
fr_key_missing_feature(const struct fr_key_origin *origin, const struct fr_key_origin *machine)
{
    for (const char *f = origin->features; *f; f += strlen(f) + 1) {
        const char *has = machine->features;

        while (*has && strcmp(has, f))
            has += strlen(has) + 1;
        if (!*has)
            return f;
    }
    return NULL;
}

void
fr_key_of_nest(struct fr_key *key, const struct fr_key_origin *origin, const void *nest, size_t n_bytes)
{
    const uint32_t    version = FR_CODEGEN_VERSION;
    struct fr_blake2b h;

    fr_blake2b_init(&h, sizeof key->bytes, NULL, 0);
    add_part(&h, "frit kernel", 11);
    add_part(&h, &version, sizeof version);
    add_part(&h, origin->maker.helper, sizeof origin->maker.helper);
    add_part(&h, origin->maker.compiler, sizeof origin->maker.compiler);
    for (const char *f = origin->features; *f; f += strlen(f) + 1)
        add_part(&h, f, strlen(f));
    add_part(&h, "nest", 4);
    add_part(&h, nest, n_bytes);
    fr_blake2b_final(&h, key->bytes);
}

void
fr_key_of_text(struct fr_key *key, const char *text, const char *const *options, int n_options, int version)
{
    struct fr_blake2b h;

    fr_blake2b_init(&h, sizeof key->bytes, NULL, 0);
    add_part(&h, "frit CUDA kernel", 16);
    add_part(&h, &version, sizeof version);
    for (int i = 0; i < n_options; i++)
        add_part(&h, options[i], strlen(options[i]));
    add_part(&h, "text", 4);
    add_part(&h, text, strlen(text));
    fr_blake2b_final(&h, key->bytes);
}

void
fr_key_name(const struct fr_key *key, char name[FR_KERNEL_NAME])
{
    for (int i = 0; i < (FR_KERNEL_NAME - 1) / 2; i++)
        snprintf(name + 2 * i, 3, "%02x", key->bytes[i]);
}

/* The key of what is remembered of a helper program. */
static void
key_of_helper(struct fr_key *key, const char *what, const struct fr_key_maker *maker)
{
    struct fr_blake2b h;

    fr_blake2b_init(&h, sizeof key->bytes, NULL, 0);
    add_part(&h, what, strlen(what));
    add_part(&h, maker->helper, sizeof maker->helper);
    fr_blake2b_final(&h, key->bytes);
}

void
fr_key_of_compiler(struct fr_key *key, const struct fr_key_maker *maker)
{
    key_of_helper(key, "frit compiler", maker);
}

void
fr_key_of_origins(struct fr_key *key, const struct fr_key_maker *maker)
{
    key_of_helper(key, "frit origins", maker);
}

void
fr_key_hash_bytes(const void *bytes, size_t n, uint8_t *digest)
{
    struct fr_blake2b h;

    fr_blake2b_init(&h, FR_DIGEST_BYTES, NULL, 0);
    fr_blake2b_update(&h, bytes, n);
    fr_blake2b_final(&h, digest);
}

fr_status
fr_key_hash_file(const char *path, uint8_t *digest, struct fr_err *err)
{
    struct fr_blake2b h;
    char              buf[16384];
    int               fd = fr_alloc_may_fail() ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    ssize_t           n = -1;

    fr_blake2b_init(&h, FR_DIGEST_BYTES, NULL, 0);
    if (fd >= 0) {
        while ((n = read(fd, buf, sizeof buf)) > 0 || (n < 0 && errno == EINTR))
            if (n > 0)
                fr_blake2b_update(&h, buf, (size_t)n);
        close(fd);
    }
    if (n < 0)
        return fr_fail(err, FR_EOS, "%s cannot be read: %s", path, strerror(errno));
    fr_blake2b_final(&h, digest);
    return FR_OK;
}
