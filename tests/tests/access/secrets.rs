//! What is not captured is nowhere.

use anyhow::{Result, ensure};
use protocol::Selection;
use vcpi_tests::harness::{Test, test};

use crate::ALICE;
use crate::people::{MASK, People};
use crate::reader::Reader;
use crate::service::{PEOPLE, Service};

pub(crate) const KEYS: Test = test("keys of those who keep them are in no file", keys, PEOPLE);
/// A key in a library on the deny list, and that of a process that is not dumpable, are in no
/// file of the service, though both were sampled; that of an ordinary process is, which shows
/// that it would be found.
fn keys() -> Result<()> {
    let service = Service::start("")?;
    let mut people = People::new(&service)?;
    let open = people.program("open", 0o755)?;
    let closed = people.program("closed", 0o755)?;
    let sealing = people.program("sealing", 0o755)?;
    let sealed = 0x5ea1_ed5e_a1ed_0042_u64;
    let library = format!("library={:x}", sealed ^ MASK);
    let mut open = people.start(&open, ALICE, &["burn=600"])?;
    let mut closed = people.start(&closed, ALICE, &["dumpable=0", "burn=600"])?;
    let mut sealing = people.start(&sealing, ALICE, &[&library])?;
    for person in [&mut open, &mut closed, &mut sealing] {
        person.finish()?;
    }
    people.settle()?;
    people.until_known(&[&open])?;

    let all = Reader::user(0).profile(&service, Selection::default())?;
    for name in ["/open", "/closed", "/libcrypto-of-the-test.so"] {
        let sampled = all.cycles.iter().any(|row| {
            let image = all.pcs.get(row.pc).and_then(|pc| all.images.get(pc.image));
            image.is_some_and(|image| image.path.ends_with(name))
        });
        ensure!(sampled, "{name} was not sampled");
    }
    let files = service.all_bytes()?;
    let is_somewhere = |key: u64| {
        let forms = [
            key.to_be_bytes().to_vec(),
            key.to_le_bytes().to_vec(),
            format!("{key:x}").into_bytes(),
            key.to_string().into_bytes(),
        ];
        forms.iter().any(|form| {
            let has = |bytes: &[u8]| bytes.windows(form.len()).any(|window| window == form);
            files.iter().any(|(_, bytes)| has(bytes))
        })
    };
    ensure!(is_somewhere(open.key), "the ordinary key is not found");
    ensure!(
        !is_somewhere(closed.key),
        "the key of a non-dumpable process"
    );
    ensure!(
        !is_somewhere(sealed),
        "the key of a library on the deny list"
    );
    Ok(())
}
