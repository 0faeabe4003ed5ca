//! A gate at which a scripted upstream waits until the test opens it.

use crate::deadline::DEADLINE;
use crate::message::Request;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// A gate that is closed until it is opened for good.
#[derive(Clone, Debug)]
pub struct Gate {
    shared: Arc<(Mutex<bool>, Condvar)>,
}

impl Gate {
    /// A closed gate.
    #[must_use]
    pub fn closed() -> Gate {
        Gate { shared: Arc::default() }
    }

    /// Lets every waiter through.
    pub fn opens(&self) {
        let (is_open, changed) = &*self.shared;
        *is_open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
    }

    /// Waits until the gate is open.
    pub fn passes(&self) {
        let (is_open, changed) = &*self.shared;
        let closed = is_open.lock().unwrap_or_else(PoisonError::into_inner);
        // A task that waits in vain goes on: what it says then comes too late, and the test sees that.
        drop(changed.wait_timeout_while(closed, DEADLINE, |is_open| !*is_open));
    }

    /// For [`upstream::responds`](crate::upstream::responds): that response, as soon as the gate is open.
    pub fn before(
        &self,
        response: Vec<u8>,
    ) -> impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static {
        let gate = self.clone();
        move |_| {
            gate.passes();
            response.clone()
        }
    }
}
