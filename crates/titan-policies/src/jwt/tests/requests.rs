//! What requests with tokens cost.

use super::*;
use crate::trial::TestClient;
use titan_http::RequestHead;

/// A token for as long as anybody runs this.
pub(super) const LASTING: &str = "{\"exp\":9999999999}";

/// What policies find out about a request with that token, if it is let pass.
pub(super) fn admitted(
    policy: &Jwt,
    token: &str,
    tokens: &Caches,
    cells: &JwtCells,
) -> Result<Findings, Error> {
    let (mut request, mut findings) = (RequestHead::default(), Findings::default());
    let shown = format!("Bearer {token}");
    request.fields.append(FieldName::Authorization, shown.as_bytes()).unwrap();
    let asker = TestClient::at("");
    policy.admit(&mut asker.context(&mut request, &mut findings), tokens, cells)?;
    Ok(findings)
}

fn found(policy: &Jwt, token: &str, tokens: &Caches) -> Findings {
    admitted(policy, token, tokens, &JwtCells::default()).unwrap_or_else(|_| panic!("it is valid"))
}

#[tokio::test(start_paused = true)]
async fn requests_with_a_known_token_touch_no_count_that_workers_share() {
    let (policy, tokens) = (with("HS256", "jwks", &set(&[jwk("HS256", "")])), Caches::default());
    let known = found(&policy, &token(LASTING), &tokens).token.unwrap();
    let shared = Arc::strong_count(&policy.claim_fields);
    let again = found(&policy, &token(LASTING), &tokens).token.unwrap();
    assert!(Rc::ptr_eq(&known, &again));
    assert_eq!(Arc::strong_count(&policy.claim_fields), shared);
}
