//! Whether a file is still the image that was profiled.

use profiledb::Profile;
use profiledb::rows::Image;
use symbols::{Room, content_id};

use super::named;
use crate::bundle;
use crate::debugfiles;
use crate::elf::Elf;

/// The image's file, if it is what was profiled; else one that the command line names; else that of
/// a server; else a sentence why not.
pub(super) fn open(
    profile: &Profile,
    index: usize,
    image: &Image,
    room: &Room,
) -> Result<Elf, String> {
    let here = of_here(profile, index, image, room);
    here.or_else(|why| {
        let elsewhere = named::open(image, room);
        let elsewhere = elsewhere.or_else(|| debugfiles::executable(image, room));
        elsewhere.ok_or(why)
    })
}

/// The image's file, if it is what was profiled; else a sentence why not.
fn of_here(profile: &Profile, index: usize, image: &Image, room: &Room) -> Result<Elf, String> {
    let path = bundle::image_file(image);
    let path = path.as_path();
    let elf = Elf::open(path, room).map_err(|error| error.to_string())?;
    let code = |address, length| Some(elf.few_bytes(address)?.get(..length)?.to_vec());
    match (&image.build_id, elf.build_id()) {
        (Some(profiled), Some(now)) if profiled == now => return Ok(elf),
        (Some(_), _) => return Err("the file is another build than the one profiled".to_owned()),
        (None, _) => {}
    }
    // Who replaces the file now is seen by the code.
    let content = image.content_id().map(|profiled| {
        let now = std::fs::File::open(path).and_then(|file| content_id(&file));
        now.is_ok_and(|now| now == profiled)
    });
    if content == Some(false) {
        return Err("the file's content is not what was profiled".to_owned());
    }
    let mut compared = content == Some(true);
    for pc in profile.pcs.iter().filter(|pc| pc.image == index) {
        let Some(bytes) = pc.bytes.as_deref().filter(|bytes| !bytes.is_empty()) else {
            continue;
        };
        compared = true;
        if code(pc.address, bytes.len()).as_deref() != Some(bytes) {
            return Err("the file's code is not what was profiled".to_owned());
        }
    }
    if compared {
        Ok(elf)
    } else {
        Err("nothing tells whether the file is what was profiled".to_owned())
    }
}
