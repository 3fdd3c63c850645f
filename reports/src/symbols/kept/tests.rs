use std::fs::FileTimes;
use std::os::unix::fs::PermissionsExt as _;

use symbols::Room;
use tempfile::TempDir;

use super::*;
use crate::elf::tests::fixture;

fn image(path: &Path) -> Image {
    Image {
        kind: ImageKind::File,
        path: path.to_str().expect("a plain path").to_owned(),
        build_id: Some("0123456789abcdef".to_owned()),
        identity: String::new(),
    }
}

fn binary(path: &Path) -> Binary {
    Binary::open(path, &Room::new(1 << 30)).expect("an ELF file")
}

fn told(start: u64, name: Option<&str>) -> Option<Told> {
    Some(Told {
        bounds: Bounds {
            start,
            end: Some(start + 16),
            name: name.map(Into::into),
        },
        is_frame: name.is_none(),
    })
}

struct Kept {
    /// For the program, and for what is kept of it.
    folder: TempDir,
    image: Image,
}

impl Kept {
    /// A large program of which two functions and a hole are kept.
    fn new() -> Kept {
        let folder = tempfile::tempdir().expect("a folder");
        let copy = folder.path().join("program");
        fs::copy(fixture(), &copy).expect("copied");
        let file = File::options().write(true).open(&copy).expect("opened");
        file.set_len(LEAST_FILE).expect("long");
        let kept = Kept {
            folder,
            image: image(&copy),
        };
        let addresses = [0x1000, 0x1004, 0x2000, 0x9000];
        let one = told(0x1000, Some("one"));
        let all = [one.clone(), one, told(0x2000, None), None];
        let soname = Some("lib.so.1".to_owned());
        let written = kept.older().write(&addresses, &all, soname, &binary(&copy));
        assert_eq!(written, Some(()));
        kept
    }

    /// As if the program were older.
    fn older(&self) -> EntryFile {
        let mut place = self.place();
        place.begun += 2 * SETTLED;
        place
    }

    fn place(&self) -> EntryFile {
        EntryFile::within(&self.kept(), &self.image).expect("a place")
    }

    fn kept(&self) -> PathBuf {
        self.folder.path().join("kept")
    }

    fn knows(&self) -> bool {
        self.place().read().is_some()
    }

    fn entry(&self) -> PathBuf {
        self.place().entry()
    }
}

/// What was kept comes back, for the addresses that it is of; more can be added.
#[test]
fn functions_come_back() {
    let kept = Kept::new();
    let known = kept.place().read().expect("known");
    assert_eq!(known.soname.as_deref(), Some("lib.so.1"));
    assert_eq!(
        known.all(&[0x1004, 0x2000, 0x9000]).map(|numbers| {
            let functions = numbers.into_iter().map(|number| known.function(number));
            functions.collect::<Vec<_>>()
        }),
        Some(vec![told(0x1000, Some("one")), told(0x2000, None), None])
    );
    assert_eq!(known.all(&[0x1004, 0x1008]), None);
    let place = kept.older();
    let more = [told(0x1000, Some("one"))];
    let written = place.write(&[0x1008], &more, None, &binary(&place.path));
    assert_eq!(written, Some(()));
    let known = kept.place().read().expect("known");
    assert!(known.all(&[0x1004, 0x1008, 0x9000]).is_some());
}

/// What has a content id alone is kept by that, and apart from a build of the same digits.
#[test]
fn content_ids_are_ids() {
    let mut kept = Kept::new();
    let by_build = kept.entry();
    let digits = kept.image.build_id.take().expect("a build id");
    assert!(EntryFile::within(&kept.kept(), &kept.image).is_none());
    kept.image.identity = format!("content:{digits}");
    assert!(!kept.knows());
    assert_ne!(kept.entry(), by_build);
    let (place, all) = (kept.older(), [told(0x1000, Some("one"))]);
    let written = place.write(&[0x1000], &all, None, &binary(&place.path));
    assert_eq!(written, Some(()));
    assert!(kept.knows());
}

/// An entry of a file that has changed since counts no more.
#[test]
fn changed_files_are_noticed() {
    let kept = Kept::new();
    assert!(kept.knows());
    let file = File::options()
        .write(true)
        .open(&kept.image.path)
        .expect("opened");
    let times = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH);
    file.set_times(times).expect("set");
    assert!(!kept.knows());
}

/// A debug file that comes later is seen.
#[test]
fn new_debug_files_are_noticed() {
    let kept = Kept::new();
    let mut entry = kept.place().load().expect("there");
    let later = kept.folder.path().join("later.debug");
    entry.beside.push((later.clone(), None));
    fs::write(kept.entry(), packed(&entry).expect("packed")).expect("written");
    assert!(kept.knows());
    fs::write(later, "debug").expect("written");
    assert!(!kept.knows());
}

/// A damaged entry, and one that others may write, are as if there were none.
#[test]
fn damage_is_ignored() {
    let kept = Kept::new();
    let good = fs::read(kept.entry()).expect("read");
    for place in (0..good.len()).step_by(7) {
        let mut bad = good.clone();
        bad[place] ^= 0x10;
        fs::write(kept.entry(), &bad).expect("written");
        assert!(!kept.knows(), "{place}");
        fs::write(kept.entry(), &good[..place]).expect("written");
        assert!(!kept.knows(), "{place}");
    }
    fs::write(kept.entry(), &good).expect("written");
    assert!(kept.knows());
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
    };
    mode(&kept.entry(), 0o666);
    assert!(!kept.knows());
    mode(&kept.entry(), 0o600);
    mode(&kept.kept(), 0o777);
    assert!(!kept.knows());
    mode(&kept.kept(), 0o700);
    assert!(kept.knows());
}

/// A file that was changed a moment ago is not kept: it may change again without a trace.
#[test]
fn young_files_are_not_kept() {
    let kept = Kept::new();
    fs::remove_file(kept.entry()).expect("removed");
    let place = kept.place();
    let written = place.write(&[0x1000], &[None], None, &binary(&place.path));
    assert_eq!(written, None);
    assert!(!kept.knows());
}

/// What was written longest ago makes room.
#[test]
fn room_is_bounded() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    for (name, age) in [("a", 30), ("b", 10), ("c", 20)] {
        let file = File::create(folder.join(name)).expect("made");
        file.set_len(40 << 20).expect("long");
        let then = SystemTime::now() - Duration::from_secs(age);
        file.set_times(FileTimes::new().set_modified(then))
            .expect("set");
    }
    make_room(folder, 10 << 20);
    let left = |name: &str| folder.join(name).exists();
    assert!(!left("a") && left("b") && left("c"));
}
