//! Some of the cases that fuzzing tries by the million, so that what it enters by keeps working.

mod cases;

/// Calls `run` with bytes of the same random numbers each time.
fn try_with_bytes(cases: u64, run: impl Fn(&[u8])) {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 33) as u32
    };
    let mut data = Vec::new();
    for _ in 0..cases {
        let len = next() as usize % 1200;
        data.clear();
        data.resize_with(len, || next() as u8);
        run(&data);
    }
}

/// Whatever the code, what is known of registers and memory: no panic and no false claim.
#[test]
fn windows() {
    try_with_bytes(5_000, cases::window);
}

/// Whatever the code and the pieces of memory that were read: no false claim.
#[test]
fn pieces() {
    try_with_bytes(5_000, cases::pieces);
}

/// Whatever the bytes: they are refused as a path, or written again.
#[test]
fn paths() {
    try_with_bytes(5_000, cases::path);
}
