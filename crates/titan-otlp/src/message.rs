//! Many records in one message, with who sends them; compressed, and framed as its protocol needs it.

use crate::value::{self, Value};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use titan_config::{Collector, OtlpCompression, OtlpProtocol};
use titan_io::protobuf;

/// What goes around the records of a message. The messages of all signals have the same fields in the same places.
#[derive(Debug)]
pub(crate) struct Envelope {
    /// Who sends them, as a field of what is below.
    resource: Vec<u8>,
    /// What has made them, as a field of what is below that.
    scope: Vec<u8>,
    protocol: OtlpProtocol,
    compression: OtlpCompression,
}

/// `ResourceLogs` in the message.
const OF_RESOURCE: u64 = 1;
/// `Resource` in `ResourceLogs`.
const RESOURCE: u64 = 1;
/// `ScopeLogs` in `ResourceLogs`.
const OF_SCOPE: u64 = 2;
/// `InstrumentationScope` in `ScopeLogs`.
const SCOPE: u64 = 1;
/// The attributes of a `Resource`.
const ATTRIBUTES: u64 = 1;

/// Faster by far than the usual level, and nearly as small on what repeats itself as records do.
const LEVEL: u32 = 1;

impl Envelope {
    pub(crate) fn new(collector: &Collector) -> Envelope {
        let (protocol, compression) = (collector.protocol, collector.compression);
        let mut attributes = Vec::new();
        let mut put = |name: &str, value: &str| {
            let is_given = collector.resource.iter().any(|(given, _)| given.as_str() == name);
            if !is_given && !value.is_empty() {
                let value = Value::Text(value.as_bytes());
                value::attribute(ATTRIBUTES, name, value, &mut attributes);
            }
        };
        put("service.name", &collector.service);
        put("service.version", env!("CARGO_PKG_VERSION"));
        put("host.name", &rustix::system::uname().nodename().to_string_lossy());
        for (name, value) in &collector.resource {
            let value = Value::Text(value.as_bytes());
            value::attribute(ATTRIBUTES, name.as_str(), value, &mut attributes);
        }
        let mut resource = Vec::new();
        protobuf::bytes(RESOURCE, &attributes, &mut resource);
        let (mut name, mut scope) = (Vec::new(), Vec::new());
        protobuf::bytes(1, b"titan", &mut name);
        protobuf::bytes(2, env!("CARGO_PKG_VERSION").as_bytes(), &mut name);
        protobuf::bytes(SCOPE, &name, &mut scope);
        Envelope { resource, scope, protocol, compression }
    }

    /// The body of the request that sends these records.
    pub(crate) fn body(&self, records: &[u8]) -> Vec<u8> {
        let message = self.compressed(self.message(records));
        match self.protocol {
            OtlpProtocol::Http => message,
            OtlpProtocol::Grpc => {
                let is_compressed = u8::from(self.compression == OtlpCompression::Gzip);
                let length = u32::try_from(message.len()).expect("a batch is bounded");
                [&[is_compressed][..], &length.to_be_bytes(), &message].concat()
            }
        }
    }

    fn message(&self, records: &[u8]) -> Vec<u8> {
        let Envelope { resource, scope, .. } = self;
        let mut of_scope = Vec::new();
        protobuf::start(OF_SCOPE, (scope.len() + records.len()) as u64, &mut of_scope);
        let length = resource.len() + of_scope.len() + scope.len() + records.len();
        let mut message = Vec::with_capacity(length + 16);
        protobuf::start(OF_RESOURCE, length as u64, &mut message);
        for part in [resource, &of_scope, scope, records] {
            message.extend_from_slice(part);
        }
        message
    }

    fn compressed(&self, message: Vec<u8>) -> Vec<u8> {
        match self.compression {
            OtlpCompression::None => message,
            OtlpCompression::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::new(LEVEL));
                let written = encoder.write_all(&message).and_then(|()| encoder.finish());
                written.expect("memory takes everything")
            }
        }
    }
}
