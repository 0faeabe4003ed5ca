//! What follows from the list of policies in titan-config: each type has its place in a chain, its state, its state
//! per worker, its credentials and its metrics, and runs in the order of the list.

use crate::context::{PolicyContext, Step};
use crate::policy::{ExchangeEnd, Metric, OwnState, Policy, Response, Setting};
use crate::story::Story;
use std::iter;
use std::sync::Arc;
use titan_config::{Config, NamedPolicy, PolicyId, PolicyKind, Route};
use titan_http::BadField;
use titan_io::counter::{Counted, Counter};
use titan_io::error::{Error, Kind};
use titan_io::registry::Registry;
use titan_io::tls::{BadCredentials, Files};

/// A policy where it is met.
pub(crate) struct ChainLink<P: Policy> {
    pub(crate) policy: Arc<P>,
    /// Its place among the policies of the configuration.
    place: usize,
    counted: Arc<Counted<P::Cells>>,
    verdicts: Arc<Counted<Verdicts>>,
}

/// What a policy has made of requests.
#[derive(Default)]
pub(crate) struct Verdicts {
    /// Those that went on.
    passed: Counter,
    /// Those that it has responded to by itself.
    responded: Counter,
    /// Those that it has refused, some of them once their body had come.
    refused: Counter,
}

/// A metric of policies: a counter for each policy and each of its figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyMetric {
    /// What it is called.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// The label that tells the figures of a policy apart; empty where there is one figure.
    pub label: &'static str,
    /// The figures, over all workers.
    pub figures: Vec<PolicyFigure>,
}

/// A figure of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFigure {
    /// The name of the policy.
    pub policy: String,
    /// Which of its figures it is; empty where there is one.
    pub figure: &'static str,
    /// How many.
    pub count: u64,
    /// The line for the operator once it has grown, before the number.
    pub event: Option<String>,
}

/// What policies are built with: what outlives their configuration, and the number of workers.
pub type BuildContext<'r> = (&'r Registry, usize);

impl<P: Policy> ChainLink<P> {
    fn new(
        policy: P,
        name: &str,
        place: usize,
        (registry, workers): BuildContext<'_>,
    ) -> ChainLink<P> {
        let counted = Counted::of(registry, name, workers);
        let verdicts = Counted::of(registry, name, workers);
        ChainLink { policy: Arc::new(policy), place, counted, verdicts }
    }

    /// The same for the requests of a route.
    fn for_route(&self, route: &Route) -> ChainLink<P> {
        ChainLink { policy: self.policy.for_route(route), ..self.clone() }
    }

    fn own<'m>(
        &'m self,
        state: &'m mut P::State,
        kept: &'m P::PerWorker,
        worker: usize,
    ) -> OwnState<'m, P> {
        OwnState { state, kept, cells: self.counted.cells(worker) }
    }

    /// Counts what it has made of a request.
    fn count(&self, step: &Result<Step, Error>, worker: usize) {
        let Verdicts { passed, responded, refused } = self.verdicts.cells(worker);
        match step {
            Ok(Step::Go) => passed,
            Ok(Step::Respond(_)) => responded,
            Err(_) => refused,
        }
        .add(1);
    }

    /// Shows it the body, if it needs one.
    fn check_body(
        &self,
        body: &[u8],
        state: &mut P::State,
        kept: &P::PerWorker,
        worker: usize,
    ) -> Result<(), Error> {
        match self.policy.needs_body() {
            Some(_) => {
                let checked = self.policy.on_body(body, self.own(state, kept, worker));
                checked.inspect_err(|_| self.verdicts.cells(worker).refused.add(1))
            }
            None => Ok(()),
        }
    }
}

impl<P: Policy> Clone for ChainLink<P> {
    fn clone(&self) -> ChainLink<P> {
        ChainLink {
            policy: Arc::clone(&self.policy),
            place: self.place,
            counted: Arc::clone(&self.counted),
            verdicts: Arc::clone(&self.verdicts),
        }
    }
}

impl Verdicts {
    /// Those of all policies.
    pub(crate) fn metric(all: &[Arc<Counted<Verdicts>>]) -> PolicyMetric {
        let figures = all.iter().flat_map(|of_policy| {
            let count = |of: fn(&Verdicts) -> &Counter| of_policy.sum(|cells| of(cells).get());
            let counts = [
                ("passed", count(|it| &it.passed)),
                ("responded", count(|it| &it.responded)),
                ("refused", count(|it| &it.refused)),
            ];
            let policy = of_policy.name();
            let figure = move |(figure, count)| PolicyFigure {
                policy: policy.to_owned(),
                figure,
                count,
                event: None,
            };
            counts.map(figure)
        });
        PolicyMetric {
            name: "titan_policy_requests_total",
            help: "Requests that have come to a policy, by what it has made of them.",
            label: "verdict",
            figures: figures.collect(),
        }
    }
}

/// How many bytes of a body all of them can look at, where one needs it.
fn needed(by_each: impl IntoIterator<Item = Option<usize>>) -> Option<usize> {
    by_each.into_iter().flatten().min()
}

/// Runs the response halves of those that are there, the last of the list first.
macro_rules! respond {
    ($with:tt [$first:ident $($rest:ident)*] $($last:ident)*) => {
        respond!($with [$($rest)*] $first $($last)*)
    };
    (($response:ident $states:ident $kept:ident $worker:ident) [] $($field:ident)*) => {
        $(if let Some(placed) = $field {
            let own = placed.own(&mut $states.$field, &$kept.$field, $worker);
            placed.policy.on_response($response, own)?;
        })*
    };
}

macro_rules! list {
    ($($(#[doc = $doc:literal])+ $Kind:ident $field:ident;)+) => {
        /// The policies that a request meets: at most one of each type.
        #[derive(Clone, Default)]
        pub struct Chain {
            $(pub(crate) $field: Option<ChainLink<crate::$field::$Kind>>,)+
        }

        /// What each policy keeps of a request for its response and its end.
        #[derive(Default)]
        pub struct States {
            $(pub(crate) $field: <crate::$field::$Kind as Policy>::State,)+
        }

        /// What the policies of one worker keep.
        #[derive(Default)]
        pub struct PerWorker {
            $(pub(crate) $field: <crate::$field::$Kind as Policy>::PerWorker,)+
        }

        impl PerWorker {
            /// Forgets what was kept for policies that are gone.
            pub fn sweep(&self) {
                $(crate::$field::$Kind::sweep(&self.$field);)+
            }
        }

        /// What the policies of each type have in common.
        #[derive(Default)]
        pub struct Shared {
            $(pub(crate) $field: <crate::$field::$Kind as Policy>::Shared,)+
        }

        /// What the files come to that a policy names.
        #[derive(Clone)]
        pub(crate) enum Credentials {
            $($(#[doc = $doc])+ $Kind(<crate::$field::$Kind as Policy>::Credentials),)+
        }

        /// A policy that is ready to be met. Routes that name the same one share it.
        #[derive(Clone)]
        pub(crate) enum Ready {
            $($Kind(ChainLink<crate::$field::$Kind>),)+
        }

        /// What a policy counts.
        pub(crate) enum Counters {
            $($(#[doc = $doc])+ $Kind(Arc<Counted<<crate::$field::$Kind as Policy>::Cells>>),)+
        }

        impl Credentials {
            /// Those of a policy.
            pub(crate) fn read(
                policy: &titan_config::Policy,
                files: &Files,
            ) -> Result<Credentials, BadCredentials> {
                match policy {
                    $(titan_config::Policy::$Kind(config) => {
                        crate::$field::$Kind::read(config, files).map(Credentials::$Kind)
                    })+
                }
            }

            /// Those of a policy whose files were not read.
            pub(crate) fn unread(kind: PolicyKind) -> Credentials {
                match kind {
                    $(PolicyKind::$Kind => Credentials::$Kind(Default::default()),)+
                }
            }

            /// Everything that is wrong with those of a policy.
            pub(crate) fn faults(
                policy: &titan_config::Policy,
                files: &Files,
            ) -> Vec<BadCredentials> {
                match policy {
                    $(titan_config::Policy::$Kind(config) => {
                        crate::$field::$Kind::faults(config, files)
                    })+
                }
            }
        }

        /// Everything that policies refuse requests for.
        pub fn refusals() -> impl Iterator<Item = Kind> {
            let all: &[&[Kind]] = &[$(crate::$field::$Kind::REFUSALS,)+];
            all.iter().copied().flatten().copied()
        }

        impl Ready {
            /// Makes a policy ready.
            pub(crate) fn new(
                (place, named): (usize, &NamedPolicy),
                credentials: Credentials,
                config: &Config,
                shared: &Shared,
                build: BuildContext<'_>,
            ) -> Ready {
                let name = named.name.as_str();
                match (&named.policy, credentials) {
                    $((titan_config::Policy::$Kind(own), Credentials::$Kind(credentials)) => {
                        let shared = &shared.$field;
                        let setting = Setting { name, config, shared, registry: build.0 };
                        let policy = crate::$field::$Kind::new(own, credentials, &setting);
                        Ready::$Kind(ChainLink::new(policy, name, place, build))
                    })+
                    _ => unreachable!("credentials are read in the order of the policies"),
                }
            }

            /// Uses other credentials from now on.
            pub(crate) fn replace(&self, credentials: Credentials) {
                match (self, credentials) {
                    $((Ready::$Kind(placed), Credentials::$Kind(credentials)) => {
                        placed.policy.replace(credentials);
                    })+
                    _ => unreachable!("credentials are read in the order of the policies"),
                }
            }

            /// What it is called.
            pub(crate) fn name(&self) -> &str {
                match self {
                    $(Ready::$Kind(placed) => placed.counted.name(),)+
                }
            }

            /// What it makes of requests.
            pub(crate) fn verdicts(&self) -> Arc<Counted<Verdicts>> {
                match self {
                    $(Ready::$Kind(placed) => Arc::clone(&placed.verdicts),)+
                }
            }

            /// What it counts.
            pub(crate) fn counters(&self) -> Counters {
                match self {
                    $(Ready::$Kind(placed) => Counters::$Kind(Arc::clone(&placed.counted)),)+
                }
            }
        }

        impl Counters {
            /// What all of these have counted.
            pub(crate) fn metrics(all: &[Counters]) -> Vec<PolicyMetric> {
                let mut metrics = Vec::new();
                $(for metric in crate::$field::$Kind::METRICS {
                    let figures = figures_of(&mut metrics, metric);
                    for counters in all {
                        if let Counters::$Kind(counted) = counters {
                            add_figures(counted, metric, figures);
                        }
                    }
                })+
                metrics
            }
        }

        impl Chain {
            /// Those that the requests of a route meet.
            pub(crate) fn new(route: &Route, ready: &[Ready]) -> Chain {
                let mut chain = Chain::default();
                let of = |id: PolicyId| &ready[id.index()];
                let ids = PolicyKind::ALL.iter().filter_map(|kind| route.policies.of(*kind));
                for policy in ids.map(of) {
                    match policy {
                        $(Ready::$Kind(placed) => chain.$field = Some(placed.for_route(route)),)+
                    }
                }
                chain
            }

            /// The request half.
            pub async fn on_request<'m>(
                &'m self,
                context: &mut PolicyContext<'m>,
                states: &mut States,
                kept: &PerWorker,
            ) -> Result<Step, Error> {
                $(if let Some(placed) = &self.$field {
                    let own = placed.own(&mut states.$field, &kept.$field, context.worker);
                    let met = placed.policy.on_request(context, own).await;
                    placed.count(&met, context.worker);
                    if !matches!(met, Ok(Step::Go)) {
                        context.findings.decided_by = Some(placed.place);
                        return met;
                    }
                })+
                Ok(Step::Go)
            }

            /// The places of those that requests meet, in order.
            pub fn places(&self) -> impl Iterator<Item = usize> {
                let places = [$(self.$field.as_ref().map(|placed| placed.place),)+];
                places.into_iter().flatten()
            }

            /// Whether requests meet none.
            pub fn is_empty(&self) -> bool {
                true $(&& self.$field.is_none())+
            }

            /// How many bytes of a body its policies can look at, where one of them has to see all of it.
            pub fn needs_body(&self) -> Option<usize> {
                needed([$(self.$field.as_ref().and_then(|placed| placed.policy.needs_body()),)+])
            }

            /// The body, for those that need it.
            pub fn on_body(
                &self,
                body: &[u8],
                states: &mut States,
                (kept, worker): (&PerWorker, usize),
            ) -> Result<(), Error> {
                $(if let Some(placed) = &self.$field {
                    placed.check_body(body, &mut states.$field, &kept.$field, worker)?;
                })+
                Ok(())
            }

            /// The response half.
            pub(crate) fn on_response(
                &self,
                response: &mut Response<'_>,
                states: &mut States,
                kept: &PerWorker,
                worker: usize,
            ) -> Result<(), BadField> {
                let Chain { $($field,)+ } = self;
                respond!((response states kept worker) [$($field)+]);
                Ok(())
            }

            /// The end.
            pub fn on_end(&self, end: &ExchangeEnd, states: &mut States, kept: &PerWorker, worker: usize) {
                $(if let Some(placed) = &self.$field {
                    placed.policy.on_end(end, placed.own(&mut states.$field, &kept.$field, worker));
                })+
            }

            /// What each would decide about a hypothetical request.
            pub fn explain<'m>(
                &'m self,
                context: &mut PolicyContext<'m>,
                states: &mut States,
                story: &mut Story<'_>,
            ) -> Result<Step, Error> {
                let kept = PerWorker::default();
                $(if let Some(placed) = &self.$field {
                    story.begin(PolicyKind::$Kind, placed.counted.name(), placed.place);
                    let own = placed.own(&mut states.$field, &kept.$field, context.worker);
                    let step = placed.policy.explain(context, own, story)?;
                    story.verdict()?;
                    if let Step::Respond(_) = step {
                        return Ok(step);
                    }
                })+
                Ok(Step::Go)
            }
        }
    };
}

titan_config::policies!(list);

/// Where the figures of a metric go. Policies of several types may count the same.
fn figures_of<'m, C>(
    metrics: &'m mut Vec<PolicyMetric>,
    metric: &Metric<C>,
) -> &'m mut Vec<PolicyFigure> {
    let Metric { name, help, label, .. } = *metric;
    let known = metrics.iter().position(|it| it.name == name);
    let place = known.unwrap_or_else(|| {
        metrics.push(PolicyMetric { name, help, label, figures: Vec::new() });
        metrics.len() - 1
    });
    &mut metrics[place].figures
}

/// Adds what a policy has counted, over all workers.
fn add_figures<C: Default>(
    counted: &Counted<C>,
    metric: &Metric<C>,
    figures: &mut Vec<PolicyFigure>,
) {
    let (start, none) = (figures.len(), C::default());
    // A figure is there before anything was counted.
    for cells in iter::once(&none).chain(counted.workers()) {
        for (place, (figure, count)) in (metric.figures)(cells).into_iter().enumerate() {
            match figures.get_mut(start + place) {
                Some(sum) => sum.count += count,
                None => {
                    let policy = counted.name().to_owned();
                    let event = (metric.event)(&policy, figure);
                    figures.push(PolicyFigure { policy, figure, count, event });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Refuses bodies with an `x`, and needs them where it has a limit.
    struct Probe {
        most: Option<usize>,
    }

    impl Policy for Probe {
        type Config = ();
        type Credentials = ();
        type State = usize;
        type Shared = ();
        type PerWorker = ();
        type Cells = ();

        fn new(_: &(), _: (), _: &Setting<'_, Self>) -> Probe {
            Probe { most: None }
        }

        fn needs_body(&self) -> Option<usize> {
            self.most
        }

        fn on_body(&self, body: &[u8], own: OwnState<'_, Self>) -> Result<(), Error> {
            *own.state = body.len();
            if body.contains(&b'x') { Err(Kind::BodyTooLarge.into()) } else { Ok(()) }
        }

        fn explain<'m>(
            &'m self,
            _: &mut PolicyContext<'m>,
            _: OwnState<'_, Self>,
            _: &mut Story<'_>,
        ) -> Result<Step, Error> {
            Ok(Step::Go)
        }
    }

    fn probe(most: Option<usize>) -> ChainLink<Probe> {
        ChainLink::new(Probe { most }, "probe", 0, (&Registry::default(), 1))
    }

    #[test]
    fn only_policies_that_need_a_body_get_it() {
        let (needs, does_not) = (probe(Some(10)), probe(None));
        let mut seen = 0;
        assert_eq!(needs.check_body(b"abc", &mut seen, &(), 0), Ok(()));
        assert_eq!(seen, 3);
        let refused = needs.check_body(b"xy", &mut seen, &(), 0);
        assert_eq!((refused, seen), (Err(Kind::BodyTooLarge.into()), 2));
        assert_eq!(does_not.check_body(b"xyz", &mut seen, &(), 0), Ok(()));
        assert_eq!(seen, 2);
    }

    #[test]
    fn a_body_is_no_larger_than_all_can_look_at() {
        assert_eq!(needed([None, None]), None);
        assert_eq!(needed([Some(10), None, Some(7)]), Some(7));
    }

    #[test]
    fn by_default_no_policy_needs_a_body() {
        assert_eq!(Chain::default().needs_body(), None);
    }
}
