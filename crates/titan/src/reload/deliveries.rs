//! What sources deliver comes into force, as other changes do, and after those.

use super::attempts::{Attempts, InForce, Made, Refused, Wanted};
use super::request::Request;
use super::{Attempt, Reloading, messages};
use crate::config_file;
use crate::delivered::Texts;
use crate::fit::{Fitted, fit};
use crate::kept::{self, Restored};
use std::sync::Arc;
use titan_admin::history::Author;
use titan_observe::events::Event;
use titan_sources::source::Source;
use tokio::time::Instant;

impl Reloading {
    /// The same, fed by these sources, of which that was in force before.
    pub(crate) fn fed_by(mut self, sources: Vec<Source>, restored: Restored) -> Reloading {
        let directory = kept::directory(&self.in_force.config, &self.in_force.file);
        self.sources.begin(sources, restored, directory, self.attempts.loader.log());
        self.sources.note_in_force(self.in_force.documents.delivered());
        self.go_on();
        self
    }

    /// Begins to put in force what sources have delivered, where nothing else is under way and nothing on trial.
    pub(super) fn follow_sources(&mut self, now: Instant) {
        let storage = self.records.storage();
        let events = self.sources.look(storage.as_ref(), now);
        self.tell_of_sources(events);
        let is_free = self.running.is_none() && self.next.is_none() && self.trial.is_none();
        if is_free && let Some((name, texts)) = self.sources.take_due(now) {
            let wanted = Wanted::Delivered(Arc::new(texts));
            self.ask_for(Request::quiet(wanted, Some(Author::Source(name))));
        }
    }

    /// Has the admin interface show how sources fare, and then tells of them: who reads a line and asks sees what it says.
    fn tell_of_sources(&self, events: Vec<Event>) {
        if let Some(told) = self.sources.told() {
            self.reloads.note_sources(told);
        }
        for event in events {
            self.log().tell(event);
        }
    }

    /// Notes what has come into force, and of what sources have delivered what has not.
    pub(super) fn note_made(&mut self, attempt: Attempt, made: Made) {
        let Attempt { request, recent, held } = attempt;
        let Made { in_force, listening, sources, held_back } = made;
        messages::listening(self.log(), &listening);
        self.note_read(&request.wanted, Some(&in_force.documents.origins));
        let tried = held_back.map(|held| self.sources.note_tried(&held, Instant::now()));
        let is_new = sources.is_some();
        if let Some(sources) = sources {
            self.sources.follow(sources, self.attempts.loader.log());
            if matches!(request.wanted, Wanted::File | Wanted::Documents(_)) {
                self.sources.try_again();
            }
        }
        self.sources.note_in_force(in_force.documents.delivered());
        self.tell_of_sources(tried.unwrap_or_default());
        if is_new {
            self.tell_applied(request, (recent, held), in_force);
        }
    }
}

impl Attempts {
    /// Puts in force what of that fits.
    pub(super) fn deliver(
        &self,
        name: &str,
        wanted: &Texts,
        before: &InForce,
    ) -> Result<Made, Refused> {
        let attempt = |texts: &Texts| {
            let documents = before.documents.with_delivered(texts);
            let parsed = config_file::parse_past(&documents, &before.file)?;
            self.load(name, parsed, before.clone())
        };
        let Fitted { made, held, failure } = fit(&before.documents.delivered(), wanted, attempt);
        if let Some(failure) = failure {
            return Err(failure.into());
        }
        let held_back = Some(held);
        Ok(match made {
            Some((_, Made { in_force, listening, sources, held_back: _ })) => {
                let is_in_file = before.is_in_file;
                Made { in_force: InForce { is_in_file, ..in_force }, listening, sources, held_back }
            }
            None => {
                Made { in_force: before.clone(), listening: Vec::new(), sources: None, held_back }
            }
        })
    }
}
