//! `cargo xtask check-layers`: the crates depend on each other in one direction
//! only, and the pure ones on no operating system; and what [`crate::rooms`] says of the sources.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package, Target};
use vcpi_tests::programs::root;

use crate::process::progress;
use crate::rooms;

/// What a crate of ours may depend on, besides other people's crates.
struct Layer {
    name: &'static str,
    /// Crates of ours that it may use.
    may_use: &'static [&'static str],
    /// It knows no operating system: no file, no clock, no perf.
    pure: bool,
}

const LAYERS: &[Layer] = &[
    Layer {
        name: "addresses",
        may_use: &[],
        pure: true,
    },
    Layer {
        name: "instructions",
        may_use: &[],
        pure: true,
    },
    Layer {
        name: "parameters",
        may_use: &["instructions"],
        pure: true,
    },
    Layer {
        name: "interpreter",
        may_use: &["instructions", "parameters"],
        pure: true,
    },
    Layer {
        name: "counters",
        may_use: &[],
        pure: true,
    },
    Layer {
        name: "hotlist",
        may_use: &[],
        pure: true,
    },
    Layer {
        name: "flow",
        may_use: &[],
        pure: true,
    },
    Layer {
        name: "sampler",
        may_use: &["addresses"],
        pure: false,
    },
    Layer {
        name: "profiledb",
        may_use: &["counters", "hotlist", "selection"],
        pure: false,
    },
    Layer {
        name: "selection",
        may_use: &[],
        pure: true,
    },
    Layer {
        name: "protocol",
        may_use: &["selection"],
        pure: false,
    },
    Layer {
        name: "symbols",
        may_use: &[],
        pure: false,
    },
    Layer {
        name: "startup",
        may_use: &[],
        pure: false,
    },
    // The daemon's libraries, along the way of a sample, and its program.
    Layer {
        name: "machine",
        may_use: &[
            "addresses",
            "sampler",
            "instructions",
            "interpreter",
            "profiledb",
            "symbols",
        ],
        pure: false,
    },
    Layer {
        name: "consumers",
        may_use: &[
            "addresses",
            "machine",
            "counters",
            "interpreter",
            "hotlist",
            "parameters",
            "profiledb",
        ],
        pure: false,
    },
    Layer {
        name: "pipeline",
        may_use: &[
            "addresses",
            "machine",
            "consumers",
            "counters",
            "sampler",
            "interpreter",
            "hotlist",
            "parameters",
            "profiledb",
        ],
        pure: false,
    },
    Layer {
        name: "store",
        may_use: &[
            "addresses",
            "machine",
            "consumers",
            "pipeline",
            "counters",
            "sampler",
            "interpreter",
            "hotlist",
            "profiledb",
        ],
        pure: false,
    },
    Layer {
        name: "vcpid",
        may_use: &[
            "addresses",
            "machine",
            "consumers",
            "pipeline",
            "store",
            "counters",
            "sampler",
            "hotlist",
            "parameters",
            "profiledb",
            "protocol",
        ],
        pure: false,
    },
    Layer {
        name: "vcpi",
        may_use: &[
            "counters",
            "profiledb",
            "hotlist",
            "instructions",
            "flow",
            "parameters",
            "protocol",
            "startup",
            "symbols",
        ],
        pure: false,
    },
    // The tests' library serves the demo too; its tests may use everything.
    Layer {
        name: "vcpi-tests",
        may_use: &[],
        pure: false,
    },
    // Apart from them: it is built with clang, which the front door installs.
    Layer {
        name: "handler-tests",
        may_use: &[],
        pure: false,
    },
    Layer {
        name: "xtask",
        // Days of a service are made with the database's own writer.
        may_use: &[
            "vcpi-tests",
            "counters",
            "profiledb",
            "hotlist",
            "selection",
            "symbols",
        ],
        pure: false,
    },
];

/// The crate that installs what the others need to be built.
const FRONT_DOOR: &str = "xtask";

/// Crates whose tests may use everything.
const TESTS: &[&str] = &["vcpi-tests", "handler-tests"];

/// Crates that reach for the operating system; not for the pure crates.
const OPERATING_SYSTEM: &[&str] = &[
    "blazesym",
    "libbpf-rs",
    "libbpf-sys",
    "libc",
    "memmap2",
    "mio",
    "nix",
    "perf-event-open-sys",
    "rusqlite",
    "rustix",
    "sd-notify",
    "signal-hook",
    "tempfile",
    "tokio",
    "tracing-subscriber",
];

/// A dependency as a manifest declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Dependency {
    from: String,
    to: String,
    /// Only for tests and benches.
    dev: bool,
}

/// Checks this workspace.
pub(crate) fn run() -> Result<()> {
    progress("checking the layers of the crates");
    let metadata = MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .no_deps()
        .exec()
        .context("running cargo metadata")?;
    let members: BTreeSet<String> = metadata
        .workspace_packages()
        .iter()
        .map(|package| package.name.to_string())
        .collect();
    let dependencies = dependencies(&metadata);
    let mut complaints = check(&members, &dependencies);
    complaints.extend(check_front_door(&builders(&metadata), &dependencies));
    complaints.extend(rooms::check(root())?);
    if !complaints.is_empty() {
        bail!("the layers are broken:\n  {}", complaints.join("\n  "));
    }
    Ok(())
}

/// The members that run code of theirs to be built.
fn builders(metadata: &Metadata) -> BTreeSet<String> {
    let packages = metadata.workspace_packages();
    let has_script = |package: &&&Package| package.targets.iter().any(Target::is_custom_build);
    let builders = packages.iter().filter(has_script);
    builders.map(|package| package.name.to_string()).collect()
}

/// A sentence for each crate of ours that the front door is made of and whose build runs code: what
/// that needs is installed by the front door, which has to be built before.
fn check_front_door(builders: &BTreeSet<String>, dependencies: &[Dependency]) -> Vec<String> {
    let mut parts = vec![FRONT_DOOR];
    let mut next = 0;
    while let Some(part) = parts.get(next).copied() {
        next += 1;
        let used = dependencies
            .iter()
            .filter(|used| used.from == part && !used.dev);
        for Dependency { to, .. } in used {
            if !parts.contains(&to.as_str()) {
                parts.push(to);
            }
        }
    }
    let scripted = parts.into_iter().filter(|part| builders.contains(*part));
    scripted
        .map(|part| format!("{FRONT_DOOR} is built on bare machines: {part} needs a build script"))
        .collect()
}

fn dependencies(metadata: &Metadata) -> Vec<Dependency> {
    metadata
        .workspace_packages()
        .iter()
        .flat_map(|package| {
            package.dependencies.iter().map(|dependency| Dependency {
                from: package.name.to_string(),
                to: dependency.name.clone(),
                dev: dependency.kind == DependencyKind::Development,
            })
        })
        .collect()
}

/// A sentence for each dependency that breaks a rule.
fn check(members: &BTreeSet<String>, dependencies: &[Dependency]) -> Vec<String> {
    let mut complaints = Vec::new();
    for member in members {
        if !LAYERS.iter().any(|layer| layer.name == member) {
            complaints.push(format!(
                "{member} has no place among the layers: give it one"
            ));
        }
    }
    for Dependency { from, to, dev } in dependencies {
        let Some(layer) = LAYERS.iter().find(|layer| layer.name == from) else {
            continue;
        };
        if members.contains(to) {
            let tests_only = *dev && TESTS.contains(&from.as_str());
            if !tests_only && !layer.may_use.contains(&to.as_str()) {
                complaints.push(format!("{from} must not depend on {to}"));
            }
        } else if layer.pure && !dev && OPERATING_SYSTEM.contains(&to.as_str()) {
            complaints.push(format!("{from} knows no operating system: not {to}"));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members() -> BTreeSet<String> {
        LAYERS.iter().map(|layer| layer.name.to_owned()).collect()
    }

    fn complaints(from: &str, to: &str, dev: bool) -> usize {
        let dependency = Dependency {
            from: from.to_owned(),
            to: to.to_owned(),
            dev,
        };
        check(&members(), &[dependency]).len()
    }

    /// The way of a sample is allowed, the way back is not.
    #[test]
    fn one_direction() {
        assert_eq!(complaints("vcpid", "sampler", false), 0);
        assert_eq!(complaints("profiledb", "hotlist", false), 0);
        assert_eq!(complaints("vcpi", "sampler", false), 1);
        assert_eq!(complaints("hotlist", "profiledb", false), 1);
        assert_eq!(complaints("profiledb", "vcpid", false), 1);
        assert_eq!(complaints("vcpid", "machine", false), 0);
        assert_eq!(complaints("machine", "vcpid", false), 1);
        assert_eq!(complaints("machine", "hotlist", false), 1);
        assert_eq!(complaints("consumers", "machine", false), 0);
        assert_eq!(complaints("machine", "consumers", false), 1);
        assert_eq!(complaints("consumers", "sampler", false), 1);
        assert_eq!(complaints("pipeline", "consumers", false), 0);
        assert_eq!(complaints("consumers", "pipeline", false), 1);
        assert_eq!(complaints("pipeline", "store", false), 1);
        assert_eq!(complaints("store", "pipeline", false), 0);
        assert_eq!(complaints("store", "vcpid", false), 1);
        assert_eq!(complaints("store", "protocol", false), 1);
    }

    /// Development dependencies on our crates are for the end-to-end tests alone.
    #[test]
    fn development_dependencies() {
        assert_eq!(complaints("vcpi-tests", "interpreter", true), 0);
        assert_eq!(complaints("vcpi-tests", "interpreter", false), 1);
        assert_eq!(complaints("interpreter", "sampler", true), 1);
    }

    /// What the front door is made of, at first or second hand, runs no code to be built.
    #[test]
    fn front_door() {
        let of = |from: &str, to: &str, dev| Dependency {
            from: from.to_owned(),
            to: to.to_owned(),
            dev,
        };
        let dependencies = [
            of(FRONT_DOOR, "vcpi-tests", false),
            of("vcpi-tests", "symbols", false),
            of("vcpi-tests", "sampler", true),
        ];
        let complaints = |builder: &str| {
            check_front_door(&BTreeSet::from([builder.to_owned()]), &dependencies).len()
        };
        assert_eq!(complaints("symbols"), 1);
        assert_eq!(complaints("sampler"), 0);
    }

    /// The pure crates take no operating system's crate but in their tests.
    #[test]
    fn pure_crates() {
        assert_eq!(complaints("interpreter", "libc", false), 1);
        assert_eq!(complaints("hotlist", "rusqlite", false), 1);
        assert_eq!(complaints("interpreter", "nix", true), 0);
        assert_eq!(complaints("interpreter", "iced-x86", false), 0);
        assert_eq!(complaints("sampler", "libc", false), 0);
    }

    /// A crate that nobody placed among the layers is noticed.
    #[test]
    fn unknown_members() {
        let mut members = members();
        members.insert("newcomer".to_owned());
        assert_eq!(check(&members, &[]).len(), 1);
    }

    /// This workspace keeps to its layers.
    #[test]
    fn this_workspace() {
        run().unwrap();
    }
}
