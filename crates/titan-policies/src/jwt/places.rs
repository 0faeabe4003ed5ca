//! Where a request carries its token.

use titan_config::TokenPlace;
use titan_http::query::is_parameter;
use titan_http::{BadField, FieldName, RequestHead};

/// A token that was found.
pub(super) struct Found<'r> {
    pub(super) token: &'r [u8],
    /// The place of its place in the policy.
    pub(super) place: usize,
}

/// Why there is no token to check.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoToken {
    /// There is none.
    Missing,
    /// There are several, and the upstream might use another one (RFC 6750 section 2).
    Ambiguous,
}

/// The one token of a request.
pub(super) fn find<'r>(
    places: &[TokenPlace],
    request: &'r RequestHead,
) -> Result<Found<'r>, NoToken> {
    let mut only = None;
    for (place, config) in places.iter().enumerate() {
        let mut found = false;
        at(config, request, |token| {
            found = only.replace(Found { token, place }).is_some() || found;
        });
        if found {
            return Err(NoToken::Ambiguous);
        }
    }
    only.ok_or(NoToken::Missing)
}

/// Every token at that place.
fn at<'r>(place: &TokenPlace, request: &'r RequestHead, mut each: impl FnMut(&'r [u8])) {
    match place {
        TokenPlace::Scheme(scheme) => {
            let values = request.fields.all(FieldName::Authorization);
            values.filter_map(|value| credentials(value, scheme.as_str())).for_each(each);
        }
        TokenPlace::Cookie(name) => {
            for pair in cookies(request) {
                if let Some(value) = cookie_value(pair, name.as_str()) {
                    each(value);
                }
            }
        }
        TokenPlace::Query(name) => {
            for pair in parameters(request).filter(|pair| is_parameter(pair, name)) {
                let value = pair.iter().position(|byte| *byte == b'=').map_or(0, |at| at + 1);
                each(if value == 0 { &[] } else { &pair[value..] });
            }
        }
    }
}

/// Removes what is at that place.
pub(super) fn remove(place: &TokenPlace, request: &mut RequestHead) -> Result<(), BadField> {
    match place {
        TokenPlace::Scheme(_) => request.fields.remove(FieldName::Authorization),
        TokenPlace::Cookie(name) => {
            let is_other = |pair: &&[u8]| cookie_value(pair, name.as_str()).is_none();
            let others: Vec<_> = cookies(request).filter(is_other).collect();
            let rest = others.join(b"; ".as_slice());
            match others.is_empty() {
                true => request.fields.remove(FieldName::Cookie),
                false => request.fields.set(FieldName::Cookie, &rest)?,
            }
        }
        TokenPlace::Query(name) => {
            let others: Vec<_> =
                parameters(request).filter(|pair| !is_parameter(pair, name)).collect();
            let rest = (!others.is_empty()).then(|| others.join(b"&".as_slice()));
            request.set_query(rest.as_deref())?;
        }
    }
    Ok(())
}

/// What follows the scheme in `Authorization` (RFC 9110 section 11.4).
pub(crate) fn credentials<'v>(value: &'v [u8], scheme: &str) -> Option<&'v [u8]> {
    let (start, rest) = value.split_at_checked(scheme.len())?;
    if !start.eq_ignore_ascii_case(scheme.as_bytes()) {
        return None;
    }
    match rest.first() {
        None => Some(rest),
        Some(b' ') => Some(rest.trim_ascii_start()),
        Some(_) => None,
    }
}

fn cookies(request: &RequestHead) -> impl Iterator<Item = &[u8]> {
    let lines = request.fields.all(FieldName::Cookie);
    let pairs = lines.flat_map(|line| line.split(|&byte| byte == b';'));
    pairs.map(<[u8]>::trim_ascii).filter(|pair| !pair.is_empty())
}

fn cookie_value<'p>(pair: &'p [u8], name: &str) -> Option<&'p [u8]> {
    let end = pair.iter().position(|byte| *byte == b'=')?;
    let (found, value) = pair.split_at(end);
    (found.trim_ascii() == name.as_bytes()).then(|| value[1..].trim_ascii())
}

fn parameters(request: &RequestHead) -> impl Iterator<Item = &[u8]> {
    let pairs = request.query().unwrap_or_default().split(|&byte| byte == b'&');
    pairs.filter(|pair| !pair.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(query: Option<&str>, fields: &[(&str, &str)]) -> RequestHead {
        let mut request = RequestHead::default();
        request.set_query(query.map(str::as_bytes)).unwrap();
        for (name, value) in fields {
            request.fields.append_named(name.as_bytes(), value.as_bytes()).unwrap();
        }
        request
    }

    fn places() -> Vec<TokenPlace> {
        let text = "listeners: [\":1\"]\nroutes: [{ respond: 204, apply: [p] }]\npolicies: { p: { jwt: { \
            providers: { algorithms: HS256, keys: { secret_file: s } }, \
            token: [{ scheme: Bearer }, { cookie: t }, { query: t }] } } }";
        let config = titan_config::Config::parse("test", text).unwrap();
        let titan_config::Policy::Jwt(jwt) = &config.policies[0].policy else { panic!("a jwt") };
        jwt.token.clone()
    }

    #[test]
    fn a_token_is_found_where_it_may_be() {
        let found = |request: &RequestHead| {
            find(&places(), request).map(|found| String::from_utf8(found.token.to_vec()).unwrap())
        };
        let bearer = |value| request(None, &[("authorization", value)]);
        assert_eq!(found(&bearer("Bearer a.b.c")), Ok("a.b.c".to_owned()));
        assert_eq!(found(&bearer("bEARER   a.b.c")), Ok("a.b.c".to_owned()));
        assert_eq!(found(&bearer("Bearer")), Ok(String::new()));
        assert_eq!(found(&bearer("Bearera.b.c")), Err(NoToken::Missing));
        assert_eq!(found(&bearer("Basic a.b.c")), Err(NoToken::Missing));
        let cookie = |value| request(None, &[("cookie", value)]);
        assert_eq!(found(&cookie("a=1; t=x; b=2")), Ok("x".to_owned()));
        assert_eq!(found(&cookie("tt=x")), Err(NoToken::Missing));
        assert_eq!(found(&cookie("t=x; t=x")), Err(NoToken::Ambiguous));
        assert_eq!(found(&request(Some("a=1&t=x&b"), &[])), Ok("x".to_owned()));
        assert_eq!(found(&request(Some("%74=x"), &[])), Ok("x".to_owned()));
        assert_eq!(found(&request(Some("t=x&%74=x"), &[])), Err(NoToken::Ambiguous));
        assert_eq!(
            found(&request(Some("t=x"), &[("authorization", "Bearer y")])),
            Err(NoToken::Ambiguous)
        );
        assert_eq!(
            found(&request(None, &[("authorization", "Bearer y"), ("authorization", "Bearer y")])),
            Err(NoToken::Ambiguous)
        );
    }

    #[test]
    fn nothing_of_it_is_left_behind() {
        let cookie = &places()[1];
        let mut head = request(None, &[("cookie", "a=1; t=x"), ("cookie", "t =y;b=2")]);
        remove(cookie, &mut head).unwrap();
        assert_eq!(head.fields.get(FieldName::Cookie), Some(b"a=1; b=2".as_slice()));
        let mut head = request(None, &[("cookie", "t=x")]);
        remove(cookie, &mut head).unwrap();
        assert_eq!(head.fields.get(FieldName::Cookie), None);
        let query = &places()[2];
        let mut head = request(Some("a=1&t=x&%74=y&b"), &[]);
        remove(query, &mut head).unwrap();
        assert_eq!(head.query(), Some(b"a=1&b".as_slice()));
        let mut head = request(Some("t=x"), &[]);
        remove(query, &mut head).unwrap();
        assert_eq!(head.query(), None);
    }
}
