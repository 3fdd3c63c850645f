//! Values at which instructions change their minds. Whatever tries instructions takes them from
//! here: the tests of families, the oracle, the random instructions, and the hunt.

/// Small numbers, and what each width of integers ends with, seen as signed and as unsigned ones.
pub(crate) const INTEGERS: [u64; 23] = [
    0,
    1,
    2,
    0x0f,
    0x10,
    0x7f,
    0x80,
    0x81,
    0xff,
    0x100,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_ffff,
    0xffff_ffff_0000_0000,
    // Nothing special, and other bits in each byte.
    0x0123_4567_89ab_cdef,
    0xfedc_ba98_7654_3210,
];

/// The limits of a width in each of its lanes.
pub(crate) const LANES: [u64; 6] = [
    0x7f7f_7f7f_7f7f_7f7f,
    0x8080_8080_8080_8080,
    0x7fff_7fff_7fff_7fff,
    0x8000_8000_8000_8000,
    0x7fff_ffff_7fff_ffff,
    0x8000_0000_8000_0000,
];

/// Numbers of half precision.
pub(crate) const HALVES: [u16; 9] = [
    0,      //
    0x0001, // the least
    0x03ff, // the greatest denormal one
    0x0400, // the least normal one
    0x3c00, // 1
    0x7bff, // the greatest
    0x7c00, // infinity
    0x7c01, // NaN that signals
    0x7e00, // NaN
];

/// Numbers of single precision.
pub(crate) const SINGLES: [u32; 28] = [
    0,           //
    0x8000_0000, // -0
    0x0000_0001, // the least
    0x8000_0001, //
    0x007f_ffff, // the greatest denormal one
    0x0080_0000, // the least normal one
    0x3400_0000, // the distance from 1 to the next one
    0x3dcc_cccd, // 0.1
    0x3f00_0000, // 0.5
    0x3f80_0000, // 1
    0xbf80_0000, // -1
    0x3fc0_0000, // 1.5
    0x4020_0000, // 2.5
    0xc060_0000, // -3.5
    0x42f6_e979, // 123.456
    0x4b80_0001, // the first above 2^24
    0x4eff_ffff, // the last below 2^31
    0x4f00_0000, // 2^31
    0xcf00_0000, // -2^31
    0x4f80_0000, // 2^32
    0x5f00_0000, // 2^63
    0x7f7f_ffff, // the greatest
    0x7f80_0000, // infinity
    0xff80_0000, // -infinity
    0x7f80_0001, // NaN that signals
    0x7fa0_1234, // another one
    0x7fc0_0000, // NaN
    0xffff_ffff, //
];

/// Numbers of double precision.
pub(crate) const DOUBLES: [u64; 32] = [
    0,                     //
    0x8000_0000_0000_0000, // -0
    0x0000_0000_0000_0001, // the least
    0x8000_0000_0000_0001, //
    0x000f_ffff_ffff_ffff, // the greatest denormal one
    0x0010_0000_0000_0000, // the least normal one
    0x36a0_0000_0000_0000, // the least of single precision
    0x3810_0000_0000_0000, // the least normal one of single precision
    0x3cb0_0000_0000_0000, // the distance from 1 to the next one
    0x3fb9_9999_9999_999a, // 0.1
    0x3fe0_0000_0000_0000, // 0.5
    0x3ff0_0000_0000_0000, // 1
    0xbff0_0000_0000_0000, // -1
    0x3ff8_0000_0000_0000, // 1.5
    0x4004_0000_0000_0000, // 2.5
    0xc00c_0000_0000_0000, // -3.5
    0x405e_dccc_cccc_cccd, // 123.45
    0x41df_ffff_ffc0_0000, // 2^31 - 1
    0x41df_ffff_ffe0_0000, // 2^31 - 0.5
    0x41e0_0000_0000_0000, // 2^31
    0xc1e0_0000_0020_0000, // -2^31 - 1
    0x4330_0000_0000_0001, // the first above 2^52
    0x43e0_0000_0000_0000, // 2^63
    0x47ef_ffff_e000_0000, // the greatest of single precision
    0x47ef_ffff_f000_0000, // the first that is rounded to its infinity
    0x7fef_ffff_ffff_ffff, // the greatest
    0x7ff0_0000_0000_0000, // infinity
    0xfff0_0000_0000_0000, // -infinity
    0x7ff0_0000_0000_0001, // NaN that signals
    0xfff4_1234_5678_9abc, // another one
    0x7ff8_0000_0000_0000, // NaN
    0x7ff8_0000_0000_0001, //
];
