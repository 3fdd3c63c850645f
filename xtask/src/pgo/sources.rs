//! Sources of Debian's packages, as their authors released them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{progress, run};

/// The folder with the source of a package, below `folder`; it is fetched unless it is there.
///
/// # Errors
/// If apt does not have it, or it cannot be unpacked.
pub(super) fn fetch(folder: &Path, package: &str) -> Result<PathBuf> {
    let source = folder.join(package);
    if source.is_dir() {
        return Ok(source);
    }
    progress(&format!("the source of {package}"));
    let own = folder.join(".apt");
    let options = lists(&own)?;
    let mut command = Command::new("apt-get");
    command.args(&options).current_dir(&own);
    run(command.args(["source", "-qq", "--tar-only", "--download-only", package]))?;
    let archive = archive(&own, package)?;
    // It gets its name when it is whole.
    let part = own.join("part");
    if part.is_dir() {
        std::fs::remove_dir_all(&part).context("removing an earlier try")?;
    }
    std::fs::create_dir_all(&part).context("a folder to unpack in")?;
    let mut tar = Command::new("tar");
    run(tar.arg("-xf").arg(archive).arg("-C").arg(&part))?;
    let whole = top(&part)?;
    std::fs::rename(&whole, &source).with_context(|| format!("making {}", source.display()))?;
    Ok(source)
}

/// Where the files of an archive are: mostly in one folder, of some name.
fn top(unpacked: &Path) -> Result<PathBuf> {
    let names = std::fs::read_dir(unpacked).context("reading what was unpacked")?;
    let names = names.collect::<Result<Vec<_>, _>>();
    let names = names.context("reading what was unpacked")?;
    Ok(match names.as_slice() {
        [one] if one.path().is_dir() => one.path(),
        _ => unpacked.to_owned(),
    })
}

/// The options by which apt knows sources where the machine's own lists name packages alone. They
/// are kept in a folder of ours: the machine's stay as they are.
fn lists(own: &Path) -> Result<Vec<String>> {
    let list = own.join("sources.list");
    let is_new = !list.is_file();
    for name in ["lists/partial", "cache/archives/partial"] {
        std::fs::create_dir_all(own.join(name)).context("a folder for apt")?;
    }
    let options: Vec<String> = [
        ("Dir::Etc::SourceList", list.as_path()),
        ("Dir::Etc::SourceParts", Path::new("/dev/null")),
        ("Dir::State::Lists", &own.join("lists")),
        ("Dir::Cache", &own.join("cache")),
    ]
    .iter()
    .flat_map(|(name, path)| ["-o".to_owned(), format!("{name}={}", path.display())])
    .collect();
    if is_new {
        let output = Command::new("apt-get")
            .args(["indextargets", "--format"])
            .arg("deb-src $(SITE) $(RELEASE) $(COMPONENT)")
            .args(["Created-By: Packages", "Origin: Debian"])
            .output()
            .context("running apt-get indextargets")?;
        if output.stdout.is_empty() {
            bail!("apt-get knows no packages of Debian: run apt-get update");
        }
        std::fs::write(&list, output.stdout).context("writing a list for apt")?;
        let updated = run(Command::new("apt-get")
            .args(&options)
            .args(["update", "-qq"]));
        if updated.is_err() {
            std::fs::remove_file(&list).context("removing a list that is of no use")?;
        }
        updated?;
    }
    Ok(options)
}

/// The file with the source of a package.
fn archive(folder: &Path, package: &str) -> Result<PathBuf> {
    let files = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let start = format!("{package}_");
    let mut paths = files.filter_map(|file| Some(file.ok()?.path()));
    let is_it = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(&start) && name.contains(".orig.tar.") && !name.ends_with(".asc")
    };
    paths
        .find(is_it)
        .with_context(|| format!("{package} has no source of its authors"))
}
