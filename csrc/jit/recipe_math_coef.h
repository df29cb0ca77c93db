/* jit/recipe_math_coef.h -- polynomials and constants of the math functions.
 * Made by tests/tools/coefficients.py; not to be edited by hand.  The figure at the end of each
 * comment is the largest error of the polynomial with its rounded coefficients. */
#ifndef FR_JIT_RECIPE_MATH_COEF_H
#define FR_JIT_RECIPE_MATH_COEF_H

/* ln 2; the first part times an exponent is exact */
static const double LN2_F32[] = {
    0x1.62e4p-1, 0x1.7f7d1cp-20,
};

/* ln 2; the first part times an exponent is exact */
static const double LN2_F64[] = {
    0x1.62e42fefa38p-1, 0x1.ef35793c7673p-45,
};

/* 1 / ln 2 */
static const double LOG2E[] = {
    0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56,
};

/* (e^r - 1) / r, |r| <= ln 2 / 2, error against e^r: 2^-28.3 */
static const double EXP_F32[] = {
    0x1p+0, 0x1.fffffcp-2, 0x1.555492p-3, 0x1.5558bp-5, 0x1.12399cp-7, 0x1.6a4eccp-10,
};

/* (e^r - 1 - r) / r^2, error against e^r: 2^-28.3 */
static const double EXP_F32_TAIL[] = {
    0x1.fffffcp-2, 0x1.555492p-3, 0x1.5558bp-5, 0x1.12399cp-7, 0x1.6a4eccp-10,
};

/* (e^r - 1 - r) / r^2, error against e^r: 2^-57.9 */
static const double EXP_F64_TAIL[] = {
    0x1.000000000000ap-1, 0x1.555555555550ap-3, 0x1.5555555550772p-5, 0x1.1111111124cf7p-7,
    0x1.6c16c18446b1fp-10, 0x1.a01a01368c959p-13, 0x1.a01999e22f1a2p-16, 0x1.71df0f704253ep-19,
    0x1.28ad8a104d3acp-22, 0x1.ad9c2860186e4p-26,
};

/* (e^r - 1 - r) / r^2, error against e^r - 1: 2^-31.1 */
static const double EXPM1_F32[] = {
    0x1p-1, 0x1.555554p-3, 0x1.5554f8p-5, 0x1.1112dap-7, 0x1.6d3a4p-10, 0x1.9e6f5ap-13,
};

/* (e^r - 1 - r - r^2 / 2) / r^3, error against e^r - 1: 2^-61.6 */
static const double EXPM1_F64_TAIL[] = {
    0x1.5555555555559p-3, 0x1.5555555555558p-5, 0x1.111111110f702p-7, 0x1.6c16c16c1700cp-10,
    0x1.a01a01afa30c2p-13, 0x1.a01a019bd4868p-16, 0x1.71ddf920a8274p-19, 0x1.27e4fdc95c912p-22,
    0x1.af5d3a7cf81efp-26, 0x1.1f31a1fde8cf4p-29,
};

/* (e^r - 1) / r in doubles, enough for floats, error against e^r - 1: 2^-32.0 */
static const double EXP_SHORT[] = {
    0x1.00000000226fcp+0, 0x1.0000002831327p-1, 0x1.555554c59275cp-3, 0x1.5554ad61abbebp-5,
    0x1.1111a6d5b6a16p-7, 0x1.6d74d8d3dc0b7p-10, 0x1.a019c49a4d2eap-13,
};

/* (2^r - 1) / r, |r| <= 1/2, error against 2^r: 2^-28.3 */
static const double EXP2_F32[] = {
    0x1.62e43p-1, 0x1.ebfbdcp-3, 0x1.c6af7cp-5, 0x1.3b2dep-7, 0x1.5f083p-10, 0x1.416b52p-13,
};

/* (2^r - 1) / r, error against 2^r: 2^-57.8 */
static const double EXP2_F64[] = {
    0x1.62e42fefa39efp-1, 0x1.ebfbdff82c59cp-3, 0x1.c6b08d704a0d4p-5, 0x1.3b2ab6fba11f5p-7,
    0x1.5d87fe78b3b95p-10, 0x1.4309130c01399p-13, 0x1.ffcbfbf8ca834p-17, 0x1.62bfcdde09527p-20,
    0x1.b5260d9837711p-24, 0x1.e611a14d0d8ecp-28, 0x1.e80ef2fa351a8p-32,
};

/* (sinh x / x - 1) / x^2 in x^2, |x| <= 1, error against sinh x: 2^-31.6 */
static const double SINH_F32[] = {
    0x1.555556p-3, 0x1.1110ep-7, 0x1.a022bap-13, 0x1.756cb4p-19,
};

/* (cosh r - 1) / r^2 in r^2, error against cosh r: 2^-58.0 */
static const double COSH_F64[] = {
    0x1.000000000000cp-1, 0x1.555555554fd67p-5, 0x1.6c16c1863e165p-10, 0x1.a01994ffdac3p-16,
    0x1.28b1bd96aed99p-22,
};

/* (sinh r / r - 1) / r^2 in r^2, error against sinh r: 2^-61.7 */
static const double SINH_F64[] = {
    0x1.5555555555559p-3, 0x1.111111110f62ap-7, 0x1.a01a01b0204c7p-13, 0x1.71ddf7aff42aep-19,
    0x1.af5ff31af35c5p-26,
};

/* x^3 / (tanh x - x) in x^2, |x| <= CUT, error against tanh x: 2^-30.6 */
static const double TANH_F32[] = {
    -0x1.800002p+1, -0x1.3332fep+0, 0x1.75a394p-8, -0x1.e86164p-13,
};

/* x^3 / (tanh x - x) in x^2, |x| <= CUT, error against tanh x: 2^-60.0 */
static const double TANH_F64[] = {
    -0x1.8000000000003p+1, -0x1.33333333331fbp+0, 0x1.767dce41f1391p-8, -0x1.0a4e14ccead42p-12,
    0x1.997c4c0e133cp-17, -0x1.41632439c279cp-21, 0x1.f82fde52d1e8ep-26, -0x1.5df5ce22c4d04p-30,
};

/* log2 2; the first part times an exponent is exact */
static const double LOG2_F32_STEP[] = {
    0x1p+0, 0x0p+0,
};

/* 1 / ln 2 */
static const double LOG2_F32_SLOPE[] = {
    0x1.715476p+0, 0x1.4ae0cp-26,
};

/* log2 2; the first part times an exponent is exact */
static const double LOG2_F64_STEP[] = {
    0x1p+0, 0x0p+0,
};

/* 1 / ln 2 */
static const double LOG2_F64_SLOPE[] = {
    0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56,
};

/* (log(1 + r) - r) / r^2 / ln 2, error against log: 2^-30.2 */
static const double LOG2_F32[] = {
    -0x1.715476p-1, 0x1.ec708cp-2, -0x1.7154acp-2, 0x1.277e64p-2, -0x1.ec71c6p-3, 0x1.a42b04p-3,
    -0x1.6ef08ap-3, 0x1.5f59e8p-3, -0x1.574222p-3, 0x1.8adf1ep-4,
};

/* log10 2; the first part times an exponent is exact */
static const double LOG10_F32_STEP[] = {
    0x1.344p-2, 0x1.3509f8p-18,
};

/* 1 / ln 10 */
static const double LOG10_F32_SLOPE[] = {
    0x1.bcb7b2p-2, -0x1.5b235ep-27,
};

/* log10 2; the first part times an exponent is exact */
static const double LOG10_F64_STEP[] = {
    0x1.34413509f78p-2, 0x1.fef311f12b358p-46,
};

/* 1 / ln 10 */
static const double LOG10_F64_SLOPE[] = {
    0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57,
};

/* (log(1 + r) - r) / r^2 / ln 10, error against log: 2^-27.7 */
static const double LOG10_F32[] = {
    -0x1.bcb7b2p-3, 0x1.287a32p-3, -0x1.bcb716p-4, 0x1.63f586p-4, -0x1.289f5ep-4, 0x1.f24b64p-5,
    -0x1.b4fd3ap-5, 0x1.f1801ap-5, -0x1.b91804p-5,
};

/* log(1 + z) / z, 0 <= z <= 1, for floats: 2^-33.0 */
static const double LOG1P_SHORT[] = {
    0x1.fffffffefc8edp-1, -0x1.fffffda6d8174p-2, 0x1.5554e12bf7149p-2, -0x1.ffee3e807da31p-3,
    0x1.98e3b02535efap-3, -0x1.50f47344a5df4p-3, 0x1.12f9c8280d299p-3, -0x1.9eb1d9b6c77ep-4,
    0x1.062d435f0b683p-4, -0x1.ee5976c9f1ed1p-6, 0x1.29915eb8ce94bp-7, -0x1.4fb4dc80fb39fp-10,
};

/* (log(1 + r) - r) / r^2, for floats, error against log: 2^-33.1 */
static const double LOG_SHORT[] = {
    -0x1.0000001868cbap-1, 0x1.5555546d64ff3p-2, -0x1.ffffacf0f4732p-3, 0x1.999a1b010a20fp-3,
    -0x1.556886f053f88p-3, 0x1.249234f5809bep-3, -0x1.fc6c05cd82cfdp-4, 0x1.c36c622a097f3p-4,
    -0x1.bd4136ed14613p-4, 0x1.b76166f5e9e55p-4, -0x1.eb0c8de44a254p-5,
};

/* (log(1 + r) - r) / r^2, sqrt(1/2) <= 1 + r <= sqrt(2), error against log: 2^-27.8 */
static const double LOG_F32[] = {
    -0x1.fffff8p-2, 0x1.55555p-2, -0x1.000438p-2, 0x1.99a41cp-3, -0x1.5423eap-3, 0x1.226c88p-3,
    -0x1.0f51dep-3, 0x1.08748p-3, -0x1.38130ep-4,
};

/* (2 arctanh s / s - 2) / s^2 in s^2, error against log: 2^-59.5 */
static const double LOG_F64[] = {
    0x1.5555555555592p-1, 0x1.999999997ff4fp-2, 0x1.24924941dd159p-2, 0x1.c71c521837c03p-3,
    0x1.74663c180c821p-3, 0x1.39a1fe51f39d1p-3, 0x1.2f02e5b9c82b9p-3,
};

/* (2 arctanh s / s - 2) / s^2 in s^2, error against log: 2^-62.9 */
static const double LOG10_F64[] = {
    0x1.555555555555p-1, 0x1.999999999bbb8p-2, 0x1.249249223d442p-2, 0x1.c71c743eef1bcp-3,
    0x1.745c5e4c3c78fp-3, 0x1.3b3335776b9abp-3, 0x1.0df75ae491075p-3, 0x1.1a531028d64d3p-3,
};

/* erf x / x - 1 in x^2, |x| <= CUT, error against erf x: 2^-28.6 */
static const double ERF_F32[] = {
    0x1.06eba8p-3, -0x1.812736p-2, 0x1.ce29a2p-4, -0x1.b78c7p-6, 0x1.4e27acp-8, -0x1.5b7ee4p-11,
};

/* P / Q is erf x / x - 1 in x^2, |x| <= CUT, error against erf x, P: 2^-56.3 */
static const double ERF_F64_P[] = {
    0x1.06eba8214db69p-3, -0x1.5907fcc78754fp-2, 0x1.466ff9134c4ebp-9, -0x1.594aca6cf514fp-8,
    0x1.8a0e989c2fdcbp-12, -0x1.90b774d95ff89p-16, 0x1.a9af60db34502p-21,
};

/* Q */
static const double ERF_F64_Q[] = {
    0x1p+0, 0x1.38877108fe9c5p-2, 0x1.1bd3e41144bd9p-5, 0x1.84e64bd86ceb8p-10,
};

/* log2 erfc(CUT + u), CUT + u <= 3.95, error against erf x: 2^-27.8 */
static const double ERF_F32_TOP[] = {
    -0x1.e368e8p+0, -0x1.a3f40ep+1, -0x1.2c16acp+0, -0x1.2f78aap-4, 0x1.22103ap-6, -0x1.9ebbeep-9,
    0x1.3cd62ap-12,
};

/* log2 erfc(CUT) */
static const double ERF_F64_FIRST[] = {
    -0x1.e368e808bf595p+0,
};

/* P / Q is (log2 erfc(CUT + u) - the first) / u, CUT + u <= 5.95, error against erf x, P: 2^-58.8 */
static const double ERF_F64_TOP_P[] = {
    -0x1.a3f41521f95a7p+1, -0x1.31bcca943bf12p+2, -0x1.8eecd34843368p+1, -0x1.2455bf831cd1fp+0,
    -0x1.f58ea29e2cb53p-3, -0x1.d7f8487208a46p-6, -0x1.76aa2ea0be48fp-10, -0x1.70876b57d9858p-26,
};

/* Q */
static const double ERF_F64_TOP_Q[] = {
    0x1p+0, 0x1.1949094032548p+0, 0x1.11cab5dca72bfp-1, 0x1.19ce7e6a950d3p-3, 0x1.2d3160dde812ep-6,
    0x1.03e9a8e8f266ap-10,
};

/* erf x / x - 1 in x^2, |x| <= 11/16: 2^-56.2 */
static const double ERFC_NEAR[] = {
    0x1.06eba8214db69p-3, -0x1.812746b0379fep-2, 0x1.ce2f21a043335p-4, -0x1.b82ce3128d1c1p-6,
    0x1.565bcd0bb5a24p-8, -0x1.c02db2f2857fbp-11, 0x1.f9a2f340f8a56p-14, -0x1.f4cc08572dbefp-17,
    0x1.b96381d5438e1p-20, -0x1.58b91226e0883p-23, 0x1.98528cf4f1222p-27,
};

/* (1 + 2x) e^(x^2) erfc x in (x - 3.5) / (x + 3.5), 11/16 <= x <= 27.3: 2^-56.7 */
static const double ERFC_FAR[] = {
    0x1.3e0a99a0ee914p+0, -0x1.1ebd220ea593bp-3, -0x1.59e2c284b14bfp-7, 0x1.8f702ec6b3358p-4,
    -0x1.d76830c352a06p-4, 0x1.686106046e503p-4, -0x1.8ff5ef76dcfbbp-5, 0x1.38ec667145636p-6,
    -0x1.143c4ca397806p-8, -0x1.3cf369f5a2716p-12, 0x1.27e663e44a612p-11, -0x1.fda8fe00000ccp-14,
    -0x1.66e1cfd11c215p-15, 0x1.9707f84d1e713p-16, 0x1.386f457e6a316p-19, -0x1.ffefe061689a8p-19,
    -0x1.73e7d3f3416bep-25, 0x1.41e91bcfc1041p-21, -0x1.32fea3464c1b2p-27, -0x1.8c39090b43d5bp-24,
    0x1.1ac5bd04e96d5p-30, 0x1.576b24ac635ep-27,
};

/* (x + 2.5) e^(x^2) erfc x in 1 / (x + 2.5), 0 <= x <= 10.2, for floats: 2^-34.1 */
static const double ERFC_SHORT[] = {
    0x1.20dca781c2ca8p-1, 0x1.693219f31082cp+0, 0x1.9d62ff2324fe1p+1, 0x1.be7f1ad836915p+2,
    0x1.0dfe48ef54cd3p+3, 0x1.6d57ab5f2322ap+5, -0x1.45b733f84312fp+7, 0x1.57b1d93cdd976p+9,
    -0x1.efbe3c98e04cap+10, 0x1.54cda4bb76a67p+11, -0x1.36a213cbb8e56p+10, -0x1.7c063ba72dc17p+9,
    0x1.72df07f25edfcp+9,
};

/* 1 / pi in two parts, and less what gives multiples of 2 with floats from 2^(46, 67, 88, 109) */
static const double INVERSE_PI[] = {
    0x1.45f306dc9c882p-2, 0x1.4a7f09d5f47d5p-55, 0x1.b727220a94fe1p-24, 0x1.d5f47d4d37703p-79,
    0x1.054a7f09d5f47p-47, 0x1.a9a6ee06db14bp-100, -0x1.ec54170565912p-72, 0x1.b6c52b3278872p-130,
    0x1.f47d4d377036dp-87, 0x1.14acc9e21c821p-140,
};

/* 2 / pi in two parts, and less what gives multiples of 2 with floats from 2^(46, 67, 88, 109) */
static const double TWO_OVER_PI[] = {
    0x1.45f306dc9c882p-1, 0x1.4a7f09d5f47d5p-54, -0x1.236377d5ac07cp-25, 0x1.d5f47d4d37703p-78,
    0x1.054a7f09d5f47p-46, 0x1.a9a6ee06db14bp-99, -0x1.ec54170565912p-71, 0x1.b6c52b3278872p-129,
    -0x1.70565911f924fp-91, 0x1.2b3278872084p-145,
};

/* 2 / pi in digits of base 2^53, as fractions of it */
static const double TWO_OVER_PI_DIGITS[] = {
    0x1.45f306dc9c883p-1, -0x1.6b01ec5417056p-2, -0x1.6447e493ad4ccp-3, -0x1.8778df7c035d4p-2,
    0x1.d5ef5de2b0db8p-3, 0x1.2371d2126e97p-2, 0x1.924bba827468p-8, -0x1.bc603c429c69ep-2,
    0x1.4d39f74411afcp-3, -0x1.68a25dbd8b31cp-2, -0x1.fb29741037d8cp-3, -0x1.b8a719f2b3184p-3,
    0x1.272117e2ef7e4p-2, 0x1.41d8ffc4bfffp-2, -0x1.fa67f010d0ee8p-2, 0x1.6b414da3eda6cp-2,
    0x1.fb3c9f2c26dd4p-2, -0x1.738132c3402b8p-4, -0x1.28ad84538141ap-2, -0x1.d0985f18c10ep-6,
    -0x1.6b5b456501282p-2, 0x1.88fc6ae842b02p-2, -0x1.9f72070928a8p-3, -0x1.e6087beca1794p-2,
};

/* pi / 2 */
static const double HALF_PI[] = {
    0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110,
};

/* sin(pi f) / f in f^2, |f| <= 1/2, for floats: 2^-35.5 */
static const double SINPI_SHORT[] = {
    0x1.921fb5441e329p+1, -0x1.4abbce4f100e4p+2, 0x1.466bbfbf8203dp+1, -0x1.32d11177ad91ap-1,
    0x1.500fe26e7f2cap-4, -0x1.cc32054d6d4f6p-8,
};

/* tan(pi f / 2) / f in f^2, |f| <= 1/2, for floats: 2^-33.5 */
static const double TAN_SHORT[] = {
    0x1.921fb544d4dd5p+0, 0x1.4abbccf31ed41p+0, 0x1.466c5da4039ap+0, 0x1.45e82bde6ce1ep+0,
    0x1.47d0f6619b1afp+0, 0x1.314961a9c5d95p+0, 0x1.c9d424d52d59ap+0, -0x1.20cc10b4d9dc1p-1,
    0x1.1c7ec0dd887fdp+2,
};

/* pi / 2, each part rounded down */
static const double HALF_PI_PARTS_F32[] = {
    0x1.921fb4p+0, 0x1.444p-24, 0x1.68c234p-39,
};

/* (tan r / r - 1) / r^2 in r^2, |r| <= 0.8, error against tan r: 2^-32.8 */
static const double TAN_F32[] = {
    0x1.555554p-2, 0x1.11119ap-3, 0x1.b9f6d4p-5, 0x1.68aacep-6, 0x1.0d6246p-7, 0x1.5655f2p-8,
    -0x1.ba70e2p-11, 0x1.199738p-9,
};

/* (sin r / r - 1) / r^2 in r^2, |r| <= pi / 4, error against sin r: 2^-58.0 */
static const double SIN_F64[] = {
    -0x1.5555555555549p-3, 0x1.111111110f89cp-7, -0x1.a01a019c141b4p-13, 0x1.71de3578edd9ap-19,
    -0x1.ae5e66a4ef953p-26, 0x1.5d930173350bcp-33,
};

/* (cos r - 1 + r^2 / 2) / r^4 in r^2, |r| <= pi / 4, error against cos r: 2^-64.2 */
static const double COS_F64[] = {
    0x1.555555555554cp-5, -0x1.6c16c16c15217p-10, 0x1.a01a019cbe0a5p-16, -0x1.27e4f8116c993p-22,
    0x1.1ee9f04534edcp-29, -0x1.8fb091a74a683p-37,
};

/* (arctan t / t - 1) / t^2 + 1/4 in t^2, |t| <= 1, error against arctan t: 2^-28.5 */
static const double ARCTAN_F32[] = {
    -0x1.5554fap-4, 0x1.999204p-3, -0x1.2421f2p-3, 0x1.c09c2ep-4, -0x1.583a66p-4, 0x1.dadc9cp-5,
    -0x1.fef4fcp-6, 0x1.65cb4ep-7, -0x1.d6704ap-10,
};

/* P / Q is (arctan t / t - 1) / t^2 + 1/4 in t^2, |t| <= 1, error against arctan t, P: 2^-56.4 */
static const double ARCTAN_F64_P[] = {
    -0x1.555555555546fp-4, -0x1.cdd0f08562a93p-6, 0x1.63d447eaea922p-3, 0x1.5985e1f78b3a3p-3,
    0x1.987e7d5b0b9d4p-5, 0x1.10edf762c0035p-8, 0x1.308a8b1aaf0dbp-20,
};

/* Q */
static const double ARCTAN_F64_Q[] = {
    0x1p+0, 0x1.5e7ec9bfb27dp+1, 0x1.62e35dcd8145dp+1, 0x1.44d05db1bce3fp+0, 0x1.03f5daa5aa6ecp-2,
    0x1.14583f880b614p-6,
};

/* (arcsin s / s - 1) / s^2 in s^2, |s| <= 1/2, error against arcsin s: 2^-27.6 */
static const double ARCSIN_F32[] = {
    0x1.5555c8p-3, 0x1.3301fcp-4, 0x1.747d06p-5, 0x1.8c2d82p-6, 0x1.596d66p-5,
};

/* (arcsin s / s - 1) / s^2 in s^2, |s| <= 1/2, error against arcsin s: 2^-55.9 */
static const double ARCSIN_F64[] = {
    0x1.555555555538ep-3, 0x1.333333336ec5dp-4, 0x1.6db6db4249c2dp-5, 0x1.f1c72c499c775p-6,
    0x1.6e89f29e84841p-6, 0x1.1c6bfb2b2fc55p-6, 0x1.c6fbba0779751p-7, 0x1.8ed0a9daf5cbfp-7,
    0x1.ab565ba564484p-8, 0x1.4049230ec788bp-6, -0x1.0a5a2abf0b18dp-6, 0x1.059c7b9fb5c2bp-5,
};

/* pi / 2 */
static const double HALF_PI_F32[] = {
    0x1.921fb6p+0, -0x1.777a5cp-25,
};

/* ((1 - h)^(-1/3) - 1) / h, |h| <= 0.1022, error against (1 - h)^(-1/3): 2^-18.5 */
static const double CBRT_F32[] = {
    0x1.5553d4p-2, 0x1.c9ae82p-3, 0x1.65cb34p-3,
};

/* ((1 - h)^(-1/3) - 1) / h, |h| <= 0.1022, error against (1 - h)^(-1/3): 2^-32.3 */
static const double CBRT_F64[] = {
    0x1.55555627e882fp-2, 0x1.c71c764216c67p-3, 0x1.61f4a6c5b88d6p-3, 0x1.26f2a714a4fa5p-3,
    0x1.036e403059d2p-3, 0x1.cf3ff45c0af7ap-4,
};

/* m^(-1/3), sqrt(1/2) <= m <= sqrt(2), for half precision: 2^-11.9 */
static const double CBRT_HALF[] = {
    0x1.bb0fc8p+0, -0x1.4925b4p+0, 0x1.6d3af2p-1, -0x1.44b078p-3,
};

/* 2^(1/3) and 2^(-1/3) */
static const double CBRT_2[] = {
    0x1.428a2f98d728bp+0,
};

/* log2((1 + s) / (1 - s)) / s in s^2, for floats: 2^-37.8 */
static const double LOG2_SHORT[] = {
    0x1.71547652bedf2p+1, 0x1.ec709d12cfc76p-1, 0x1.27777fe86b2d1p-1, 0x1.a58d88cd1aba6p-2,
    0x1.5ce85493396cp-2,
};

/* (2^r - 1) / r, for floats, error against 2^r: 2^-28.9 */
static const double EXP2_SHORT[] = {
    0x1.62e430af2becap-1, 0x1.ebfbdc3c1b2b7p-3, 0x1.c6aee8876a101p-5, 0x1.3b2d4d015d5fdp-7,
    0x1.5f3e56a7b4432p-10, 0x1.41fbb1d3f8ad3p-13,
};

/* 2 / ln 2 */
static const double POWER_C0[] = {
    0x1.71547652b82fep+1, 0x1.777d0ffda0d24p-55,
};

/* 2 / 3 / ln 2 */
static const double POWER_C1[] = {
    0x1.ec709dc3a03fdp-1, 0x1.d27f05548af0cp-55,
};

/* (log2 m - c0 s - c1 s^3) / s^5 in s^2, error against log2 m: 2^-73.5 */
static const double POWER_Q[] = {
    0x1.2776c50ef9bfcp-1, 0x1.a61762a7aedddp-2, 0x1.484b13d6acff3p-2, 0x1.0c9a853ae88c6p-2,
    0x1.c68ee966e5625p-3, 0x1.8a09b69f063cap-3, 0x1.58fce66827674p-3, 0x1.61eff7e948e2bp-3,
};

/* log(1 + r) / r, error against it, for half precision: 2^-17.0 */
static const double LOG_HALF[] = {
    0x1.00004cp+0, -0x1.ffe662p-2, 0x1.54902cp-2, -0x1.0420dcp-2, 0x1.c3b08cp-3, -0x1.24b19ep-3,
};

/* log2(1 + r) / r, error against it, for half precision: 2^-17.0 */
static const double LOG2_HALF[] = {
    0x1.7154e4p+0, -0x1.7141fcp-1, 0x1.eb5428p-2, -0x1.774922p-2, 0x1.45d35cp-2, -0x1.a6453ep-3,
};

/* log10(1 + r) / r, error against it, for half precision: 2^-17.0 */
static const double LOG10_HALF[] = {
    0x1.bcb836p-2, -0x1.bca16cp-3, 0x1.27cf0cp-3, -0x1.c3e41ap-4, 0x1.8857acp-4, -0x1.fc77dap-5,
};

/* log10 2 */
static const double LOG10_2_HALF[] = {
    0x1.344136p-2,
};

/* 2^r, error against it, for half precision: 2^-18.6 */
static const double EXP2_HALF[] = {
    0x1.ffffe8p-1, 0x1.62e0ep-1, 0x1.ec06c2p-3, 0x1.ca134ep-5, 0x1.399a6ep-7,
};

/* (e^r - 1) / r, error against it, for half precision: 2^-16.0 */
static const double EXPM1_HALF[] = {
    0x1.fffe0cp-1, 0x1.0001a6p-1, 0x1.576242p-3, 0x1.555474p-5,
};

/* cosh r in r^2, for half precision: 2^-23.0 */
static const double COSH_HALF[] = {
    0x1.000002p+0, 0x1.fffbf2p-2, 0x1.57bdeap-5,
};

/* sinh r / r in r^2, for half precision: 2^-16.0 */
static const double SINH_HALF[] = {
    0x1.fffe0ap-1, 0x1.5762c2p-3,
};

/* sin r / r in r^2, |r| <= pi / 2, for half precision: 2^-20.0 */
static const double SIN_HALF[] = {
    0x1.ffffep-1, -0x1.554f7p-3, 0x1.105c1cp-7, -0x1.83a3dp-13,
};

/* tan r / r in r^2, |r| <= pi / 4, for half precision: 2^-18.2 */
static const double TAN_HALF[] = {
    0x1.000036p+0, 0x1.551206p-2, 0x1.17a70cp-3, 0x1.4a25ccp-5, 0x1.67b87p-5,
};

/* arctan t / t in t^2, |t| <= 1, for half precision: 2^-17.8 */
static const double ARCTAN_HALF[] = {
    0x1.ffff6ep-1, -0x1.54fca2p-2, 0x1.90aa9ep-3, -0x1.f09d06p-4, 0x1.d6e3aep-5, -0x1.b9c724p-7,
};

/* arcsinh a / a in a^2, a <= 1/2, for half precision: 2^-20.6 */
static const double ARCSINH_HALF[] = {
    0x1.ffffecp-1, -0x1.552ab6p-3, 0x1.2c2eb8p-4, -0x1.0b9cfcp-5,
};

/* arctanh a / a in a^2, a <= 1/2, for half precision: 2^-17.4 */
static const double ARCTANH_HALF[] = {
    0x1.ffff4p-1, 0x1.560e7ep-2, 0x1.7e3386p-3, 0x1.c2a036p-3,
};

/* pi, the first part rounded down */
static const double PI_HALF[] = {
    0x1.921fb4p+1, 0x1.4442d2p-23,
};

/* pi / 2, the first part rounded down */
static const double HALF_PI_HALF[] = {
    0x1.921fb4p+0, 0x1.4442d2p-24,
};

#endif
