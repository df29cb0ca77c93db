/* backends/cpu/isa.c -- which instruction-set level runs: asked of cpuid, lowered by FRIT_ISA.
 *
 * Levels are those of the x86-64 psABI. A level counts when the processor has all of its features
 * and the system saves the registers they need. Elsewhere there is one level, "generic". */
#include <stdint.h>
#include <string.h>

#include "backends/cpu/index.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/launch.h"
#include "backends/cpu/mask.h"
#include "backends/cpu/shuffle.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/product.h"
#include "backends/cpu/reduce.h"
#include "base/env.h"
#include "base/log.h"

enum level { GENERIC, V2, V3, V4, N_LEVELS };

static const char *const level_name[N_LEVELS] = {"generic", "v2", "v3", "v4"};

const struct fr_kernels        *fr_kernels = &fr_kernels_generic;
const struct fr_reduce_kernels *fr_reduce = &fr_reduce_generic;
const struct fr_index_kernels  *fr_index = &fr_index_generic;
const struct fr_shuffle_kernels   *fr_shuffle = &fr_shuffle_generic;
const struct fr_mask_kernels   *fr_mask = &fr_mask_generic;
const struct fr_product_kernels *fr_product = &fr_product_generic;

static enum level  level;                      /* in use */
static const char *names[N_LEVELS + 1];        /* fr_cpu_isa_all */
static const char *features[32];               /* fr_cpu_features */

#if defined(__x86_64__)
#include <cpuid.h>

enum reg { EAX, EBX, ECX, EDX };

/* What each level adds, as gcc names it, and where cpuid says so. */
static const struct feature {
    const char *option;
    uint32_t    leaf;
    uint8_t     reg, bit;
    uint8_t     level;
} feature_table[] = {
    {"-mcx16", 1, ECX, 13, V2},          {"-msahf", 0x80000001, ECX, 0, V2},
    {"-mpopcnt", 1, ECX, 23, V2},        {"-msse3", 1, ECX, 0, V2},
    {"-mssse3", 1, ECX, 9, V2},          {"-msse4.1", 1, ECX, 19, V2},
    {"-msse4.2", 1, ECX, 20, V2},        {"-mavx", 1, ECX, 28, V3},
    {"-mavx2", 7, EBX, 5, V3},           {"-mbmi", 7, EBX, 3, V3},
    {"-mbmi2", 7, EBX, 8, V3},           {"-mf16c", 1, ECX, 29, V3},
    {"-mfma", 1, ECX, 12, V3},           {"-mlzcnt", 0x80000001, ECX, 5, V3},
    {"-mmovbe", 1, ECX, 22, V3},         {"-mavx512f", 7, EBX, 16, V4},
    {"-mavx512bw", 7, EBX, 30, V4},      {"-mavx512cd", 7, EBX, 28, V4},
    {"-mavx512dq", 7, EBX, 17, V4},      {"-mavx512vl", 7, EBX, 31, V4},
};

/* Beyond every level: one shuffle takes bytes in any order. */
static const struct feature vbmi = {"-mavx512vbmi", 7, ECX, 1, V4};

/* The register state that the system saves (XCR0), 0 if it cannot be asked. */
static uint64_t
saved_state(void)
{
    uint32_t a, b, c, d;

    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & 1u << 27))
        return 0;
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return (uint64_t)d << 32 | a;
}

static bool
has(const struct feature *f)
{
    uint32_t r[4];

    if (!__get_cpuid_count(f->leaf, 0, &r[EAX], &r[EBX], &r[ECX], &r[EDX]))
        return false;
    return r[f->reg] >> f->bit & 1;
}

static enum level
highest_level(void)
{
    uint64_t   saved = saved_state();
    enum level top = V4;

    if ((saved & 0x06) != 0x06)          /* xmm and ymm */
        top = V2;
    else if ((saved & 0xe6) != 0xe6)     /* mask registers and zmm too */
        top = V3;
    for (size_t k = 0; k < FR_LEN(feature_table); k++)
        if (feature_table[k].level <= top && !has(&feature_table[k]))
            top = (enum level)(feature_table[k].level - 1);
    return top;
}

static void
choose_kernels(void)
{
    static const struct fr_kernels *const maps[N_LEVELS] = {&fr_kernels_generic, &fr_kernels_v2,
                                                            &fr_kernels_v3, &fr_kernels_v4};
    static const struct fr_reduce_kernels *const folds[N_LEVELS] = {
        &fr_reduce_generic, &fr_reduce_v2, &fr_reduce_v3, &fr_reduce_v4};
    static const struct fr_index_kernels *const wraps[N_LEVELS] = {&fr_index_generic, &fr_index_v2,
                                                                   &fr_index_v3, &fr_index_v4};
    static const struct fr_shuffle_kernels *const gathers[N_LEVELS] = {&fr_shuffle_generic, &fr_shuffle_v2,
                                                                    &fr_shuffle_v3, &fr_shuffle_v4};
    static const struct fr_mask_kernels *const masks[N_LEVELS] = {&fr_mask_generic, &fr_mask_v2,
                                                                  &fr_mask_v3, &fr_mask_v4};
    static const struct fr_product_kernels *const products[N_LEVELS] = {&fr_product_generic, &fr_product_v2,
                                                                        &fr_product_v3, &fr_product_v4};
    int n = 0;

    fr_kernels = maps[level];
    fr_reduce = folds[level];
    fr_index = wraps[level];
    fr_shuffle = level == V4 && has(&vbmi) ? &fr_shuffle_v4_vbmi : gathers[level];
    fr_mask = masks[level];
    fr_product = products[level];
    for (size_t k = 0; k < FR_LEN(feature_table); k++)
        if (feature_table[k].level <= level)
            features[n++] = feature_table[k].option;
    features[n] = NULL;
}
#else
static enum level
highest_level(void)
{
    return GENERIC;
}

static void
choose_kernels(void)
{
    features[0] = NULL;
}
#endif

const char *
fr_cpu_isa(void)
{
    return level_name[level];
}

const char *const *
fr_cpu_isa_all(void)
{
    enum level top = highest_level();

    for (int k = 0; k <= (int)top; k++)
        names[k] = level_name[k];
    names[top + 1] = NULL;
    return names;
}

const char *const *
fr_cpu_features(void)
{
    return features;
}

fr_status
fr_cpu_init(struct fr_err *err)
{
    int k = 0;

    level = highest_level();
    if (fr_env.isa[0]) {
        while (k < N_LEVELS - 1 && strcmp(fr_env.isa, level_name[k]))
            k++;
        if (k > (int)level)
            fr_warn_once("isa", "FRIT_ISA=%s is more than this processor has; using %s", fr_env.isa,
                         level_name[level]);
        else
            level = (enum level)k;
    }
    choose_kernels();
    return fr_pool_init(err);
}
