//! How functions are named, in questions and in reports.

use profiledb::StackEnd;

use crate::common::{Fixture, Rows, write_epoch};
use crate::{code, errors, json};

/// An instruction as a report shows it names its function; one behind its end does not.
#[test]
fn instructions_name_functions() {
    let fixture = Fixture::new();
    let rows = json(&fixture, &["top", "--by", "instruction"]);
    let rows = rows.as_array().expect("rows");
    let mut names = rows.iter().filter_map(|row| row["key"].as_str());
    let inside = names
        .find(|name| name.contains("+0x") && !name.contains('.') && !name.starts_with("fixture+"))
        .expect("an instruction inside a function");
    let (function, _) = inside.rsplit_once("+0x").expect("an offset");
    assert_eq!(
        fixture.report(&["list", inside]),
        fixture.report(&["list", function])
    );
    let behind = format!("{function}+0x7fffffff");
    assert_eq!(code(&fixture.run(&["list", &behind])), 1);
}

/// A part of one name is enough; of several, they are listed.
#[test]
fn functions_by_part_and_address() {
    let fixture = Fixture::new();
    for name in ["help", "fixture+0x1044", "helper"] {
        let rows = json(&fixture, &["list", name]);
        assert_eq!(rows[0]["function"], "helper", "{name}");
    }
    let output = fixture.run(&["list", "h"]);
    assert_eq!(code(&output), 1);
    assert!(errors(&output).contains("hotter"), "{}", errors(&output));
    let output = fixture.run(&["list", "no such one"]);
    assert_eq!(code(&output), 1);
    assert!(errors(&output).contains("vcpi top"), "{}", errors(&output));
    // A whole name is not ambiguous because another begins with it.
    assert_eq!(json(&fixture, &["list", "hot"])[0]["function"], "hot");
}

/// Reports in which each row names a function.
const NAMING: [&[&str]; 5] = [
    &["top"],
    &["top", "--by", "instruction"],
    &["args"],
    &["cg"],
    &["branches"],
];

/// Whatever one report prints as a function or an instruction is found by the others, in images
/// with names and without any.
#[test]
fn printed_names_are_found() {
    let fixture = Fixture::new();
    for symbols in [&[][..], &["--no-symbols"]] {
        let mut names = std::collections::BTreeSet::new();
        for report in [&NAMING[..], &[&["targets"], &["blks"]]].concat() {
            let rows = json(&fixture, &[report, symbols].concat());
            for row in rows.as_array().expect("rows") {
                let fields = ["key", "function", "caller", "call_site", "address", "first"];
                let printed = fields.iter().filter_map(|field| row[field].as_str());
                names.extend(printed.map(str::to_owned));
                let targets = row["targets"].as_array().into_iter().flatten();
                let printed = targets.filter_map(|target| target["target"].as_str());
                names.extend(printed.map(str::to_owned));
            }
        }
        // An address without a name, where the file is gone.
        assert!(names.iter().any(|name| name.starts_with("libgone.so+0x")));
        for name in names {
            for report in ["list", "top"] {
                let output = fixture.run(&[&[report, "--function", &name], symbols].concat());
                assert_eq!(code(&output), 0, "{report} {name}: {}", errors(&output));
            }
        }
    }
}

/// A name of hundreds of characters is as wide as a column in text, and is found as it is shown
/// there; `--full-names` and JSON have the whole.
#[test]
fn long_names() {
    // void ns::table<std::map<std::string, std::vector<int>>>::hot<...>(..., ... const&)
    let fixture = Fixture::with_hot(
        "_ZN2ns5tableISt3mapINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESt6vectorIiSaIi\
         EESt4lessIS7_ESaISt4pairIKS7_SA_EEEE3hotISH_EEvRT_RKSH_",
    );
    let short = "ns::table<std::map<...> >::hot<std::map<...> >";
    for report in [&NAMING[..], &[&["list", "main"]]].concat() {
        let text = fixture.report(report);
        assert!(text.contains(short), "{report:?}: {text}");
        assert!(!text.contains("char_traits"), "{report:?}: {text}");
        let whole = fixture.report(&[report, &["--full-names"]].concat());
        assert!(whole.contains("char_traits"), "{report:?}: {whole}");
    }
    let rows = json(&fixture, &["list", short]);
    let whole = rows[0]["function"].as_str().expect("a name");
    assert!(whole.starts_with("void ns::table<std::map<std::__cxx11::basic_string<char"));
    assert!(whole.len() > 500, "{whole}");
    assert!(fixture.report(&["list", short]).contains("value profile"));
}

/// A report of one function, which reads the rows of that alone, has the rows that the report of
/// all has of it.
#[test]
fn of_one_as_of_all() {
    let fixture = Fixture::new();
    for report in ["args", "cg", "blks", "branches", "targets"] {
        let all = json(&fixture, &[report]);
        let all = all.as_array().expect("rows");
        let names = all.iter().filter_map(|row| row["function"].as_str());
        let names: std::collections::BTreeSet<&str> = names.collect();
        for name in names {
            let one = json(&fixture, &[report, name]);
            let of_it: Vec<_> = all.iter().filter(|row| row["function"] == name).collect();
            let one: Vec<_> = one.as_array().expect("rows").iter().collect();
            assert_eq!(one, of_it, "{report} {name}");
        }
    }
}

/// By a part of its name, or an address in it, a function has the same reports as by its name, and
/// what is read is told once.
#[test]
fn parts_mean_the_same() {
    let fixture = Fixture::new();
    for report in ["list", "args", "cg", "blks"] {
        let run = |name: &str| {
            let output = fixture.run(&[report, name]);
            (code(&output), output.stdout, output.stderr)
        };
        let whole = run("main");
        assert!(
            whole.0 == 0 || !["list", "cg"].contains(&report),
            "{report}"
        );
        for name in ["mai", "0x1005"] {
            assert_eq!(run(name), whole, "{report} {name}");
        }
        let absent = fixture.run(&[report, "nowhere"]);
        assert_eq!(code(&absent), 1);
        let said = errors(&absent);
        assert!(
            said.contains("no function \"nowhere\" in this profile"),
            "{said}"
        );
        assert_eq!(said.matches("reading").count(), 1, "{said}");
    }
}

/// What is a part of several names says which; what is a part of one alone means that.
#[test]
fn parts_of_several_names() {
    let fixture = Fixture::with_hot("helping");
    let output = fixture.run(&["list", "help"]);
    assert_eq!(code(&output), 1);
    let said = errors(&output);
    let names = "\"help\" is part of 2 names:\nvcpi:   helper\nvcpi:   helping\n";
    assert!(said.contains(names), "{said}");
    assert_eq!(said.matches("reading").count(), 1, "{said}");
    let one = json(&fixture, &["list", "elpi"]);
    assert_eq!(one[0]["function"], "helping");
    let of_others = json(&fixture, &["list", "elpe"]);
    assert_eq!(of_others[0]["function"], "helper");
}

/// A function that nothing tells but the stacks that it called in is found as well, by its name and
/// by a part of that.
#[test]
fn known_by_stacks_only() {
    let fixture = Fixture::new();
    std::fs::remove_file(fixture.database()).expect("is there");
    write_epoch(&fixture.database(), |flush| {
        let mut rows = Rows::new(flush, &fixture.image());
        rows.write_symbols("hot");
        rows.cycles(0x1020, None, 30);
        let stack = [rows.pc(0x1020), rows.pc(0x100a)];
        let (process, user) = (rows.process, rows.user);
        rows.flush
            .stack(process, user, &stack, StackEnd::Whole, 30, 3_000_000)
            .expect("stack");
        rows.flush.commit().expect("commits");
    });
    let whole = json(&fixture, &["cg", "--tree"]);
    assert_eq!(whole["nodes"][0]["function"], "main", "{whole}");
    for name in ["main", "mai"] {
        for tree in ["--tree", "--up"] {
            let of_one = json(&fixture, &["cg", tree, name]);
            assert_eq!(of_one["samples"], 60, "{of_one}");
            assert_eq!(of_one["nodes"][0]["function"], "main", "{of_one}");
        }
    }
}

/// A call into the middle of a function is told from one of the function.
#[test]
fn entries_in_the_middle() {
    let fixture = Fixture::new();
    write_epoch(&fixture.dir().join("middle.db"), |flush| {
        let mut rows = Rows::new(flush, &fixture.image());
        rows.write_symbols("hot");
        for entry in [0x1020, 0x1024] {
            let (site, callee) = (rows.pc(0x100f), rows.pc(entry));
            let (process, user) = (rows.process, rows.user);
            let called = rows.flush.call(process, user, site, Some(callee), 50_u64);
            called.expect("calls");
            rows.values_from(entry, Some(0x100f), "arg0", 0, &[(4, 50)]);
        }
        rows.flush.commit().expect("commits");
    });
    let rows = json(&fixture, &["args", "-i", "middle.db"]);
    let rows = rows.as_array().expect("rows").iter();
    let entries = rows.map(|row| [&row["function"], &row["entry"]].map(|text| text.as_str()));
    let mut entries: Vec<_> = entries.collect();
    entries.dedup();
    let [hot, middle] = [("hot", "0x1020"), ("hot+0x4", "0x1024")];
    let expected = [hot, middle].map(|(name, entry)| [Some(name), Some(entry)]);
    assert_eq!(entries, expected);
}
