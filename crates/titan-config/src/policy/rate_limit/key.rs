//! The key of a rate limit: requests with the same key are counted together.

use crate::balance::query_name;
use crate::path::param_name;
use crate::policy::claim::{Claim, claim};
use crate::read::{Read, optional};
use crate::readers::words_or;
use crate::section::{section, section_of};
use crate::token::{HeaderName, Token, cookie_name, header_name};

/// The key of a rate limit: requests with the same key are counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RateKey {
    /// The address of the client behind all trusted proxies.
    ClientAddress,
    /// The route.
    Route,
    /// The API key of the request.
    ApiKey,
    /// The value of that field.
    Header(HeaderName),
    /// The value of that cookie.
    Cookie(Token),
    /// The decoded values of that parameter of the query.
    Query(String),
    /// The value of that claim of the request's token.
    Claim(Claim),
    /// What the route's path captures under that name, decoded.
    Param(String),
}

impl RateKey {
    /// The part of the path that it is.
    pub(crate) fn param(&self) -> Option<&str> {
        match self {
            RateKey::Param(name) => Some(name),
            _ => None,
        }
    }

    /// The field of requests that it is.
    pub(super) fn header(&self) -> Option<&HeaderName> {
        match self {
            RateKey::Header(name) => Some(name),
            _ => None,
        }
    }

    /// What other policies have to judge first, where the part is of that kind.
    pub(in crate::policy) fn judged(&self) -> Option<&'static str> {
        match self {
            RateKey::ApiKey => Some("API keys"),
            RateKey::Claim(_) => Some("claims of tokens"),
            RateKey::ClientAddress
            | RateKey::Route
            | RateKey::Header(_)
            | RateKey::Cookie(_)
            | RateKey::Query(_)
            | RateKey::Param(_) => None,
        }
    }
}

section! {
    "rate_key", "an item of `key`", One;
    /// The part of a request that goes into the key.
    pub(crate) struct RateKeyFields {
        /// The value of this header field.
        pub(crate) header: Option<HeaderName> = optional("", header_name()),
        /// The value of this cookie.
        pub(crate) cookie: Option<Token> = optional("", cookie_name()),
        /// The values of this query parameter, decoded. A parameter that `api_keys.query` names has been removed by
        /// then.
        pub(crate) query: Option<String> = optional("", query_name()),
        /// The value of this claim of the token: `sub`, or a JSON pointer such as `/realm_access/roles`. If several
        /// providers may use the same value, add `{ claim: iss }` to the key.
        pub(crate) claim: Option<Claim> = optional("", claim()),
        /// What the route's path captures under this name, decoded: `tenant` of `/t/{tenant}/files`. At least one route
        /// with this limit must capture it; requests of the others are counted together.
        pub(crate) param: Option<String> = optional("", param_name()),
    }
}

pub(super) fn key() -> impl Read<Value = RateKey> {
    let of_request = section_of::<RateKeyFields>().then(|fields, _, _| {
        let RateKeyFields { header, cookie, query, claim, param } = fields;
        let cookie = cookie.map(RateKey::Cookie).or(query.map(RateKey::Query));
        let claim = claim.map(RateKey::Claim).or(param.map(RateKey::Param));
        header.map(RateKey::Header).or(cookie).or(claim)
    });
    let words = [
        ("client_address", RateKey::ClientAddress),
        ("route", RateKey::Route),
        ("api_key", RateKey::ApiKey),
    ];
    words_or(&words, of_request)
}
