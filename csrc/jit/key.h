/* jit/key.h -- what makes two kernels equal: the digest that names machine code in memory and on
 * disk. */
#ifndef FR_JIT_KEY_H
#define FR_JIT_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/blake2b.h"
#include "base/status.h"
#include "jit/cc/protocol.h"

/* Counts up when code for the same nest changes its meaning without the helper program changing. */
enum { FR_CODEGEN_VERSION = 1 };

struct fr_key {
    uint8_t bytes[FR_DIGEST_BYTES];
};

static inline bool
fr_key_equal(const struct fr_key *a, const struct fr_key *b)
{
    return !memcmp(a->bytes, b->bytes, sizeof a->bytes);
}

/* Who generates code: contents of the helper program (recipes, emitter) and of the compiler. */
struct fr_key_maker {
    uint8_t helper[FR_DIGEST_BYTES];
    uint8_t compiler[FR_DIGEST_BYTES];
};

enum { FR_KEY_FEATURES = 320 };

/* All that a key says beside the nest. It has no padding: bytes are compared and kept. */
struct fr_key_origin {
    struct fr_key_maker maker;
    char                features[FR_KEY_FEATURES]; /* gcc's options, C strings one after the other, then zeros */
};

/* Sets the features (NULL-terminated, in the order given); false if there is no room for them. */
bool      fr_key_set_features(struct fr_key_origin *, const char *const *features);
/* The first feature of `origin` that is not one of `machine`; NULL if its code runs there. */
const char *fr_key_missing_feature(const struct fr_key_origin *origin, const struct fr_key_origin *machine);
/* The key of a packed nest that was, or would be, compiled like this. */
void      fr_key_of_nest(struct fr_key *, const struct fr_key_origin *, const void *nest, size_t n_bytes);
/* The key of a CUDA text compiled with these options by a version of NVRTC. */
void      fr_key_of_text(struct fr_key *, const char *text, const char *const *options, int n_options, int version);
/* What the functions of a kernel are called, for its object may have several: frit_rows_<name>. */
void      fr_key_name(const struct fr_key *, char name[FR_KERNEL_NAME]);
/* The key under which a cache remembers the compiler that a helper program found. */
void      fr_key_of_compiler(struct fr_key *, const struct fr_key_maker *);
/* The key under which a cache remembers where the entries come from that were loaded for a helper program. */
void      fr_key_of_origins(struct fr_key *, const struct fr_key_maker *);
/* Digest of some bytes. */
void      fr_key_hash_bytes(const void *bytes, size_t n, uint8_t *digest);
/* Digest of a file's contents; FR_EOS. */
fr_status fr_key_hash_file(const char *path, uint8_t *digest, struct fr_err *);

#endif
