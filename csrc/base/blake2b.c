#include "base/blake2b.h"

#include <string.h>

enum { BLOCK_BYTES = 128, ROUNDS = 12 };

static const uint64_t iv[8] = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
};

/* The ten message schedules of the RFC; rounds 10 and 11 use the first two again. */
static const uint8_t sigma[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
};

static uint64_t
rotate_right(uint64_t x, int n)
{
    return x >> n | x << (64 - n);
}

static uint64_t
load64(const uint8_t *p)
{
    uint64_t v = 0;

    for (int i = 0; i < 8; i++)
        v |= (uint64_t)p[i] << 8 * i;
    return v;
}

static void
mix(uint64_t *v, int a, int b, int c, int d, uint64_t x, uint64_t y)
{
    v[a] += v[b] + x;
    v[d] = rotate_right(v[d] ^ v[a], 32);
    v[c] += v[d];
    v[b] = rotate_right(v[b] ^ v[c], 24);
    v[a] += v[b] + y;
    v[d] = rotate_right(v[d] ^ v[a], 16);
    v[c] += v[d];
    v[b] = rotate_right(v[b] ^ v[c], 63);
}

static void
compress(struct fr_blake2b *s, const uint8_t *block, int last)
{
    uint64_t v[16], m[16];

    for (int i = 0; i < 16; i++)
        m[i] = load64(block + 8 * i);
    memcpy(v, s->h, sizeof s->h);
    memcpy(v + 8, iv, sizeof iv);
    v[12] ^= s->n_bytes;
    if (last)
        v[14] = ~v[14];
    for (int r = 0; r < ROUNDS; r++) {
        const uint8_t *o = sigma[r % 10];

        mix(v, 0, 4, 8, 12, m[o[0]], m[o[1]]);
        mix(v, 1, 5, 9, 13, m[o[2]], m[o[3]]);
        mix(v, 2, 6, 10, 14, m[o[4]], m[o[5]]);
        mix(v, 3, 7, 11, 15, m[o[6]], m[o[7]]);
        mix(v, 0, 5, 10, 15, m[o[8]], m[o[9]]);
        mix(v, 1, 6, 11, 12, m[o[10]], m[o[11]]);
        mix(v, 2, 7, 8, 13, m[o[12]], m[o[13]]);
        mix(v, 3, 4, 9, 14, m[o[14]], m[o[15]]);
    }
    for (int i = 0; i < 8; i++)
        s->h[i] ^= v[i] ^ v[i + 8];
}

void
fr_blake2b_init(struct fr_blake2b *s, size_t digest_bytes, const void *key, size_t n_key)
{
    uint8_t block[BLOCK_BYTES] = {0};

    *s = (struct fr_blake2b){.digest_bytes = digest_bytes};
    memcpy(s->h, iv, sizeof iv);
    s->h[0] ^= 0x01010000 ^ n_key << 8 ^ digest_bytes;
    if (!n_key)
        return;
    memcpy(block, key, n_key);
    fr_blake2b_update(s, block, sizeof block);
}

void
fr_blake2b_update(struct fr_blake2b *s, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;

    while (n) {
        size_t part = BLOCK_BYTES - s->fill;

        /* A full block waits: the last one is compressed differently. */
        if (!part) {
            s->n_bytes += BLOCK_BYTES;
            compress(s, s->block, 0);
            s->fill = 0;
            continue;
        }
        part = part < n ? part : n;
        memcpy(s->block + s->fill, p, part);
        s->fill += part;
        p += part;
        n -= part;
    }
}

void
fr_blake2b_final(struct fr_blake2b *s, void *digest)
{
    uint8_t out[64];

    s->n_bytes += s->fill;
    memset(s->block + s->fill, 0, BLOCK_BYTES - s->fill);
    compress(s, s->block, 1);
    for (int i = 0; i < 64; i++)
        out[i] = (uint8_t)(s->h[i / 8] >> 8 * (i % 8));
    memcpy(digest, out, s->digest_bytes);
}
