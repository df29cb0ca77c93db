/* base/blake2b.h -- BLAKE2b (RFC 7693), also keyed: names and seals of kernel cache entries.  Our
 * own because threads that may not call Python need it. */
#ifndef FR_BASE_BLAKE2B_H
#define FR_BASE_BLAKE2B_H

#include <stddef.h>
#include <stdint.h>

enum { FR_DIGEST_BYTES = 32 };

struct fr_blake2b {
    uint64_t h[8];
    uint64_t n_bytes;           /* hashed so far; 2^64 bytes are enough for us */
    uint8_t  block[128];
    size_t   fill, digest_bytes;
};

/* A digest of 1 to 64 bytes; a key of up to 64 bytes, or none (n_key 0). */
void fr_blake2b_init(struct fr_blake2b *, size_t digest_bytes, const void *key, size_t n_key);
void fr_blake2b_update(struct fr_blake2b *, const void *bytes, size_t n);
void fr_blake2b_final(struct fr_blake2b *, void *digest);

#endif
