//! The manual pages, and the completions for shells: how this program is packaged.

use std::fs;
use std::io;
use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::{Shell, generate_to};

use super::{Cli, complete};

/// Writes the manual pages of this program, and what shells complete it with, to a folder.
pub(super) fn write(folder: &Path) -> io::Result<()> {
    let whole = Cli::command();
    // Pages are written of what is shown; completions would be of all.
    let shown = whole.get_subcommands().filter(|sub| !sub.is_hide_set());
    let mut shown = clap::Command::new("vcpi")
        .args(whole.get_arguments().cloned())
        .subcommands(shown.cloned());
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let path = generate_to(shell, &mut shown, "vcpi", folder)?;
        let own = fs::read_to_string(&path)?;
        fs::write(&path, complete::with_names(shell, own))?;
    }
    clap_mangen::generate_to(whole, folder)?;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "1") {
            // The only text of that kind that there is are examples.
            let page = fs::read_to_string(&path)?.replace(".SH EXTRA\n", ".SH EXAMPLES\n");
            fs::write(&path, page)?;
        }
    }
    Ok(())
}
