//! The thread that reads the records of all workers, and tells those of them who subscribe to them.

use crate::ring::{Batch, MAX_BATCHES, Ring};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// What the thread is sent.
pub enum Message {
    /// Records of a worker.
    Records(Batch),
    /// Whom to tell from now on.
    Subscribers(Vec<Box<dyn Subscriber>>),
    /// Open files anew.
    Reopen,
    /// Nothing more comes.
    End,
}

/// Somebody who is told of exchanges, on the thread of the observer: what takes long there delays all others.
pub trait Subscriber: Send {
    /// Takes records. It may keep the batch.
    fn take(&mut self, batch: &Arc<Batch>);

    /// Opens its files anew: somebody may have renamed them.
    fn reopen(&mut self) {}

    /// No more records come. Does not wait for what is under way.
    fn finish(&mut self) {}

    /// Waits for what is under way, within a bound of its own. [`Subscriber::finish`] was called before.
    fn wait(self: Box<Self>) {}
}

/// The thread, and the way to it.
pub struct Observer {
    way: ObserverWay,
    /// Disconnected when the thread has ended. The mutex lets an observer be seen by several threads.
    ended: Mutex<Receiver<()>>,
    workers: usize,
}

/// The way to the thread.
#[derive(Clone)]
pub struct ObserverWay {
    messages: SyncSender<Message>,
    /// Whether files are to be opened anew, and the thread does not know that it has done so: one message is enough.
    is_reopening: Arc<AtomicBool>,
}

/// Messages that may wait beside the records of workers. While a file or a disk hangs, further ones are lost.
const OTHERS: usize = 16;
/// How long what was sent may take to be written when the gateway ends.
const LAST: Duration = Duration::from_secs(5);

impl Observer {
    /// Starts the thread for that many workers. Nobody is told of anything yet.
    pub fn start(workers: usize) -> io::Result<Observer> {
        let (sender, receiver) = sync_channel(workers * (MAX_BATCHES + 1) + OTHERS);
        let (end, ended) = sync_channel(0);
        let way = ObserverWay { messages: sender, is_reopening: Arc::default() };
        let is_reopening = Arc::clone(&way.is_reopening);
        thread::Builder::new().name("observer".to_owned()).spawn(move || {
            // Dropped in any case, so that a panic is noticed.
            let _end = end;
            run(&receiver, &is_reopening);
        })?;
        Ok(Observer { way, ended: Mutex::new(ended), workers })
    }

    /// A ring for each worker.
    pub fn rings(&self) -> impl Iterator<Item = Ring<Message>> {
        let way = &self.way.messages;
        (0..self.workers).map(|_| Ring::new(way.clone()))
    }

    /// The way to the thread.
    pub fn way(&self) -> ObserverWay {
        self.way.clone()
    }

    /// Whether the thread has ended, which it does only by a panic before it is told to. Nobody is told of anything then.
    pub fn has_ended(&self) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.try_recv() == Err(TryRecvError::Disconnected)
    }

    /// Waits until everything that was sent is written, but not for longer than five seconds. Only when the workers have ended.
    pub fn end(self) {
        self.end_after(Duration::ZERO, LAST);
    }

    /// The same with another bound, while workers may run: takes what they send within `collecting`. What they send later is lost.
    pub fn end_after(&self, collecting: Duration, most: Duration) {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = ended.recv_timeout(collecting);
        let _ = self.way.messages.try_send(Message::End);
        let _ = ended.recv_timeout(most);
    }
}

impl ObserverWay {
    /// Tells these of exchanges from now on, in place of those before. Records that were sent before go to those before.
    pub fn tell(&self, subscribers: Vec<Box<dyn Subscriber>>) {
        let _ = self.messages.try_send(Message::Subscribers(subscribers));
    }

    /// Has files opened anew.
    pub fn reopen(&self) {
        if !self.is_reopening.swap(true, Ordering::AcqRel) {
            let _ = self.messages.try_send(Message::Reopen);
        }
    }
}

impl From<Batch> for Message {
    fn from(batch: Batch) -> Message {
        Message::Records(batch)
    }
}

fn run(messages: &Receiver<Message>, is_reopening: &AtomicBool) {
    let mut subscribers: Vec<Box<dyn Subscriber>> = Vec::new();
    while let Ok(message) = messages.recv() {
        match message {
            Message::Records(batch) => {
                let batch = Arc::new(batch);
                subscribers.iter_mut().for_each(|subscriber| subscriber.take(&batch));
                batch.arrive();
            }
            Message::Subscribers(others) => subscribers = others,
            Message::Reopen => {
                is_reopening.store(false, Ordering::Release);
                subscribers.iter_mut().for_each(|subscriber| subscriber.reopen());
            }
            Message::End => break,
        }
    }
    // All at the same time: what one takes to end is not to be waited for as often as there are some.
    subscribers.iter_mut().for_each(|subscriber| subscriber.finish());
    subscribers.into_iter().for_each(Subscriber::wait);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{ExchangeRecord, Recorded, Text};

    /// Notes the routes of records, and when it is to open files anew.
    struct Notes(char, Arc<Mutex<String>>);

    impl Subscriber for Notes {
        fn take(&mut self, batch: &Arc<Batch>) {
            let mut records = batch.records();
            while let Some((record, rest)) = Recorded::first_of(records) {
                let route = String::from_utf8_lossy(record.text(Text::Route)).into_owned();
                self.1.lock().unwrap().push_str(&format!("{}{route} ", self.0));
                records = rest;
            }
        }

        fn reopen(&mut self) {
            self.1.lock().unwrap().push_str("reopen ");
        }
    }

    #[test]
    fn a_subscriber_that_panics_is_noticed() {
        struct Bomb;
        impl Subscriber for Bomb {
            fn take(&mut self, _: &Arc<Batch>) {
                panic!("it was to be expected");
            }
        }
        let observer = Observer::start(1).unwrap();
        assert!(!observer.has_ended());
        observer.way().tell(vec![Box::new(Bomb)]);
        let mut ring = observer.rings().next().unwrap();
        ring.push(&ExchangeRecord::default(), false);
        ring.flush();
        while !observer.has_ended() {
            thread::yield_now();
        }
    }

    #[test]
    fn each_gets_what_was_sent_while_it_listened_and_all_of_it() {
        let observer = Observer::start(2).unwrap();
        let (mut rings, notes) = (observer.rings().collect::<Vec<_>>(), Arc::default());
        let mut send = |ring: usize, route: &str| {
            let mut record = ExchangeRecord::default();
            record.set(Text::Route, route.as_bytes());
            rings[ring].push(&record, false);
            assert!(rings[ring].flush() && rings[ring].take_dropped() == 0);
        };
        let way = observer.way();
        send(0, "nobody");
        way.tell(vec![
            Box::new(Notes('a', Arc::clone(&notes))),
            Box::new(Notes('b', Arc::clone(&notes))),
        ]);
        send(0, "1");
        send(1, "2");
        way.reopen();
        way.tell(vec![Box::new(Notes('c', Arc::clone(&notes)))]);
        send(0, "3");
        observer.end();
        assert_eq!(*notes.lock().unwrap(), "a1 b1 a2 b2 reopen reopen c3 ");
    }
}
