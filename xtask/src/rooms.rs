//! The part of `cargo xtask check-layers` that looks into the sources of the crates: an order among
//! the rooms of each, and no long file without a reason. The compiler sees to the order of the
//! crates.
//!
//! A room is a module at the root of its crate, with all that lies in it, and so is the root's own
//! file. A room uses another one where its code names `crate::OTHER`, or `crate::Name` of a name
//! that the root defines or brings from there; in a file beside the root, `super::` is `crate::`.
//! What stands in tests does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The crates: their folders, and what holds of their rooms.
const CRATES: &[(&str, Order)] = &[
    // The kernel's files.
    ("daemon/machine/src", Order::Lowest("system")),
    // The events that all consumers get.
    ("daemon/consumers/src", Order::Lowest("events")),
    ("daemon/pipeline/src", Order::NoCircle),
    ("daemon/store/src", Order::NoCircle),
    ("daemon/src", Order::NoCircle),
    ("reports/src", Order::NoCircle),
    ("hotlist/src", Order::NoCircle),
    ("interpreter/src", Order::NoCircle),
    ("profiledb/src", Order::NoCircle),
    ("sampler/src", Order::NoCircle),
    ("symbols/src", Order::NoCircle),
];

/// What holds of the rooms of a crate, which form no circle.
enum Order {
    /// Nothing else.
    NoCircle,
    /// This one uses none of the others.
    Lowest(&'static str),
}

/// Lines of code that a file may have without a reason.
const LONG: usize = 500;
/// What the comment begins with that gives the reason.
const REASON: &str = "// Over 500 lines: ";
/// The root of a crate.
const ROOTS: [&str; 2] = ["lib.rs", "main.rs"];
/// The rooms that each room uses, with a file that does.
type Uses = BTreeMap<String, BTreeMap<String, PathBuf>>;

/// A sentence for everything that is wrong with the sources in the project's folder.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    let mut complaints = Vec::new();
    for (folder, order) in CRATES {
        files.extend(sources(&root.join(folder))?);
        let uses = uses(&root.join(folder))?;
        complaints.extend(circle(&uses, folder));
        if let Order::Lowest(room) = order {
            complaints.extend(lowest(&uses, room));
        }
    }
    for file in files {
        let text = read(&file)?;
        let lines = code(&text).lines().count();
        if lines > LONG && !text.lines().any(|line| line.starts_with(REASON)) {
            let file = file.strip_prefix(root).unwrap_or(&file).display();
            complaints.push(format!(
                "{file} has {lines} lines of code: split it, or say why not ({REASON}...)"
            ));
        }
    }
    Ok(complaints)
}

/// A sentence for each room of its crate that a lowest one uses.
fn lowest(uses: &Uses, room: &str) -> Vec<String> {
    let used = uses.get(room).into_iter().flatten();
    used.map(|(used, file)| {
        let file = file.file_name().unwrap_or_default().to_string_lossy();
        format!("{room} -> {used} ({file}): `{room}` uses nothing else of its crate")
    })
    .collect()
}

/// All Rust files below a folder.
fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(sources(&path)?);
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| file.display().to_string())
}

/// A source without its tests, which stand at its end.
fn code(text: &str) -> &str {
    let tests = text.find("#[cfg(test)]\nmod ");
    &text[..tests.unwrap_or(text.len())]
}

/// Whether the file of the module above declares this one for tests alone.
fn is_test(file: &Path) -> bool {
    let above = file.parent().map(|folder| folder.with_extension("rs"));
    let declares = above.and_then(|above| fs::read_to_string(above).ok());
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    declares.is_some_and(|text| text.contains(&format!("#[cfg(test)]\nmod {name};")))
}

/// What the rooms of a folder use.
fn uses(folder: &Path) -> Result<Uses> {
    let mut exports = BTreeMap::new();
    let mut rooms = Uses::new();
    for file in sources(folder)? {
        let inside = file.strip_prefix(folder).unwrap_or(&file);
        let room = inside.iter().next().unwrap_or_default().to_string_lossy();
        let room = room.trim_end_matches(".rs").to_owned();
        let text = match is_test(&file) {
            true => String::new(),
            false => read(&file)?,
        };
        let text = code(&text);
        let names = if ROOTS.contains(&&*inside.to_string_lossy()) {
            exports.extend(brought(text));
            exports.extend(defined(text).into_iter().map(|name| (name, room.clone())));
            walked(text)
        } else if inside.iter().count() == 1 {
            let above = named(text, "super::");
            above.into_iter().chain(named(text, "crate::")).collect()
        } else {
            named(text, "crate::")
        };
        let uses = rooms.entry(room).or_default();
        for name in names {
            uses.entry(name).or_insert_with(|| file.clone());
        }
    }
    Ok(resolved(&rooms, &exports))
}

/// Uses by names of the crate's root as uses of the rooms that the names come from.
fn resolved(uses: &Uses, exports: &BTreeMap<String, String>) -> Uses {
    let mut resolved = Uses::new();
    for (room, named) in uses {
        let of = resolved.entry(room.clone()).or_default();
        for (name, file) in named {
            // A room and a function that comes from elsewhere may have one name.
            let used = match uses.contains_key(name) {
                true => name,
                false => exports.get(name).unwrap_or(name),
            };
            if used != room {
                of.entry(used.clone()).or_insert_with(|| file.clone());
            }
        }
    }
    resolved
}

/// The names that the code of a root brings into the crate's root, whether or not others see them,
/// each with the first word of where it comes from.
fn brought(root: &str) -> BTreeMap<String, String> {
    let code = without_comments(root);
    let mut names = BTreeMap::new();
    for (at, start) in code.match_indices("use ") {
        // Only what begins its line stands in the root itself.
        let before = code[..at].rsplit('\n').next().unwrap_or_default();
        if !before.is_empty() && (!before.starts_with("pub") || !before.ends_with([' ', ')'])) {
            continue;
        }
        let tree = code[at + start.len()..].split(';').next();
        for path in paths(tree.unwrap_or_default()) {
            let words: Vec<&str> = path.split("::").map(str::trim).collect();
            let words = match words.as_slice() {
                ["crate" | "self", words @ ..] => words,
                words => words,
            };
            let (path, name) = match words {
                [path @ .., last] => (path, last.rsplit(" as ").next().unwrap_or(last)),
                [] => continue,
            };
            // `use a::b::{self}` brings `b`.
            let name = match (name, path) {
                ("self", [.., module]) => module,
                _ => name,
            };
            if let Some(room) = path.first() {
                names.insert(name.to_owned(), (*room).to_owned());
            }
        }
    }
    names
}

/// The names that the code of a root defines in the crate's root, modules left out.
fn defined(root: &str) -> BTreeSet<String> {
    const KINDS: [&str; 8] = [
        "const", "enum", "fn", "static", "struct", "trait", "type", "union",
    ];
    let code = without_comments(root);
    // What stands in the root itself begins its line.
    let lines = code.lines().filter(|line| !line.starts_with(' '));
    let names = lines.filter_map(|line| {
        let mut words = line.split([' ', '!']).filter(|word| !word.is_empty());
        words.find(|word| KINDS.contains(word) || *word == "macro_rules")?;
        // `const fn name`, `static mut NAME`.
        first_word(words.find(|word| *word != "mut" && !KINDS.contains(word))?)
    });
    names.collect()
}

/// The names of the crate's root that the code of a root says for itself. What it brings for others
/// is not its own use.
fn walked(root: &str) -> BTreeSet<String> {
    let code = without_comments(root);
    let own = code.split(';').filter(|item| {
        let first = item.trim_start().lines();
        let first = first.skip_while(|line| line.starts_with("#[")).take(1);
        let mut words = first.flat_map(|line| line.split(' '));
        let is_public = words.next().is_some_and(|word| word.starts_with("pub"));
        !is_public || words.next() != Some("use")
    });
    let own: Vec<&str> = own.collect();
    let own = own.join(";");
    let mut names = named(&own, "crate::");
    let is_word = |c: char| c == '_' || c.is_alphanumeric();
    for (at, _) in own.match_indices("::") {
        let before = own[..at].trim_end_matches(is_word);
        if !before.ends_with(':') {
            names.insert(own[before.len()..at].to_owned());
        }
    }
    names
}

/// Code without its comments.
fn without_comments(code: &str) -> String {
    let lines = code.lines().map(|line| line.split("//").next());
    let lines: Vec<&str> = lines.map(Option::unwrap_or_default).collect();
    lines.join("\n")
}

/// The names that code says of what `of` leads to, which is the crate's root; comments left out.
fn named(code: &str, of: &str) -> BTreeSet<String> {
    let code = without_comments(code);
    let mut names = BTreeSet::new();
    for (at, start) in code.match_indices(of) {
        // Another crate's macros say `$crate`, and names may end in `crate`.
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c == '$' || c == '_' || c.is_alphanumeric()) {
            continue;
        }
        let rest = &code[at + start.len()..];
        match rest.strip_prefix('{') {
            Some(group) => names.extend(members(group).into_iter().filter_map(first_word)),
            None => names.extend(first_word(rest)),
        }
    }
    names
}

/// The word that code begins with.
fn first_word(code: &str) -> Option<String> {
    let word = code.trim_start().chars();
    let word: String = word
        .take_while(|c| *c == '_' || c.is_alphanumeric())
        .collect();
    Some(word).filter(|word| !word.is_empty())
}

/// The paths of a tree of `use`, with all groups written out.
fn paths(tree: &str) -> Vec<String> {
    let Some((before, group)) = tree.split_once('{') else {
        return vec![tree.trim().to_owned()];
    };
    let inside = members(group).into_iter().flat_map(paths);
    inside
        .filter(|path| !path.is_empty())
        .map(|path| format!("{}{path}", before.trim()))
        .collect()
}

/// What the commas of a group separate, up to the brace that ends it. Groups in it stay whole.
fn members(group: &str) -> Vec<&str> {
    let mut members = Vec::new();
    let mut start = 0;
    let mut depth = 0_u32;
    for (at, c) in group.char_indices() {
        match c {
            '}' if depth == 0 => {
                members.push(&group[start..at]);
                break;
            }
            '}' => depth -= 1,
            '{' => depth += 1,
            ',' if depth == 0 => {
                members.push(&group[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    members
}

/// A circle among the rooms of a folder, if there is one.
fn circle(uses: &Uses, folder: &str) -> Option<String> {
    // A room goes that uses nothing that is left, or that nothing left uses, until none goes.
    let mut left: BTreeSet<&String> = uses.keys().collect();
    loop {
        let before = left.len();
        let stays = |room: &&String| {
            uses[*room].keys().any(|used| left.contains(used))
                && left.iter().any(|user| uses[*user].contains_key(*room))
        };
        left = left.iter().copied().filter(stays).collect();
        if left.is_empty() {
            return None;
        }
        if left.len() == before {
            break;
        }
    }
    let mut edges = Vec::new();
    for room in &left {
        for (used, file) in uses[*room].iter().filter(|(used, _)| left.contains(used)) {
            let file = file.file_name().unwrap_or_default().to_string_lossy();
            edges.push(format!("{room} -> {used} ({file})"));
        }
    }
    let edges = edges.join(", ");
    Some(format!("rooms of {folder} form a circle: {edges}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn using(edges: &[(&str, &str)]) -> Uses {
        let mut uses = Uses::new();
        for (from, to) in edges {
            uses.entry((*to).to_owned()).or_default();
            let of = uses.entry((*from).to_owned()).or_default();
            of.insert((*to).to_owned(), PathBuf::from("file.rs"));
        }
        uses
    }

    /// A circle is found, however long it is; rooms that only use it are none of it.
    #[test]
    fn circles() {
        let chain = [
            ("service", "store"),
            ("store", "machine"),
            ("service", "machine"),
        ];
        assert_eq!(circle(&using(&chain), "src"), None);
        let edges = [("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")];
        let found = circle(&using(&edges), "src");
        let found = found.expect("a circle");
        assert!(
            found.contains("c -> a (file.rs)") && !found.contains("d ->"),
            "{found}"
        );
    }

    /// A lowest room comes below all that is made of it.
    #[test]
    fn lowest_rooms() {
        assert!(lowest(&using(&[("images", "system")]), "system").is_empty());
        let found = lowest(&using(&[("system", "images")]), "system");
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("system -> images (file.rs)"));
    }

    /// Modules are found wherever they are named, but not in comments and not in other names.
    #[test]
    fn names() {
        let code = "use crate::store::Store;\n// crate::not\nfn f(_: crate::view::View) {}\n\
                    $crate::macros!(); subcrate::other";
        let found: Vec<_> = named(code, "crate::").into_iter().collect();
        assert_eq!(found, ["store", "view"]);
        let group = "use crate::{merge, stage::{A, B},\n    raw, }; other, {more}";
        let found: Vec<_> = named(group, "crate::").into_iter().collect();
        assert_eq!(found, ["merge", "raw", "stage"]);
    }

    /// The root says where its names come from: in lists, renamed, over lines, for the crate alone.
    #[test]
    fn names_of_the_root() {
        let root = "pub use config::Config;\n\
                    #[cfg(feature = \"a\")]\npub(crate) use self::error::{Error, kinds::Kind};\n\
                    pub use crate::list::{\n    deep::{self, Pair as Two}, // use a::Not;\n\
                    \x20   item as entry,\n};\nuse value::Value; use std::fs;\n\
                    mod list;\nuse config;\nfn f() {\n    use other::Other;\n}\n";
        let found = brought(root);
        let found: Vec<(&str, &str)> = found.iter().map(|(a, b)| (&**a, &**b)).collect();
        let expected = [
            ("Config", "config"),
            ("Error", "error"),
            ("Kind", "error"),
            ("Two", "list"),
            ("Value", "value"),
            ("deep", "list"),
            ("entry", "list"),
        ];
        assert_eq!(found, expected);
    }

    /// A name of the root stands for the room that it comes from, and a room's name for the room.
    #[test]
    fn rooms_by_names_of_the_root() {
        let exports = brought("pub use config::Config;\npub use error::{Error, value};\n");
        let mut uses = using(&[
            ("config", "value"),
            ("value", "Error"),
            ("error", "Config"),
            ("error", "Error"),
        ]);
        uses.retain(|room, _| ["config", "error", "value"].contains(&room.as_str()));
        let found = resolved(&uses, &exports);
        let used = |room: &str| found[room].keys().cloned().collect::<Vec<_>>();
        assert_eq!(used("config"), ["value"]);
        assert_eq!(used("value"), ["error"]);
        assert_eq!(used("error"), ["config"]);
        assert!(circle(&found, "src").is_some());
    }

    /// The root is a room as well: by what it defines, and by what it uses for itself.
    #[test]
    fn the_root_itself() {
        let root = "mod a;\npub(crate) use crate::b::Shared;\nuse c::{Own, d};\n\
                    pub(crate) const fn one() {\n    e::run(super::f);\n}\nstatic mut TWO: u8 = 2;\n\
                    pub struct Three<T>(T);\nmacro_rules! four {}\n// fn not() {}\n    fn inside() {}\n";
        let found: Vec<_> = defined(root).into_iter().collect();
        assert_eq!(found, ["TWO", "Three", "four", "one"]);
        let found = walked(root);
        assert!(
            found.contains("c") && found.contains("e") && !found.contains("b"),
            "{found:?}"
        );
    }

    /// Tests are not code.
    #[test]
    fn tests_do_not_count() {
        assert_eq!(code("a\n#[cfg(test)]\nmod tests {\n}\n"), "a\n");
        assert_eq!(code("a\n"), "a\n");
    }
}
