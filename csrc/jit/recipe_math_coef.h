/* jit/recipe_math_coef.h -- polynomials and constants of the math functions.
 * Made by tests/tools/coefficients.py; not to be edited by hand.  The figure at the end of each
 * comment is the largest error of the polynomial with its rounded coefficients. */
#ifndef FR_JIT_RECIPE_MATH_COEF_H
#define FR_JIT_RECIPE_MATH_COEF_H

/* ln 2; the first part times an exponent is exact */
static const double LN2_F32[] = {
    0x1.62e4000000000p-1, 0x1.7f7d1c0000000p-20,
};

/* ln 2; the first part times an exponent is exact */
static const double LN2_F64[] = {
    0x1.62e42fefa3800p-1, 0x1.ef35793c76730p-45,
};

/* 1 / ln 2 */
static const double LOG2E[] = {
    0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56,
};

/* (e^r - 1) / r, |r| <= ln 2 / 2, error against e^r: 2^-28.3 */
static const double EXP_F32[] = {
    0x1.000p+0, 0x1.fffffc0000000p-2, 0x1.5554920000000p-3, 0x1.5558b00000000p-5,
    0x1.12399c0000000p-7, 0x1.6a4ecc0000000p-10,
};

/* (e^r - 1 - r) / r^2, error against e^r: 2^-28.3 */
static const double EXP_F32_TAIL[] = {
    0x1.fffffc0000000p-2, 0x1.5554920000000p-3, 0x1.5558b00000000p-5, 0x1.12399c0000000p-7,
    0x1.6a4ecc0000000p-10,
};

/* (e^r - 1 - r) / r^2, error against e^r: 2^-57.9 */
static const double EXP_F64_TAIL[] = {
    0x1.000000000000ap-1, 0x1.555555555550ap-3, 0x1.5555555550772p-5, 0x1.1111111124cf7p-7,
    0x1.6c16c18446b1fp-10, 0x1.a01a01368c959p-13, 0x1.a01999e22f1a2p-16, 0x1.71df0f704253ep-19,
    0x1.28ad8a104d3acp-22, 0x1.ad9c2860186e4p-26,
};

/* (e^r - 1 - r) / r^2, error against e^r - 1: 2^-61.6 */
static const double EXPM1_F64_TAIL[] = {
    0x1.000p-1, 0x1.5555555555559p-3, 0x1.5555555555558p-5, 0x1.111111110f702p-7,
    0x1.6c16c16c1700cp-10, 0x1.a01a01afa30c2p-13, 0x1.a01a019bd4868p-16, 0x1.71ddf920a8274p-19,
    0x1.27e4fdc95c912p-22, 0x1.af5d3a7cf81efp-26, 0x1.1f31a1fde8cf4p-29,
};

/* (e^r - 1) / r in doubles, enough for floats, error against e^r - 1: 2^-32.0 */
static const double EXP_SHORT[] = {
    0x1.00000000226fcp+0, 0x1.0000002831327p-1, 0x1.555554c59275cp-3, 0x1.5554ad61abbebp-5,
    0x1.1111a6d5b6a16p-7, 0x1.6d74d8d3dc0b7p-10, 0x1.a019c49a4d2eap-13,
};

/* (2^r - 1) / r, |r| <= 1/2, error against 2^r: 2^-28.3 */
static const double EXP2_F32[] = {
    0x1.62e4300000000p-1, 0x1.ebfbdc0000000p-3, 0x1.c6af7c0000000p-5, 0x1.3b2de00000000p-7,
    0x1.5f08300000000p-10, 0x1.416b520000000p-13,
};

/* (2^r - 1) / r, error against 2^r: 2^-59.7 */
static const double EXP2_F64[] = {
    0x1.62e42fefa39efp-1, 0x1.ebfbdff82c58ep-3, 0x1.c6b08d704a1d5p-5, 0x1.3b2ab6fba51a0p-7,
    0x1.5d87fe7873f4dp-10, 0x1.430912f756354p-13, 0x1.ffcbfd4b69e9ep-17, 0x1.62c0272895c1fp-20,
    0x1.b5232cca03893p-24, 0x1.e4bb9c66880a6p-28, 0x1.ec7a6fdff0de6p-32, 0x1.e0cbb2a419d48p-36,
};

/* (tanh x / x - 1) / x^2 in x^2, |x| <= 1, error against tanh x: 2^-27.7 */
static const double TANH_F32[] = {
    -0x1.55553c0000000p-2, 0x1.110be40000000p-3, -0x1.b9623a0000000p-5, 0x1.6009a60000000p-6,
    -0x1.045ff60000000p-7, 0x1.2da0360000000p-9, -0x1.77cdda0000000p-12,
};

/* 1 / d in 1 <= d <= 2, a start for Newton's method: 2^-6.6 */
static const double RECIPROCAL[] = {
    0x1.0f83e0f83e0f8p+1, -0x1.745d1745d1746p+0, 0x1.4afd6a052bf5dp-2,
};

/* (log(1 + r) - r) / r^2, sqrt(1/2) <= 1 + r <= sqrt(2), error against log: 2^-27.8 */
static const double LOG_F32[] = {
    -0x1.fffff80000000p-2, 0x1.5555500000000p-2, -0x1.0004380000000p-2, 0x1.99a41c0000000p-3,
    -0x1.5423ea0000000p-3, 0x1.226c880000000p-3, -0x1.0f51de0000000p-3, 0x1.0874800000000p-3,
    -0x1.38130e0000000p-4,
};

/* (log(1 + r) - r) / r^2, error against log: 2^-56.7 */
static const double LOG_F64[] = {
    -0x1.0000000000003p-1, 0x1.555555555551fp-2, -0x1.fffffffffddfep-3, 0x1.99999999a11c3p-3,
    -0x1.55555556ed017p-3, 0x1.2492492275ce9p-3, -0x1.fffffef116fc7p-4, 0x1.c71c71c00328fp-4,
    -0x1.9999c9b958722p-4, 0x1.745d487d000e3p-4, -0x1.555069b684089p-4, 0x1.3b0a8595872eap-4,
    -0x1.24dc882c3ccaap-4, 0x1.11db1b8515ed8p-4, -0x1.fb713dfe76005p-5, 0x1.cf9575c61c768p-5,
    -0x1.d126ff093f2e2p-5, 0x1.0b728f9633f2cp-4, -0x1.ec02317726220p-5, 0x1.acd189e52a564p-6,
};

/* erf x / x - 1 in x^2, |x| <= 13/16, error against erf x: 2^-27.9 */
static const double ERF_F32[] = {
    0x1.06eba80000000p-3, -0x1.8127300000000p-2, 0x1.ce28000000000p-4, -0x1.b7698c0000000p-6,
    0x1.4d053c0000000p-8, -0x1.550c060000000p-11,
};

/* erf x / x - 1 in x^2, |x| <= 13/16, error against erf x: 2^-56.3 */
static const double ERF_F64[] = {
    0x1.06eba8214db69p-3, -0x1.812746b0379f8p-2, 0x1.ce2f21a042ef0p-4, -0x1.b82ce3128a42ep-6,
    0x1.565bcd0e46453p-8, -0x1.c02db3fb94667p-11, 0x1.f9a326bf00a11p-14, -0x1.f4d253a48464ap-17,
    0x1.b9e59ca442bd3p-20, -0x1.5f60138b654b0p-23, 0x1.fb338390d8dbap-27, -0x1.46dc4defc9523p-30,
    0x1.35a195921b4dep-34,
};

/* log2 erfc(13/16 + u), 13/16 + u <= 3.95, error against erf x: 2^-27.9 */
static const double ERF_F32_TOP[] = {
    -0x1.ff35840000000p+0, -0x1.adccf80000000p+1, -0x1.2dec960000000p+0, -0x1.25f6e00000000p-4,
    0x1.18be5e0000000p-6, -0x1.9217d80000000p-9, 0x1.337c320000000p-12,
};

/* log2 erfc(13/16 + u), 13/16 + u <= 5.95, error against erf x: 2^-55.1 */
static const double ERF_F64_TOP[] = {
    -0x1.ff3583c6a7f41p+0, -0x1.adcd039f04406p+1, -0x1.2deb49fe3d876p+0, -0x1.2659bdde07a55p-4,
    0x1.1bc0c662c6384p-6, -0x1.a2a2c4b3b9b01p-9, 0x1.019e815ffe5f9p-12, 0x1.e8681292123adp-14,
    -0x1.196d2763f35f2p-14, 0x1.4215d05c59097p-16, -0x1.5847563b7287bp-19, -0x1.4da1400a27a52p-21,
    0x1.25c9773e28288p-21, -0x1.c61155ea94f6cp-23, 0x1.e78c322b9ad01p-25, -0x1.843a618f5d4fdp-27,
    0x1.c66bbfd9af3cap-30, -0x1.732e6312bd50fp-33, 0x1.7a223d9c326fep-37, -0x1.691f85570bb99p-42,
};

#endif
