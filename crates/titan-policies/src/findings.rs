//! What policies find out about a request, for later policies and for its response.

use serde_json::{Map, Value};
use std::rc::Rc;
use std::sync::Arc;
use titan_http::{FieldName, Fields};

/// What policies have found out about the client of a request, beside what its connection says.
#[derive(Default)]
pub struct Findings {
    /// The valid token that the request has brought.
    pub token: Option<Rc<Token>>,
    /// What the response has to say of tokens.
    pub token_challenge: Option<TokenChallenge>,
    /// The valid API key that it has brought.
    pub api_key: Option<ApiKey>,
    /// What its token lacks, where the client may know.
    pub missing: Vec<String>,
    /// Whether what is known of its token was in the cache; none where no token was looked up.
    pub is_token_cached: Option<bool>,
    /// The same of the decision of an authorization service.
    pub is_decision_cached: Option<bool>,
    /// The place of the policy that has responded, or refused the request.
    pub decided_by: Option<usize>,
    /// Why it is refused, in the words of the configuration; without it the client gets the text of the error's kind.
    pub detail: Option<Arc<str>>,
}

/// What a token says.
pub type TokenClaims = Map<String, Value>;

/// A valid token. Put together once for all requests of a worker that show it.
#[derive(Default)]
pub struct Token {
    /// What it says.
    pub claims: Rc<TokenClaims>,
    /// The fields in which upstreams get claims.
    pub claim_fields: Arc<[Box<[u8]>]>,
    /// Whether the upstream gets the token itself.
    pub is_forwarded: bool,
}

/// An API key, by a part of its hash, and its name.
pub type ApiKey = (u64, Arc<str>);

/// Why the response challenges for a token.
pub enum TokenChallenge {
    /// There is none.
    Missing,
    /// It is not valid.
    Invalid,
    /// There are several.
    Ambiguous,
    /// It grants too little: it needs these scopes, if the response may say so.
    Insufficient(String),
}

impl Findings {
    /// The claims of the request's token; none if no policy checks tokens.
    pub fn claims(&self) -> Option<&TokenClaims> {
        self.token.as_ref().map(|token| &*token.claims)
    }

    /// The same for those that keep it for longer than the request is looked at.
    pub fn shared_claims(&self) -> Option<&Rc<TokenClaims>> {
        self.token.as_ref().map(|token| &token.claims)
    }

    /// Makes the response challenge for a token, unless it has another challenge for tokens already.
    pub fn ask_for_token(&mut self) {
        self.token_challenge.get_or_insert(TokenChallenge::Missing);
    }

    /// Forgets what the request's token says, and takes out what the upstream was told of it.
    pub fn forget_token(&mut self, fields: &mut Fields) {
        let Some(token) = self.token.take() else { return };
        token.claim_fields.iter().for_each(|name| fields.remove_named(name));
        if token.is_forwarded {
            fields.remove(FieldName::Authorization);
        }
    }
}
