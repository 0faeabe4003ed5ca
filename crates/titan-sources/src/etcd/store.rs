//! Writing what gateways read: in transactions which nobody else comes between.

use super::RANGE;
use super::api::{
    Bytes, Compare, KeyValue, Number, RangeRequest, RequestOp, TxnRequest, TxnResponse,
};
use super::cluster::Cluster;
use super::keys::{Keys, Pages, range_of};
use crate::delivery::{BadDelivery, Delivery};
use crate::message::shown;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use titan_config::{EtcdSource, Resolver};
use titan_upstream::members::Upstream;

/// The documents below a prefix of etcd, to be read and written.
pub struct Store {
    cluster: Cluster,
    prefix: Bytes,
}

/// What is to become of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is added, or says something else.
    Put(String),
    /// It is removed.
    Delete,
}

/// Why not all was written.
#[derive(Debug)]
pub struct Unwritten {
    /// How many changes were written before.
    pub written: usize,
    /// Why the others were not.
    pub why: Conflict,
}

/// Why changes were not written.
#[derive(Debug)]
pub enum Conflict {
    /// Somebody else has changed these documents since they were read.
    Changed(Vec<String>),
    /// etcd has not responded as it should. Whether the changes were written is not known.
    Failed(String),
}

/// Changes of one transaction: etcd takes 128 parts unless it is configured otherwise.
const MAX_CHANGES: usize = 100;
/// Bytes of their texts: etcd takes 1.5 MiB unless it is configured otherwise.
const MAX_SIZE: usize = 1 << 20;
/// Names of documents that a message has.
const MAX_TOLD: usize = 10;

const TXN: &str = "/v3/kv/txn";

impl Store {
    pub(crate) fn new(config: EtcdSource, upstream: Arc<Upstream>, resolver: Resolver) -> Store {
        let EtcdSource { upstream: _, prefix, user, interval: _, timeout } = config;
        let cluster = Cluster::new(upstream, resolver, user, timeout);
        Store { cluster, prefix: Bytes::of(&prefix) }
    }

    /// What is there now. Every member is asked until one responds; otherwise why the last one does not.
    pub async fn read(&mut self) -> Result<Keys, String> {
        let mut left = self.cluster.members().max(1);
        loop {
            left -= 1;
            match self.read_from_member().await {
                Err(_) if left > 0 => self.cluster.take_next(),
                read => return read.map_err(|why| format!("{}: {why}", self.cluster.member())),
            }
        }
    }

    async fn read_from_member(&mut self) -> Result<Keys, String> {
        let mut pages = Pages::new(&self.prefix);
        loop {
            let page = self.cluster.call(RANGE, pages.next()).await?;
            match pages.take(page)? {
                Ok(keys) => return Ok(keys),
                Err(more) => pages = more,
            }
        }
    }

    /// Makes these changes to what was read, as long as nobody else makes others; the revision then. Many changes take several
    /// transactions, one after the other.
    pub async fn write(
        &mut self,
        read: &Keys,
        changes: &BTreeMap<String, Change>,
    ) -> Result<u64, Unwritten> {
        let (mut revision, mut written) = (read.header().revision, 0);
        for batch in batches(changes) {
            match self.write_batch(read, revision, &batch).await {
                Ok(now) => revision = now,
                Err(why) => return Err(Unwritten { written, why }),
            }
            written += batch.len();
        }
        Ok(revision.0)
    }

    async fn write_batch(
        &mut self,
        read: &Keys,
        revision: Number,
        batch: &[(&String, &Change)],
    ) -> Result<Number, Conflict> {
        let request = self.transaction(read, revision, batch);
        let response: Result<TxnResponse, String> = self.cluster.call(TXN, &request).await;
        let failed = |why| Conflict::Failed(format!("{}: {why}", self.cluster.member()));
        let response = response.map_err(failed)?;
        if response.succeeded {
            return Ok(response.header.revision);
        }
        let now = response.responses.into_iter().flat_map(|it| it.response_range.kvs);
        Err(Conflict::Changed(self.changed(read, revision, now, batch)))
    }

    /// The changes, if nothing below the prefix was changed after that revision, and none of theirs was removed.
    fn transaction(
        &self,
        read: &Keys,
        revision: Number,
        batch: &[(&String, &Change)],
    ) -> TxnRequest {
        let mut compare = vec![Compare::none_since(range_of(&self.prefix), revision)];
        let mut success = Vec::with_capacity(batch.len());
        for (name, change) in batch {
            let key = self.key(name);
            let changed = read.get(&key.0).map(|stored| stored.changed).unwrap_or_default();
            compare.push(Compare::is_as_of(key.clone(), changed));
            success.push(match change {
                Change::Put(text) => RequestOp::Put { key, value: Bytes::of(text) },
                Change::Delete => RequestOp::Delete { key },
            });
        }
        let (key, range_end) = range_of(&self.prefix);
        let look = RangeRequest { key, range_end, keys_only: true, ..RangeRequest::default() };
        TxnRequest { compare, success, failure: vec![RequestOp::Range(look)] }
    }

    /// What others have changed since: `now` is what is there.
    fn changed(
        &self,
        read: &Keys,
        revision: Number,
        now: impl Iterator<Item = KeyValue>,
        batch: &[(&String, &Change)],
    ) -> Vec<String> {
        let (mut there, mut changed) = (Vec::new(), Vec::new());
        for KeyValue { key: Bytes(key), mod_revision, .. } in now {
            let name = key.get(self.prefix.0.len()..).unwrap_or_default().to_vec();
            if mod_revision > revision {
                changed.push(shown(&String::from_utf8_lossy(&name)));
            }
            there.push(name);
        }
        let was_there = |name: &&&String| read.get(&self.key(name).0).is_some();
        let names = batch.iter().map(|(name, _)| name).filter(was_there);
        let gone =
            names.filter(|name| there.binary_search_by(|it| it[..].cmp(name.as_bytes())).is_err());
        changed.extend(gone.map(|name| format!("{name}, which is gone")));
        changed
    }

    fn key(&self, name: &str) -> Bytes {
        let mut key = self.prefix.clone();
        key.0.extend_from_slice(name.as_bytes());
        key
    }
}

impl Keys {
    /// The documents, and what is none.
    pub fn documents(&self) -> Result<Delivery, BadDelivery> {
        self.delivery()
    }

    /// Whether there is something under that name, a document or not.
    pub fn has(&self, name: &str) -> bool {
        self.names().any(|it| it == name.as_bytes())
    }
}

/// Changes that fit into one transaction each, in their order.
fn batches(changes: &BTreeMap<String, Change>) -> Vec<Vec<(&String, &Change)>> {
    let (mut batches, mut size) = (Vec::<Vec<_>>::new(), 0);
    for (name, change) in changes {
        let own = match change {
            Change::Put(text) => text.len(),
            Change::Delete => 0,
        };
        match batches.last_mut() {
            Some(batch) if batch.len() < MAX_CHANGES && size + own <= MAX_SIZE => {
                batch.push((name, change));
                size += own;
            }
            _ => {
                batches.push(vec![(name, change)]);
                size = own;
            }
        }
    }
    batches
}

impl fmt::Display for Unwritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Conflict::Changed(names) => {
                let (told, more) = names.split_at(names.len().min(MAX_TOLD));
                write!(
                    f,
                    "somebody else has changed the documents since they were read: {}",
                    told.join("; ")
                )?;
                if !more.is_empty() {
                    write!(f, "; and {} more", more.len())?;
                }
            }
            Conflict::Failed(why) => write!(f, "{why}; whether it was written is not known")?,
        }
        match self.written {
            0 => Ok(()),
            written => write!(f, "; {written} changes were written before that"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batches_of(texts: &[usize]) -> Vec<usize> {
        let put = |(index, size): (usize, &usize)| {
            (format!("{index:04}"), Change::Put("#".repeat(*size)))
        };
        let changes = texts.iter().enumerate().map(put).collect();
        batches(&changes).iter().map(Vec::len).collect()
    }

    #[test]
    fn a_transaction_has_what_etcd_takes() {
        assert_eq!(batches_of(&[]), [0; 0]);
        assert_eq!(batches_of(&[1; 201]), [100, 100, 1]);
        assert_eq!(batches_of(&[MAX_SIZE / 2; 3]), [2, 1]);
        assert_eq!(batches_of(&[1, MAX_SIZE, MAX_SIZE + 1, 1]), [1, 1, 1, 1]);
    }

    #[test]
    fn a_message_has_some_names() {
        let names = (0..12).map(|it| it.to_string()).collect();
        let told = Unwritten { written: 100, why: Conflict::Changed(names) }.to_string();
        let wanted = "somebody else has changed the documents since they were read: 0; 1; 2; 3; 4; 5; 6; 7; 8; 9; and 2 more; 100 \
                      changes were written before that";
        assert_eq!(told, wanted);
    }
}
