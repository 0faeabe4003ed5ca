//! What is counted of passwords and of those who are asked about requests.

use titan_io::counter::Counter;

/// What is counted of passwords.
#[derive(Default)]
pub struct PasswordCells {
    /// Those that were remembered to be right or wrong.
    pub remembered: Counter,
    /// Those that were compared with a hash.
    pub checked: Counter,
}

/// What is counted of the decisions of services.
#[derive(Default)]
pub struct ForwardAuthCells {
    /// Those that were remembered.
    pub hits: Counter,
    /// Those that were asked for because they were not.
    pub misses: Counter,
}
