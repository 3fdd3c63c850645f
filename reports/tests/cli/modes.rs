//! Code of 32-bit mode.

use super::common::write_epoch;
use crate::common::Rows;
use profiledb::{Image, ImageKind};

/// `48 ff d0` is a call by a register in 64-bit mode; in 32-bit mode it is `dec eax` and what comes
/// behind that. What an instruction is, a report tells by the mode that it ran in.
#[test]
fn instructions_are_of_their_mode() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for (is_of_32_bits, sites) in [(false, 1), (true, 0)] {
        let database = dir.path().join(format!("{is_of_32_bits}.db"));
        write_epoch(&database, |flush| {
            let mut rows = Rows::new(flush, &dir.path().join("none"));
            let image = Image {
                kind: ImageKind::Anon,
                path: "[anon]".into(),
                build_id: None,
                identity: "[anon]".into(),
            };
            let image = match is_of_32_bits {
                true => image.in_32_bit_mode(),
                false => image,
            };
            let image = rows.flush.image(&image).expect("image");
            let mut pc = |address, bytes: &[u8]| {
                let pc = rows.flush.pc(image, address, Some(bytes));
                pc.expect("pc")
            };
            let site = pc(0x1000, &[0x48, 0xff, 0xd0]);
            let callee = pc(0x2000, &[0x90]);
            let (process, user) = (rows.process, rows.user);
            let called = rows.flush.call(process, user, site, Some(callee), 50_u64);
            called.expect("calls");
            let sampled = rows.flush.cycles(process, user, site, None, 50, 5_000_000);
            sampled.expect("cycles");
            rows.flush.commit().expect("commits");
        });
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_vcpi"))
            .args(["targets", "--format", "json", "-i"])
            .arg(&database)
            .output()
            .expect("vcpi runs");
        let said = String::from_utf8_lossy(&output.stderr);
        let rows: serde_json::Value = serde_json::from_slice(&output.stdout).expect("is JSON");
        let found = rows.as_array().map(Vec::len);
        assert_eq!(found, Some(sites), "{is_of_32_bits}: {rows} {said}");
    }
}
