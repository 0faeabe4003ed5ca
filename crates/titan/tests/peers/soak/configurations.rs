//! The configurations that come into force one after the other. Each tells its number in every response.

use std::net::SocketAddr;
use titan_testkit::{Authority, Certificate, Owner, authority};

use crate::place::{Folder, own_address};

/// After so many configurations the next one is like the first, but for its number.
pub(super) const PERIOD: usize = 4;

/// The hash of `secret`, quickly checked.
const SECRET: &str = "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";

/// What may be known of a configuration: what its digest is of.
pub(super) fn public(text: &str) -> String {
    text.replace(SECRET, "***")
}

/// What all of them have in common: addresses and certificates.
pub(super) struct Site {
    pub(super) clear: SocketAddr,
    pub(super) secure: SocketAddr,
    /// Listeners that come and go, the second one with TLS.
    pub(super) passing: [SocketAddr; 2],
    pub(super) admin: SocketAddr,
    /// The upstreams' endpoints. The last one has a name, too: `localhost`.
    pub(super) origins: [SocketAddr; 3],
    pub(super) authority: Authority,
}

/// One of them.
#[derive(Clone, Copy)]
pub(super) struct Configuration(pub(super) usize);

impl Site {
    /// New addresses, and certificates in that folder.
    pub(super) fn new(folder: &Folder, origins: [SocketAddr; 3]) -> Site {
        let authority = authority("soak");
        folder.write("authority.pem", &authority.cert);
        let secure = own_address();
        for name in NAMES {
            let names = ["dns:localhost", &format!("dns:{name}"), &format!("ip:{}", secure.ip())];
            let owner = Owner { names: &names, is_server: true, ..Owner::default() };
            let Certificate { cert, key, .. } = authority.signs(owner);
            folder.write(&format!("{name}.pem"), cert);
            folder.write(&format!("{name}.key"), key);
        }
        let (clear, admin) = (own_address(), own_address());
        Site { clear, secure, passing: [own_address(), own_address()], admin, origins, authority }
    }
}

/// The certificates, which are named like what they are for.
const NAMES: [&str; 2] = ["even.test", "odd.test"];

impl Configuration {
    /// The name that its certificate is for, and the other one, which it is not for.
    pub(super) fn names(self) -> [&'static str; 2] {
        let [even, odd] = NAMES;
        if self.0.is_multiple_of(2) { [even, odd] } else { [odd, even] }
    }

    /// Which endpoint is behind `/moves`.
    pub(super) fn moves_to(self) -> usize {
        self.0 % 2
    }

    /// Which endpoints are behind `/through`.
    pub(super) fn leads_to(self, origin: usize) -> bool {
        match self.0 % PERIOD {
            2 => origin == 0 || origin == 2,
            _ => origin < 2,
        }
    }

    /// Which of the listeners that come and go it has.
    pub(super) fn passing(self) -> Option<usize> {
        (self.0 % 2 == 1).then_some(self.0 / 2 % 2)
    }

    /// The file.
    pub(super) fn text(self, site: &Site) -> String {
        let Configuration(number) = self;
        let Site { clear, secure, admin, origins, .. } = site;
        let [first, second, third] = origins;
        let [name, _] = self.names();
        let tls = format!("tls: {{ certificates: [{{ cert: {name}.pem, key: {name}.key }}] }}");
        let passing = self.passing().map_or_else(String::new, |place| {
            let tls = if place == 1 { format!(", {tls}") } else { String::new() };
            format!("- {{ name: passing-{number}, address: \"{}\"{tls} }}", site.passing[place])
        });
        let (steady, keys) = match number % PERIOD {
            2 => (format!("\"{first}\", \"localhost:{}\"", third.port()), keys(site, number)),
            _ => (format!("\"{first}\", \"{second}\""), String::new()),
        };
        let keyed = if keys.is_empty() { String::new() } else { format!(", keys-{number}") };
        let moved = origins[self.moves_to()];
        let balance = ["round_robin", "least_requests", "p2c_ewma", "random"][number % 4];
        format!(
            r#"workers: 2
admin: "{admin}"
limits: {{ requests_per_connection: unlimited, fields: {fields} }}
listeners:
  - {{ name: clear, address: "{clear}", max_connections: {most} }}
  - {{ name: secure, address: "{secure}", {tls} }}
  {passing}
apply: [stamp-{number}, fair]
routes:
  - {{ path: /fixed, respond: {{ body: "{number}" }} }}
  - {{ prefix: /through, upstream: steady, apply: [count-{kind}{keyed}] }}
  - {{ prefix: /moves, upstream: moves-{number} }}
  - {{ name: by-password, prefix: /private, upstream: steady, apply: [users] }}
  - {{ name: only-{number}, path: /only/{number}, respond: 200 }}
  - {{ path: /keys, respond: {{ body: '{{"keys":[]}}', content_type: application/json }} }}
  - {{ name: rest, prefix: /, respond: 404 }}
upstreams:
  steady: {{ endpoints: [{steady}], balance: {balance}, idle_timeout: 1s }}
  moves-{number}: {{ endpoints: "{moved}", idle_timeout: 1s }}
policies:
  stamp-{number}: {{ transform: {{ response: {{ headers: {{ set: {{ X-Number: "{number}" }} }} }} }} }}
  fair: {{ rate_limit: {{ rates: {{ rate: {rate}/s, burst: {rate} }} }} }}
  count-{kind}: {{ rate_limit: {{ key: route, rates: {{ rate: 1000000/s, burst: 1000000 }} }} }}
  users: {{ authorise: {{ basic: {{ users: {{ ann: {SECRET} }} }} }} }}
  {keys}
"#,
            fields = 100 + number % 2,
            most = 60_000 + number % 2,
            kind = number % PERIOD,
            rate = 1_000_000 - number % 2,
        )
    }
}

/// A policy whose key set the gateway fetches from itself.
fn keys(site: &Site, number: usize) -> String {
    format!(
        "keys-{number}: {{ jwt: {{ required: false, providers: {{ issuer: https://id.test, audience: soak, \
         algorithms: ES256, keys: {{ jwks_url: {{ url: \"https://{}/keys\", ca: authority.pem }} }} }} }} }}",
        site.secure
    )
}
