//! Which part of a profile is asked for, and what is said where there is none.

use std::path::Path;

use profiledb::{Image, ImageKind};

use crate::common::{Fixture, Rows, write_epoch};
use crate::{code, errors, json, samples};

/// Filters choose processes, images, functions and whole flushes.
#[test]
fn filters() {
    let fixture = Fixture::new();
    assert_eq!(samples(&json(&fixture, &["top", "--pid", "101"])), 10);
    assert_eq!(
        samples(&json(&fixture, &["top", "--image", "libgone.so"])),
        30
    );
    assert_eq!(
        samples(&json(&fixture, &["top", "--function", "helper"])),
        50
    );
    let all = samples(&json(&fixture, &["top"]));
    let half = json(&fixture, &["top", "--since", "2026-05-01 12:01"]);
    assert_eq!(samples(&half) * 2, all);
    let half = json(&fixture, &["top", "--until", "2026-05-01T12:01:00Z"]);
    assert_eq!(samples(&half) * 2, all);
    assert_eq!(samples(&json(&fixture, &["top", "--user", "1000"])), all);
}

/// A flush belongs to the range of times in which it ended: two ranges that adjoin have each
/// flush once, wherever they meet, and it is said when it was collected.
#[test]
fn adjoining_ranges() {
    let fixture = Fixture::new();
    let all = samples(&json(&fixture, &["top"]));
    let of = |args: &[&str]| {
        let output = fixture.run(&[&["top", "--format", "json"], args].concat());
        samples(&serde_json::from_slice(&output.stdout).expect("is JSON"))
    };
    for (meeting, before) in [
        ("2026-05-01 12:00:30", 0),
        ("2026-05-01 12:01:00", all / 2),
        ("2026-05-01 12:01:30", all / 2),
        ("2026-05-01 12:02:00", all),
    ] {
        let (until, since) = (of(&["--until", meeting]), of(&["--since", meeting]));
        assert_eq!((until, since), (before, all - before), "{meeting}");
    }
    let said = errors(&fixture.run(&["top", "--since", "2026-05-01 12:01:30"]));
    let reach = "was collected from 2026-05-01 12:01:00+00:00 to 2026-05-01 12:02:00+00:00";
    assert!(said.contains(reach), "{said}");
    assert!(!errors(&fixture.run(&["top"])).contains("was collected from"));
}

/// An image is found by its path from here, through links, and after its file is gone.
#[test]
fn images_by_path() {
    let fixture = Fixture::new();
    let link = fixture.dir().join("link");
    std::os::unix::fs::symlink(fixture.dir(), &link).expect("links");
    let whole = fixture.image();
    let whole = whole.to_str().expect("is UTF-8");
    let found = samples(&json(&fixture, &["top", "--image", whole]));
    assert!(found > 0);
    for gone in [false, true] {
        if gone {
            std::fs::remove_file(fixture.image()).expect("removes");
        }
        for path in ["./fixture", "link/fixture", ".//link/./fixture"] {
            let report = json(&fixture, &["top", "--image", path]);
            assert_eq!(samples(&report), found, "{path}, gone: {gone}");
        }
        let elsewhere = fixture.run(&["top", "--image", "/usr/fixture"]);
        assert_eq!(code(&elsewhere), 1, "{}", errors(&elsewhere));
    }
}

/// A name that an image goes by means that image alone, whatever file is called so here; the file
/// stands for its build where none does.
#[test]
fn images_and_files_of_a_name() {
    const BUILD_ID: &str = "903a47543b09ee8b400230e9d293ed39e2d423e6";
    let fixture = Fixture::new();
    let of = |path: &str, build_id: &str| Image {
        kind: ImageKind::File,
        path: path.into(),
        build_id: Some(build_id.into()),
        identity: build_id.into(),
    };
    let images = [
        of("/lib/libc.so.6", &"1".repeat(40)),
        of("/nowhere/work", BUILD_ID),
    ];
    write_epoch(&fixture.dir().join("two.db"), |flush| {
        let mut rows = Rows::new(flush, &fixture.image());
        for image in &images {
            let image = rows.flush.image(image).expect("image");
            let pc = rows.flush.pc(image, 0x10, None).expect("pc");
            let (process, user) = (rows.process, rows.user);
            let added = rows.flush.cycles(process, user, pc, None, 10, 1_000);
            added.expect("cycles");
        }
        rows.flush.commit().expect("commits");
    });
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/declared.so");
    for name in ["libc.so.6", "moved"] {
        std::fs::copy(&file, fixture.dir().join(name)).expect("copies");
    }
    let shown = |name: &str| {
        let words = ["-i", "two.db", "top", "--by", "image", "--image", name];
        let rows = json(&fixture, &words);
        let rows = rows.as_array().expect("rows");
        let keys = rows
            .iter()
            .map(|row| row["key"].as_str().map(str::to_owned));
        keys.collect::<Option<Vec<String>>>().expect("keys")
    };
    assert_eq!(shown("libc.so.6"), ["/lib/libc.so.6"]);
    for name in ["./libc.so.6", "moved", "./moved", "work"] {
        assert_eq!(shown(name), ["/nowhere/work"], "{name}");
    }
}

/// For an image that is not there, those are named that may have been meant.
#[test]
fn images_near_a_name() {
    let fixture = Fixture::new();
    for (name, near) in [
        ("libgone", "libgone.so"),
        ("libgone.so.5", "libgone.so"),
        ("/usr/bin/FIX", "fixture"),
        ("ixtur", "fixture"),
    ] {
        for report in ["top", "branches"] {
            let output = fixture.run(&[report, "--image", name]);
            assert_eq!(code(&output), 1, "{name}");
            let said = errors(&output);
            let expected = format!("no image named {name} in this profile; near it: {near}\n");
            assert!(said.contains(&expected), "{said}");
        }
    }
    // Beside one that is there, it is said as well.
    let output = fixture.run(&["top", "--image", "fixture", "--image", "libgone"]);
    assert_eq!(code(&output), 0);
    assert!(errors(&output).contains("no image named libgone in this profile"));
    let output = fixture.run(&["top", "--image", "weather"]);
    assert!(!errors(&output).contains("near"), "{}", errors(&output));
    let said = errors(&output);
    assert!(said.contains("vcpi top --by image"), "{said}");
}

/// What was not collected is said in the words of the question.
#[test]
fn absence_is_explained() {
    let fixture = Fixture::new();
    for (args, said) in [
        (
            &["--pid", "4242"][..],
            "nothing that ran in process 4242 was collected",
        ),
        (
            &["--user", "root"],
            "nothing that ran as user root (id 0) was collected",
        ),
        (
            &["--user", "4242", "--pid", "7"],
            "nothing that ran in process 7, as user 4242 was collected",
        ),
        (&["--user", "no such user"], "there is no such user here"),
    ] {
        let output = fixture.run(&[&["top"], args].concat());
        assert!(errors(&output).contains(said), "{}", errors(&output));
    }
}
