//! What is decided about a token, and why, for the operator.

use super::places::{self, Found, NoToken};
use super::token::ParsedToken;
use super::{Jwt, Refusal, Verified};
use crate::context::PolicyContext;
use crate::findings::Token;
use crate::jwt::TOKEN_INVALID;
use crate::story::Story;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use titan_io::error::{Error, Kind};

impl Jwt {
    /// What happens to a request, and what its token says where it goes on. What is `unread` of the keys is why
    /// they are not there.
    pub(super) fn tell_story(
        &self,
        context: &mut PolicyContext<'_>,
        story: &mut Story<'_>,
    ) -> Result<(), Error> {
        let PolicyContext { request, findings, .. } = context;
        let Found { token, place } = match places::find(&self.config.token, request) {
            Ok(found) => found,
            Err(NoToken::Missing) if !self.config.required => {
                story.tell("there is no token, and none is needed");
                return Ok(());
            }
            Err(nowhere) => {
                let why = match nowhere {
                    NoToken::Missing => "there is no token",
                    NoToken::Ambiguous => "there are several tokens",
                };
                story.refuse(nowhere.kind(), why);
                return Ok(());
            }
        };
        findings.token = self.explain_token(token, story);
        places::remove(&self.config.token[place], request).map_err(|_| Kind::Internal.into())
    }

    fn explain_token(&self, token: &[u8], story: &mut Story<'_>) -> Option<Rc<Token>> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (verified, unchecked) = match (story.unread(), self.verify(token, now)) {
            (None, Err(Refusal::NoKeys)) => (
                self.check_unverified(token, now),
                Some("its keys are fetched only while the gateway runs"),
            ),
            (Some(why), _) => (self.check_unverified(token, now), Some(why)),
            (None, verified) => (verified, None),
        };
        let verified = verified.map_err(|refusal| {
            story.refuse(TOKEN_INVALID, refusal.reason());
        });
        let Verified { token, fields, .. } = verified.ok()?;
        story.tell(match unchecked {
            None => "the token is valid, unless it was revoked".to_owned(),
            Some(why) => format!(
                "the signature of the token is not checked ({why}); its claims are valid and are trusted here"
            ),
        });
        for (place, value) in &fields {
            let (name, value) = (&self.config.headers[*place].name, String::from_utf8_lossy(value));
            story.tell(format!("sends the upstream {}: {value}", name.as_str()));
        }
        Some(token)
    }

    /// Judges everything of a token but its signature.
    fn check_unverified(&self, token: &[u8], now: Duration) -> Result<Verified, Refusal> {
        let ParsedToken { algorithm, kind, claims, .. } = ParsedToken::parse(token)?;
        let place = self.provider_of(&claims).ok_or(Refusal::Issuer)?;
        match self.config.providers[place].algorithms.contains(&algorithm) {
            true => self.judge(place, kind.as_deref(), claims, now),
            false => Err(Refusal::Key),
        }
    }
}

impl Refusal {
    fn reason(self) -> String {
        let (word, reason) = (Refusal::WORDS[self as usize], Refusal::REASONS[self as usize]);
        format!("the token is not valid ({word}): {}", reason.trim())
    }
}
