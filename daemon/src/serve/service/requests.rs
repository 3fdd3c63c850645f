//! What readers and signals ask of the service itself.

use anyhow::Result;
use protocol::Answer;

use super::{End, Service};
use crate::config::Config;
use crate::serve::peers::Control;
use crate::serve::status;
use crate::session::Session;

impl Service {
    pub(super) fn answer(&mut self, control: &Control, session: &mut Session) {
        let said = |result: Result<String>| match result {
            Ok(text) => Ok(Answer {
                json: serde_json::json!({ "done": text }).to_string(),
                text,
            }),
            Err(error) => Err(format!("{error:#}")),
        };
        let answer = match control.request {
            protocol::Control::Status => Ok(self.status(Some(session))),
            protocol::Control::Flush => said(self.save(session).map(|()| "flushed".to_owned())),
            protocol::Control::Epoch => {
                let turned = self.save(session).and_then(|()| self.turn(session));
                said(turned.map(|()| match self.epochs.running() {
                    Some(path) => format!("an epoch begins in {}", path.display()),
                    None => "an epoch begins".to_owned(),
                }))
            }
            protocol::Control::Reload => said(self.reload()),
        };
        reply(control, answer);
    }

    pub(super) fn status(&self, session: Option<&Session>) -> Answer {
        let json = status::of(&status::Parts {
            figures: &self.figures,
            sampling: self.sampling.as_ref(),
            governor: self.governor.as_ref(),
            epochs: &self.epochs,
            troubles: &self.troubles,
            session,
        });
        Answer {
            text: status::text(&json),
            json: json.to_string(),
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
            || config.collection.per_process != self.config.collection.per_process;
        self.epochs.settings = config.database.clone();
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
