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

void
fr_key_of_nest(struct fr_key *key, const struct fr_key_maker *maker, const char *const *features,
               const void *nest, size_t n_bytes)
{
    const uint32_t    version = FR_CODEGEN_VERSION;
    struct fr_blake2b h;

    fr_blake2b_init(&h, sizeof key->bytes, NULL, 0);
    add_part(&h, "frit kernel", 11);
    add_part(&h, &version, sizeof version);
    add_part(&h, maker->helper, sizeof maker->helper);
    add_part(&h, maker->compiler, sizeof maker->compiler);
    for (; *features; features++)
        add_part(&h, *features, strlen(*features));
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

void
fr_key_of_compiler(struct fr_key *key, const struct fr_key_maker *maker)
{
    struct fr_blake2b h;

    fr_blake2b_init(&h, sizeof key->bytes, NULL, 0);
    add_part(&h, "frit compiler", 13);
    add_part(&h, maker->helper, sizeof maker->helper);
    fr_blake2b_final(&h, key->bytes);
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
