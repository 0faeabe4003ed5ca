//! What is sent and what must come back, laid out before the run.

use std::fs;
use std::io;

use titan_bench::coding::Coding;
use titan_bench::report::{Job, Manner};
use titan_bench::websocket;

/// The requests of a job, as batches that are written at once, and the responses they must get.
pub struct Script {
    /// One for each variant that a batch can begin with.
    batches: Vec<Vec<u8>>,
    answers: Vec<Vec<u8>>,
    /// Requests in a batch.
    pub depth: usize,
    /// Each connection carries one batch.
    pub fresh: bool,
    /// The coding that responses have to come in.
    pub coding: Option<Coding>,
    /// What turns a connection into a tunnel, in which batches are messages.
    pub opening: Option<Vec<u8>>,
    /// How many connections may begin with a full TLS handshake.
    pub full_handshakes: u64,
}

impl Script {
    /// Lays out a job.
    pub fn lay_out(job: &Job) -> io::Result<Self> {
        let (depth, fresh) = match job.manner {
            Manner::Pipelined(depth) => (depth.max(1), false),
            Manner::Fresh => (1, true),
            Manner::Idle | Manner::Messages | Manner::Streams(_) => (1, false),
        };
        let resumed = job.tls.as_ref().is_some_and(|tls| tls.resume);
        let fields = fields(job)?;
        let answers = job.target.variants();
        // As many as it takes for each request to carry each line, where one count divides the other.
        let variants = answers.max(fields.len());
        let request = |index: usize| {
            let fields = &fields[index % fields.len()];
            job.target.request_with(fields, index % answers, fresh)
        };
        let requests: Vec<_> = (0..variants).map(request).collect();
        let batch = |first| {
            (first..first + depth).flat_map(|index| &requests[index % variants]).copied().collect()
        };
        Ok(Self {
            batches: (0..variants).map(batch).collect(),
            answers: (0..answers).map(|variant| job.target.answer(variant)).collect(),
            depth,
            fresh,
            coding: job.coding,
            opening: (job.manner == Manner::Messages).then(websocket::opening),
            full_handshakes: if resumed { job.connections as u64 } else { u64::MAX },
        })
    }

    /// How many different batches there are.
    pub fn count(&self) -> usize {
        self.batches.len()
    }

    /// The bytes of the batch numbered `batch`.
    pub fn batch(&self, batch: usize) -> &[u8] {
        &self.batches[batch % self.batches.len()]
    }

    /// The body that responses request `index` of that batch.
    pub fn answer(&self, batch: usize, index: usize) -> &[u8] {
        &self.answers[(batch + index) % self.answers.len()]
    }
}

/// The field lines that requests carry in turn, with their line ends; at least one text.
fn fields(job: &Job) -> io::Result<Vec<String>> {
    let coding = job.coding.map(|coding| format!("Accept-Encoding: {}\r\n", coding.name()));
    let coding = coding.unwrap_or_default();
    let Some(path) = &job.fields else { return Ok(vec![coding]) };
    let texts: Vec<String> = serde_json::from_slice(&fs::read(path)?)?;
    Ok(texts.iter().map(|text| format!("{text}{coding}")).collect())
}
