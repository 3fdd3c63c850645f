//! What readers and signals ask of the service itself.

use std::time::Duration;

use anyhow::Result;
use protocol::Answer;
use serde_json::json;

use super::{End, Service};
use crate::serve::peers::Control;
use crate::serve::status::{self, Status};
use crate::session::Session;
use crate::settings::config::Config;

impl Service {
    pub(super) fn answer(&mut self, control: &Control, session: &mut Session) {
        let done = |text: String| Answer {
            json: json!({ "done": text }).to_string(),
            text,
        };
        let answer = match control.request {
            protocol::Control::Status => Ok(self.status(Some(session))),
            protocol::Control::Flush => self.save(session).map(|()| done("flushed".to_owned())),
            protocol::Control::Epoch => self
                .save(session)
                .and_then(|()| self.turn(session))
                .map(|()| self.epoch()),
            protocol::Control::Reload => self.reload().map(done),
        };
        let answer = answer.map_err(|error| format!("{error:#}"));
        reply(control, answer);
    }

    pub(super) fn status(&self, session: Option<&Session>) -> Answer {
        self.figures(session).answer(Duration::ZERO)
    }

    /// How it is, in figures.
    pub(super) fn figures(&self, session: Option<&Session>) -> Status {
        status::of(&status::Parts {
            figures: &self.figures,
            sampling: self.sampling.as_ref(),
            governor: self.governor.as_ref(),
            epochs: &self.epochs,
            troubles: &self.troubles,
            losses: &self.losses,
            readers: self.peers.cpu_time(),
            session,
        })
    }

    /// The epoch that has begun: its id and its file.
    fn epoch(&self) -> Answer {
        let (id, file) = (self.epochs.running_id(), self.epochs.running());
        let text = match (id, file) {
            (Some(id), Some(file)) => format!("epoch {id} begins in {}", file.display()),
            _ => "an epoch begins".to_owned(),
        };
        Answer {
            json: json!({ "done": text, "epoch": id, "file": file }).to_string(),
            text,
        }
    }

    /// Reads the configuration again and applies what of it can be applied.
    pub(super) fn reload(&mut self) -> Result<String> {
        self.manager.reloading();
        let read = crate::serve::configuration(Some(&self.path));
        let said = read.map(|(config, _)| self.apply(config));
        match &said {
            Ok(text) => tracing::info!("{text}"),
            Err(error) => tracing::error!("the configuration stays as it was: {error:#}"),
        }
        self.manager.ready();
        said
    }

    pub(super) fn apply(&mut self, mut config: Config) -> String {
        let mut said = vec!["configuration read".to_owned()];
        if config.access != self.config.access
            || config.database.directory != self.config.database.directory
        {
            said.push(
                "[access] and the database directory stay as they were until vcpid is restarted"
                    .to_owned(),
            );
            config.access = self.config.access.clone();
            config.database.directory = self.config.database.directory.clone();
        }
        let anew = config.sampling != self.config.sampling
            || config.collection.memory_mib != self.config.collection.memory_mib
            || config.collection.programs_mib != self.config.collection.programs_mib
            || config.collection.per_process != self.config.collection.per_process;
        self.epochs.settings = config.database.clone();
        if let Some(rolling) = &self.rolling {
            rolling.limit(config.database.limits());
        }
        if let Some(governor) = &mut self.governor {
            governor.set_budget(config.governor.budget_percent.0 / 100.0);
        }
        self.config = config;
        if anew {
            said.push("sampling begins anew, in a new epoch".to_owned());
            self.stop_sampling(End::Anew);
        }
        said.join("; ")
    }
}

pub(super) fn reply(control: &Control, answer: Result<Answer, String>) {
    // Whoever asked may have gone.
    let _ = control.reply.try_send(answer);
}
