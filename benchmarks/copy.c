/* Copies memory, to measure the bandwidth that the table's rows are held against.  Built by bandwidth.py.
 *
 * copy_plain and copy_streamed read `n` bytes and write `n` bytes, `repeats` times; the second one with
 * stores that go past the caches. n is a multiple of 64, both places are aligned to 64 bytes. */
#include <stddef.h>
#include <stdint.h>

typedef int64_t vec __attribute__((vector_size(64)));

void
copy_plain(void *to, const void *from, size_t n, size_t repeats)
{
    for (size_t r = 0; r < repeats; r++) {
        for (size_t i = 0; i < n / sizeof(vec); i++)
            ((vec *)to)[i] = ((const vec *)from)[i];
        __asm__ volatile("" ::: "memory");
    }
}

void
copy_streamed(void *to, const void *from, size_t n, size_t repeats)
{
#if defined __SSE2__
    typedef long long pair __attribute__((vector_size(16)));

    for (size_t r = 0; r < repeats; r++) {
        for (size_t i = 0; i < n / 16; i += 4) {
            pair *t = (pair *)to + i, a = ((const pair *)from)[i], b = ((const pair *)from)[i + 1],
                 c = ((const pair *)from)[i + 2], d = ((const pair *)from)[i + 3];

            __builtin_ia32_movntdq(t, a);
            __builtin_ia32_movntdq(t + 1, b);
            __builtin_ia32_movntdq(t + 2, c);
            __builtin_ia32_movntdq(t + 3, d);
        }
        __builtin_ia32_sfence();
    }
#else
    copy_plain(to, from, n, repeats);
#endif
}
