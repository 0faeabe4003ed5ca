//! One event.

use super::text::Text;
use std::fmt;
use std::time::SystemTime;
use titan_config::{LogArea, LogLevel};

/// Something that the operator may want to know of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub(super) time: SystemTime,
    pub(super) level: LogLevel,
    pub(super) area: LogArea,
    pub(super) kind: &'static str,
    /// What it is one of the states of, if it is.
    pub(super) subject: Option<&'static str>,
    pub(super) message: Text,
    pub(super) fields: Vec<(Field, Text)>,
    pub(super) count: u64,
    pub(super) repeat: Repeat,
}

/// What else there is to say of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// The upstream that it is about.
    Upstream,
    /// The address of the endpoint.
    Endpoint,
    /// The listener, or the address where that has no name.
    Listener,
    /// The policy.
    Policy,
    /// Where an access log goes.
    Destination,
    /// What failed, as problem documents and metrics call it.
    Code,
    /// The number of the worker.
    Worker,
    /// The configuration, by its id in the history.
    Configuration,
    /// The process that takes over.
    Process,
    /// The route of the first request that has met it.
    Route,
    /// The id of that request.
    RequestId,
    /// Who has made a call.
    Caller,
}

/// How often the same may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Whenever it happens.
    Always,
    /// What happens to the same thing again within a minute is one event, with a count. The last one is told at the end of the minute: it
    /// says how things stand. Errors are told each time.
    ByMinute,
    /// What lasts: the same message again after an hour.
    ByHour,
}

/// More characters than this are not shown of a field.
const MAX_FIELD: usize = 300;

impl Event {
    /// Something that happens now. `kind` is the stable name of what it is, for programs.
    pub fn new(
        (area, level): (LogArea, LogLevel),
        kind: &'static str,
        message: impl fmt::Display,
    ) -> Event {
        Event {
            time: SystemTime::now(),
            level,
            area,
            kind,
            subject: None,
            message: Text::of(message),
            fields: Vec::new(),
            count: 1,
            repeat: Repeat::Always,
        }
    }

    /// The same with something else to say of it.
    pub fn with(mut self, field: Field, value: impl fmt::Display) -> Event {
        self.fields.push((field, Text::up_to(MAX_FIELD, value)));
        self
    }

    /// The same where there is a value.
    pub fn with_some(self, field: Field, value: Option<impl fmt::Display>) -> Event {
        match value {
            Some(value) => self.with(field, value),
            None => self,
        }
    }

    /// The same for what has happened then.
    pub fn at(self, time: SystemTime) -> Event {
        Event { time, ..self }
    }

    /// The same for something that has happened so many times.
    pub fn times(self, count: u64) -> Event {
        Event { count, ..self }
    }

    /// The same that is not written more often than that.
    pub fn once(self, repeat: Repeat) -> Event {
        Event { repeat, ..self }
    }

    /// The same as one of the states that follow each other, such as open and closed: what is told last is the last of all of them.
    /// `subject` is what has these states, of whatever the fields name; no kind of event may be called that.
    pub fn state_of(self, subject: &'static str) -> Event {
        Event { subject: Some(subject), ..self }
    }

    /// Whether it is about what operators do, or what becomes of the process: that is not to drown in what clients and endpoints cause.
    pub(super) fn has_own_share(&self) -> bool {
        use LogArea::{Admin, Config, Log, Start, Upgrade};
        matches!(self.area, Admin | Config | Log | Start | Upgrade)
    }

    /// When it happened.
    pub fn time(&self) -> SystemTime {
        self.time
    }

    /// What it is about, and how important it is.
    pub fn place(&self) -> (LogArea, LogLevel) {
        (self.area, self.level)
    }

    /// The stable name of what it is.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// What it is one of the states of; otherwise its kind.
    pub fn subject(&self) -> &'static str {
        self.subject.unwrap_or(self.kind)
    }

    /// How often the same may be written.
    pub fn repeat(&self) -> Repeat {
        self.repeat
    }

    /// What has happened, for people.
    pub fn message(&self) -> &str {
        self.message.as_str()
    }

    /// What else there is to say of it.
    pub fn field(&self, field: Field) -> Option<&str> {
        let named = self.fields.iter().find(|(of, _)| *of == field);
        named.map(|(_, value)| value.as_str())
    }
}

impl Field {
    /// What lines and objects call it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Field::Upstream => "upstream",
            Field::Endpoint => "endpoint",
            Field::Listener => "listener",
            Field::Policy => "policy",
            Field::Destination => "destination",
            Field::Code => "code",
            Field::Worker => "worker",
            Field::Configuration => "configuration",
            Field::Process => "process",
            Field::Route => "route",
            Field::RequestId => "request_id",
            Field::Caller => "caller",
        }
    }

    /// Whether it says what the event happened to, rather than how. These come from the configuration, and there are only so many.
    pub(super) fn is_place(self) -> bool {
        !matches!(self, Field::Route | Field::RequestId | Field::Caller)
    }
}
