//! What the gateway tells of itself, and how.

use crate::problem::Problem;
use crate::read::{Read, default};
use crate::readers::{Named, mapping, short_for, words};
use crate::section::{section, section_of};
use crate::shape::TextShape;
use crate::suggest;
use std::fmt;

section! {
    "log", "log settings", Any;
    /// The events that the gateway writes to standard error: starts, reloads, health, certificates, calls of the admin
    /// interface. There is no line for each request among them. `titan log` shows the levels in force, and changes them
    /// without a reload. A plain word sets `level` alone.
    pub struct Log {
        /// The least important events that are written: `error`, `warn`, `info`, or `debug` for all.
        pub level: LogLevel = default("info", level()),
        /// Other levels for some areas: `{ health: debug, admin: warn }`. The areas are `start`, `config`, `listener`, `tls`,
        /// `upstream`, `health`, `breaker`, `policy`, `admin`, `pressure`, `upgrade` and `log`. From `admin: warn` on, calls
        /// that succeed leave no trace.
        pub areas: AreaLevels = default("{}", areas()),
        /// How an event is written: `text` is a line for people, `json` an object on a line of its own.
        pub format: EventFormat = default("text", format()),
    }
}

/// How important an event is, the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Something does not work.
    Error,
    /// Something is not as it should be, or soon will not be.
    Warn,
    /// Something has changed.
    Info,
    /// What only matters to whoever looks for a cause.
    Debug,
}

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogArea {
    /// The process begins to serve, and stops.
    Start,
    /// Configurations and the files that they name.
    Config,
    /// Sockets that clients connect to.
    Listener,
    /// Certificates, revocation lists, handshakes.
    Tls,
    /// Requests that fail at upstreams, and names that do not resolve.
    Upstream,
    /// Endpoints that get requests, or do not.
    Health,
    /// Circuit breakers.
    Breaker,
    /// What policies refuse, and keys of tokens.
    Policy,
    /// Calls of the admin interface that change something.
    Admin,
    /// Limits of the gateway itself.
    Pressure,
    /// Another process that takes over.
    Upgrade,
    /// The log itself.
    Log,
}

/// How events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventFormat {
    /// A line for people.
    Text,
    /// A JSON object on a line of its own.
    Json,
}

/// Levels of areas, each area at most once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AreaLevels(Vec<(LogArea, LogLevel)>);

impl Log {
    /// The least important events of that area that are written.
    pub fn level_of(&self, area: LogArea) -> LogLevel {
        let own = self.areas.0.iter().find(|(of, _)| *of == area);
        own.map_or(self.level, |(_, level)| *level)
    }
}

/// What holds where a file says nothing.
impl Default for Log {
    fn default() -> Log {
        Log { level: LogLevel::Info, areas: AreaLevels::default(), format: EventFormat::Text }
    }
}

impl LogLevel {
    /// All of them, the most important first.
    pub const ALL: [LogLevel; 4] =
        [LogLevel::Error, LogLevel::Warn, LogLevel::Info, LogLevel::Debug];

    /// The level of that name.
    pub fn named(name: &str) -> Option<LogLevel> {
        LogLevel::ALL.into_iter().find(|level| level.as_str() == name)
    }

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
        }
    }
}

impl LogArea {
    /// All of them, in the order of their numbers.
    pub const ALL: [LogArea; 12] = [
        LogArea::Start,
        LogArea::Config,
        LogArea::Listener,
        LogArea::Tls,
        LogArea::Upstream,
        LogArea::Health,
        LogArea::Breaker,
        LogArea::Policy,
        LogArea::Admin,
        LogArea::Pressure,
        LogArea::Upgrade,
        LogArea::Log,
    ];

    /// The area of that name, or what to write instead.
    pub fn named(name: &str) -> Result<LogArea, String> {
        let found = LogArea::ALL.into_iter().find(|area| area.as_str() == name);
        found.ok_or_else(|| {
            let names = LogArea::ALL.map(LogArea::as_str);
            match suggest::nearest(name, names.into_iter()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the areas are {}", suggest_all(&names)),
            }
        })
    }

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            LogArea::Start => "start",
            LogArea::Config => "config",
            LogArea::Listener => "listener",
            LogArea::Tls => "tls",
            LogArea::Upstream => "upstream",
            LogArea::Health => "health",
            LogArea::Breaker => "breaker",
            LogArea::Policy => "policy",
            LogArea::Admin => "admin",
            LogArea::Pressure => "pressure",
            LogArea::Upgrade => "upgrade",
            LogArea::Log => "log",
        }
    }

    /// Its place in [`LogArea::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for LogArea {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

pub(crate) fn log() -> impl Read<Value = Log> {
    short_for("level", section_of::<Log>())
}

fn level() -> impl Read<Value = LogLevel> {
    words(&LogLevel::ALL.map(|level| (level.as_str(), level)))
}

fn format() -> impl Read<Value = EventFormat> {
    words(&[("text", EventFormat::Text), ("json", EventFormat::Json)])
}

fn areas() -> impl Read<Value = AreaLevels> {
    let areas = mapping(AREA, parse_area, level(), 0..=LogArea::ALL.len());
    areas.map(|areas| {
        AreaLevels(areas.into_iter().map(|Named { key, value, .. }| (key, value)).collect())
    })
}

fn parse_area(name: &str) -> Result<LogArea, Problem> {
    let unknown = |help| Problem::new("there is no such area").help(help);
    LogArea::named(name).map_err(unknown)
}

fn suggest_all(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

const AREA: TextShape = TextShape {
    what: "an area of the log",
    examples: "`health`, `admin` or `tls`",
    pattern: Some(
        "^(start|config|listener|tls|upstream|health|breaker|policy|admin|pressure|upgrade|log)$",
    ),
    max: 16,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_found_by_name_and_number() {
        for (index, area) in LogArea::ALL.into_iter().enumerate() {
            assert_eq!((LogArea::named(area.as_str()), area.index()), (Ok(area), index));
            assert!(AREA.pattern.unwrap().contains(area.as_str()), "{area}");
        }
        assert_eq!(LogArea::named("healt"), Err("did you mean `health`?".to_owned()));
    }

    #[test]
    fn an_area_has_its_own_level_or_that_of_all() {
        let areas = AreaLevels(vec![(LogArea::Health, LogLevel::Debug)]);
        let log = Log { level: LogLevel::Warn, areas, format: EventFormat::Text };
        assert_eq!(log.level_of(LogArea::Health), LogLevel::Debug);
        assert_eq!(log.level_of(LogArea::Admin), LogLevel::Warn);
    }
}
