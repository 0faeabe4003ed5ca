//! What is decided of a token, and why, told to who keeps the gateway.

use super::places::{self, Found, Nowhere};
use super::token::Token;
use super::{Jwt, Refusal};
use crate::error::{Error, Kind};
use crate::middleware::Explained;
use serde_json::{Map, Value};
use std::time::{SystemTime, UNIX_EPOCH};
use titan_http::RequestHead;

impl Jwt {
    /// What becomes of a request, and what its token says where it goes on. What is `unread` of the keys is why
    /// they are not there.
    pub(in crate::middleware) fn explain(
        &self,
        request: &mut RequestHead,
        unread: Option<&str>,
        told: &mut Explained,
    ) -> Result<Option<Map<String, Value>>, Error> {
        let Found { token, place } = match places::find(&self.config.token, request) {
            Ok(found) => found,
            Err(nowhere) => {
                let why = match nowhere {
                    Nowhere::Missing => "there is no token",
                    Nowhere::Ambiguous => "there are several tokens",
                };
                told.refuse(nowhere.kind(), why.to_owned());
                return Ok(None);
            }
        };
        let said = self.explain_token(token, unread, told);
        places::remove(&self.config.token[place], request).map_err(|_| Kind::Internal)?;
        Ok(said)
    }

    fn explain_token(
        &self,
        token: &[u8],
        unread: Option<&str>,
        told: &mut Explained,
    ) -> Option<Map<String, Value>> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unknown = match (unread, self.verify(token, now)) {
            (None, Ok(verified)) => {
                told.lines.push("the token is good, unless it was taken back".to_owned());
                for (place, value) in &verified.fields {
                    let (name, value) =
                        (&self.config.headers[*place].name, String::from_utf8_lossy(value));
                    told.lines.push(format!("tells the upstream {}: {value}", name.as_str()));
                }
                return Some(verified.claims);
            }
            (None, Err(Refusal::NoKeys)) => "its keys are fetched when the gateway runs",
            (Some(why), _) => why,
            (None, Err(refusal)) => {
                told.refuse(Kind::TokenInvalid, refusal.reason());
                return None;
            }
        };
        match Token::parse(token) {
            Ok(token) => {
                let line = format!(
                    "whether the token is good is not known here: {unknown}; what it says is believed"
                );
                told.lines.push(line);
                Some(token.claims)
            }
            Err(refusal) => {
                told.refuse(Kind::TokenInvalid, refusal.reason());
                None
            }
        }
    }
}

impl Refusal {
    fn reason(self) -> String {
        let (word, reason) = (Refusal::WORDS[self as usize], Refusal::REASONS[self as usize]);
        format!("the token is no good ({word}): {}", reason.trim())
    }
}
