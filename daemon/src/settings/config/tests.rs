//! What a configuration may say, and what is said about one that may not.

use parameters::ValueKinds;

use super::*;

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("vcpid.toml"))
}

/// The default file parses to the defaults, and so does an empty one.
#[test]
fn defaults() {
    assert_eq!(parse(DEFAULT_TEXT).unwrap(), Config::default());
    assert_eq!(parse("").unwrap(), Config::default());
}

/// The default file with the keys that it shows as comments.
fn without_marks() -> String {
    let keys = ["period", "capture"].into_iter();
    keys.fold(DEFAULT_TEXT.to_owned(), |text, key| {
        text.replace(&format!("\n#{key} ="), &format!("\n{key} ="))
    })
}

/// A key that the default file shows as a comment can be used as it is shown there.
#[test]
fn commented_keys() {
    let config = parse(&without_marks()).unwrap();
    assert_eq!(config.sampling.period, Some(Number(2_000_000)));
    let kinds = config.sampling.capture.expect("it is shown");
    assert_eq!(kinds.0, ValueKinds::default());
}

/// The default file shows every key, under its section: what serde knows is what it names in its
/// complaint about a key that it does not know.
#[test]
fn every_key_is_shown() {
    let shown: toml::Table = without_marks().parse().unwrap();
    let known = |text: &str| -> Vec<String> {
        let complaint = parse(text).unwrap_err().to_string();
        let (_, list) = complaint.split_once("expected one of ").unwrap_or_else(|| {
            let (_, only) = complaint.split_once("expected ").unwrap();
            ("", only)
        });
        list.split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect()
    };
    let sections = known("nonsense = 1");
    assert_eq!(sections.len(), shown.len());
    for section in sections {
        let mut keys = known(&format!("[{section}]\nnonsense = 1"));
        keys.sort();
        let shown: Vec<_> = shown[&section]
            .as_table()
            .unwrap()
            .keys()
            .cloned()
            .collect();
        let mut sorted = shown.clone();
        sorted.sort();
        assert_eq!(keys, sorted, "[{section}]");
    }
}

/// What is wrong is said with its line and its reason.
#[test]
fn complaints() {
    for (text, place, reason) in [
        ("\n\nrte = 5", "vcpid.toml:3:1:", "unknown field `rte`"),
        (
            "[sampling]\nrte = 5",
            "vcpid.toml:2:1:",
            "unknown field `rte`",
        ),
        (
            "[sampling]\nrate = 0",
            "vcpid.toml:2:8:",
            "0 is not between 1 and 100000",
        ),
        (
            "[sampling]\nrate = -1",
            "vcpid.toml:2:8:",
            "-1 is not between",
        ),
        (
            "[sampling]\nrate = \"x\"",
            "vcpid.toml:2:8:",
            "invalid type",
        ),
        (
            "[sampling]\nengine = \"best\"",
            "vcpid.toml:2:10:",
            "unknown variant `best`",
        ),
        (
            "[sampling]\ncapture = \"dest,foo\"",
            "vcpid.toml:2:11:",
            "unknown kind of value",
        ),
        (
            "[sampling]\ndeny = [\"lib*\"]",
            "vcpid.toml:2:8:",
            "is not a word of letters",
        ),
        (
            "[database]\ndirectory = \"here\"",
            "vcpid.toml:2:13:",
            "does not begin with '/'",
        ),
        (
            "[governor]\nbudget_percent = 0.0",
            "vcpid.toml:2:18:",
            "0 is not between 0.01",
        ),
        (
            "[governor]\nbudget_percent = nan",
            "vcpid.toml:2:18:",
            "NaN is not between 0.01",
        ),
        (
            "sampling.clock = \"timer\"\nsampling.engine = \"ring\"",
            "vcpid.toml:1:18:",
            "the clock timer needs the engine bpf",
        ),
        ("[access\n", "vcpid.toml:1:", ""),
        ("[access]\n[access]\n", "vcpid.toml:2:", "duplicate"),
    ] {
        let complaint = parse(text).unwrap_err().to_string();
        assert!(complaint.starts_with(place), "{text:?}: {complaint}");
        assert!(complaint.contains(reason), "{text:?}: {complaint}");
    }
}

/// The service's recording is one of the whole machine, with what was configured.
#[test]
fn recording() {
    let text = "[sampling]\nrate = 77\ncontext = \"caller\"\n[collection]\nmemory_mib = 5";
    let wanted = parse(text).unwrap().recording();
    assert_eq!(
        (wanted.command.as_str(), wanted.context),
        ("-a", ContextArg::Caller)
    );
    assert_eq!(
        (wanted.rate, wanted.memory, wanted.window),
        (Some(77), 5, 256)
    );
}

/// The explanation of the kinds of values names each of them, in the order of the table.
#[test]
fn kinds_are_explained() {
    let text: String = DEFAULT_TEXT.replace("\n# ", " ");
    let names = parameters::ValueKinds::NAMES;
    assert!(
        text.contains(&format!("Kinds of values: {names}.")),
        "{text}"
    );
}
