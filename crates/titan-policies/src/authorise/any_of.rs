//! Alternative credentials, of which one is enough.

use super::{Authorise, AuthoriseState, OwnState, basic};
use crate::authorise::{CREDENTIAL, PASSWORD, PASSWORD_QUEUE};
use crate::context::{Failure, PolicyContext};
use crate::findings::Findings;
use crate::story::Story;
use titan_config::Credential;
use titan_http::FieldName;
use titan_io::error::{Error, Kind};

impl Authorise {
    /// Whether that way has to be met by every request.
    pub(super) fn requires(&self, way: Credential) -> bool {
        !self.any_of.contains(&way)
    }

    /// Lets a request pass that satisfies one of the alternatives. What it presents for the others is removed, and
    /// tells upstreams nothing: only one of them identifies the client.
    pub(super) async fn check_any(
        &self,
        context: &mut PolicyContext<'_>,
        own: &mut OwnState<'_>,
    ) -> Result<(), Error> {
        let keys = self.keys.as_ref().filter(|_| !self.requires(Credential::ApiKeys));
        let key = keys.and_then(|keys| keys.shown(context.request));
        let is_key_wrong = key.is_none() && keys.is_some_and(|it| it.has_any(context.request));
        let basic = self.basic.as_ref().filter(|_| !self.requires(Credential::Basic));
        let password = basic.and_then(|_| basic::Shown::of(&context.request.fields));
        let (mut met, mut is_busy) = (None, false);
        for way in &self.any_of {
            let is_met = match way {
                Credential::ClientCertificate => self.takes(context.identity()),
                Credential::ApiKeys => {
                    if is_key_wrong {
                        context.fail(Failure::ApiKey);
                    }
                    key.is_some()
                }
                Credential::Token => self.grants(context.findings),
                Credential::Basic => match basic.zip(password.as_ref()) {
                    Some((basic, password)) => {
                        let checked = basic.check(password, context, own).await;
                        is_busy = checked == Err(PASSWORD_QUEUE);
                        if checked == Err(PASSWORD) {
                            context.fail(Failure::Password);
                        }
                        checked.is_ok()
                    }
                    None => false,
                },
            };
            if is_met {
                met = Some(*way);
                break;
            }
        }
        self.remove_others(met, context)?;
        match met {
            None => Err(self.refuse_all(is_busy, own.state, context.findings).into()),
            Some(Credential::ApiKeys) => match keys.zip(key) {
                Some((keys, key)) => keys.write_identity(key, context),
                None => Ok(()),
            },
            Some(Credential::Basic) => match basic.zip(password) {
                Some((basic, password)) => {
                    basic.write_identity(&password, &mut context.request.fields)
                }
                None => Ok(()),
            },
            Some(Credential::ClientCertificate | Credential::Token) => Ok(()),
        }
    }

    /// Whether there is a valid token that grants what is required.
    fn grants(&self, findings: &Findings) -> bool {
        let claims = findings.claims();
        claims.is_some_and(|it| self.claims.as_ref().is_none_or(|asks| asks.missing(it).is_none()))
    }

    /// Removes from a request what it shows, but for what the upstream is to have of the way that it has met.
    fn remove_others(
        &self,
        met: Option<Credential>,
        context: &mut PolicyContext<'_>,
    ) -> Result<(), Error> {
        let is_other = |way| !self.requires(way) && met != Some(way);
        let PolicyContext { findings, request, .. } = context;
        let forwards_token = findings.token.as_ref().is_some_and(|token| token.is_forwarded);
        if is_other(Credential::Token) && met.is_some() {
            findings.forget_token(&mut request.fields);
        }
        if let Some(keys) = self.keys.as_ref().filter(|_| !self.requires(Credential::ApiKeys)) {
            keys.hide(context.request)?;
        }
        let Some(basic) = self.basic.as_ref().filter(|_| !self.requires(Credential::Basic)) else {
            return Ok(());
        };
        let is_for_upstream = match met {
            Some(Credential::Basic) => basic.forwards(),
            Some(Credential::Token) => forwards_token,
            _ => false,
        };
        if !is_for_upstream {
            context.request.fields.remove(FieldName::Authorization);
        }
        Ok(())
    }

    /// Why a request that meets none of the ways is refused; notes what its response says of each.
    fn refuse_all(
        &self,
        is_busy: bool,
        note: &mut AuthoriseState,
        findings: &mut Findings,
    ) -> Kind {
        let has_token = findings.token.is_some() && !self.requires(Credential::Token);
        if is_busy {
            note.password = Some(basic::PasswordChallenge::Busy);
            return PASSWORD_QUEUE;
        }
        self.challenge_all(note);
        if !self.requires(Credential::Token) {
            findings.ask_for_token();
        }
        match &self.claims {
            Some(claims) if has_token => claims.on_request(findings).err().unwrap_or(CREDENTIAL),
            _ => CREDENTIAL,
        }
    }

    /// Adds the challenges of all accepted credentials to the response, if one of several is enough, even if a token is
    /// invalid.
    pub(super) fn challenge_all(&self, note: &mut AuthoriseState) {
        for way in &self.any_of {
            match way {
                // The policy that checks tokens challenges for them.
                Credential::ClientCertificate | Credential::Token => {}
                Credential::ApiKeys => note.lacks_key = true,
                Credential::Basic => note.password = Some(basic::PasswordChallenge::Wanted),
            }
        }
    }

    /// Which way a request meets, as far as it can be told; takes what it shows out.
    pub(super) fn explain_any(
        &self,
        context: &mut PolicyContext<'_>,
        story: &mut Story<'_>,
    ) -> Result<(), Error> {
        let keys = self.keys.as_ref().filter(|_| !self.requires(Credential::ApiKeys));
        let key = keys.and_then(|keys| keys.shown(context.request));
        let basic = self.basic.as_ref().filter(|_| !self.requires(Credential::Basic));
        let password = basic.and_then(|_| basic::Shown::of(&context.request.fields));
        let met = self.any_of.iter().find(|way| match way {
            Credential::ClientCertificate => self.takes(context.identity()),
            Credential::ApiKeys => key.is_some(),
            Credential::Token => self.grants(context.findings),
            Credential::Basic => password.is_some(),
        });
        let ways: Vec<_> = self.any_of.iter().map(|way| way.as_str()).collect();
        let ways = ways.join(", ");
        match met {
            None => story.refuse(CREDENTIAL, format!("meets none of {ways}")),
            Some(way) => {
                let unsure = match way {
                    Credential::Basic => {
                        ", if the password is correct, which `explain` does not check"
                    }
                    _ => "",
                };
                story.tell(format!("meets `{}` of {ways}{unsure}", way.as_str()));
            }
        }
        let PolicyContext { request, findings, .. } = context;
        if let Some(key) = key.filter(|_| met == Some(&Credential::ApiKeys)) {
            findings.api_key = Some(key);
        }
        if !self.requires(Credential::Token) && met != Some(&Credential::Token) {
            if findings.token.is_some() {
                story.tell("the token's claims do not count");
            }
            findings.forget_token(&mut request.fields);
        }
        if basic.is_some() {
            request.fields.remove(FieldName::Authorization);
        }
        keys.map_or(Ok(()), |keys| keys.hide(request))
    }
}
