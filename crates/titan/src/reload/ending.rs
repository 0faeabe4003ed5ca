//! How trials end.

use super::attempts::{Before, Wanted};
use super::request::{Outcome, Request};
use super::trial::{Trial, Verdict};
use super::{Reloading, messages};
use std::time::SystemTime;
use titan_admin::Cause;
use titan_admin::history::{self, Author};
use titan_admin::orders::{NotApplied, Safeguards};
use tokio::sync::oneshot;
use tokio::time::Instant;

impl Reloading {
    /// Has the configuration stay that is on trial.
    pub(super) fn confirm(&mut self, author: &Author, done: oneshot::Sender<Outcome>) {
        if self.trial.is_none() {
            let why = match self.is_ending_trial() {
                true => messages::ending(self.records.in_force().id),
                false => "no configuration waits to be confirmed".to_owned(),
            };
            drop(done.send(Err(NotApplied::Conflict(why))));
            return;
        }
        let why = format!("confirmed by {author}");
        self.keep(history::Outcome::Confirmed, &why);
        self.replies.push(self.reply_with(done, Vec::new()));
        self.go_on();
    }

    /// Refuses a change during a trial.
    pub(super) fn refuse_during_trial(&mut self, request: Request) {
        let why = messages::on_trial(&self.records.in_force(), self.trial.as_ref());
        if request.author == Some(Author::Watch) {
            self.watched.iter_mut().for_each(|watched| watched.again_at(Instant::now()));
        }
        // Nothing is wrong with it.
        self.reloads.note_declined(SystemTime::now());
        messages::declined(self.log(), &why);
        request.refuse(NotApplied::Conflict(why));
    }

    /// Ends the trial: what is in force stays.
    fn keep(&mut self, outcome: history::Outcome, why: &str) {
        self.trial = None;
        self.records.settle(outcome, Some(why));
        self.records.hurry();
        messages::stays(self.log(), self.records.in_force().id, why);
    }

    /// Judges what is on trial, whatever else is under way.
    pub(super) fn judge(&mut self, now: Instant) {
        let Some(trial) = &mut self.trial else { return };
        match trial.judge(&self.status, now) {
            None => {}
            Some(Verdict::Good(why)) => self.keep(history::Outcome::Confirmed, &why),
            Some(Verdict::Unconfirmed) => {
                let why = "it was not confirmed in time".to_owned();
                self.take_back(Cause::Unconfirmed, why, None);
            }
            Some(Verdict::Worse(why)) => self.take_back(Cause::Guard, why, None),
            Some(Verdict::TakeBack(cause, why)) => self.take_back(cause, why, None),
        }
    }

    /// Puts in force again what was in force before the trial, which ends when that has succeeded.
    pub(super) fn take_back(
        &mut self,
        cause: Cause,
        why: String,
        asked: Option<(Author, oneshot::Sender<Outcome>)>,
    ) {
        let Some(Trial { before: former, retry, .. }) = self.trial.take() else {
            return;
        };
        let (author, done) = asked.unzip();
        let complaint = retry.map(|retry| retry.complaint).unwrap_or_default();
        let before = Before { former, cause, why, complaint };
        let wanted = Wanted::Before(Box::new(before));
        let goes_back = false;
        self.ask_for(Request {
            wanted,
            goes_back,
            author,
            safeguards: Safeguards::default(),
            done,
        });
    }
}
