//! `vcpid ctl`: has the running service do something, and says what came of it.

mod prometheus;

use std::io;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap::error::ErrorKind;
use protocol::{Answer, Client, ClientError, Control};
use serde_json::json;

use crate::output;
use crate::serve::{self, Status};
use crate::settings::args::{Args, CtlArgs, CtlCommand, StatusFormat};
use crate::settings::config::Config;

/// Exit status where the service cannot be reached, or could not do it.
const FAILED: u8 = 1;

/// How long a status may take: the service has it ready, and says it whatever keeps it waiting.
const STATUS_PATIENCE: Duration = Duration::from_secs(10);

/// Asks, waits for the answer, and prints it; returns the exit status.
pub(crate) fn run(args: &CtlArgs) -> Result<u8> {
    if args.format == StatusFormat::Prometheus && args.command != CtlCommand::Status {
        wrong_usage("the format prometheus is for the status only");
    }
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
    let answer = match ask(&socket, request) {
        Ok(answer) => answer,
        Err(error) => {
            let hint = hint(&error, &socket);
            let error = output::chain(&error);
            if args.format == StatusFormat::Json {
                output::print(&format!("{}\n", json!({ "error": error })))?;
            }
            eprintln!("vcpid: {error}{hint}");
            return Ok(FAILED);
        }
    };
    let text = match args.format {
        StatusFormat::Text => answer.text,
        StatusFormat::Json => answer.json,
        StatusFormat::Prometheus => {
            let status: Status =
                serde_json::from_str(&answer.json).context("the service's answer")?;
            prometheus::text(&status)
        }
    };
    output::print(&(text.trim_end().to_owned() + "\n"))?;
    Ok(0)
}

fn ask(socket: &Path, request: Control) -> Result<Answer, ClientError> {
    let client = Client::connect(socket)?.with_notice(say_waiting);
    match request {
        Control::Status => client.with_patience(STATUS_PATIENCE),
        _ => client,
    }
    .control(request)
}

/// Says what is waited for.
fn say_waiting(socket: &Path, left: Duration) {
    eprintln!(
        "vcpid: the service at {} has not answered yet; it is waited for, another {} s at most",
        socket.display(),
        left.as_secs()
    );
}

/// Ends the program as clap does where it finds a mistake: with the usage, and exit status 2.
fn wrong_usage(what: &str) -> ! {
    let mut whole = Args::command();
    whole.build();
    match whole.find_subcommand_mut("ctl") {
        Some(command) => command.error(ErrorKind::ArgumentConflict, what).exit(),
        None => whole.error(ErrorKind::ArgumentConflict, what).exit(),
    }
}

/// What to do where nobody listens, or answers; empty where something else is wrong.
fn hint(error: &ClientError, socket: &Path) -> String {
    let source = match error {
        ClientError::Unreachable { source, .. } => source,
        ClientError::Silent(_) => {
            return "; it is stopped, or gets no processor time: `systemctl status vcpid`, or ps, says \
                    how its process is"
                .to_owned();
        }
        _ => return String::new(),
    };
    match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => format!(
            "; no service listens there: start it with `systemctl start vcpid`, or `vcpid serve` \
             as root; one that listens elsewhere than at {} is named with --socket, or as \
             access.socket in its configuration",
            socket.display()
        ),
        _ => String::new(),
    }
}

/// What the service is configured to, as far as this user may read it.
fn configured() -> Config {
    serve::configuration(None).map_or_else(|_| Config::default(), |(config, _)| config)
}
