//! How cargo is given flags of rustc beside those that a project has in cargo's configuration.
//!
//! cargo takes flags from one place alone: from `RUSTFLAGS` or its kin, else from the
//! configuration's tables of targets, else from its `build.rustflags`. What is added to that place
//! joins the flags there; what is added to an earlier one takes the place of them.

use std::ffi::{OsStr, OsString};
use std::process::{Command, Stdio};

use super::steps::BuildStep;
use crate::messages::say;
use crate::shell::{ENCODED, PLAIN, flags_of, has_space, rust_flags};

/// The variable of `build.rustflags`. Flags in it join those of the configuration's files.
const BUILD: &str = "CARGO_BUILD_RUSTFLAGS";
/// What stable compilers and cargo need for flags that are kept for their own build.
pub(super) const UNSTABLE: (&str, &str) = ("RUSTC_BOOTSTRAP", "1");
/// A name that rustc is given to see whether it gets what is in [`BUILD`].
const ASKS: &str = "vcpi_asks";

/// The place that cargo takes flags from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlagPlace {
    /// Variables that come before all configuration.
    Environment,
    /// `build.rustflags` of the configuration.
    Build,
    /// Tables of targets.
    Targets,
}

impl FlagPlace {
    /// The place that this command of cargo takes flags from. Where cargo does not tell, it is the
    /// environment, which is said: flags of the configuration are lost then.
    pub(super) fn of(command: &[OsString]) -> FlagPlace {
        if [ENCODED, PLAIN].into_iter().any(is_set) {
            return FlagPlace::Environment;
        }
        asked(command).unwrap_or_else(|why| {
            say(&format!(
                "cargo does not tell whether its configuration has flags of rustc ({why}): \
                 RUSTFLAGS takes their place; put them into RUSTFLAGS to keep them"
            ));
            FlagPlace::Environment
        })
    }

    /// Adds flags to what this place has.
    pub(super) fn add(self, flags: Vec<OsString>, step: &mut BuildStep) {
        match self {
            FlagPlace::Environment => {
                let (variable, mut all) = flags_set();
                all.extend(flags);
                step.variables.push(rust_flags(&all, variable == ENCODED));
            }
            // Programs that cargo runs to have them run cargo get a variable as well.
            FlagPlace::Build if !flags.iter().any(has_space) => {
                step.variables.push((BUILD, in_build(&flags)));
            }
            FlagPlace::Build => configure(step, "build.rustflags", &flags),
            FlagPlace::Targets => configure(step, "target.\"cfg(all())\".rustflags", &flags),
        }
    }
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some()
}

/// The variable of rustc's flags that cargo looks at, and those that it has.
fn flags_set() -> (&'static str, Vec<OsString>) {
    let set = |name| Some((name, flags_of(name, &std::env::var_os(name)?)));
    let set = set(ENCODED).or_else(|| set(PLAIN));
    set.unwrap_or((PLAIN, Vec::new()))
}

/// The value of [`BUILD`] with these flags behind those that it has.
fn in_build(flags: &[OsString]) -> OsString {
    let mut all = std::env::var_os(BUILD).map_or_else(Vec::new, |set| flags_of(BUILD, &set));
    all.extend_from_slice(flags);
    all.join(OsStr::new(" "))
}

/// Adds flags to a list of the configuration by an option of cargo.
fn configure(step: &mut BuildStep, key: &str, flags: &[OsString]) {
    let flags: Vec<String> = flags.iter().map(|flag| as_toml(flag)).collect();
    let value = format!("{key}=[{}]", flags.join(","));
    let at = before_subcommand(&step.words);
    step.words.splice(at..at, ["--config".into(), value.into()]);
}

/// A word as a string of TOML.
fn as_toml(word: &OsStr) -> String {
    let mut text = String::from('"');
    for c in word.to_string_lossy().chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            c if c.is_control() => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => text.push(c),
        }
    }
    text.push('"');
    text
}

/// Where the first option of cargo itself may stand: behind a toolchain of rustup's.
fn before_subcommand(words: &[OsString]) -> usize {
    let has_toolchain = words
        .get(1)
        .is_some_and(|word| word.as_encoded_bytes().starts_with(b"+"));
    words.len().min(1 + usize::from(has_toolchain))
}

/// Has cargo ask rustc for its settings with a flag in `build.rustflags`: whether it is heeded.
///
/// # Errors
/// If that fails, with what was said.
fn asked(command: &[OsString]) -> Result<FlagPlace, String> {
    let (start, rest) = command.split_at(before_subcommand(command));
    let Some((program, toolchain)) = start.split_first() else {
        return Err("no command".to_owned());
    };
    let output = Command::new(program)
        .args(toolchain)
        .args(["-Zunstable-options", "rustc", "--print", "cfg"])
        .args(about_targets(rest))
        .env(UNSTABLE.0, UNSTABLE.1)
        .env(BUILD, in_build(&["--cfg".into(), ASKS.into()]))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let first = said.lines().find(|line| !line.trim().is_empty());
        return Err(first.unwrap_or("it said nothing").trim().to_owned());
    }
    let settings = String::from_utf8_lossy(&output.stdout);
    Ok(match settings.lines().any(|line| line == ASKS) {
        true => FlagPlace::Build,
        false => FlagPlace::Targets,
    })
}

/// The options of a command of cargo that its choice of flags depends on.
fn about_targets(words: &[OsString]) -> Vec<OsString> {
    const OPTIONS: [&str; 3] = ["--config", "--target", "--manifest-path"];
    let mut taken = Vec::new();
    let mut words = words.iter().take_while(|word| *word != "--");
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        let name = text.split('=').next().unwrap_or_default();
        if !OPTIONS.contains(&name) {
            continue;
        }
        taken.push(word.clone());
        if name == text {
            taken.extend(words.next().cloned());
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    /// Flags join those of the configuration where cargo looks for them: in a variable, or by an
    /// option, which stands behind a toolchain and in front of all else.
    #[test]
    fn places() {
        let of = |place: FlagPlace, command: &str, flag: &str| {
            let mut step = BuildStep::new(words(command));
            place.add(vec!["-Ca".into(), flag.into()], &mut step);
            step
        };
        let step = of(FlagPlace::Build, "cargo build", "-Cb");
        assert_eq!(step.words, words("cargo build"));
        assert_eq!(step.variables, [(BUILD, OsString::from("-Ca -Cb"))]);
        for (place, command, flag, expected) in [
            (
                FlagPlace::Build,
                "cargo build",
                "-Cb=\"c d",
                r#"cargo --config 'build.rustflags=["-Ca","-Cb=\"c d"]' build"#,
            ),
            (
                FlagPlace::Targets,
                "cargo +nightly build",
                "-Cb",
                r#"cargo +nightly --config 'target."cfg(all())".rustflags=["-Ca","-Cb"]' build"#,
            ),
        ] {
            assert_eq!(of(place, command, flag).to_string(), expected);
        }
    }

    /// The choice of a target is asked about as it stands in the command; what the program is told
    /// is not.
    #[test]
    fn options_of_targets() {
        let command = "run -r --target x --config=a=1 -p b -- --target y";
        assert_eq!(
            about_targets(&words(command)),
            words("--target x --config=a=1")
        );
    }
}
