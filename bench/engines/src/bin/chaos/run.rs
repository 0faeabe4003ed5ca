//! One case: the gateways side by side, each in front of endpoints of its own, which fail at the same time.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use titan_bench::launch::{Running, run_directory};
use tokio::runtime;
use tokio::task::{JoinHandle, LocalSet};
use tokio::time::{sleep, sleep_until};

use crate::case::{Case, Fault, NameFault, Protocol};
use crate::endpoints::{self, Endpoint};
use crate::figures::{Figures, Times};
use crate::gateway::{Engine, Place, Programs};
use crate::load::{self, Load};
use crate::names::Names;
use crate::options::{Options, Schedule};

/// How many of the endpoints a gateway has at the beginning.
const AT_FIRST: usize = 3;
/// How long an endpoint that a name no longer stands for still serves.
const GRACE: Duration = Duration::from_secs(2);

/// A gateway and what belongs to it.
struct Stand {
    engine: Engine,
    gateway: Running,
    endpoints: Vec<Endpoint>,
    names: Option<Names>,
}

/// The figures of each gateway.
pub fn case(
    case: &'static Case,
    protocol: Protocol,
    options: &Options,
    programs: &Programs,
) -> io::Result<Vec<Figures>> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        let mut stands = Vec::new();
        for engine in programs.engines() {
            stands.push(Stand::start(engine, case, protocol, programs).await?);
        }
        for stand in &stands {
            load::is_ready(stand.gateway.address, protocol, AT_FIRST).await.map_err(|error| {
                let log = stand.gateway.log().unwrap_or_default();
                io::Error::other(format!("{}: {error}\n{log}", stand.engine.name()))
            })?;
        }
        under_load(case, protocol, &options.schedule(), &mut stands).await
    })
}

async fn under_load(
    case: &'static Case,
    protocol: Protocol,
    schedule: &Schedule,
    stands: &mut [Stand],
) -> io::Result<Vec<Figures>> {
    let begin = Instant::now();
    let start = |stand: &Stand| Load::start(stand.gateway.address, protocol, schedule.rate, begin);
    let loads: Vec<(Rc<Load>, JoinHandle<()>)> = stands.iter().map(start).collect();
    sleep(schedule.before).await;
    let from = begin.elapsed();
    for stand in &mut *stands {
        stand.fail(case)?;
    }
    sleep_until((begin + from + schedule.during.min(GRACE)).into()).await;
    for stand in &mut *stands {
        stand.end_what_is_not_known(case)?;
    }
    sleep_until((begin + from + schedule.during).into()).await;
    let to = begin.elapsed();
    for stand in &mut *stands {
        stand.recover(case)?;
    }
    sleep(schedule.after).await;
    while begin.elapsed() < to + schedule.patience
        && !loads.iter().all(|(load, _)| has_returned(case, load, to))
    {
        sleep(Duration::from_millis(50)).await;
    }
    loads.iter().for_each(|(_, sending)| sending.abort());
    let times = Times { begin, from, to };
    let mut figures = Vec::new();
    for (stand, (load, _)) in stands.iter().zip(&loads) {
        let samples = load.end().await;
        let tries: Vec<_> = stand.endpoints.iter().map(Endpoint::tries).collect();
        figures.push(Figures::of(stand.engine, case, protocol, &times, &samples, &tries));
    }
    Ok(figures)
}

/// Whether the gateway has sent requests to all endpoints that had failed.
fn has_returned(case: &Case, load: &Load, since: Duration) -> bool {
    case.failing().all(|index| load.has_reached(b'1' + index as u8, since))
}

impl Stand {
    async fn start(
        engine: Engine,
        case: &Case,
        protocol: Protocol,
        programs: &Programs,
    ) -> io::Result<Self> {
        let directory = run_directory(&format!("endpoints-of-{}", engine.name()))?;
        let directory = fs::canonicalize(directory)?;
        let endpoints = endpoints::start(&programs.endpoint, protocol, &directory).await?;
        let addresses: Vec<SocketAddr> = endpoints.iter().map(|it| it.address).collect();
        let at_first = &addresses[..AT_FIRST];
        let names = match case.names {
            Some(_) => Some(Names::start(at_first.iter().filter_map(ipv4).collect())?),
            None => None,
        };
        let server = names.as_ref().map(|names| names.address);
        let place = Place { protocol, endpoints: at_first, names: server };
        let gateway = engine.start(programs, &place)?;
        Ok(Self { engine, gateway, endpoints, names })
    }

    fn fail(&mut self, case: &Case) -> io::Result<()> {
        for (endpoint, fault) in self.endpoints.iter_mut().zip(case.faults) {
            fault.map_or(Ok(()), |fault| endpoint.fail(fault))?;
        }
        match (&self.names, case.names) {
            (Some(names), Some(NameFault::Changed)) => {
                let others = [0, 1, 3].map(|index: usize| self.endpoints[index].address);
                names.answer(Some(others.iter().filter_map(ipv4).collect()));
            }
            (Some(names), Some(NameFault::Failed)) => names.answer(None),
            _ => {}
        }
        Ok(())
    }

    /// The third endpoint, when its name no longer stands for it.
    fn end_what_is_not_known(&mut self, case: &Case) -> io::Result<()> {
        match case.names {
            Some(NameFault::Changed) => self.endpoints[2].fail(Fault::Killed),
            _ => Ok(()),
        }
    }

    fn recover(&mut self, case: &Case) -> io::Result<()> {
        for (endpoint, fault) in self.endpoints.iter_mut().zip(case.faults) {
            fault.map_or(Ok(()), |fault| endpoint.recover(fault))?;
        }
        if let (Some(names), Some(NameFault::Failed)) = (&self.names, case.names) {
            let at_first = &self.endpoints[..AT_FIRST];
            names.answer(Some(at_first.iter().filter_map(|it| ipv4(&it.address)).collect()));
        }
        Ok(())
    }
}

fn ipv4(address: &SocketAddr) -> Option<Ipv4Addr> {
    match address.ip() {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}
