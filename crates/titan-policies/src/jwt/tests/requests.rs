//! What requests with tokens cost.

use super::*;
use crate::context::{Answered, Client, Subrequest, Subrequests, Write};
use crate::matched::{Match, Params};
use std::net::IpAddr;
use titan_http::{RequestHead, Scheme, Span};
use titan_io::clock::Clock;
use titan_io::tls::Identity;

/// A client of whom nothing is known.
struct Nobody;

impl Client for Nobody {
    fn address(&self, _: &Fields) -> Option<IpAddr> {
        None
    }

    fn scheme(&self) -> Scheme {
        Scheme::Http
    }

    fn identity(&self) -> Option<&Rc<Identity>> {
        None
    }

    fn request_id<'f>(&self, _: &'f Fields) -> Option<&'f [u8]> {
        None
    }

    fn is_same_origin(&self, _: &[u8], _: &RequestHead) -> bool {
        false
    }
}

impl Subrequests for Nobody {
    fn describe(&self, _: &mut RequestHead, _: &mut Vec<u8>) -> Result<(), Error> {
        Ok(())
    }

    fn ask<'a>(&'a self, _: Subrequest<'a>, _: Write<'_>) -> Result<Answered<'a>, Error> {
        Err(Kind::NoEndpoint.into())
    }
}

/// A token for as long as anybody runs this.
const LASTING: &str = "{\"exp\":9999999999}";

/// What policies find out about a request with that token.
fn found(policy: &Jwt, token: &str, tokens: &Caches) -> Findings {
    let (mut request, mut findings) = (RequestHead::default(), Findings::default());
    let shown = format!("Bearer {token}");
    request.fields.append(FieldName::Authorization, shown.as_bytes()).unwrap();
    let mut context = PolicyContext {
        request: &mut request,
        findings: &mut findings,
        client: &Nobody,
        found: &Match { route: 0, params: Params::default(), path: Span::default() },
        is_websocket: false,
        is_grpc: false,
        worker: 0,
        clock: &Clock::new(),
        subrequests: &Nobody,
        failures: None,
    };
    policy.admit(&mut context, tokens, &JwtCells::default()).unwrap();
    findings
}

#[tokio::test(start_paused = true)]
async fn requests_with_a_known_token_touch_no_count_that_workers_share() {
    let (policy, tokens) = (with("HS256", "jwks", &set(&[jwk("HS256", "")])), Caches::default());
    let known = found(&policy, &token(LASTING), &tokens).token.unwrap();
    let shared = Arc::strong_count(&policy.told_in);
    let again = found(&policy, &token(LASTING), &tokens).token.unwrap();
    assert!(Rc::ptr_eq(&known, &again));
    assert_eq!(Arc::strong_count(&policy.told_in), shared);
}
