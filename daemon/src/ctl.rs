//! `vcpid ctl`: has the running service do something, and says what came of it.

mod prometheus;

use anyhow::{Context, Result};
use protocol::{Client, Control};
use serde_json::Value;

use crate::args::{CtlArgs, CtlCommand, StatusFormat};
use crate::config::Config;
use crate::output;
use crate::serve;

/// Exit status where the service cannot be reached, or could not do it.
const FAILED: u8 = 1;

/// Asks, waits for the answer, and prints it; returns the exit status.
pub(crate) fn run(args: &CtlArgs) -> Result<u8> {
    let socket = match &args.socket {
        Some(socket) => socket.clone(),
        None => configured().access.socket.0,
    };
    let request = match args.command {
        CtlCommand::Status => Control::Status,
        CtlCommand::Flush => Control::Flush,
        CtlCommand::Epoch => Control::Epoch,
        CtlCommand::Reload => Control::Reload,
    };
    let answer = match Client::connect(&socket).and_then(|client| client.control(request)) {
        Ok(answer) => answer,
        Err(error) => {
            eprintln!("vcpid: {:#}", anyhow::Error::from(error));
            return Ok(FAILED);
        }
    };
    let text = match args.format {
        StatusFormat::Text => answer.text,
        StatusFormat::Json => answer.json,
        StatusFormat::Prometheus => {
            let status: Value =
                serde_json::from_str(&answer.json).context("the service's answer")?;
            prometheus::text(&status)
        }
    };
    output::print(&(text.trim_end().to_owned() + "\n"))?;
    Ok(0)
}

/// What the service is configured to, as far as this user may read it.
fn configured() -> Config {
    serve::configuration(None).map_or_else(|_| Config::default(), |(config, _)| config)
}
