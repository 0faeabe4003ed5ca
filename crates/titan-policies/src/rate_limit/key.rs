//! What requests have in common that are counted together.

use crate::context::PolicyContext;
use crate::jwt::find;
use serde_json::Value;
use std::hash::Hasher;
use std::net::IpAddr;
use titan_config::{Claim, Config, RateKey, Route};
use titan_http::cookie;
use titan_http::query::{self, decode};
use xxhash_rust::xxh3::xxh3_64;

/// A part of it.
pub(super) enum Part {
    Client,
    /// By the index of the route, the hash of its name: it counts on wherever it stands, and on other gateways too.
    Route(Box<[u64]>),
    ApiKey,
    Header(Box<[u8]>),
    Cookie(Box<str>),
    Query(Box<str>),
    Claim(Claim),
    /// By the index of the route, the place among what its path captures.
    Param(Box<[Option<usize>]>),
}

impl Part {
    pub(super) fn new(part: &RateKey, config: &Config) -> Part {
        match part {
            RateKey::ClientAddress => Part::Client,
            RateKey::Route => {
                let routes = config.routes.iter();
                Part::Route(routes.map(|it| xxh3_64(it.name.as_str().as_bytes())).collect())
            }
            RateKey::ApiKey => Part::ApiKey,
            RateKey::Header(name) => Part::Header(name.as_str().as_bytes().into()),
            RateKey::Cookie(name) => Part::Cookie(name.as_str().into()),
            RateKey::Query(name) => Part::Query(name.as_str().into()),
            RateKey::Claim(claim) => Part::Claim(claim.clone()),
            RateKey::Param(name) => {
                let routes = config.routes.iter();
                let place = |route: &Route| route.path.params().position(|it| it == name);
                Part::Param(routes.map(place).collect())
            }
        }
    }

    /// Adds to a hash what a request has of it.
    pub(super) fn write(&self, context: &PolicyContext<'_>, mask: u128, hasher: &mut impl Hasher) {
        let fields = &context.request.fields;
        match self {
            Part::Client => write_client(hasher, context.client(), mask),
            Part::Route(names) => hasher.write_u64(names[context.found.route]),
            // Routes that count by keys ask for them: there is one.
            Part::ApiKey => {
                hasher.write_u64(context.findings.api_key.as_ref().map_or(0, |(id, _)| *id));
            }
            Part::Header(name) => write_all(hasher, fields.named(name)),
            Part::Claim(claim) => {
                let claims = context.findings.claims();
                write_claim(hasher, claims.and_then(|claims| find(claims, claim)));
            }
            Part::Query(name) => {
                write_all(hasher, query::values(context.request.query(), name));
            }
            Part::Cookie(name) => {
                write_all(hasher, cookie::first(fields, name).into_iter());
            }
            Part::Param(places) => {
                let place = places[context.found.route].into_iter();
                let params = &context.found.params;
                let path = context.request.path();
                write_all(hasher, place.map(|it| decode(params.get(it, path))));
            }
        }
    }
}

/// The key in words.
pub(super) fn words(key: &[RateKey]) -> String {
    let key = key.iter().map(|part| match part {
        RateKey::ClientAddress => "client".to_owned(),
        RateKey::Route => "route".to_owned(),
        RateKey::ApiKey => "API key".to_owned(),
        RateKey::Header(name) => name.as_str().to_owned(),
        RateKey::Cookie(name) => format!("cookie {}", name.as_str()),
        RateKey::Query(name) => format!("parameter {name}"),
        RateKey::Claim(claim) => format!("claim {}", claim.path().join("/")),
        RateKey::Param(name) => format!("{{{name}}}"),
    });
    format!("for each {}", key.collect::<Vec<_>>().join(" and "))
}

/// The bits of an IPv6 address that tell clients apart.
pub(crate) fn mask_of(prefix: u8) -> u128 {
    u128::MAX << (128 - u32::from(prefix))
}

pub(crate) fn write_client(hasher: &mut impl Hasher, client: Option<IpAddr>, mask: u128) {
    match client {
        None => hasher.write_u8(0),
        Some(IpAddr::V4(address)) => {
            hasher.write_u8(4);
            hasher.write_u32(address.to_bits());
        }
        Some(IpAddr::V6(address)) => {
            hasher.write_u8(6);
            hasher.write_u128(address.to_bits() & mask);
        }
    }
}

/// So that no two lists of values are written alike.
pub(crate) fn write_all(hasher: &mut impl Hasher, values: impl Iterator<Item = impl AsRef<[u8]>>) {
    for value in values {
        let value = value.as_ref();
        hasher.write_usize(value.len());
        hasher.write(value);
    }
    hasher.write_usize(usize::MAX);
}

/// So that no two values are written alike, whatever their types; one that is not there is as `null`.
fn write_claim(hasher: &mut impl Hasher, value: Option<&Value>) {
    match value {
        None | Some(Value::Null) => hasher.write_u8(0),
        Some(Value::String(text)) => {
            hasher.write_u8(1);
            write_all(hasher, std::iter::once(text.as_bytes()));
        }
        Some(value) => {
            hasher.write_u8(2);
            write_all(hasher, std::iter::once(value.to_string().as_bytes()));
        }
    }
}
