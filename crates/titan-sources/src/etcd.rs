//! Documents in etcd: the keys below a prefix, read at one revision and watched from there on.
//!
//! ```text
//! look:   what was known is as it was? -> no, or nothing known: read all, page by page, at one revision -> delivered
//! watch:  from the next revision on    -> events -> delivered, a few milliseconds together
//!                                      -> silence for the interval, or compaction -> look
//!                                      -> broken, or no response -> next member, pause -> look
//! ```
//!
//! `titan apply` writes there what is watched here (`store`).
//!
//! Reads are linearizable: a member that has lost the others does not respond to them. A watch there would be silent for ever, and so
//! would one whose connection has died; the look after the interval finds out.

mod api;
mod cluster;
mod keys;
mod store;
mod watching;

pub use keys::Keys;
pub use store::{Change, Conflict, Store, Unwritten};

use crate::outlet::Outlet;
use crate::pace::Pace;
use api::{Bytes, Header, Number, RangeRequest, RangeResponse, WatchCreateRequest, WatchRequest};
use cluster::Cluster;
use keys::{Pages, range_of};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;
use titan_config::{EtcdSource, Resolver};
use titan_upstream::members::Upstream;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use watching::{End, Watching};

/// Keys below a prefix, and what is known of them.
pub(crate) struct Etcd {
    cluster: Cluster,
    prefix: Bytes,
    pace: Pace,
    /// What was read and followed last; `None` where it has to be read anew.
    keys: Option<Keys>,
    /// The cluster that was asked, and its latest revision that was seen.
    seen: Option<Header>,
    /// How many responses in a row were older than that.
    doubts: usize,
}

/// How long further events are waited for after one.
const TOGETHER: Duration = Duration::from_millis(10);
/// The pause before all is read again because of compaction.
const BREATH: Duration = Duration::from_millis(100);
/// So many responses at least have to agree that what was seen is gone.
const AGREEING: usize = 2;

const RANGE: &str = "/v3/kv/range";
const WATCH: &str = "/v3/watch";

impl Etcd {
    pub(crate) fn new(config: EtcdSource, upstream: Arc<Upstream>, resolver: Resolver) -> Etcd {
        let EtcdSource { upstream: _, prefix, user, interval, timeout } = config;
        let cluster = Cluster::new(upstream, resolver, user, timeout);
        let (prefix, pace) = (Bytes::of(&prefix), Pace::new(interval));
        Etcd { cluster, prefix, pace, keys: None, seen: None, doubts: 0 }
    }

    /// Follows the keys until nobody takes them any more.
    pub(crate) async fn run(mut self, outlet: Outlet) {
        loop {
            tokio::select! {
                () = self.follow(&outlet) => {}
                () = outlet.closed() => return,
            }
        }
    }

    /// Looks at the keys, and follows them until they have to be looked at again.
    async fn follow(&mut self, outlet: &Outlet) {
        let followed = match self.look(outlet).await {
            Ok(()) => self.watch(outlet).await,
            Err(why) => Err(why),
        };
        let pause = match followed {
            Ok(pause) => pause,
            Err(why) => {
                outlet.failed(format!("{}: {why}", self.cluster.member()));
                self.cluster.take_next();
                self.pace.failed(None, self.cluster.random())
            }
        };
        sleep(pause).await;
    }

    /// Finds out what there is now, and delivers it if it is not what was known.
    async fn look(&mut self, outlet: &Outlet) -> Result<(), String> {
        if !self.is_as_known(outlet).await? {
            let keys = self.read(outlet).await?;
            let delivery = keys.delivery().map_err(|bad| bad.to_string())?;
            outlet.succeeded();
            outlet.deliver(delivery);
            self.keys = Some(keys);
        }
        outlet.succeeded();
        Ok(())
    }

    /// Whether the keys are those that are known: none was changed since, and none is gone.
    async fn is_as_known(&mut self, outlet: &Outlet) -> Result<bool, String> {
        let Some(known) = &self.keys else { return Ok(false) };
        let (key, range_end) = range_of(&self.prefix);
        let (min_mod_revision, count) = (known.header().revision.next(), known.count());
        let changed = RangeRequest {
            key,
            range_end,
            limit: Number(1),
            min_mod_revision,
            keys_only: true,
            ..RangeRequest::default()
        };
        let response = self.range(&changed, outlet).await?;
        let is_same = response.kvs.is_empty() && response.count == count;
        if let Some(keys) = self.keys.as_mut().filter(|_| is_same) {
            keys.reach(response.header.revision);
        }
        Ok(is_same)
    }

    /// All keys at one revision.
    async fn read(&mut self, outlet: &Outlet) -> Result<Keys, String> {
        let mut pages = Pages::new(&self.prefix);
        loop {
            let page = self.range(pages.next(), outlet).await?;
            match pages.take(page)? {
                Ok(keys) => return Ok(keys),
                Err(more) => pages = more,
            }
        }
    }

    /// What a member that is up to date responds to that.
    async fn range(
        &mut self,
        request: &RangeRequest,
        outlet: &Outlet,
    ) -> Result<RangeResponse, String> {
        let response: RangeResponse = self.cluster.call(RANGE, request).await?;
        if let Some(seen) = self.seen.filter(|seen| is_older(response.header, *seen)) {
            let what = older(response.header, seen);
            outlet.warn(match self.is_doubtful() {
                true => format!("{what} It is not taken before all members say so"),
                false => format!("{what} All members say so: it is taken"),
            });
            return Err(what);
        }
        (self.seen, self.doubts) = (Some(response.header), 0);
        Ok(response)
    }

    /// A member knows less than was seen, which none of a healthy cluster does: an older backup was restored, or another cluster
    /// responds. What it has is taken once all members have said the same in a row; one alone changes nothing.
    fn is_doubtful(&mut self) -> bool {
        self.doubts += 1;
        if self.doubts < AGREEING.max(self.cluster.members() + 1) {
            return true;
        }
        (self.doubts, self.keys, self.seen) = (0, None, None);
        false
    }

    /// Delivers what happens to the keys, until they have to be looked at again; after which pause.
    async fn watch(&mut self, outlet: &Outlet) -> Result<Duration, String> {
        let Some(mut keys) = self.keys.take() else { return Ok(BREATH) };
        let request = watch_request(&self.prefix, keys.header().revision.next());
        let watched = self.hear(&request, &mut keys, outlet).await;
        self.seen = Some(keys.header());
        match watched {
            Ok(None) => {
                self.keys = Some(keys);
                Ok(Duration::ZERO)
            }
            Ok(Some(End::Compacted)) => {
                self.keys = Some(keys);
                Ok(BREATH)
            }
            Ok(Some(End::Lost(why))) => {
                self.keys = Some(keys);
                Err(why)
            }
            Ok(Some(End::Failed(why))) | Err(why) => Err(why),
        }
    }

    /// Hears a watch out: how it has ended, or nothing where it was silent for too long.
    async fn hear(
        &mut self,
        request: &WatchRequest,
        keys: &mut Keys,
        outlet: &Outlet,
    ) -> Result<Option<End>, String> {
        let (watching, heard) = (RefCell::new(Watching::new(keys)), Notify::new());
        let listening = self.cluster.listen(WATCH, request, |piece| {
            heard.notify_one();
            watching.borrow_mut().take(piece)
        });
        tokio::pin!(listening);
        let mut silent_at = Instant::now() + self.cluster.timeout();
        let mut due: Option<Instant> = None;
        let ended = loop {
            tokio::select! {
                ended = &mut listening => break Some(ended),
                () = heard.notified() => {
                    if watching.borrow().is_created {
                        silent_at = Instant::now() + self.pace.succeeded(self.cluster.random());
                    }
                    if watching.borrow().has_news {
                        due.get_or_insert_with(|| Instant::now() + TOGETHER);
                    }
                }
                () = sleep_until(due.unwrap_or(silent_at)) => match due.take() {
                    Some(_) => watching.borrow_mut().tell(outlet)?,
                    None => break None,
                }
            }
        };
        let mut watching = watching.borrow_mut();
        watching.tell(outlet)?;
        let timeout = self.cluster.timeout();
        Ok(match (watching.end.take(), ended) {
            (Some(end), _) => Some(end),
            (None, Some(Err(why))) => Some(End::Lost(why)),
            (None, Some(Ok(()))) => Some(End::Lost("it has ended the watch".to_owned())),
            (None, None) if watching.is_created => None,
            (None, None) => Some(End::Lost(format!("no watch within {timeout:?}"))),
        })
    }
}

/// Whether what was seen before is not in what responds now.
fn is_older(header: Header, seen: Header) -> bool {
    header.cluster_id != seen.cluster_id || header.revision < seen.revision
}

/// What is odd about that.
fn older(header: Header, seen: Header) -> String {
    match header.cluster_id == seen.cluster_id {
        true => format!(
            "a member is at revision {}, and {} was seen before: was an older backup restored?",
            header.revision, seen.revision
        ),
        false => "a member belongs to another cluster than was asked before.".to_owned(),
    }
}

fn watch_request(prefix: &Bytes, start_revision: Number) -> WatchRequest {
    let (key, range_end) = range_of(prefix);
    let create_request = WatchCreateRequest {
        key,
        range_end,
        start_revision,
        progress_notify: true,
        fragment: true,
    };
    WatchRequest { create_request }
}
