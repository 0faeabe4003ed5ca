//! What access logs and traces are written to: found if another configuration has it, opened else.

use super::credentials::client_tls;
use super::error::LoadError;
use crate::snapshot::Snapshot;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use titan_config::{AccessLog, Config, LogDestination, LogTarget, Name};
use titan_io::registry::Registry;
use titan_io::tls::{ClientSettings, ClientTls, Files};
use titan_observe::access::AccessLogWriter;
use titan_observe::destination::{BadDestination, Destination, DestinationFigures};
use titan_observe::observer::Subscriber;
use titan_observe::recorder::RecorderWriter;
use titan_otlp::collector::Collector;
use titan_otlp::exporter;
use titan_otlp::figures::ExporterFigures;
use titan_otlp::logs::LogRecords;
use titan_otlp::routes::RoutePaths;
use titan_otlp::traces::TraceWriter;

/// The collectors of OpenTelemetry of a configuration.
pub(super) struct Collectors(HashMap<Name, PreparedCollector>);

struct PreparedCollector {
    collector: Arc<Collector>,
    /// What TLS is spoken with from now on, also if the collector is that of the configuration before.
    tls: Option<Arc<ClientSettings>>,
}

/// What makes a destination the one that another configuration writes to: what that waits for is not to be thrown away, and a FIFO
/// is not to lose its writer, because something else has changed.
#[derive(PartialEq, Eq, Hash)]
struct DestinationKey {
    target: LogTarget,
    folder: PathBuf,
    /// Tells apart those that one configuration has to the same target.
    name: String,
}

/// The same of one that goes to a collector.
#[derive(PartialEq, Eq, Hash)]
struct ExportKey {
    /// The place of the collector in memory, where another one cannot be: the destination holds it.
    collector: usize,
    /// Tells apart what goes to the same one.
    name: String,
}

impl Collectors {
    /// Those of a configuration. `files` holds the files that it names.
    pub(super) fn new(
        config: &Config,
        files: &Files,
        registry: &Registry,
    ) -> Result<Collectors, LoadError> {
        let prepare = |it: &titan_config::Collector| {
            let tls = client_tls(&it.upstream, files).map_err(LoadError::Credentials)?;
            let settings = tls.as_ref().map(ClientTls::settings);
            let collector = Collector::of(it, &config.resolver, tls, registry);
            Ok((it.name.clone(), PreparedCollector { collector, tls: settings }))
        };
        config.otlp.iter().map(prepare).collect::<Result<_, _>>().map(Collectors)
    }

    /// From now on, they are spoken with as this configuration and its files say.
    pub(super) fn take_effect(self) {
        for PreparedCollector { collector, tls } in self.0.into_values() {
            if let (Some(tls), Some(settings)) = (collector.tls(), tls) {
                tls.replace(settings);
            }
        }
    }

    fn get(&self, name: &Name) -> &Arc<Collector> {
        let found = self.0.get(name);
        &found.expect("names of collectors have been checked").collector
    }
}

/// Finds what goes to that collector and is counted there, or begins it.
fn exported(
    collector: &Arc<Collector>,
    figures: &Arc<ExporterFigures>,
    registry: &Registry,
) -> Result<Arc<Mutex<Destination>>, BadDestination> {
    let key = ExportKey {
        collector: Arc::as_ptr(collector).addr(),
        name: figures.destination.name().to_owned(),
    };
    registry.try_shared(key, || exporter::start(collector, figures).map(Mutex::new))
}

/// Finds what the access logs and traces are written to, or opens it.
pub(super) fn open_logs(
    config: &Config,
    files: &Files,
    collectors: &Collectors,
    (snapshot, registry): (&Snapshot, &Registry),
) -> Result<Vec<Box<dyn Subscriber>>, LoadError> {
    let bad = |error: BadDestination| LoadError::AccessLog(error.to_string());
    let routes = if collectors.0.is_empty() { &[][..] } else { &config.routes };
    let routes = Arc::new(RoutePaths::of(routes));
    let open = |log: &AccessLog, figures: &Arc<DestinationFigures>| {
        Ok(Box::new(match &log.to {
            LogDestination::Lines(target) => {
                let folder = files.folder();
                let key = DestinationKey {
                    target: target.clone(),
                    folder: folder.to_owned(),
                    name: figures.name().to_owned(),
                };
                let open = || Destination::open(target, folder, Arc::clone(figures));
                let opened = registry.try_shared(key, || open().map(Mutex::new));
                AccessLogWriter::new(log, opened.map_err(bad)?)
            }
            LogDestination::Otlp(collector) => {
                let (collector, figures) = (collectors.get(collector), snapshot.exporter(figures));
                let opened = exported(collector, figures, registry).map_err(bad)?;
                AccessLogWriter::with(log, Box::new(LogRecords::new(log, &routes)), opened)
            }
        }) as Box<dyn Subscriber>)
    };
    let logs = config.access_log.iter().zip(&snapshot.access_logs);
    let mut logs = logs.map(|(log, figures)| open(log, figures)).collect::<Result<Vec<_>, _>>()?;
    if config.recorder.is_some() {
        logs.push(Box::new(RecorderWriter(Arc::clone(&snapshot.recorder))));
    }
    if let (Some(tracing), Some(figures)) = (&config.tracing, snapshot.trace_exporter()) {
        let collector = collectors.get(&tracing.collector);
        let opened = exported(collector, figures, registry).map_err(bad)?;
        logs.push(Box::new(TraceWriter::new(tracing, &routes, opened)));
    }
    if !logs.is_empty() {
        let always = config.tracing.as_ref().map(|tracing| tracing.always.clone());
        logs.push(Box::new(snapshot.exemplar_notes(always)));
    }
    Ok(logs)
}
